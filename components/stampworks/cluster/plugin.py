"""Whether the engine will start the plugin of the environment that this program runs in."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import yaml

from stampworks.cluster.refusal import refuse

NAME = "stampworks"
FOLDER = Path(sysconfig.get_path("data")) / "share" / NAME
"""Where an installation puts the plugin: beside its interpreter, so that each environment has its own."""


def check_plugin() -> None:
    """Ends the program when the engine would find no plugin, or that of another environment.

    The engine itself would look for seven seconds and say that there is none to download, or would take whichever
    plugin it finds, of whichever version.
    """
    root = pulumi.runtime.get_root_directory()
    if not root or NAME in os.environ.get("PULUMI_DEBUG_PROVIDERS", ""):  # a test of the user's, or of ours
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


def _paths(project: Path) -> Iterator[str]:
    """Where the project says that the plugin is. The engine has read the file before: its form is known to be good."""
    content: dict[str, Any] = yaml.safe_load(project.read_text())
    for one in (content.get("plugins") or {}).get("providers") or ():
        if one.get("name") == NAME:
            yield str(one.get("path", ""))


def _entry(root: str) -> str:
    folder = FOLDER.relative_to(root) if FOLDER.is_relative_to(root) else FOLDER
    return f"        plugins:\n          providers:\n            - name: {NAME}\n              path: {folder}"
