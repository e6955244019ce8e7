"""Check the free space of folders that an `up` writes to: the engine loses the state that it cannot write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pulumi

from stampworks.cluster.refusal import refuse
from stampworks.plan import Plan
from stampworks.state import paths

STATE_MIB = 64
"""Room for the state of a stack and the engine's copies of it: 2 MB each for a thousand nodes, written often."""
NODE_MIB = 16
"""Files of a node on this machine beyond its image: 2 MB when it is new, and its logs."""
HEAD_MIB = 256
"""The queue and the database of the accounting: 160 MB when they are new."""
IMAGE_MIB = 2048
"""A node image with its packages and the system below it: 1,800 MB."""
BACKEND = "PULUMI_BACKEND_URL"


@dataclass(frozen=True)
class DiskUse:
    """Something that an `up` writes below a folder."""

    folder: Path
    mib: int
    what: str


def check_disk_space(plan: Plan) -> None:
    """End an `up` that would run out of room. A preview writes nothing."""
    if pulumi.runtime.is_dry_run():
        return
    if full := list(_full(list(uses(plan, os.environ.get(BACKEND, ""))))):
        hint = "make room there, or name folders elsewhere: STAMPWORKS_STATE, STAMPWORKS_CACHE; nothing was changed"
        refuse("\n".join([*full, f"  hint: {hint}"]))


def uses(plan: Plan, backend: str) -> Iterator[DiskUse]:
    """Yield the space that an `up` of a new cluster needs on this machine; a remote backend needs none."""
    scheme, _, folder = backend.partition("://")
    if scheme == "file" and folder:
        yield DiskUse(Path(folder).expanduser(), STATE_MIB, "the state of the stack")
    here = [group for group in plan.groups if group.machine.simulated and group.role != "scheduling only"]
    if here:
        nodes = sum(group.count for group in here)
        yield DiskUse(paths.state_dir(), nodes * NODE_MIB, f"{nodes} nodes")
        yield DiskUse(paths.state_dir(), HEAD_MIB, "the queue and the accounting")
        if not any((paths.cache_dir() / "images").glob("node-*")):
            yield DiskUse(paths.cache_dir(), IMAGE_MIB, "a node image")


def _full(found: list[DiskUse]) -> Iterator[str]:
    """Yield a line for each file system with less room than it needs, with its figures."""
    by_device: dict[int, list[DiskUse]] = {}
    for use in found:
        by_device.setdefault(paths.nearest_existing(use.folder).stat().st_dev, []).append(use)
    for on_one in by_device.values():
        needed, left = (
            sum(use.mib for use in on_one),
            shutil.disk_usage(paths.nearest_existing(on_one[0].folder)).free >> 20,
        )
        if left < needed:
            parts = ", ".join(f"{use.what} {use.mib}" for use in on_one)
            folders = ", ".join(dict.fromkeys(str(use.folder) for use in on_one))
            yield f"{folders}: {left} MiB are left, and an `up` needs up to {needed} ({parts})"
