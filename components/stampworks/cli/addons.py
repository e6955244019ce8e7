"""`stampworks addons`: the add-ons of a Kubernetes, and how to install the remaining ones by hand."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.plan import AddOn, Plan


def add_verbs(verbs: Any) -> None:
    """Add the verb `addons` and its options."""
    addons = verbs.add_parser("addons", help="show the add-ons of a Kubernetes and their values", allow_abbrev=False)
    stacks.add_plan_options(addons)
    shown = addons.add_mutually_exclusive_group()
    shown.add_argument("--values", metavar="NAME", default="", help="print the chart values of an add-on, for Helm")
    shown.add_argument("--objects", action="store_true", help="print the objects beside the charts, for kubectl")
    addons.set_defaults(call=show_addons)


def show_addons(arguments: argparse.Namespace) -> int:
    """Show the add-ons of the plan. No cluster is asked."""
    from stampworks.schedulers import addons

    plan = stacks.asked_plan(arguments)
    if not plan.scheduler.addons:
        hint = "a declaration with scheduler: {kind: kubernetes} has some"
        raise exits.CliError(f"the scheduler of cluster {plan.name} is Slurm, which has no add-ons", hint)
    if arguments.values:
        print(json.dumps(addons.values(plan, _named(plan, arguments.values)), indent=2))
    elif arguments.objects:
        items = [each for one in plan.scheduler.addons if one.by != "cloud" for each in addons.objects(one)]
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))
    else:
        print("\n".join(_text(plan)))
    return exits.FINE


def _named(plan: Plan, name: str) -> AddOn:
    there = {each.name: each for each in plan.scheduler.addons}
    if name not in there:
        raise exits.CliError(f"cluster {plan.name} has no add-on {name}", f"these are: {', '.join(there)}")
    if not there[name].chart:
        hint = f"kubectl apply --server-side -f FILE, with the manifest at {there[name].repository}"
        raise exits.CliError(f"{name} has no published chart, and so no values", hint)
    return there[name]


def _text(plan: Plan) -> Iterator[str]:
    from stampworks.cli.output import terminal_width
    from stampworks.views.plan import addons_text

    yield from addons_text(plan, terminal_width())
    if by_hand := [each for each in plan.scheduler.addons if each.by == "hand"]:
        yield from ("", "To install by hand, in this order; values from `stampworks addons --values NAME`")
        yield from (f"  {_command(each)}" for each in by_hand)


def _command(one: AddOn) -> str:
    from stampworks.schedulers import addons

    if not one.chart:
        return f"kubectl apply --server-side -f {shlex.quote(one.repository)}"
    chart, repository = addons.chart(one)
    words = ["helm", "upgrade", "--install", one.name, chart, *(["--repo", repository] if repository else [])]
    words += ["--version", one.version, "--namespace", one.namespace, "--create-namespace", "--values", "-"]
    return shlex.join(words)
