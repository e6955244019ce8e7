"""`stampworks facts`: measures this machine or reads an account, so that a plan can be held against it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import accounts, exits

if TYPE_CHECKING:
    from stampworks.plan import Plan
    from stampworks.planning import Facts
    from stampworks.planning.rules.account import Account

_JUDGED = ("rights.up", "rights.launch", "quota", "hosts.")
"""Beginnings of the ids of rules whose findings `stampworks facts` prints."""


def add_verbs(verbs: Any) -> None:
    """Add the verb `facts` and its options."""
    about = "measure this machine, read an account or ask hosts, for `plan`"
    facts = verbs.add_parser("facts", help=about, allow_abbrev=False)
    which = facts.add_mutually_exclusive_group()
    which.add_argument("-s", "--stack", metavar="STACK", help="read the account of this stack, or ask its hosts")
    which.add_argument("file", metavar="FILE", nargs="?", help="a declaration or a stack file, instead of a stack")
    facts.add_argument("--json", action="store_true", help="print the facts as JSON")
    facts.add_argument(
        "--deployer", metavar="ARN", help="the user or role that runs `up`, if another one reads the account"
    )
    facts.add_argument(
        "--policy", action="store_true", help="print the smallest policy with the rights of an `up`, and read nothing"
    )
    facts.set_defaults(call=keep_facts)


def keep_facts(arguments: argparse.Namespace) -> int:
    """Measure this machine or read the named account, even if there are facts already."""
    if arguments.stack or arguments.file:
        return _read_account(arguments)
    if arguments.policy or arguments.deployer:
        raise exits.CliError("--policy needs a stack, whose rights it prints", "name it: `stampworks facts -s STACK`")
    return _measure(arguments)


def _measure(arguments: argparse.Namespace) -> int:
    from stampworks.cli.output import Progress
    from stampworks.clouds.local.facts import measure_loopback
    from stampworks.state.facts import boot_id, facts_file

    with Progress("measuring the rate of a link between two network namespaces"):
        mbps = measure_loopback()
    stored = {"boot_id": boot_id(), "loopback_mbps": mbps}
    file = facts_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(stored, indent=2) + "\n")
    print(json.dumps(stored, indent=2) if arguments.json else f"loopback: {mbps} Mb/s, kept in {file}")
    return exits.FINE


def _read_account(arguments: argparse.Namespace) -> int:
    """Return the exit code: UNKNOWN if a fact is. The others are kept."""
    from stampworks.cli.output import Progress
    from stampworks.clouds.errors import UnansweredError
    from stampworks.declaration import displayed, load_file
    from stampworks.planning import Facts, plan
    from stampworks.planning.clouds import CLOUDS
    from stampworks.state.facts import account_file, write_account

    declared = accounts.declared_file(arguments)
    source = load_file(declared)
    planned = plan(source)
    if planned.hosts is not None:
        return _ask_hosts(arguments, declared, planned)
    if CLOUDS[planned.cloud].launches is None:
        what = f"{displayed(declared)}: accounts of {planned.cloud} cannot be read yet"
        raise exits.CliError(what, "`stampworks facts` alone measures this machine")
    own = CLOUDS[planned.cloud].account
    if arguments.policy:
        print(json.dumps(own.policy(own.rights(planned)), indent=2))
        return exits.FINE
    reading = accounts.asking(planned.cloud, lambda cloud: cloud.account)
    try:
        with Progress(f"reading the account in {planned.region}") as progress:
            read = reading.read_account(planned, own.rights(planned), arguments.deployer or "", progress)
    except UnansweredError as error:
        what = f"the account in {planned.region} was not read: {error}"
        raise accounts.AccountUnansweredError(source.problem("region", what, error.hint)) from None
    account = write_account(declared, read)
    told = displayed(account_file(declared))
    lines = [] if arguments.json else [*_summary(told, account), *_judged(planned, Facts(account=account))]
    print(json.dumps(read, indent=2) if arguments.json else "\n".join(lines))
    return exits.UNKNOWN if any(each.why for each in account.readings) else exits.FINE


def _ask_hosts(arguments: argparse.Namespace, declared: Path, planned: Plan) -> int:
    """Return the exit code: UNKNOWN if a machine did not answer. The answers of the others are kept."""
    from stampworks.cli.output import Progress
    from stampworks.clouds.hosts.survey import survey
    from stampworks.declaration import displayed
    from stampworks.plan import to_json
    from stampworks.planning import Facts
    from stampworks.state.facts import account_file, write_hosts

    if arguments.policy or arguments.deployer:
        raise exits.CliError(f"{displayed(declared)}: machines that exist have no rights", "leave that option out")
    assert planned.hosts is not None  # noqa: S101
    shared = [each.existing for each in planned.storage if each.existing.startswith("/")]
    with Progress(f"asking {len(planned.hosts.machines)} machines") as progress:
        found = survey(planned.name, planned.hosts, shared, progress)
    write_hosts(declared, found)
    if arguments.json:
        print(to_json(found), end="")
    else:
        answers = sum(each.survey is not None for each in found.hosts)
        print(f"{displayed(account_file(declared))}: {answers} of {len(found.hosts)} machines answered")
        print("read only: nothing was installed or changed there")
        print("\n".join(_judged(planned, Facts(hosts=found))))
    return exits.FINE if all(each.survey for each in found.hosts) else exits.UNKNOWN


def _summary(file: str, account: Account) -> Iterator[str]:
    from stampworks.text.printable import printable

    known = [each for each in account.readings if not each.why]
    yield f"{file}: account {account.account} in {account.region}, {len(known)} of {len(account.readings)} facts"
    yield "read only: nothing was made, changed or started there"
    width = max(len(each.fact) for each in account.readings)
    for each in account.readings:
        value = getattr(account, each.fact)
        said = f"unknown: {each.why}" if each.why else str(value if isinstance(value, int) else len(value))
        yield f"  {each.fact:{width}}  {printable(said)}"


def _judged(planned: Plan, facts: Facts) -> Iterator[str]:
    """Yield what the facts say about rights, launches and quotas, with what is used of each, or about hosts."""
    from stampworks.cli.output import terminal_width
    from stampworks.planning import rules
    from stampworks.state.facts import today
    from stampworks.text.printable import printable
    from stampworks.views.plan import finding_lines

    findings = [each for each in rules(planned, facts, today()) if each.id.startswith(_JUDGED)]
    yield ""
    yield from map(printable, finding_lines(findings, {}, terminal_width()))
