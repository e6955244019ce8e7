"""Findings about machines that exist, from the answers that they gave."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from stampworks.plan import Scratch, from_dict, from_json, to_dict, to_json
from stampworks.plan.host_facts import (
    Content,
    DiskFacts,
    HostFacts,
    HostsSurvey,
    HostSurvey,
    MountFacts,
    NetworkInterface,
    PciDevice,
    SharedPath,
)
from stampworks.planning import Facts

from tests.planning.hosts import KEY, OTHER_PREFIX, facts, judged, rack, survey, wrong

GPUS = survey(2).accelerators
PORTS = survey(2).ports


def changed(index: int, **fields: Any) -> dict[str, Any]:
    """Return the ports of a machine with one that differs."""
    return {"ports": tuple(replace(each, **fields) if n == index else each for n, each in enumerate(PORTS))}


def test_a_rack_in_order() -> None:
    """Each rule says so, in the order of the registry."""
    assert [(each.id, each.verdict, each.text) for each in judged(rack(), facts())] == [
        ("hosts.asked", "pass", "4 machines, as they were on 2026-11-29"),
        ("hosts.reached", "pass", "4 machines answer"),
        ("hosts.identity", "pass", "no machine is there twice"),
        ("hosts.container", "pass", "all machines have a kernel of their own"),
        ("hosts.sudo", "pass", "ssh leads to root on all machines"),
        ("hosts.system", "pass", "all machines run trixie and have python3"),
        ("hosts.claimed", "pass", "no machine belongs to another cluster"),
        ("hosts.machine", "pass", "all machines are as declared"),
        ("hosts.kinds", "pass", "the 3 machines of gpu are of one kind"),
        ("hosts.ports", "pass", "24 ports of the fabric are up"),
        ("hosts.fabric", "pass", "the machines are on one fabric"),
        ("hosts.inside", "pass", "each machine reaches the next one inside"),
        ("hosts.mtu", "pass", "ports that meet have one MTU"),
        ("hosts.clock", "pass", "all clocks are right to a second"),
    ]


def test_machines_that_were_not_asked() -> None:
    """Nothing passes without an answer: never asked, too long ago, for another cluster, or without one machine."""
    never = "the state of 4 machines is unknown: they were never asked"
    assert [(each.id, each.verdict, each.text) for each in judged(rack(), None)] == [("hosts.asked", "unknown", never)]
    late = "the survey was made on 2026-11-29, 8 days ago, and is out of date after 7"
    [one] = judged(rack(), facts(), "2026-12-07")
    assert (one.verdict, one.text) == ("unknown", f"the state of 4 machines is unknown: {late}")
    [one] = judged(rack(name="other"), facts())
    assert one.text == "the state of 4 machines is unknown: those of cluster rack were asked"
    known = facts().hosts
    assert known
    some = Facts(hosts=replace(known, hosts=known.hosts[:3]))
    assert wrong(rack(), some)[0] == ("hosts.asked", "unknown", "10.0.0.4: not asked yet")


@pytest.mark.parametrize(
    ("reached", "count", "outcome", "text"),
    [
        ("silent", 2, "warn", "10.0.0.4: no answer: Connection refused"),
        ("silent", 3, "fail", "10.0.0.4: no answer: Connection refused"),
        ("refused", 3, "fail", "10.0.0.4: the login as root was refused: Connection refused"),
        ("impostor", 2, "fail", "10.0.0.4: it showed another host key than the lock has, and was not asked"),
        ("unreadable", 3, "fail", "10.0.0.4: no survey: Connection refused"),
    ],
)
def test_machines_that_did_not_answer(reached: Any, count: int, outcome: str, text: str) -> None:
    """One of the reserve is a warning, but for one that may be an impostor."""
    why = "" if reached == "impostor" else "Connection refused"
    silent = HostFacts("10.0.0.4", 22, f"{KEY}4", reached, why, None)
    assert wrong(rack(count=count), facts({4: silent})) == [("hosts.reached", outcome, text)]


SYSTEM = "it runs Debian GNU/Linux 12 (bookworm), and release 2026.12 is for trixie"
IDS = f"{3:032x}"


@pytest.mark.parametrize(
    ("fields", "id_", "outcome", "text"),
    [
        (
            {"machine_id": IDS},
            "hosts.identity",
            "fail",
            f"10.0.0.[2-3]: they have one machine id, {IDS}: they are one machine, or copies of one disk",
        ),
        (
            {"machine_id": "f" * 32},
            "hosts.identity",
            "fail",
            f"10.0.0.2: its machine id is {'f' * 32}, and the lock has {2:032x}",
        ),
        (
            {"machine_id": ""},
            "hosts.identity",
            "warn",
            "10.0.0.2: it has no machine id, so that another machine in its place is not noticed",
        ),
        (
            {"container": ("/.dockerenv exists",)},
            "hosts.container",
            "fail",
            "10.0.0.2: it is a container and not a machine (/.dockerenv exists): it has no kernel, sysctls and ports "
            "of its own",
        ),
        (
            {"user": "ubuntu", "root": False},
            "hosts.sudo",
            "fail",
            "10.0.0.2: ubuntu is not root there, and has no sudo without a password",
        ),
        (
            {"suite": "bookworm", "os_name": "Debian GNU/Linux 12 (bookworm)"},
            "hosts.system",
            "fail",
            f"10.0.0.2: {SYSTEM}",
        ),
        ({"python3": ""}, "hosts.system", "fail", "10.0.0.2: it has no python3, which Ansible needs"),
        ({"mark": '{"cluster": "prod"}'}, "hosts.claimed", "fail", "10.0.0.2: it is marked for cluster prod"),
        (
            {"mark": "[" * 3000},
            "hosts.claimed",
            "fail",
            "10.0.0.2: its mark of a cluster in /etc/stampworks/cluster cannot be read",
        ),
        (
            {"runs": ("kubelet", "slurmd")},
            "hosts.claimed",
            "fail",
            "10.0.0.2: kubelet and slurmd run there, and the machine is not marked for rack",
        ),
        (
            {"clock_ahead_s_min": 4.2, "clock_ahead_s_max": 4.9},
            "hosts.clock",
            "warn",
            "10.0.0.2: its clock is at least 4.2 s ahead of the clock here",
        ),
        (
            {"neighbour_reached": "no"},
            "hosts.inside",
            "fail",
            "10.0.0.2: it does not reach 10.0.0.3 of 10.0.0.3 by TCP",
        ),
        (
            {"neighbour_reached": "unknown"},
            "hosts.inside",
            "unknown",
            "10.0.0.2: whether it reaches 10.0.0.3 of 10.0.0.3: it has none of bash, python3 and nc",
        ),
        (changed(3, state="DOWN"), "hosts.ports", "fail", "10.0.0.2: mlx5_3/1 is DOWN, not ACTIVE"),
        (
            changed(3, gid=f"{OTHER_PREFIX}:248a:0703:00b3:0003"),
            "hosts.fabric",
            "fail",
            f"rail 3 is on 2 InfiniBand fabrics, by subnet prefix: {OTHER_PREFIX} on 10.0.0.2; "
            "fe80:0000:0000:0000 on 10.0.0.[3-4]",
        ),
        (
            changed(0, partition_keys=("0x7fff", "0x8002")),
            "hosts.fabric",
            "fail",
            "rail 0 is in 2 partitions, by P_Key: 0x8002 on 10.0.0.2; 0x8001 on 10.0.0.[3-4]",
        ),
        (
            changed(0, link_layer="Ethernet"),
            "hosts.fabric",
            "fail",
            "rail 0 has ports of two kinds: Ethernet on 10.0.0.2; InfiniBand on 10.0.0.[3-4]",
        ),
    ],
)
def test_one_machine_that_differs(fields: dict[str, Any], id_: str, outcome: str, text: str) -> None:
    """The finding names the machine, its value and what was expected."""
    found = wrong(rack(), facts({2: survey(2, **fields)}))
    assert found[0] == (id_, outcome, text)
    assert {id_ for id_, _, _ in found} == {id_}


def test_limited_members_of_a_partition() -> None:
    """The highest bit of a P_Key says how far a port is a member, and names no other partition."""
    limited = tuple(replace(each, partition_keys=("0x7fff", "0x0001")) for each in PORTS)
    assert wrong(rack(), facts({2: survey(2, ports=limited)})) == []


def test_copies_of_one_disk() -> None:
    """Machines with one host key are named together."""
    planned = rack()
    assert planned.hosts
    first, second, third, *rest = planned.hosts.machines
    copies = replace(
        planned, hosts=replace(planned.hosts, machines=(first, second, replace(third, host_key=f"{KEY}2")))
    )
    text = "10.0.0.[2-3]: they have one host key: they are one machine, or copies of one disk"
    assert ("hosts.identity", "fail", text) in wrong(copies, facts())
    assert rest


def test_one_node_may_be_a_container() -> None:
    """A cluster of one node has no fabric between nodes; simulated machines are none anyway."""
    container = {number: survey(number, container=("/.dockerenv exists",)) for number in (1, 2, 3, 4)}
    assert wrong(rack(count=1), facts({**container})) == []
    text = wrong(rack(), facts({**container}))[0][2]
    assert text.startswith("10.0.0.[1-4]: it is a container and not a machine")


A100 = tuple(PciDevice(each.address, "10de:20b2", each.kind) for each in GPUS)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"accelerators": GPUS[:7]}, "it has 7 x h100, and dgx-h100 has 8 x h100"),
        ({"accelerators": A100}, "it has 8 x a100-80gb, and dgx-h100 has 8 x h100"),
        ({"accelerators": ()}, "it has no accelerators, and dgx-h100 has 8 x h100"),
        (
            {"accelerators": tuple(replace(each, id="10de:ffff") for each in GPUS)},
            "it has 8 x PCI 10de:ffff, and dgx-h100 has 8 x h100",
        ),
        ({"memory_mib": 1031938}, "it has 1007 GiB of memory, and dgx-h100 has 2048 GiB"),
        (
            {"ports": tuple(replace(each, rate_gbps=200.0) for each in PORTS)},
            "it has 0 RDMA ports of 400 Gb/s, and dgx-h100 has 8",
        ),
    ],
)
def test_another_machine_than_declared(fields: dict[str, Any], text: str) -> None:
    """All machines are so: of one kind, but not of the declared one."""
    every = {number: survey(number, **fields) for number in (1, 2, 3, 4)}
    assert wrong(rack(), facts({**every}))[0] == ("hosts.machine", "fail", f"10.0.0.[2-4]: {text}")


def test_two_kinds_in_a_pool() -> None:
    """Machines of a pool are compared with each other, too; the memory of one kind differs a little."""
    assert wrong(rack(), facts({2: survey(2, memory_mib=2050000)})) == []
    found = wrong(rack(), facts({4: survey(4, cores=96)}))
    dgx = "8 x h100, {} cores, 2015 GiB, 8 RDMA ports"
    text = f"gpu has machines of 2 kinds: 10.0.0.[2-3]: {dgx.format(112)}; 10.0.0.4: {dgx.format(96)}"
    assert found == [("hosts.kinds", "fail", text)]


def test_ports_that_are_gone() -> None:
    """A port of the lock that the machine no longer has, and one that no subnet manager has configured."""
    [one] = [
        each for each in judged(rack(), facts({2: survey(2, **changed(0, state="INIT"))})) if each.verdict == "fail"
    ]
    assert one.text == "10.0.0.2: mlx5_0/1 is INIT, not ACTIVE"
    assert one.hint == "no subnet manager has configured it: see opensm, or ask the owner of the fabric"
    gone = survey(2, ports=PORTS[1:], interfaces=survey(2).interfaces[:1])
    assert ("hosts.ports", "fail", "10.0.0.2: ib0 of the lock is not there") in wrong(rack(), facts({2: gone}))


def test_different_mtus() -> None:
    """Packets of the larger MTU are lost: between inside addresses, and on a rail."""
    eno1, ib0, *others = survey(2).interfaces
    small = survey(2, interfaces=(replace(eno1, mtu=9000), replace(ib0, mtu=4092), *others))
    assert wrong(rack(), facts({2: small})) == [
        (
            "hosts.mtu",
            "warn",
            "MTU of the inside addresses: 1500 on 10.0.0.[1,3-4]; 9000 on 10.0.0.2: packets of the larger one are lost",
        ),
        (
            "hosts.mtu",
            "warn",
            "MTU of rail 0: 4092 on 10.0.0.2; 2044 on 10.0.0.[3-4]: packets of the larger one are lost",
        ),
    ]


def test_disks_for_scratch() -> None:
    """Data of others is named; our own array is none."""
    planned = rack()
    groups = tuple(
        replace(each, scratch=Scratch("/scratch", "NVMe 3840", 2)) if each.name == "gpu" else each
        for each in planned.groups
    )
    planned = replace(planned, groups=groups)
    ours = Content("nvme1n1", "linux_raid_member", "any:stampworks-scratch")
    held = Content("nvme1n1", "part of md127", "")
    theirs = Content("nvme2n1p1", "xfs", "results")
    disks = (DiskFacts("nvme1n1", 3840, "NVMe 3840", (ours, held)), DiskFacts("nvme2n1", 3840, "NVMe 3840", (theirs,)))
    system = DiskFacts("nvme0n1", 1920, "another model", (Content("nvme0n1p2", "ext4", ""),))
    assert wrong(planned, facts({3: survey(3, disks=(system, disks[0]))})) == []
    text = "10.0.0.3: nvme2n1p1 would become /scratch, and holds xfs called results"
    assert wrong(planned, facts({3: survey(3, disks=(system, *disks))})) == [("hosts.disks", "fail", text)]


STORAGE = [{"name": "data", "kind": "directory", "mount": "/data", "existing": "/mnt/data"}]


def test_shared_directories() -> None:
    """One server's export is one file system; disks of two machines are not, whatever they are called."""

    def all_with(mount: MountFacts, state: Any = "yes", **own: HostSurvey) -> Facts:
        shared = (SharedPath("/mnt/data", state),)
        root = MountFacts("/", "ext4", "/dev/sda1", "8:1", "/")
        return facts({n: own.get(f"h{n}") or survey(n, mounts=(root, mount), shared=shared) for n in (1, 2, 3, 4)})

    planned = rack(storage=STORAGE)
    nfs = MountFacts("/mnt/data", "nfs4", "filer:/data", "0:50", "/")
    [one] = [each for each in judged(planned, all_with(nfs)) if each.id == "hosts.storage"]
    assert (one.verdict, one.text) == ("pass", "/mnt/data is nfs4 filer:/data on all machines")
    other = replace(nfs, source="filer:/old")
    found = wrong(planned, all_with(nfs, h4=survey(4, mounts=(other,), shared=(SharedPath("/mnt/data", "yes"),))))
    sides = "nfs4 filer:/data on 10.0.0.[1-3]; nfs4 filer:/old on 10.0.0.4"
    assert found == [("hosts.storage", "fail", f"/mnt/data is 2 file systems: {sides}")]
    disk = MountFacts("/mnt/data", "xfs", "/dev/sdb1", "8:17", "/")
    [(_, _, text)] = wrong(planned, all_with(disk))
    assert text.startswith("/mnt/data is 4 file systems: xfs /dev/sdb1 (8:17 /) of kernel 00000001 on 10.0.0.1; ")
    assert wrong(planned, all_with(nfs, "hangs"))[0][2] == (
        "10.0.0.[1-4]: /mnt/data does not answer: its server is away"
    )
    assert wrong(planned, all_with(nfs, "no"))[0][2] == "10.0.0.[1-4]: /mnt/data is not a directory there"
    text = wrong(planned, facts())[0][2]
    assert text == "10.0.0.[1-4]: whether /mnt/data is there was not asked"


def test_answers_are_json_both_ways() -> None:
    """A file holds all of it, and a file with more or less is refused."""
    known = facts().hosts
    assert known
    assert from_json(HostsSurvey, to_json(known)) == known
    data = json.loads(to_json(known))
    del data["hosts"][0]["survey"]["ports"]
    with pytest.raises(ValueError, match="ports"):
        from_dict(HostsSurvey, data)
    assert isinstance(to_dict(NetworkInterface("a", 1, True, 1, "", ()))["addresses"], tuple)
