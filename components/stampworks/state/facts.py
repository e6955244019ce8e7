"""Facts measured on this machine or read from an account, and their files. Plans are checked against them."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.declaration import beside, read_beside
from stampworks.planning import Facts
from stampworks.state import paths

if TYPE_CHECKING:
    from stampworks.planning.rules.account import Account

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AGAIN = "`stampworks facts -s STACK` reads the account again"


def known_facts(declared: Path | None = None) -> Facts:
    """Return the known facts for the declaration in a file.

    Facts of this machine count if they were measured since it started. Raise DeclarationError when the account's file
    cannot be read.
    """
    account = None if declared is None else _account(account_file(declared))
    return Facts(loopback_mbps=_loopback_mbps(), account=account)


def account_file(declared: Path) -> Path:
    """Return the file with the facts of an account: stacks/aws.facts.json for stacks/Pulumi.aws.yaml."""
    return beside(declared, "facts")


def write_account(declared: Path, read: dict[str, Any]) -> Account:
    """Write the facts of an account atomically, and return them as they will be read back."""
    from stampworks.planning.rules.account import VERSION, account_of

    kept = {"version": VERSION, **read}
    account = account_of(kept)
    paths.write_whole(account_file(declared), json.dumps(kept, indent=2) + "\n")
    return account


def _account(file: Path) -> Account | None:
    if not os.path.lexists(file):
        return None
    from stampworks.planning.rules.account import account_of

    return read_beside(file, account_of, "holds no facts", _AGAIN)


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
