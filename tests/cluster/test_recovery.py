"""The page on recovery: its commands repair the described faults."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = pytest.mark.engine
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "recovery.md"


def test_a_state_that_was_cut_off_comes_back(stack: Stack) -> None:
    """The engine keeps the previous state next to the file."""
    exported = stack.folder / "exported.json"
    exported.write_text(stack.passes("stack", "export"))
    for _ in range(2):
        stack.passes("stack", "import", "--file", str(exported))
    before = json.loads(stack.passes("stack", "export"))
    file = stack.folder / "backend" / ".pulumi" / "stacks" / "test" / "test.json"
    file.write_text(file.read_text()[:100])
    refused = stack.run("stack", "export")
    assert refused.returncode != 0
    text = PAGE.read_text()
    [said] = re.findall(r"```\nerror: (.*?)\n```", text)
    assert re.search(re.escape(said).replace(r"\.\.\.\ ", ".*"), refused.stdout + refused.stderr)
    [commands] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    commands = commands.replace("stampworks", "test").replace("local.json", "test.json")
    environment = {"PULUMI_BACKEND_URL": f"file://{stack.folder / 'backend'}"}
    subprocess.run(["sh", "-euc", commands], check=True, env=environment)
    assert json.loads(stack.passes("stack", "export")) == before
