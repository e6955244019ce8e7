"""`stampworks sweep`: list the rooms of this machine, and remove one whose stack is lost."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from stampworks.cli import exits

_HEADER = ("cluster", "runs", "nodes", "belongs to")


def add_verbs(verbs: Any) -> None:
    """Add the verb `sweep` and its options."""
    sweep = verbs.add_parser(
        "sweep", help="list this machine's rooms; remove one whose stack is lost", allow_abbrev=False
    )
    sweep.add_argument("cluster", metavar="CLUSTER", nargs="?", help="cluster to remove")
    sweep.add_argument("--yes", action="store_true", help="remove it, with its data")
    sweep.add_argument("--json", action="store_true", help="print the rooms, or the removed one, as JSON")
    sweep.set_defaults(call=sweep_rooms)


def sweep_rooms(arguments: argparse.Namespace) -> int:
    """Return the exit code. Without --yes, only list the parts that would be removed, and answer no."""
    from stampworks import machine_room as room
    from stampworks.cli.output import Progress
    from stampworks.operations.errors import nearest

    if arguments.yes and not arguments.cluster:
        raise exits.CliError("--yes removes a room: name it", "write stampworks sweep CLUSTER --yes")
    found = {each.cluster: each for each in room.rooms()}
    if not arguments.cluster:
        _show(list(found.values()), arguments.json)
        return exits.FINE
    if arguments.cluster not in found:
        raise exits.CliError(f"no room of a cluster {arguments.cluster!r} here", nearest(arguments.cluster, found))
    if not arguments.yes:
        _show([found[arguments.cluster]], arguments.json)
        raise exits.CliError(
            f"nothing was removed: the room of {arguments.cluster} would go with its shared directories and its queue",
            "`pulumi destroy` is the way while its stack is known; --yes if it is lost",
            exits.NO,
        )
    with Progress(f"removing the room of {arguments.cluster}"):
        room.remove_room(arguments.cluster, found[arguments.cluster].owner)
    gone = f"the room of {arguments.cluster} is gone"
    print(json.dumps({"removed": arguments.cluster}, indent=2) if arguments.json else gone)
    return exits.FINE


def _show(found: list[Any], as_json: bool) -> None:
    from stampworks.views.table import table

    if as_json:
        print(json.dumps({"rooms": [dataclasses.asdict(each) for each in found]}, indent=2, ensure_ascii=False))
        return
    rows = [(each.cluster, "yes" if each.runs else "no", each.nodes, each.owner or "nobody") for each in found]
    print("\n".join(table(_HEADER, rows, 120)) if rows else "no rooms on this machine")
