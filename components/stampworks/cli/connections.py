"""Files by which users reach a cluster, and the verbs that are not for them."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.operations.login import Connection
    from stampworks.plan import Plan, Roster

VERSION = 1
PRIVATE_PART = "client-key-data"
"""Field of a kubeconfig with a private key, which must stay secret."""
_KEY = "connection"
"""Field for the version of a connection file. A plan's file has no such field."""
_MAX_MIB = 64
_ANEW = "ask an administrator for a new one: stampworks login -s STACK --as USER"


def written(connection: Connection) -> str:
    """Return the text of a connection file, with the version of its form."""
    from stampworks.plan import to_dict

    return json.dumps({_KEY: VERSION, **to_dict(connection)}, indent=1, ensure_ascii=False) + "\n"


def is_one(file: Path) -> bool:
    """Return whether a file is a connection of any version; an outdated one can be written again."""
    data = _content(file)
    return isinstance(data, dict) and _KEY in data


@functools.cache
def read(stack: str) -> Connection | None:
    """Return the connection in a file; None if the stack is given in another way."""
    if not stack.endswith(".json"):
        return None
    file = Path(stack)
    data = _content(file)
    if not isinstance(data, dict) or _KEY not in data:
        return None
    if (version := data.pop(_KEY)) != VERSION:
        what = f"{file} is a connection of version {version}, and this release of stampworks reads version {VERSION}"
        raise exits.CliError(what, _ANEW)
    from stampworks.operations.login import Connection
    from stampworks.plan import from_dict

    try:
        found = from_dict(Connection, data)
        if found.roster.is_administered or found.roster.user != found.user or found.roster.reach:
            raise ValueError("Connection.roster: it is no user's")
    except (ValueError, RecursionError) as error:
        raise exits.CliError(f"{file} is no connection of this release of stampworks: {error}", _ANEW) from None
    mode = file.stat().st_mode
    if mode & 0o022:
        raise exits.CliError(
            f"{file} names commands that ssh runs, and other users can write to it", f"chmod 600 {file}"
        )
    if PRIVATE_PART in found.kubeconfig and mode & 0o077:
        raise exits.CliError(f"{file} holds a key, and other users can read it", f"chmod 600 {file}")
    return found


def kubeconfig_of(stack: str) -> Path | None:
    """Return the kubeconfig of a connection; None if the stack is given in another way."""
    from stampworks.state.paths import state_dir, write_whole

    found = read(stack)
    if found is None:
        return None
    if not found.kubeconfig:
        hint = "use stampworks ssh head -- sinfo"
        title = found.plan.scheduler.traits.title
        raise exits.CliError(f"the scheduler of cluster {found.plan.name} is {title}", hint)
    file = state_dir() / "connections" / f"{found.plan.name}.{found.user}.conf"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(file, found.kubeconfig, 0o600)
    return file


def roster_of(stack: str) -> Roster | None:
    """Members of a connection, with the file that identifies its user to a Kubernetes; None without a connection."""
    found = read(stack)
    if found is None or not found.kubeconfig:
        return found.roster if found else None
    return replace(found.roster, identity_file=str(kubeconfig_of(stack)))


def plan_of(stack: str) -> Plan:
    """Return the plan of a connection or of the stack's file, for verbs that ask no cluster."""
    found = read(stack)
    return found.plan if found else stacks.plan_of(stack)


def expect_administrator(verb: str, stack: str) -> None:
    """Refuse a verb that changes the cluster for all, if the stack is a user's connection."""
    if found := read(stack):
        what = f"{verb} is for administrators of cluster {found.plan.name}, and {stack} is a connection of {found.user}"
        raise exits.CliError(what, "name a stack: -s STACK")


def user_of(stack: str, asked: str, default: str) -> str:
    """Return the user of a job: the owner of the connection, or the user that an administrator names."""
    if found := read(stack):
        if asked not in ("", found.user):
            raise exits.CliError(f"{stack} is a connection of {found.user}, and not of {asked}", "leave --user out")
        return found.user
    if not (asked or default):
        hint = "name one: --user USER, or $STAMPWORKS_USER; --user root runs it as root"
        raise exits.CliError("no user is given for the job", hint)
    return asked or default


def _content(file: Path) -> Any:
    with file.open("rb") as opened:
        text = opened.read((_MAX_MIB << 20) + 1)
    try:
        return json.loads(text) if len(text) <= _MAX_MIB << 20 else None
    except (ValueError, RecursionError):
        return None
