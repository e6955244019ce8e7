"""`stampworks facts`: measures once what this machine can carry, so that a plan can be held against it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from stampworks.cli import exits


def add_verbs(verbs: Any) -> None:
    facts = verbs.add_parser("facts", help="measure what this machine can carry, for `plan`", allow_abbrev=False)
    facts.add_argument("--json", action="store_true", help="print the facts as JSON")
    facts.set_defaults(call=measure_facts)


def measure_facts(arguments: argparse.Namespace) -> int:
    """Measures even when there are facts already: whoever calls this wants new ones."""
    from stampworks.cli.output import Progress
    from stampworks.clouds.local.facts import measure_loopback
    from stampworks.facts import boot_id, facts_file
    from stampworks.planning import Facts

    with Progress("measuring what one link between two network namespaces carries"):
        facts = Facts(loopback_mbps=measure_loopback())
    stored = {"boot_id": boot_id(), **dataclasses.asdict(facts)}
    file = facts_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(stored, indent=2) + "\n")
    print(json.dumps(stored, indent=2) if arguments.json else f"loopback: {facts.loopback_mbps} Mb/s, kept in {file}")
    return exits.FINE
