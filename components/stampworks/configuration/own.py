"""The user's own roles and checks, as they are read from disk and handed on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stampworks.configuration.sources import playbooks_digest, role_digest
from stampworks.plan import Extras


def content_digest(extras: Extras, directory: Path) -> str:
    """A digest of everything a run of site.yml reads besides its inventory: our playbooks and the user's roles."""
    if not extras.roles:
        return playbooks_digest()
    parts = [playbooks_digest(), *(f"{role.name} {role_digest(directory / role.path)}" for role in extras.roles)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def own_roles(extras: Extras) -> list[dict[str, str]]:
    """What a run is told of the user's roles; which hosts have them is in the inventory."""
    return [{"name": role.name, "path": role.path, "variables": role.variables} for role in extras.roles]


def check_texts(extras: Extras, directory: Path) -> dict[str, str]:
    """The scripts of the user's checks, by the check's name."""
    return {check.name: (directory / check.path).read_text(encoding="utf-8") for check in extras.checks}


def host_checks(extras: Extras, group: str) -> dict[str, Any]:
    """What a host of a group is told of the user's checks; nothing when it has none."""
    mine = [check for check in extras.checks if group in check.pools]
    checks = [{"name": check.name, "timeout_seconds": check.timeout_seconds} for check in mine]
    return {"health_checks": checks} if checks else {}


def check_programs(extras: Extras, texts: Mapping[str, str]) -> dict[str, Any]:
    """All scripts, once for all hosts: which of them one runs is its own variable."""
    programs = [
        {"path": f"/usr/local/lib/stampworks/checks/{check.name}", "content": texts[check.name], "mode": "0755"}
        for check in extras.checks
    ]
    return {"health_programs": programs} if programs else {}
