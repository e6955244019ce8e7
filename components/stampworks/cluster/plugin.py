"""Check that this machine can carry out an `up`: the plugin of this program's environment, and the programs that reach
nodes."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime import mocks, settings

from stampworks.cluster.refusal import refuse
from stampworks.plan import Plan
from stampworks.planning.clouds import CLOUDS

NAME = "stampworks"
FOLDER = Path(sysconfig.get_path("data")) / "share" / NAME
"""Folder of the installed plugin: next to its interpreter, so that each environment has its own."""


def check_plugin() -> None:
    """End the program if the engine would find no plugin, or that of another environment.

    The engine itself would search for seven seconds and fail to download one, or use any plugin of any version.
    """
    root = pulumi.runtime.get_root_directory()
    if not root or _is_test():
        return
    project = next((file for name in ("yaml", "yml") if (file := Path(root, f"Pulumi.{name}")).is_file()), None)
    if project is None:
        return
    paths = [Path(root, path) for path in _paths(project)]
    if not paths:
        refuse(f"{project} does not say where the plugin of stampworks is.\n  hint: add\n{_entry(root)}")
    if not any(path.is_dir() and path.samefile(FOLDER) for path in paths):
        refuse(
            f"{project}: {paths[0]} is not the plugin of the environment that the program runs in.\n"
            f"  hint: write\n{_entry(root)}"
        )


def check_programs(plan: Plan) -> None:
    """End an `up` without the programs to reach its nodes or Kubernetes: otherwise this would fail when they already
    run and cost money. A preview needs neither."""
    cloud = CLOUDS[plan.cloud]
    own = cloud.runs(plan.scheduler.kind)
    needs, what = own or cloud.launches, "asks the Kubernetes of" if own else "gets to the nodes of"
    if needs is None or pulumi.runtime.is_dry_run() or _is_test() or _is_mocked():
        return
    if missing := [program for program in needs.programs if shutil.which(program) is None]:
        refuse(
            f"this machine has no {' and no '.join(missing)}, without which it never {what} {plan.name}.\n"
            f"  hint: {needs.programs_hint}; nothing was changed"
        )


def _is_test() -> bool:
    """Return whether a test runs, of the toolkit or of the user."""
    return NAME in os.environ.get("PULUMI_DEBUG_PROVIDERS", "")


def _is_mocked() -> bool:
    """Return whether registered resources are mocked."""
    return isinstance(settings.SETTINGS.monitor, mocks.MockMonitor)


def _paths(project: Path) -> Iterator[str]:
    """Yield the paths of the plugin in the project file. The engine has already checked the form of that file."""
    content: dict[str, Any] = yaml.safe_load(project.read_text())
    for one in (content.get("plugins") or {}).get("providers") or ():
        if one.get("name") == NAME:
            yield str(one.get("path", ""))


def _entry(root: str) -> str:
    folder = FOLDER.relative_to(root) if FOLDER.is_relative_to(root) else FOLDER
    return f"        plugins:\n          providers:\n            - name: {NAME}\n              path: {folder}"
