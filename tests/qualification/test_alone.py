"""Differences between a node and its peers are its own fault, with numbers in the text."""

from __future__ import annotations

import dataclasses

import pytest
from stampworks.qualification import Ask, Heard, Result
from stampworks.qualification.alone import _differing, _limits, _packets
from stampworks.qualification.hardware import complaints
from stampworks.qualification.results import MeasuredValue, Text

from tests.qualification.conftest import SimulatedCluster, subject
from tests.qualification.faulty import NoisyCluster

PCIE = "accelerator_pcie"
NAMES = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")


def number(quantity: str, value: float, node: str, **more: str) -> MeasuredValue:
    where = {"peer": "", "rail": "", "device": "", **more}
    return MeasuredValue(
        quantity, "", node, where["peer"], where["rail"], where["device"], 0, value, value, value, 1, False, ""
    )


def answer(workload: str, values: list[MeasuredValue], texts: tuple[Text, ...] = (), rank: int = 0) -> Result:
    return Result(1, workload, rank, 4, NAMES, "", 1.0, "", "cpu", tuple(values), texts, ())


CASES = [
    ("limits", "memlock", 65536, "lockable memory: 65536, where its peers have 8388608"),
    ("limits", "open_files", 256, "open files: 256, where its peers have 20000"),
    ("limits", "directory_size", 64 << 20, "/dev/shm has 64 MiB, where its peers have 1024"),
    ("limits", "directory_free", 1 << 20, "/dev/shm has 0.1 % free"),
    ("inventory", "accelerators", 7, "7 of 8 accelerators"),
    ("inventory", "accelerator_ecc_uncorrected", 2, "accelerator 3 has 2 uncorrected memory errors"),
    ("clocks", "clock_offset", 600_000, "its clock is +600 s off those of its peers"),
    ("storage", "storage_write", 20, "/shared takes 20 MB/s, where that of gpu-002 takes 300"),
    ("matmul", "matmul_mismatches", 1, "1 products , of the same matrices, came out different"),
    ("matmul", "matmul_fp32", 75, "it multiplies at 75% of the rate of gpu-002 beside it"),
]


@pytest.mark.parametrize(("check", "quantity", "value", "why"), CASES, ids=[case[1] for case in CASES])
def test_one_that_differs(check: str, quantity: str, value: float, why: str) -> None:
    """The node fails for this reason, and no other does."""
    cluster = SimulatedCluster(subject(4), says={("gpu-003", quantity): value})
    failed = [each for each in cluster.prove() if each.verdict != "pass"]
    assert [(each.check, each.nodes, each.why) for each in failed] == [(check, ("gpu-003",), why)]


def test_a_disk_that_was_slow_once_is_no_fault() -> None:
    """This holds for any duration: the disk waited for others once."""

    class Once(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            self.says = {("gpu-003", "storage_write"): 20.0} if len(asked.nodes) > 2 else {}
            return super().answers(program, asked)

    cluster = Once(subject(4))
    assert {each.verdict for each in cluster.prove()} == {"pass"}
    assert [asked.nodes for asked in cluster.asked if asked.programs == ("storage",)] == [("gpu-003", "gpu-002")]


def test_a_node_that_failed_is_asked_nothing_more() -> None:
    """A known failure needs no further measurement."""
    cluster = SimulatedCluster(subject(4), says={("gpu-003", "memlock"): 1})
    cluster.prove()
    assert ["gpu-003" in asked.nodes for asked in cluster.asked] == [True] + [False] * (len(cluster.asked) - 1)


def test_the_quick_level_starts_once() -> None:
    """A prolog has time for a single start."""
    cluster = SimulatedCluster(subject(4))
    assert {each.verdict for each in cluster.prove("quick")} == {"pass"}
    assert [asked.programs for asked in cluster.asked] == [("limits", "inventory")]


def test_a_limit_among_peers_without_one() -> None:
    """A small limit is wrong, even if all other nodes have none."""
    texts = tuple(Text("memlock", name, "limit", "unlimited") for name in ("gpu-001", "gpu-002"))
    heard = Heard((answer("limits", [number("memlock", 65536, "gpu-003")], texts),), ())
    assert [*_limits(subject(4), heard)] == [("gpu-003", "lockable memory: 65536, where its peers have no limit")]


@pytest.mark.parametrize(
    ("kind", "rails", "few"), [("efa", 2, True), ("infiniband", 2, True), ("tcp", 2, False), ("efa", 0, False)]
)
def test_memory_that_no_peer_may_lock_either(kind: str, rails: int, few: bool) -> None:
    """RDMA's need does not follow from peers; a node without such a fabric needs nothing."""
    memory, limits = 1 << 40, {"gpu-001": 8 << 20, "gpu-002": 8 << 20, "gpu-003": 1 << 62}
    values = [number("memory", memory, name) for name in NAMES]
    values += [number("memlock", limit, name) for name, limit in limits.items()]
    heard = Heard((answer("limits", values, (Text("memlock", "gpu-004", "limit", "unlimited"),)),), ())
    plain = subject(4)
    pools = tuple(dataclasses.replace(pool, rails=rails) for pool in plain.pools)
    asked = dataclasses.replace(plain, pools=pools, fabric=dataclasses.replace(plain.fabric, kind=kind))
    why = "lockable memory: 8388608, where RDMA may want all of 1099511627776"
    assert [each for each in _limits(asked, heard) if "RDMA" in each[1]] == [
        (name, why) for name in ("gpu-001", "gpu-002") if few
    ]


def test_huge_pages_where_none_are_set_aside() -> None:
    """The check applies to nodes with our EFA; elsewhere the image's author decides."""
    heard = Heard((answer("limits", [number("hugepages", 0, "gpu-001"), number("hugepages", 5128, "gpu-002")]),), ())
    plain = subject(4)
    assert [*_limits(plain, heard)] == []
    pools = tuple(dataclasses.replace(pool, hardware=("efa",)) for pool in plain.pools)
    why = "5128 huge pages are reserved, which jobs lack: with EFA none should be"
    assert [*_limits(dataclasses.replace(plain, pools=pools), heard)] == [("gpu-002", why)]


def test_versions_that_differ_or_lack() -> None:
    """A differing version is named, as is a missing version that most nodes have; without a majority, no node is."""
    texts = [Text("library_version", f"gpu-00{n}", "torch", "2.6" if n < 4 else "2.5") for n in range(1, 5)]
    heard = Heard(tuple(answer("inventory", [], (text,), rank) for rank, text in enumerate(texts)), ())
    assert [*_differing(heard)] == [("gpu-004", "torch is 2.5, where its peers have 2.6")]
    silent = Heard(tuple(answer("inventory", [], (text,) * (rank < 3), rank) for rank, text in enumerate(texts)), ())
    assert [*_differing(silent)] == [("gpu-004", "torch is missing, which its peers have")]
    halves = Heard(tuple(answer("inventory", [], (text,), rank) for rank, text in enumerate(texts[2:], 2)), ())
    [(nobody, why)] = _differing(halves)
    assert (nobody, why) == ("", "torch differs, and no version of it has a majority: gpu-003 2.6, gpu-004 2.5")


def test_a_product_that_is_always_wrong() -> None:
    """The result is stable, and differs from the peers'."""
    cluster = SimulatedCluster(subject(4), texts={("gpu-002", "matmul_digest"): "cd"})
    [failed] = [each for each in cluster.prove() if each.verdict != "pass"]
    assert (failed.nodes, failed.why) == (
        ("gpu-002",),
        "its product of the same matrices differs from that of its peers",
    )


def test_a_torn_checkpoint_is_its_writers_fault() -> None:
    """The writer is blamed for any reader; without shared storage there is no such check."""
    shared = [{"name": "shared", "kind": "directory", "mount": "/shared"}]
    why = "part 1 of gpu-003 is not what it wrote and synced: 9 of 10 bytes are there"
    cluster = NoisyCluster(subject(4, storage=shared), misses={("gpu-003", "checkpoint"): why})
    [failed] = [each for each in cluster.prove() if each.verdict != "pass"]
    assert (failed.check, failed.nodes, failed.why) == ("checkpoint", ("gpu-003",), why)
    alone = NoisyCluster(subject(4))
    assert "checkpoint" not in {each.check for each in alone.prove()}


def test_packets_that_do_not_fit() -> None:
    """A smaller MTU is its node's fault; lost packets blame no node."""
    narrow = Heard((answer("limits", [number("mtu", 1400, "gpu-002", rail="rail1")]),), ())
    assert [*_packets(subject(4), narrow)] == [("gpu-002", "rail1 takes packets of 1400 bytes, not 1500")]
    lost = Heard((answer("limits", [number("path_mtu", 576, "gpu-001", rail="rail0", peer="gpu-002")]),), ())
    assert [*_packets(subject(4), lost)] == [("", "rail0 from gpu-001 to gpu-002: no packet above 576 bytes arrives")]


@pytest.mark.parametrize(
    ("values", "texts", "why"),
    [
        ([], [("xid", "0000:01", "79")], ["Xid 79 of 0000:01: it fell off the bus: reboot"]),
        ([], [("xid", "0000:01", "31")], []),
        ([], [("throttle", "accelerator 3", "0x0000000000000040")], ["accelerator 3 is too hot"]),
        ([], [("throttle", "accelerator 3", "0x0000000000000001")], []),
        (
            [("accelerator_pcie_width", 8), ("accelerator_pcie_width_max", 16)],
            [],
            ["accelerator 3 has 8 of 16 PCIe lanes"],
        ),
        ([("accelerator_pcie_generation", 1), ("accelerator_pcie_generation_max", 5)], [], []),
    ],
)
def test_complaints_of_accelerators(
    values: list[tuple[str, float]], texts: list[tuple[str, str, str]], why: list[str]
) -> None:
    """Faults of hardware differ from faults of programs, and an idle link from a narrow one."""
    said = tuple(Text(quantity, "gpu-001", name, text) for quantity, name, text in texts)
    result = answer("inventory", [number(quantity, value, "gpu-001", device="3") for quantity, value in values], said)
    assert [*complaints(result)] == why


@pytest.mark.parametrize("check", ["limits", "inventory", "storage", "matmul", "clocks"])
def test_saying_nothing_is_not_passing(check: str) -> None:
    """An answer to another question does not count."""

    class Silent(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            found = super().answers(program, asked)
            nothing = (Text("remark", "gpu-003", "it", "is fine"),)
            spoils = [program == check and each.node == "gpu-003" for each in found]
            return [
                dataclasses.replace(each, values=(), texts=nothing) if spoil else each
                for each, spoil in zip(found, spoils, strict=True)
            ]

    found = [each for each in Silent(subject(4)).prove() if each.verdict != "pass"]
    assert (check, ("gpu-003",)) in [(each.check, each.nodes) for each in found]
