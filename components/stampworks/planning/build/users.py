"""People and their teams: places of their files."""

from __future__ import annotations

from stampworks import catalog
from stampworks.declaration import Declaration, Storage
from stampworks.plan import Directory, Team, User, traits_of
from stampworks.planning.build.notes import Notes

HOMES, TEAMS = "home", "teams"
"""Folders of a file system in which homes, and folders of groups, are."""


def place_of_homes(declaration: Declaration, notes: Notes) -> str:
    """Return the mount point of homes and folders of groups; empty when nodes share no suitable storage."""
    if traits_of(declaration.scheduler.kind).runs_pods:
        return ""  # users do not log in to its nodes
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
    """The declared users, with the same home on every node if storage has room for homes."""
    return tuple(
        User(
            each.name,
            each.uid,
            each.accounts,
            each.groups,
            each.keys,
            f"{place}/{HOMES}/{each.name}" if place else "",
            keyless="keys" in each.model_fields_set and not each.keys,
        )
        for each in declaration.users
    )


def teams(declaration: Declaration, place: str) -> tuple[Team, ...]:
    """The declared groups, with the folders that they share."""
    return tuple(
        Team(each.name, each.gid, f"{place}/{TEAMS}/{each.name}" if place else "") for each in declaration.groups
    )


def directory(declaration: Declaration, place: str, notes: Notes) -> Directory | None:
    """The directory of people. Their homes are on storage that all nodes mount, and created at their login."""
    declared = declaration.directory
    if declared.kind == "none" or traits_of(declaration.scheduler.kind).runs_pods:
        return None
    if not place:
        what = "people of a directory have one home on all nodes, and there is no file system that could have it"
        notes.problem("directory.kind", what, "declare a storage that all nodes see")
    elif not any(each.homes for each in declaration.storage):
        notes.reason("directory.homes", f"on {place}, the first file system that all nodes see and that has owners")
    return Directory(
        uri=declared.uri,
        base=declared.base,
        start_tls=declared.tls == "required" and declared.uri.startswith("ldap:"),
        ca=declared.ca,
        bind=declared.bind,
        group_members=declared.group_members,
        access_groups=declared.access_groups,
        account=declared.account or "",
        id_min=declared.id_min or 0,
        id_max=declared.id_max or 0,
        homes=f"{place}/{HOMES}",
    )


def _unfit(storage: Storage) -> str:
    """Return the reason why no home can be there; empty if it can."""
    kind = catalog.file_systems()[storage.kind]
    if not kind.posix:
        return "a bucket has no owners of files"
    if kind.protocol == "local" and kind.name != "directory":
        return "each node has its own"
    if "root-squash" in storage.features:
        return "with root-squash they cannot be made"
    return ""
