"""Write the files of a new cloud, role, check or machine, each with a failing test, and print what to do next."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import checks, clouds, machines, roles
from .files import Scaffold, ScaffoldError, write

ROOT = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str], root: Path = ROOT) -> int:
    """Return the exit status: 1 if nothing was written."""
    arguments = _arguments(argv)
    try:
        scaffold = _scaffold(arguments, root)
        write(root, scaffold.files)
    except ScaffoldError as error:
        print(f"scaffold: {error}", file=sys.stderr)
        return 1
    for file in scaffold.files:
        print(f"{'extended' if file.extends else 'wrote'} {file.path}")
    print("\nnext:")
    for number, step in enumerate(scaffold.steps, 1):
        print(f"{number}. " + step.replace("\n", "\n   "))
    return 0


def _scaffold(arguments: argparse.Namespace, root: Path) -> Scaffold:
    if arguments.kind == "machine":
        machine = machines.Machine(arguments.name, arguments.cloud, arguments.accelerator, arguments.accelerators)
        return machines.scaffold(machine, root)
    kinds = {"cloud": clouds.scaffold, "role": roles.scaffold, "check": checks.scaffold}
    return kinds[arguments.kind](arguments.name, root)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.scaffold", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    helps = {
        "cloud": "choices of planning, a file of machines",
        "role": "a role of our playbooks",
        "check": "a check of a proof: what measures, and what judges",
        "machine": "a row of the catalog",
    }
    for kind, text in helps.items():
        verb = kinds.add_parser(kind, help=text)
        verb.add_argument("name", metavar="NAME")
        if kind == "machine":
            verb.add_argument("--cloud", metavar="CLOUD", required=True, help="the cloud that has it")
            verb.add_argument("--accelerator", metavar="NAME", default="", help="by its name in machines/parts.yaml")
            verb.add_argument("--accelerators", metavar="COUNT", type=int, default=0, help="of one machine")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
