"""Roles and checks of the user, read from disk and passed to the playbooks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stampworks.configuration.sources import playbooks_digest, role_digest
from stampworks.plan import Extras


def content_digest(extras: Extras, directory: Path) -> str:
    """Return a digest of everything that a run of site.yml reads besides its inventory: the toolkit's playbooks, and
    the user's roles."""
    if not extras.roles:
        return playbooks_digest()
    parts = [playbooks_digest(), *(f"{role.name} {role_digest(directory / role.path)}" for role in extras.roles)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def own_roles(extras: Extras) -> list[dict[str, str]]:
    """Return the user's roles as a run needs them. The inventory has their hosts."""
    return [{"name": role.name, "path": role.path, "variables": role.variables} for role in extras.roles]


def check_texts(extras: Extras, directory: Path) -> dict[str, str]:
    """Return the scripts of the user's checks, by the check's name."""
    return {check.name: (directory / check.path).read_text(encoding="utf-8") for check in extras.checks}


def host_checks(extras: Extras, group: str) -> dict[str, Any]:
    """Return the settings of the user's checks for a host of a group; empty when it has none."""
    mine = [check for check in extras.checks if group in check.pools]
    checks = [{"name": check.name, "timeout_seconds": check.timeout_seconds} for check in mine]
    return {"health_checks": checks} if checks else {}


def check_programs(extras: Extras, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return all scripts, once for all hosts. Each host has a variable with its own checks."""
    programs = [
        {"path": f"/usr/local/lib/stampworks/checks/{check.name}", "content": texts[check.name], "mode": "0755"}
        for check in extras.checks
    ]
    return {"health_programs": programs} if programs else {}
