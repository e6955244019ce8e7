"""`stampworks compare`: whether two stacks are siblings, and what sets them apart."""

from __future__ import annotations

import argparse
import json
import subprocess
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.views import Side

_CODES = {"equal": exits.FINE, "different": exits.NO, "unknown": exits.UNKNOWN}
_TIMEOUT_S = 60.0
_CLUSTER = "stampworks:cluster:Cluster"
"""Whatever a program exports of it."""


def add_verbs(verbs: Any) -> None:
    compare = verbs.add_parser("compare", help="explain what two stacks differ in", allow_abbrev=False)
    for name in ("a", "b"):
        compare.add_argument(name, metavar="STACK", help="a stack, or a plan's JSON file")
    compare.add_argument("--json", action="store_true", help="print every difference as JSON")
    compare.set_defaults(call=compare_stacks)


def compare_stacks(arguments: argparse.Namespace) -> int:
    """Fine when both are declared the same and neither runs what the other does not."""
    from stampworks.cli.output import Progress
    from stampworks.views import comparison_data, comparison_text, verdict

    with Progress("asking Pulumi what was stamped"):
        a, b = _side(arguments.a), _side(arguments.b)
    if arguments.json:
        print(json.dumps(comparison_data(a, b), indent=2, ensure_ascii=False))
    else:
        print(comparison_text(a, b), end="")
    return _CODES[verdict(a, b)]


def _side(stack: str) -> Side:
    from stampworks.views import Side

    plan = stacks.plan_of(stack)
    if stack.endswith(".json"):
        return Side(stack, plan)
    try:
        return Side(stack, plan, stamped=_stamped(stack))
    except _SilentError as error:
        return Side(stack, plan, unknown=str(error))


class _SilentError(Exception):
    """The backend did not say what it holds; the text is the reason, in one line."""


def _stamped(stack: str) -> str:
    """The fingerprint among the cluster's outputs as the backend holds them; empty when nothing was stamped yet.

    Reads the exported state, where secrets stay encrypted: `pulumi stack output` wants the passphrase.
    """
    command = ["pulumi", "stack", "export", "--non-interactive", "--stack", stack]
    try:
        done = subprocess.run(
            command,
            cwd=stacks.project(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise _SilentError("pulumi is not installed, or `. tools/env.sh` was not called") from None
    except subprocess.TimeoutExpired:
        raise _SilentError(f"pulumi did not answer within {_TIMEOUT_S:.0f} s") from None
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode:
        if "no stack named" in said:
            return ""
        raise _SilentError(said.splitlines()[-1] if said else f"pulumi ended with exit code {done.returncode}")
    return _fingerprint(done.stdout)


def _fingerprint(state: bytes) -> str:
    try:
        resources = json.loads(state)["deployment"].get("resources") or []
        outputs = [each.get("outputs", {}) for each in resources if each["type"] == _CLUSTER]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _SilentError("what pulumi stack export printed is no state") from None
    if not outputs:
        return ""
    if isinstance(found := outputs[0].get("fingerprint"), str):
        return found
    # an `up` that did not come to its end has no outputs yet, and one of an older version has no such output
    raise _SilentError("its cluster has no output 'fingerprint': the last `pulumi up` did not come to its end")
