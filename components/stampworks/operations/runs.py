"""Folders of runs on storage that all nodes share: options, output and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stampworks import catalog
from stampworks.jobs.checks import RUNS
from stampworks.operations import on_head
from stampworks.operations.errors import InputError
from stampworks.operations.on_cluster import ClusterProgram
from stampworks.plan import Plan, Roster
from stampworks.schedulers.kubernetes import claims

_PROGRAM = ClusterProgram(on_head, 30.0, "the head's answer about runs cannot be read")


def folder_of_all(plan: Plan) -> str:
    """Below the first declared storage."""
    if not plan.storage:
        what = f"cluster {plan.name} has no storage that all nodes see, and a run needs a folder there"
        raise InputError(what, "declare one: storage: [{name: shared, kind: directory, mount: /shared}]")
    kind = catalog.file_systems().get(plan.storage[0].kind)  # a directory is none of these
    if kind and not kind.posix:
        what = f"storage[0]: a run needs a folder in {plan.storage[0].name}, a bucket, which cannot append to files"
        raise InputError(what, "declare a file system before it")
    if plan.scheduler.workloads_image and plan.storage[0].mount not in claims(plan):
        what = f"storage[0]: a run needs a folder in {plan.storage[0].name}, which pods cannot mount"
        raise InputError(
            what, "put a storage first that pods can mount: `stampworks plan` shows it for each (kubernetes.storage)"
        )
    return f"{plan.storage[0].mount}/{RUNS}"


def look(plan: Plan, roster: Roster, folder: str) -> dict[str, Any]:
    """Return the state of a run's folder."""
    return _PROGRAM.ask(plan, roster, "root", ["look", folder])


def all_runs(plan: Plan, roster: Roster, folder: str) -> dict[str, Any]:
    """Return the state of all folders of runs."""
    return _PROGRAM.ask(plan, roster, "root", ["runs", folder])


def follow(plan: Plan, roster: Roster, folder: str, log: int, events: int) -> dict[str, Any]:
    """Return the log and events from these positions on."""
    return _PROGRAM.ask(plan, roster, "root", ["follow", folder, str(log), str(events)])


def make(plan: Plan, roster: Roster) -> None:
    """Make the directory that the folders of all users are in."""
    _PROGRAM.ask(plan, roster, "root", ["make", folder_of_all(plan)])


def write(plan: Plan, roster: Roster, runs: str, name: str, user: str, files: Mapping[str, str]) -> None:
    """Write the files of a new run as its user."""
    _PROGRAM.ask(plan, roster, "root", ["make", runs])
    _PROGRAM.ask(plan, roster, user, ["write", f"{runs}/{name}"], json.dumps(files))
