"""`stampworks hosts`: machines that exist and answer ssh. `lock` keeps their host keys and ports beside a stack."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from stampworks.cli import accounts, exits, stacks

if TYPE_CHECKING:
    from stampworks.cli.host_list import Listed
    from stampworks.cli.host_lock import LockedMachine, LockRun
    from stampworks.declaration import Lock

YES = "yes"
"""The word by which a person confirms host keys."""
COMPARE = "compare each with its machine: there `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints the right one"


def add_verbs(verbs: Any) -> None:
    """Add the verb `hosts` with its own verbs."""
    hosts = verbs.add_parser("hosts", help="machines that exist and answer ssh: lock", allow_abbrev=False)
    verbs_of_hosts = hosts.add_subparsers(dest="hosts_verb", metavar="VERB", required=True, parser_class=type(hosts))
    lock = verbs_of_hosts.add_parser(
        "lock",
        help="ask the listed machines, and keep their host keys, machine ids and ports beside the stack's file",
        allow_abbrev=False,
    )
    stacks.add_plan_options(lock)
    lock.add_argument(
        "--accept",
        metavar="FINGERPRINT",
        nargs="+",
        default=[],
        help="accept host keys with these fingerprints, as SHA256:..., in place of a question on the terminal",
    )
    lock.add_argument(
        "--without",
        metavar="ADDRESS",
        nargs="+",
        default=[],
        help="leave these machines out: nothing is asked of them, and the lock keeps what it has of them",
    )
    lock.add_argument("--json", action="store_true", help="print the results as JSON")
    lock.set_defaults(call=lock_hosts)


def lock_hosts(arguments: argparse.Namespace) -> int:
    """Return the exit code. Write the lock only when all machines answered with keys that somebody confirmed."""
    from stampworks.cli import host_list
    from stampworks.cli.host_lock import LockRun
    from stampworks.cli.output import Progress
    from stampworks.declaration import displayed, load_file, lock_file, lock_text, read_lock
    from stampworks.state.paths import write_whole

    declared = accounts.declared_file(arguments)
    source = load_file(declared, locked=False)
    source.refuse_problems()
    before, file = read_lock(declared), lock_file(declared)
    listed = host_list.machines(source, declared.parent)
    wanted, left_out = host_list.without(listed, arguments.without)
    with Progress(f"asking {len(wanted)} machines") as progress:
        run = LockRun(source, before, wanted, frozenset(arguments.accept), progress)
        run.find_keys()
    if unconfirmed := run.unconfirmed():
        _confirm(unconfirmed, run)
    with Progress(f"asking {len(wanted)} machines") as progress:
        run.progress = progress
        found = run.ask()
    kept = [each for each in before.hosts if (each.address, each.port) in {one.reached for one in left_out}]
    locked = {(each.host.address, each.host.port): each.host for each in found}
    locked |= {(each.address, each.port): each for each in kept}
    order = [locked[each.reached] for each in listed if each.reached in locked]
    after = replace(before, hosts=tuple(order))
    if after != before or not file.exists():
        write_whole(file, lock_text(after))
    if arguments.json:
        print(json.dumps(_as_json(str(file), before, after), indent=2))
    else:
        print(_summary(displayed(file), before, after, found))
    return exits.FINE


def _confirm(unconfirmed: Sequence[tuple[Listed, str]], run: LockRun) -> None:
    """Show fingerprints, and ask a person on a terminal. Without a terminal, raise CliError."""
    from stampworks.cli.output import terminal_width
    from stampworks.planning.changes.access import named
    from stampworks.views.table import table

    rows = [(each.id, each.machine.group, key.split()[0], named(key)) for each, key in unconfirmed]
    shown = table(("machine", "group", "type", "fingerprint of its host key"), rows, max(terminal_width(), 100))
    print("\n".join(shown), file=sys.stderr)
    how_many = f"host keys of {len(rows)} machines" if len(rows) > 1 else f"the host key of {rows[0][0]}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        what = f"{how_many} were not confirmed" if len(rows) > 1 else f"{how_many} was not confirmed"
        accepted = named(unconfirmed[0][1]) + (" SHA256:..." if len(rows) > 1 else "")
        raise exits.CliError(what, f"{COMPARE}; then add --accept {accepted}")
    print(f"{COMPARE[0].upper()}{COMPARE[1:]}.", file=sys.stderr)
    print(f"Type {YES} if all of them are right: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != YES:
        raise exits.CliError(f"{how_many}: not confirmed, and nothing was written", "confirm them when you have", 1)
    run.confirm()


def _summary(file: str, before: Lock, after: Lock, found: Sequence[LockedMachine]) -> str:
    from stampworks.cli.output import terminal_width
    from stampworks.planning.changes.access import named
    from stampworks.views.table import table

    old = {(each.address, each.port): each for each in before.hosts}
    new = [each for each in after.hosts if (each.address, each.port) not in old]
    gone = old.keys() - {(each.address, each.port) for each in after.hosts}
    changed = [each for each in after.hosts if old.get((each.address, each.port), each) != each]
    counts = [(len(new), "new"), (len(changed), "changed"), (len(gone), "gone")]
    said = ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing has changed"
    rows = [
        (each.id, each.host.group, each.system, each.hardware, each.rails, named(each.host.host_key)) for each in found
    ]
    header = ("machine", "group", "system", "hardware", "rails", "host key")
    lines = [f"{file}: {len(after.hosts)} machines, {said}", "read only: nothing was changed on them"]
    return "\n".join([*lines, *table(header, rows, max(terminal_width(), 100))])


def _as_json(file: str, before: Lock, after: Lock) -> dict[str, Any]:
    return {"file": file, "changed": before != after, "hosts": [asdict(each) for each in after.hosts]}
