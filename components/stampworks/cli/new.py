"""`stampworks new`: the file of another stack that is declared the same."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.declaration import Declaration, DeclarationSource
    from stampworks.plan import Plan


def add_verbs(verbs: Any) -> None:
    """Add the verb `new` and its options."""
    new = verbs.add_parser("new", help="declare a sibling of a stack, in a separate file", allow_abbrev=False)
    new.add_argument("name", metavar="NAME", help="name of the new stack and cluster")
    new.add_argument("--from", metavar="STACK", dest="source", required=True, help="the stack to copy")
    new.add_argument("--json", action="store_true", help="print the result as JSON")
    new.set_defaults(call=new_stack)


def new_stack(arguments: argparse.Namespace) -> int:
    """Write the file in one step, after a check that it means the same cluster."""
    from stampworks.declaration.files import displayed
    from stampworks.declaration.sibling import other_settings
    from stampworks.plan import fingerprint

    name, folder = _legal(arguments.name), stacks.folder()
    file = folder / f"Pulumi.{name}.yaml"
    if file.exists():
        raise exits.CliError(f"{displayed(file)} exists already", "choose another name, or edit the file")
    source = stacks.source_of(arguments.source)
    text = (folder / f"Pulumi.{arguments.source.rpartition('/')[2]}.yaml").read_text(encoding="utf-8-sig")
    plan = _write(file, text, source, arguments.source, _range(name, folder, source))
    left = other_settings(text)
    made = {
        "file": str(file),
        "cluster": plan.name,
        "cidr": plan.network.cidr,
        "fingerprint": fingerprint(plan),
        "not_copied": left,
    }
    print(
        json.dumps(made, indent=2)
        if arguments.json
        else _summary(displayed(file), source, arguments.source, plan, made)
    )
    return exits.FINE


def _legal(name: str) -> str:
    from pydantic_core import PydanticCustomError

    from stampworks.declaration import values

    try:
        return values.name(name)
    except PydanticCustomError as error:
        context = error.context or {}
        raise exits.CliError(context["message"], context["hint"]) from None


def _range(name: str, folder: Path, source: DeclarationSource) -> str:
    """Addresses that no other stack of the project has.

    Rooms of the local cloud do not see each other; networks that are joined later must not overlap.
    """
    from stampworks.declaration.sibling import free_range

    others = _declared(folder)
    for stack, declaration in others.items():
        if declaration.name == name:
            raise exits.CliError(f"the cluster of stack {stack} is called {name!r} already", "choose another name")
    cidr = source.declaration.network.cidr
    if source.declaration.network.existing.vpc:
        return cidr  # the sibling is in the same network
    found = free_range(cidr, [cidr, *(taken for each in others.values() for taken in _taken(each))])
    if found is None:
        size = cidr.rpartition("/")[2]
        raise exits.CliError(f"no private range of a /{size} is free beside {cidr}", "make the ranges smaller first")
    return found


def _taken(declaration: Declaration) -> tuple[str, ...]:
    """Return the ranges that nodes of another cluster may not use: those of this cluster's nodes, pods and services."""
    from stampworks.plan import traits_of

    network = declaration.network
    apart = (network.pods_cidr, network.services_cidr) if traits_of(declaration.scheduler.kind).runs_pods else ()
    return (network.cidr, *apart)


def _declared(folder: Path) -> Mapping[str, Declaration]:
    from stampworks.declaration import DeclarationError, load_file

    found = {}
    for path in sorted(folder.glob("Pulumi.*.yaml")):
        stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        try:
            found[stack] = load_file(path, locked=False).declaration
        except DeclarationError:
            print(f"stack {stack} cannot be read: its addresses may be taken twice", file=sys.stderr)
    return found


def _write(file: Path, text: str, source: DeclarationSource, of: str, cidr: str) -> Plan:
    """Write the sibling's file after planning it, in one step, and never over another file."""
    from stampworks.declaration import DeclarationError, load_file
    from stampworks.declaration.sibling import sibling_text
    from stampworks.plan import fingerprint
    from stampworks.planning import plan

    name = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
    # Create it in the same folder, because it names its base; hidden, so that it is not taken for a stack.
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}.", suffix=file.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
            os.fchmod(opened.fileno(), 0o644)
            opened.write(sibling_text(text, of, name, cidr))
        try:
            made = plan(load_file(Path(temporary), lock=source.lock))
        except DeclarationError:
            made = None
        if made is None or (made.name, made.network.cidr, fingerprint(made)) != (name, cidr, fingerprint(plan(source))):
            raise exits.CliError(
                f"the file of stack {of} cannot be copied as it is written: its sibling would mean something else",
                f"copy the file by hand and change name and network.cidr, here to {name} and {cidr}",
            )
        os.link(temporary, file)
    except FileExistsError:
        raise exits.CliError(f"{file} is there already", "choose another name, or edit the file") from None
    finally:
        Path(temporary).unlink()
    return made


def _summary(file: str, source: DeclarationSource, of: str, plan: Plan, made: Mapping[str, Any]) -> str:
    from stampworks.planning.clouds import CLOUDS

    looks_up = CLOUDS[plan.cloud].launches or source.key_urls
    left = [f"not copied, for they may be secret: {', '.join(made['not_copied'])}"] if made["not_copied"] else []
    return "\n".join(
        [
            f"{file} is a sibling of {of}: cluster {plan.name}, addresses {plan.network.cidr}, "
            f"fingerprint {made['fingerprint']}",
            *left,
            *_shared(of, plan),
            "next:",
            *([f"  stampworks lock -s {plan.name}"] if looks_up else []),
            f"  stampworks plan -s {plan.name}",
            f"  pulumi stack init {plan.name}",
            f"  pulumi up -s {plan.name}",
        ]
    )


def _shared(of: str, plan: Plan) -> Iterator[str]:
    """Yield the reservations that both clusters would use, although each exists once."""
    for pool in plan.pools:
        if bought := dict.fromkeys(each.reservation for each in pool.offers if each.reservation):
            yield f"pool {pool.name} is to start in {', '.join(bought)}, as that of {of} is: write another reservation"
