"""Keeps the packages of a role in the release's versions: pinned before they are installed, and held afterwards."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering
from ansible_collections.stampworks.node.plugins.module_utils.packaging import (
    GONE,
    INSTALLED,
    Packaging,
    begins,
    packaging,
)

DOCUMENTATION = """
module: pinned
short_description: Keep packages in the versions of the release
description:
  - Pins and installs packages, and holds them, so that no upgrade of anybody's brings another version.
  - Refuses, before anything is installed, when the repositories of the node do not have a version.
options:
  name: {description: The role that they are for., type: str, required: true}
  packages:
    description: By name the beginning of the version; empty for whichever the suite has.
    type: dict
    required: true
  along:
    description: Patterns of the names of packages that come along and must have the version of the first package.
    type: list
    elements: str
    default: []
  kernel:
    description: >-
      The beginning of the version of the kernel that modules are built for. With it what modules of
      the kernel that runs are built with is installed, too, and kernels are held.
    type: str
    default: ""
"""


def work(check: bool, name: str, packages: Mapping[str, str], along: Sequence[str], kernel: str) -> dict[str, Any]:
    runs = platform.release()
    if kernel and not begins(runs, kernel):
        raise Refused(
            f"{name}: kernel {runs} runs, the release builds its modules for {kernel}: "
            "start the node from an image of the release"
        )
    manager = packaging()
    wanted = {**packages, **dict.fromkeys(manager.for_kernel(runs) if kernel else [], "")}
    unpinned = manager.unpinned(name, packages, along)
    differing = differences(wanted, manager.installed())
    if not check:
        if unpinned:
            manager.pin(name, packages, along)
        if differing:
            put_right(manager, wanted, list(differing))
    loose = manager.loose(to_hold(manager, wanted, kernel))
    if loose and not check:
        manager.hold(loose)
    drift = [*unpinned, *differing.values(), *(f"package {each} is not held" for each in loose)]
    return {"changed": bool(drift), "drift": drift}


def differences(wanted: Mapping[str, str], found: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What is wrong with each package that is not as the release says, in words."""
    words = {}
    for name, version in wanted.items():
        state, has = found.get(name, ("", ""))
        if state != INSTALLED:
            words[name] = f"package {name} is {'missing' if state in GONE else state}"
        elif not begins(has, version):
            words[name] = f"package {name} is {has}, the release says {version}"
    return words


def to_hold(manager: Packaging, wanted: Iterable[str], kernel: str) -> list[str]:
    """What must be held of what is there: the role's own, and every kernel where modules are built for one."""
    found = manager.installed()
    kernels = [name for name in found if kernel and manager.is_kernel(name)]
    return [name for name in dict.fromkeys([*wanted, *kernels]) if found.get(name, ("",))[0] == INSTALLED]


def put_right(manager: Packaging, wanted: Mapping[str, str], names: Sequence[str]) -> None:
    manager.refresh()
    offered = manager.offers(names)
    chosen = {name: next((each for each in offered.get(name, []) if begins(each, wanted[name])), "") for name in names}
    if lacking := [name for name, version in chosen.items() if not version]:
        raise Refused("; ".join(_lacking(name, wanted[name], offered.get(name, [])) for name in lacking))
    manager.install(chosen)
    if left := differences(wanted, manager.installed()):
        raise Refused(f"after an installation: {'; '.join(left.values())}")


def _lacking(name: str, version: str, offered: Sequence[str]) -> str:
    has = f"have {', '.join(dict.fromkeys(offered))}" if offered else "have none of it"
    wanted = f"{name} {version}".strip()
    return f"{wanted} of the release is in no repository of this node: they {has}: add the one that has it"


answer = answering(work)
