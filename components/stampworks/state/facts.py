"""Facts measured on this machine or read from an account, and their files. Plans are checked against them."""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.declaration import beside, read_beside
from stampworks.plan import from_dict, to_json
from stampworks.plan.host_facts import SURVEY_VERSION, HostsSurvey
from stampworks.planning import Facts
from stampworks.planning.rules.days import day_number
from stampworks.state import paths

if TYPE_CHECKING:
    from stampworks.planning.rules.account import Account

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AGAIN = "`stampworks facts -s STACK` reads them again"


def known_facts(declared: Path | None = None) -> Facts:
    """Return the known facts for the declaration in a file.

    Facts of this machine count if they were measured since it started. Raise DeclarationError when the account's file
    cannot be read.
    """
    if declared is None or not os.path.lexists(file := account_file(declared)):
        return Facts(loopback_mbps=_loopback_mbps())
    return replace(read_beside(file, _facts_of, "holds no facts", _AGAIN), loopback_mbps=_loopback_mbps())


def account_file(declared: Path) -> Path:
    """Return the file with the facts of an account, or of hosts: stacks/aws.facts.json for stacks/Pulumi.aws.yaml."""
    return beside(declared, "facts")


def write_account(declared: Path, read: dict[str, Any]) -> Account:
    """Write the facts of an account atomically, and return them as they will be read back."""
    from stampworks.planning.rules.account import VERSION, account_of

    kept = {"version": VERSION, **read}
    account = account_of(kept)
    paths.write_whole(account_file(declared), json.dumps(kept, indent=2) + "\n")
    return account


def write_hosts(declared: Path, survey: HostsSurvey) -> None:
    """Write the answers of hosts atomically, where facts of an account would be."""
    paths.write_whole(account_file(declared), to_json(survey))


def _facts_of(data: Any) -> Facts:
    """Parse a file's data: answers of hosts, or facts of an account. Raise ValueError for anything else."""
    if isinstance(data, dict) and "hosts" in data:
        survey = from_dict(HostsSurvey, data)
        if survey.version != SURVEY_VERSION:
            raise ValueError(f"its version is not {SURVEY_VERSION}")
        day_number(survey.at)
        return Facts(hosts=survey)
    from stampworks.planning.rules.account import account_of

    return Facts(account=account_of(data))


def _loopback_mbps() -> int | None:
    try:
        stored = json.loads(facts_file().read_text())
        mbps = stored["loopback_mbps"]
        same_boot = stored["boot_id"] == boot_id()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return mbps if same_boot and type(mbps) is int and mbps > 0 else None


def today() -> str:
    """Return the date in UTC, as in 2026-11-28."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def facts_file() -> Path:
    """Return the path of this machine's facts, in the user's cache."""
    return paths.cache_dir() / "facts" / "local.json"


def boot_id() -> str:
    """Return an id that changes with every boot of this machine."""
    return _BOOT_ID.read_text().strip()
