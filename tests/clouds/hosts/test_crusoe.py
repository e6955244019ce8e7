"""Crusoe's own list of VMs, in the place of a list that somebody writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from stampworks.clouds.hosts.listing import ListError, listed


def vm(number: int, **fields: Any) -> dict[str, Any]:
    ips = {"private_ipv4": {"address": f"172.27.0.{number}"}, "public_ipv4": {"address": f"203.0.113.{number}"}}
    named = {"id": f"id-{number}", "name": f"node-{number}", "type": "h100-80gb-sxm-ib.8x", "state": "STATE_RUNNING"}
    return {**named, "network_interfaces": [{"ips": [ips]}], **fields}


def machines(data: Any, folder: Path) -> list[Any]:
    printing = [sys.executable, "-c", f"print({json.dumps(data)!r})"]
    return listed(printing, "crusoe", folder)


def test_vms_that_run(tmp_path: Path) -> None:
    """Public and private address; a VM without a public one is reached at the private one, by a jump host."""
    inside = vm(2)
    inside["network_interfaces"][0]["ips"][0]["public_ipv4"] = None
    assert machines([vm(1), inside, vm(3, state="STATE_SHUTOFF")], tmp_path) == [
        {"address": "203.0.113.1", "inside": "172.27.0.1"},
        {"address": "172.27.0.2", "inside": "172.27.0.2"},
    ]


@pytest.mark.parametrize("wrong", [vm(1, network_interfaces=[]), vm(1, network_interfaces=None), {"name": "node-1"}])
def test_a_vm_without_an_address(wrong: dict[str, Any], tmp_path: Path) -> None:
    """The error names the VM and the field."""
    with pytest.raises(ListError) as caught:
        machines([wrong], tmp_path)
    said = "VM 'node-1' has no network_interfaces[0].ips[0].private_ipv4.address"
    assert str(caught.value) == f"it printed no list of machines of crusoe: {said}"


def test_an_array_of_something_else(tmp_path: Path) -> None:
    """Whatever else is in it is no VM."""
    with pytest.raises(ListError, match="VM None has no network_interfaces"):
        machines([3], tmp_path)
