"""People and their teams: where their files are."""

from __future__ import annotations

from stampworks import catalog
from stampworks.declaration import Declaration, Storage
from stampworks.plan import Team, User, traits_of
from stampworks.planning.build.notes import Notes

HOMES, TEAMS = "home", "teams"
"""Folders of a file system in which homes, and folders of groups, are."""


def place_of_homes(declaration: Declaration, notes: Notes) -> str:
    """Where homes and folders of groups are mounted; empty where nodes share no storage that can have them."""
    if traits_of(declaration.scheduler.kind).runs_pods:
        return ""  # nobody logs in to its nodes
    chosen = [(index, each) for index, each in enumerate(declaration.storage) if each.homes]
    for index, storage in chosen:
        if problem := _unfit(storage):
            hint = "write homes: true at a file system that all nodes see, or nowhere"
            notes.problem(f"storage[{index}].homes", f"homes cannot be on {storage.name}: {problem}", hint)
    fit = [storage for storage in declaration.storage if not _unfit(storage)]
    place = next((storage for _, storage in chosen), fit[0] if fit else None)
    if place is None:
        return ""
    if declaration.users and not chosen:
        notes.reason("users.home", f"on {place.name}, the first file system that all nodes see and that has owners")
    return place.mount


def users(declaration: Declaration, place: str) -> tuple[User, ...]:
    """The declared users, with homes that are the same on every node where there is a place for them."""
    return tuple(
        User(
            each.name, each.uid, each.accounts, each.groups, each.keys, f"{place}/{HOMES}/{each.name}" if place else ""
        )
        for each in declaration.users
    )


def teams(declaration: Declaration, place: str) -> tuple[Team, ...]:
    """The declared groups, with the folders that they share."""
    return tuple(
        Team(each.name, each.gid, f"{place}/{TEAMS}/{each.name}" if place else "") for each in declaration.groups
    )


def _unfit(storage: Storage) -> str:
    """Why nobody's home can be there; empty where it can."""
    kind = catalog.file_systems()[storage.kind]
    if not kind.posix:
        return "a bucket has no owners of files"
    if kind.protocol == "local" and kind.name != "directory":
        return "each node has its own"
    if "root-squash" in storage.features:
        return "with root-squash they cannot be made"
    return ""
