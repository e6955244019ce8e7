"""The machines that a declaration lists, and those that its command prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits
from stampworks.cli.accounts import AccountUnansweredError
from stampworks.declaration import DeclarationError, Host, Problem
from stampworks.declaration.wording import did_you_mean

if TYPE_CHECKING:
    from stampworks.declaration import DeclarationSource

COMMAND = "hosts.list_command"


@dataclass(frozen=True)
class Listed:
    """A machine of the list, with the field of the declaration that it comes from."""

    machine: Host
    place: str

    @property
    def reached(self) -> tuple[str, int]:
        """Return address and port, by which a lock knows it."""
        return self.machine.address, self.machine.port

    @property
    def id(self) -> str:
        """Return its name for people."""
        return self.machine.address if self.machine.port == 22 else f"{self.machine.address}:{self.machine.port}"


def machines(source: DeclarationSource, folder: Path) -> list[Listed]:
    """Return all machines, the declared ones first. Raise DeclarationError for what the command prints wrongly, and
    AccountUnansweredError if it fails."""
    hosts = source.declaration.hosts
    if not hosts.machines and not hosts.list_command:
        what = "the declaration lists no machines"
        hint = "write cloud: hosts, and hosts.machines or hosts.list_command: docs/how-to/hosts.md"
        raise DeclarationError([source.problem("hosts", what, hint)])
    declared = [Listed(each, f"hosts.machines[{index}]") for index, each in enumerate(hosts.machines)]
    if not hosts.list_command:
        return declared
    printed = _printed(source, folder)
    known = {each.reached for each in declared}
    return [*declared, *(each for each in printed if each.reached not in known)]


def without(listed: Sequence[Listed], names: Sequence[str]) -> tuple[list[Listed], list[Listed]]:
    """Return the machines apart from those of these names, and those. Raise CliError for a name that is none."""
    ids = [each.id for each in listed]
    for name in names:
        if name not in ids:
            raise exits.CliError(f"--without {name}: no machine of the list is called so", did_you_mean(name, ids))
    wanted = [each for each in listed if each.id not in names]
    if not wanted:
        raise exits.CliError("--without leaves no machine", "leave out fewer")
    return wanted, [each for each in listed if each.id in names]


def _printed(source: DeclarationSource, folder: Path) -> list[Listed]:
    from stampworks.clouds.hosts.listing import ListError, listed

    hosts = source.declaration.hosts
    try:
        entries = listed(hosts.list_command, hosts.provider, folder)
    except ListError as error:
        raise AccountUnansweredError(source.problem(COMMAND, str(error), error.hint)) from None
    found, problems = list[Listed](), list[Problem]()
    for number, entry in enumerate(entries, 1):
        machine, wrong = _machine({"group": hosts.list_group, **entry} if hosts.list_group else entry)
        problems += [source.problem(COMMAND, f"machine {number}: {each}", "correct what it prints") for each in wrong]
        found += [Listed(machine, COMMAND)] if machine else []
    problems += [] if problems else _between(source, found)
    if problems:
        raise DeclarationError(problems)
    return found


def _machine(entry: Any) -> tuple[Host | None, list[str]]:
    from pydantic import ValidationError

    from stampworks.clouds.hosts.answers import plain

    try:
        return Host.model_validate(entry), []
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, each['loc']))}: {plain(each['msg'])}" for each in error.errors()]
        return None, wrong


def _between(source: DeclarationSource, printed: Sequence[Listed]) -> list[Problem]:
    """Return what is wrong between the printed machines, and between them and the pools."""
    from stampworks.declaration.host_checks import check_hosts

    pools = [{"name": pool.name} for pool in source.declaration.pools]
    entries = [each.machine.model_dump() for each in printed]
    findings = check_hosts({"cloud": "hosts", "hosts": {"machines": entries}, "pools": pools})
    return [source.problem(COMMAND, f"{printed[int(path[2])].id}: {message}", hint) for path, message, hint in findings]
