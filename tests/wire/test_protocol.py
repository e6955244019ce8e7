"""Imports of the wire protocol."""

from __future__ import annotations

import subprocess
import sys


def said(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_protocol_comes_without_the_sdk() -> None:
    """Importing the SDK would double the time in which the plugin starts."""
    program = (
        "import sys, stampworks.wire.protocol\n"
        "print(*sorted(each for each in sys.modules if each.startswith('pulumi') and '_pb2' not in each))"
    )
    assert said(program) == ""


def test_an_sdk_that_is_there_stays() -> None:
    """A program that has the SDK already must not get a second copy of its classes."""
    program = "import sys, pulumi, stampworks.wire.protocol\nprint(sys.modules['pulumi'] is pulumi, pulumi.Resource)"
    assert said(program) == "True <class 'pulumi.resource.Resource'>"
