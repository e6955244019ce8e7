"""`stampworks compare`: the differences of two stacks, and whether they are siblings."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks, state

if TYPE_CHECKING:
    from stampworks.views.comparison import ComparedSide

_CODES = {"equal": exits.FINE, "different": exits.NO, "unknown": exits.UNKNOWN}
_CLUSTER = "stampworks:cluster:Cluster"
"""Type of the component in any stack's state."""


def add_verbs(verbs: Any) -> None:
    """Add the verb `compare` and its options."""
    compare = verbs.add_parser("compare", help="explain how two stacks differ", allow_abbrev=False)
    for name in ("a", "b"):
        compare.add_argument(name, metavar="STACK", help="a stack, or a plan's JSON file")
    compare.add_argument("--json", action="store_true", help="print every difference as JSON")
    compare.set_defaults(call=compare_stacks)


def compare_stacks(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine if both declarations agree, and both clusters run them."""
    from stampworks.cli.output import Progress
    from stampworks.views.comparison import comparison_data, comparison_text, verdict

    with Progress("reading from Pulumi how the stack was stamped"):
        a, b = _side(arguments.a), _side(arguments.b)
    if arguments.json:
        print(json.dumps(comparison_data(a, b), indent=2, ensure_ascii=False))
    else:
        print(comparison_text(a, b), end="")
    return _CODES[verdict(a, b)]


def _side(stack: str) -> ComparedSide:
    from stampworks.views.comparison import ComparedSide

    plan = stacks.plan_of(stack)
    if stack.endswith(".json"):
        return ComparedSide(stack, plan)
    try:
        return ComparedSide(stack, plan, stamped=_stamped(stack))
    except state.SilentError as error:
        return ComparedSide(stack, plan, unknown=str(error))


def _stamped(stack: str) -> str:
    """The fingerprint among the cluster's outputs as the backend holds them; empty when nothing was stamped yet."""
    found = state.outputs(state.resources(stack), _CLUSTER)
    if found is None:
        return ""
    if isinstance(fingerprint := found.get("fingerprint"), str):
        return fingerprint
    # an unfinished `up` has no outputs yet, and an `up` of an older version has no such output
    raise state.SilentError("its cluster has no output 'fingerprint': the last `pulumi up` did not finish")
