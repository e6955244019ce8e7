"""A stack whose declaration is wrong: what the user reads, to the letter, and that nothing is created."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.conftest import Stack

pytestmark = pytest.mark.engine


def diagnostics(stack: Stack, *argv: str) -> str:
    """What the engine shows of a run that is refused, under the heading of the stack."""
    done = stack.run(*argv)
    assert done.returncode != 0
    assert stack.resources() == {}
    assert stack.traces() == []
    found = re.search(r"Diagnostics:\n(.*?)\nResources:", done.stdout, re.DOTALL)
    assert found, done.stdout
    return found[1].rstrip()


def test_a_preview_of_a_good_declaration_creates_nothing(stack: Stack) -> None:
    """All resources show as creations, and the machine is as before."""
    shown = stack.preview()
    assert "+ 9 to create" in shown
    assert stack.traces() == []


def test_all_problems_are_shown_with_their_lines(stack: Stack) -> None:
    """Every problem points at the user's own line, and there is nothing else to read."""
    stack.edit("count: 2", "count: 0")
    stack.edit("mount: /shared", "mont: /shared")
    shown = diagnostics(stack, "up", "--yes", "--skip-preview")
    stack.edit("count: 0", "count: 2")
    stack.edit("mont: /shared", "mount: /shared")
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert lines[0] == "pulumi:pulumi:Stack (test-test):"
    assert lines[1].startswith("error: stacks/Pulumi.test.yaml:8:")
    assert lines[2] == "- {name: gpu, machine: sim-h100, count: 0}"
    assert lines[-1] == "2 problems in stacks/Pulumi.test.yaml: nothing was changed."
    assert len([line for line in lines if "error:" in line]) == 1


def test_a_machine_that_does_not_exist_is_refused_in_a_preview(stack: Stack) -> None:
    """What only the catalog knows is found before anything happens, too."""
    stack.edit("sim-h100", "sim-h10")
    shown = diagnostics(stack, "preview")
    stack.edit("sim-h10", "sim-h100")
    assert shown == "\n".join(
        [
            "  pulumi:pulumi:Stack (test-test):",
            "    error: stacks/Pulumi.test.yaml:8:30: pools[0].machine: no machine is called 'sim-h10'",
            "              - {name: gpu, machine: sim-h10, count: 2}",
            "                                     ^",
            "      hint: did you mean 'sim-h100'?",
            "    ",
            "    1 problem in stacks/Pulumi.test.yaml: nothing was changed.",
        ]
    )
