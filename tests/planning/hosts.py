"""Answers of machines as rules take them, of a lab and of a rack of DGX H100."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stampworks.declaration import Lock, LockedHost, LockedRail, load_value
from stampworks.plan import Plan
from stampworks.plan.host_facts import (
    SURVEY_VERSION,
    HostFacts,
    HostsSurvey,
    HostSurvey,
    MountFacts,
    NetworkInterface,
    PciDevice,
    RdmaPort,
)
from stampworks.planning import Facts, Finding, plan, rules

DAY = "2026-11-29"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
PREFIX, OTHER_PREFIX = "fe80:0000:0000:0000", "fe80:0000:0000:00aa"


def port(index: int, **fields: Any) -> RdmaPort:
    """Return a port of a ConnectX-7, active on InfiniBand NDR."""
    made = RdmaPort(
        device=f"mlx5_{index}",
        number=1,
        state="ACTIVE",
        rate_gbps=400.0,
        link_layer="InfiniBand",
        subnet_manager=1,
        gid=f"{PREFIX}:248a:0703:00b3:{index:04x}",
        pci=f"0000:{16 * index + 24:02x}:00.0",
        interface=f"ib{index}",
        partition_keys=("0x7fff", "0x8001"),
    )
    return replace(made, **fields)


def survey(number: int, **fields: Any) -> HostSurvey:
    """Return the answer of a DGX H100 in order, the n-th of a rack."""
    made = HostSurvey(
        os="debian",
        suite="trixie",
        os_name="Debian GNU/Linux 13 (trixie)",
        kernel="6.12.57+deb13-amd64",
        architecture="x86_64",
        machine_id=f"{number:032x}",
        boot_id=f"{number:08x}",
        python3="/usr/bin/python3",
        user="root",
        root=True,
        container=(),
        sockets=2,
        cores=112,
        threads=224,
        memory_mib=2063876,
        accelerators=tuple(PciDevice(f"0000:{index:02x}:00.0", "10de:2330", "0x030200") for index in range(8)),
        drivers=("nvidia 580.126.09",),
        ports=tuple(map(port, range(8))),
        interfaces=(
            NetworkInterface("eno1", 1500, True, 10000, "0000:01:00.0", (f"10.0.0.{number}/24",)),
            *(NetworkInterface(f"ib{index}", 2044, True, 0, "", ()) for index in range(8)),
        ),
        disks=(),
        mounts=(MountFacts("/", "ext4", "/dev/nvme0n1p2", "259:2", "/"),),
        shared=(),
        mark="",
        runs=(),
        neighbour=f"10.0.0.{number % 4 + 1}",
        neighbour_reached="yes",
        clock_ahead_s_min=-0.2,
        clock_ahead_s_max=0.2,
    )
    return replace(made, **fields)


def rack(machine: str = "dgx-h100", count: int = 3, **fields: Any) -> Plan:
    """Return the plan of a head and further machines, 10.0.0.1 to 10.0.0.4, of which three are nodes."""
    declared = {
        "version": 1,
        "name": "rack",
        "cloud": "hosts",
        "pools": [{"name": "gpu", "machine": machine, "count": count}],
        "hosts": {
            "machines": [
                {"address": "10.0.0.1", "group": "head"},
                *({"address": f"10.0.0.{number}", "group": "gpu"} for number in (2, 3, 4)),
            ]
        },
        **fields,
    }
    return plan(load_value(declared, "test", lock=Lock(hosts=tuple(map(locked, (1, 2, 3, 4))))))


def locked(number: int) -> LockedHost:
    rails = tuple(LockedRail(f"ib{index}", "") for index in range(8)) if number > 1 else ()
    group = "gpu" if number > 1 else "head"
    return LockedHost(f"10.0.0.{number}", 22, "", f"{KEY}{number}", f"{number:032x}", group, "", rails)


def facts(surveys: dict[int, HostSurvey | HostFacts] | None = None) -> Facts:
    """Return the answers of the rack: those given, all others in order."""
    answers = [(surveys or {}).get(number, survey(number)) for number in (1, 2, 3, 4)]
    hosts = [
        each if isinstance(each, HostFacts) else HostFacts(f"10.0.0.{n}", 22, f"{KEY}{n}", "yes", "", each)
        for n, each in enumerate(answers, 1)
    ]
    return Facts(hosts=HostsSurvey(SURVEY_VERSION, "rack", f"{DAY}T10:00Z", tuple(hosts)))


def judged(planned: Plan, known: Facts | None, as_of: str = DAY) -> list[Finding]:
    """Return the findings of rules about hosts."""
    return [each for each in rules(planned, known, as_of) if each.id.startswith("hosts.")]


def wrong(planned: Plan, known: Facts, as_of: str = DAY) -> list[tuple[str, str, str]]:
    """Return id, outcome and text of each finding that is no pass."""
    return [(each.id, each.outcome, each.text) for each in judged(planned, known, as_of) if each.outcome != "pass"]
