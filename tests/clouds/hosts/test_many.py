"""Sixty-four hosts at once: each a machine of namespaces of its own, behind a port of the loopback of its own."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest
from stampworks.clouds.hosts.survey import survey
from stampworks.plan import Host, Hosts

from tests.clouds.hosts.lab import stop
from tests.cluster.lent import LentHosts

pytestmark = [pytest.mark.cluster, pytest.mark.long]
COUNT, LIMIT_S = 64, 20.0


def test_facts_of_many_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them answer, within the promised time."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    lent = LentHosts(f"t{uuid.uuid4().hex[:8]}", tmp_path / "keys", COUNT)
    try:
        lent.start()
        hosts = tuple(_host(lent, f"h{number}") for number in range(1, COUNT + 1))
        began = time.monotonic()
        found = survey("lab", Hosts("", "root", str(lent.identity_file), None, hosts), ["/exports/shared"])
        took_s = time.monotonic() - began
    finally:
        stop(lent)
    print(f"\nfacts of {COUNT} hosts: {took_s:.1f} s")
    assert [(each.reached, each.why) for each in found.hosts] == [("yes", "")] * COUNT
    assert all(each.survey and each.survey.neighbour_reached == "yes" for each in found.hosts)
    assert took_s < LIMIT_S


def _host(lent: LentHosts, name: str) -> Host:
    entry = lent.locked(name, "gpu")
    return Host("127.0.0.1", entry["port"], entry["inside"], entry["host_key"], entry["machine_id"], "gpu", "", ())
