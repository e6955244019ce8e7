"""Measuring this machine's loopback works and leaves nothing behind."""

from __future__ import annotations

import subprocess

import pytest
from stampworks.clouds.local.facts import measure_loopback


@pytest.mark.cluster
def test_the_loopback_is_measured_and_nothing_is_left() -> None:
    """The value is plausible, and the host's interfaces are unchanged."""
    argv = ["ip", "-brief", "link"]
    before = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    assert 100 < measure_loopback() < 1_000_000
    assert subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout == before
