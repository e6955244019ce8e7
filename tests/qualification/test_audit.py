"""Thresholds of real health checks, and faults of some."""

from __future__ import annotations

from collections import Counter
from math import nextafter

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.qualification import Judgement, Threshold, audit
from stampworks.qualification.thresholds import NODES_MAX, QUANTITIES, SIZE_BYTES_MAX, UNITS, VALUE_MAX

from tests.qualification.labelled import labelled, modelled

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

GIB, MIB = 1 << 30, 1 << 20


def judged(machine: str, nodes: int, quantity: str, size_bytes: int, unit: str, value: float) -> Judgement:
    return audit(Threshold(2, machine, nodes, quantity, size_bytes, unit, value))


@pytest.mark.parametrize(
    ("machine", "nodes", "quantity", "size_bytes", "unit", "value"),
    [
        # Oracle: all-reduce in one node and between two, ib_write_bw of each device, copies
        ("BM.GPU4.8", 1, "all_reduce_busbw", 10 * GIB, "GB/s", 185),
        ("B4.8", 2, "all_reduce_busbw", 10 * GIB, "GB/s", 185),
        ("A100-v2.8", 16, "all_reduce_busbw", 10 * GIB, "GB/s", 185),
        ("H100.8", 1, "all_reduce_busbw", 16 * GIB, "GB/s", 440),
        ("BM.GPU.H100.8", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 440),
        ("H200.8", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 440),
        ("BM.GPU.B200.8", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 440),
        ("B300.8", 1, "all_reduce_busbw", 16 * GIB, "GB/s", 800),
        ("BM.GPU.B300.8", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 700),
        ("GB300.4", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 440),
        ("GB200-v3.4", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 300),
        ("BM.GPU4.8", 2, "nic_bandwidth", 0, "Gb/s", 96),
        ("BM.GPU.H100.8", 2, "nic_bandwidth", 0, "Gb/s", 192),
        ("H200.8", 2, "nic_bandwidth", 0, "Gb/s", 384),
        ("B200.8", 2, "nic_bandwidth", 0, "Gb/s", 384),
        ("B300.8", 2, "nic_bandwidth", 0, "Gb/s", 375),
        ("GB200.4", 2, "nic_bandwidth", 0, "Gb/s", 384),
        ("BM.GPU.H100.8", 1, "h2d_bandwidth", 0, "GB/s", 52),
        # Azure
        ("ND96isr_H100_v5", 1, "all_reduce_busbw", 16 * GIB, "GB/s", 460),
        ("ND96isr_H100_v5", 1, "h2d_bandwidth", 0, "GB/s", 48),
        ("ND96isr_H100_v5", 1, "nic_bandwidth", 0, "Gb/s", 380),
        ("ND96isr_H100_v5", 8, "all_reduce_busbw", 16 * GIB, "GB/s", 400),
        ("ND96isr_H100_v5", 8, "all_reduce_busbw", 16 * GIB, "GB/s", 300),
        ("ND96isr_H100_v5", 1, "matmul_bf16", 0, "TFLOP/s", 742),
        ("ND128isr_GB300_v6", 18, "all_reduce_busbw", 16 * GIB, "GB/s", 800),
        ("ND128isr_GB300_v6", 18, "all_reduce_busbw", 16 * GIB, "GB/s", 600),
        ("ND128isr_GB300_v6", 1, "matmul_bf16", 0, "TFLOP/s", 1720),
        # AWS
        ("p4d.24xlarge", 1, "all_reduce_busbw", 128 * MIB, "GB/s", 200),
        ("p6-b200", 1, "all_reduce_busbw", 128 * MIB, "GB/s", 600),
        # near the measurements of healthy machines
        ("p5", 16, "all_reduce_busbw", 16 * GIB, "GB/s", 350),
        ("p5", 2, "all_reduce_busbw", 16 * MIB, "GB/s", 50),
        ("p6-b200", 4, "all_reduce_busbw", 16 * MIB, "GB/s", 50),
        ("p6-b200", 4, "all_reduce_busbw", 0, "GB/s", 360),
        ("p5en", 1, "memory_bandwidth", 0, "GB/s", 4000),
        ("p5", 1, "memory_bandwidth", 0, "GB/s", 2800),
        ("p5en", 1, "matmul_bf16", 0, "TFLOP/s", 700),
        ("p5", 16, "alltoall_busbw", GIB, "GB/s", 30),
        ("p5", 2, "all_gather_busbw", GIB, "GB/s", 300),
        ("p5", 2, "reduce_scatter_busbw", GIB, "GB/s", 300),
        ("p5en", 1, "storage_read", 0, "GB/s", 90),
        ("p5en", 8, "storage_write", 0, "GB/s", 200),
        ("p5", 1, "nic_bandwidth", 0, "Gb/s", 3000),
        ("p5", 1, "nic_bandwidth", 0, "GB/s", 380),
        ("BM.GPU.B300.8", 1, "nic_bandwidth", 0, "GB/s", 760),
    ],
)
def test_published_thresholds(
    machine: str, nodes: int, quantity: str, size_bytes: int, unit: str, value: float
) -> None:
    """Floors of vendors' own health checks, and such as healthy machines were measured to reach."""
    judgement = judged(machine, nodes, quantity, size_bytes, unit, value)
    assert judgement.verdict == "ok", judgement.reason


@pytest.mark.parametrize(
    ("machine", "nodes", "quantity", "size_bytes", "unit", "value", "said"),
    [
        # above physics
        (
            "p4d",
            2,
            "all_reduce_busbw",
            128 * MIB,
            "GB/s",
            300,
            "no healthy machine passes: 300 GB/s is 343% of what 16 ",
        ),
        ("p5", 2, "all_reduce_busbw", 128 * MIB, "GB/s", 800, "no healthy machine passes"),
        ("p5", 1, "all_reduce_busbw", 0, "GB/s", 500, "x 1.1, a percent more than was ever published"),
        ("p6-b200", 2, "all_reduce_busbw", 0, "GB/s", 900, "between 2 nodes 0.06667 of busbw crosses them: x 15/1"),
        (
            "H100.8",
            16,
            "all_reduce_busbw",
            16 * GIB,
            "GB/s",
            440,
            "between 16 nodes 0.1181 of busbw crosses them: x 127/15, nothing is added up on the way); perhaps it is "
            "that of one node",
        ),
        (
            "B200.8",
            16,
            "all_reduce_busbw",
            16 * GIB,
            "GB/s",
            440,
            "no healthy machine passes: 440 GB/s is 106% of what",
        ),
        (
            "p5",
            2,
            "all_reduce_busbw",
            8192,
            "GB/s",
            400,
            "takes 13.35 us or more); perhaps it is that of a large payload",
        ),
        (
            "p5",
            16,
            "all_reduce_busbw",
            16 * MIB,
            "GB/s",
            300,
            "133.8 GB/s for 16 MiB, which takes 248.8 us or more); perhaps it is that of a large payload",
        ),
        ("p5", 4, "alltoall_busbw", GIB, "GB/s", 200, "of 31 parts 24 leave for other nodes: x 31/24"),
        (
            "BM.GPU4.8",
            1,
            "h2d_bandwidth",
            0,
            "GB/s",
            52,
            "pcie4-x16: 31.5 GB/s x 0.914, the part of a packet that is data",
        ),
        (
            "GB200.4",
            1,
            "h2d_bandwidth",
            0,
            "GB/s",
            450,
            "nvlink-c2c: 450 GB/s x 0.99, the most that any link carries as data",
        ),
        ("BM.GPU.H100.8", 1, "nic_bandwidth", 0, "Gb/s", 384, "194% of what one NIC can reach, 198 Gb/s"),
        ("p5", 1, "memory_bandwidth", 0, "GB/s", 4000, "0.99 x 3350 GB/s of h100"),
        ("p5", 1, "matmul_bf16", 0, "TFLOP/s", 989, "the best published is 794.5 of 989 TFLOP/s (80%)"),
        ("p5", 1, "matmul_bf16", 0, "TFLOP/s", 1979, "no healthy machine passes"),
        ("p5en", 1, "storage_read", 0, "GB/s", 500, "what a client on p5en reaches at most"),
        ("ND96isr_H100_v5", 1, "storage_read", 0, "GB/s", 1000, "all NICs of the fabric together"),
        # too low to find anything; the first one, of ai-infrastructure-on-azure a01b073, was written for ports of 400
        # Gb/s
        ("ND128isr_GB300_v6", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 180, "half of the NICs could be dead"),
        (
            "p5",
            2,
            "nic_bandwidth",
            0,
            "Gb/s",
            20,
            "a broken machine passes: 20 Gb/s is too low, for one NIC may reach 50 Gb/s",
        ),
        ("BM.GPU.H100.8", 1, "nic_bandwidth", 0, "Gb/s", 96, "0.5 x 200 Gb/s: half of its lanes could be dead"),
        (
            "p5",
            2,
            "all_reduce_busbw",
            16 * GIB,
            "GB/s",
            100,
            "0.5 x the 400 GB/s of a plain ring: half of the NICs could",
        ),
        ("p5", 1, "all_reduce_busbw", 16 * GIB, "GB/s", 150, "0.45 x NVLink's 450 GB/s: half could be dead"),
        ("ND96isr_H100_v5", 1, "h2d_bandwidth", 0, "GB/s", 21, "half of the lanes, or the generation before"),
        ("p5en", 1, "memory_bandwidth", 0, "GB/s", 1500, "a broken machine passes"),
        ("p5", 1, "matmul_bf16", 0, "TFLOP/s", 200, "a broken machine passes"),
        ("p5", 1, "storage_write", 0, "MB/s", 50, "a link of 1 Gb/s reaches that"),
        ("p5", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 0, "every machine reaches 0: this threshold cannot fail"),
        # wrong by 8 or by 1,000
        (
            "ND96isr_H100_v5",
            1,
            "matmul_bf16",
            0,
            "GFLOP/s",
            742,
            "perhaps wrong by 1000 in its unit: 742 TFLOP/s would fit, which are 742000 GFLOP/s",
        ),
        (
            "p5en",
            1,
            "memory_bandwidth",
            0,
            "GB/s",
            4.8,
            "perhaps wrong by 1000 in its unit: 4.8 TB/s would fit, which are 4800 GB/s",
        ),
        ("p5", 1, "h2d_bandwidth", 0, "Gb/s", 52, "perhaps wrong by 8, bytes and bits: 52 GB/s would fit"),
        (
            "p5",
            1,
            "h2d_bandwidth",
            0,
            "GB/s",
            440,
            "perhaps wrong by 8, bytes and bits: 440 Gb/s would fit, which are 55 GB/s",
        ),
        ("p5", 1, "h2d_bandwidth", 0, "GB/s", 6.9, "perhaps wrong by 8, bytes and bits: 55.2 GB/s would fit"),
        ("p5", 1, "h2d_bandwidth", 0, "MB/s", 52, "perhaps wrong by 1000 in its unit: 52 GB/s would fit"),
        (
            "BM.GPU.H100.8",
            1,
            "nic_bandwidth",
            0,
            "GB/s",
            192,
            "perhaps wrong by 8, bytes and bits: 192 Gb/s would fit, which are 24 GB/s",
        ),
        (
            "BM.GPU.H200.8",
            1,
            "nic_bandwidth",
            0,
            "GB/s",
            384,
            "wrong by 8, bytes and bits: 48 GB/s would fit one NIC, which can reach 49.5 GB/s (a NIC of 400 Gb/s, 0.99 "
            "of it data); if the 8 NICs of a node together are meant, the two cannot be told apart",
        ),
        ("p6-b200", 1, "nic_bandwidth", 0, "Gb/s", 3040, "wrong by 8, bytes and bits: 380 Gb/s would fit one NIC"),
        (
            "GB200.4",
            18,
            "all_reduce_busbw",
            16 * GIB,
            "GB/s",
            105,
            "wrong by 8, bytes and bits: 840 GB/s would fit 72 ranks on 18 nodes, which can reach 987.7 GB/s (NVLink "
            "of gb200 carries 900 GB/s from an accelerator, and its switch adds up: x 1.1, a percent more than was "
            "ever published); if 72 ranks on 18 nodes that use no NVLink between nodes are meant, the two cannot "
            "be told apart",
        ),
        ("p5", 1, "nic_bandwidth", 0, "GB/s", 3200, "perhaps wrong by 8, bytes and bits: 3200 Gb/s would fit"),
        ("p5", 2, "all_reduce_busbw", 16 * GIB, "Gb/s", 440, "wrong by 8, bytes and bits: 440 GB/s would fit"),
        ("p5", 2, "all_reduce_busbw", 16 * GIB, "MB/s", 440, "wrong by 1000 in its unit: 440 GB/s would fit"),
        ("p5", 2, "all_reduce_busbw", 16 * GIB, "GB/s", 440_000, "wrong by 1000 in its unit: 440000 MB/s would fit"),
        (
            "p5",
            1,
            "matmul_bf16",
            0,
            "GB/s",
            700,
            "the unit is wrong: matmul_bf16 counts operations: TFLOP/s or GFLOP/s",
        ),
        (
            "p5",
            1,
            "h2d_bandwidth",
            0,
            "TFLOP/s",
            50,
            "the unit is wrong: h2d_bandwidth counts bytes or bits: GB/s, Gb/s or MB/s",
        ),
    ],
)
def test_refused_thresholds(
    machine: str, nodes: int, quantity: str, size_bytes: int, unit: str, value: float, said: str
) -> None:
    """The reason has the arithmetic and the probable intention."""
    judgement = judged(machine, nodes, quantity, size_bytes, unit, value)
    assert judgement.verdict == "refused", judgement.reason
    assert said in judgement.reason


@pytest.mark.parametrize(
    ("machine", "quantity", "unit", "value", "reason"),
    [
        (
            "p6-b300",
            "h2d_bandwidth",
            "GB/s",
            50,
            "the catalog does not know the links of the accelerators of p6-b300 to their host",
        ),
        (
            "ND96isr_H100_v5",
            "storage_write",
            "GB/s",
            20,
            "the catalog does not know what a storage client on ND96isr_H100_v5 reaches",
        ),
        ("p4d", "storage_read", "GB/s", 40, "the catalog does not know what a storage client on p4d reaches"),
        (
            "a3-megagpu-8g",
            "h2d_bandwidth",
            "GB/s",
            50,
            "the catalog does not know the links of the accelerators of a3-megagpu-8g to their host",
        ),
        (
            "sim-h100",
            "all_reduce_busbw",
            "GB/s",
            0.02,
            "the catalog does not know the rate of a rail of sim-h100: it is simulated, and declarations give it",
        ),
        ("sim-h100", "matmul_bf16", "TFLOP/s", 700, "sim-h100 is simulated and has no speed of its own"),
        ("sim-cpu", "storage_read", "GB/s", 1, "sim-cpu is simulated and has no speed of its own"),
    ],
)
def test_undecided_thresholds(machine: str, quantity: str, unit: str, value: float, reason: str) -> None:
    """The missing fact is named, and nothing is guessed in its place."""
    judgement = judged(machine, 2, quantity, 0, unit, value)
    assert (judgement.verdict, judgement.reason) == ("cannot-tell", reason)


@pytest.mark.parametrize(
    ("size_bytes", "hinted"), [(256 * MIB, True), (GIB, True), (2 * GIB, False), (32 * GIB, False)]
)
def test_a_large_payload_is_no_hint_for_one_as_good(size_bytes: int, hinted: bool) -> None:
    """A payload with which nearly all is reached is large itself."""
    judgement = judged("p5", 1, "all_gather_busbw", size_bytes, "GB/s", 445.4)
    assert judgement.verdict == "refused"
    assert ("perhaps it is that of a large payload" in judgement.reason) == hinted, judgement.reason


@pytest.mark.parametrize(
    ("gbs", "verdict"), [(0.1, "refused"), (0.2, "cannot-tell"), (18, "cannot-tell"), (19, "ok"), (151, "refused")]
)
def test_storage_that_may_be_small(gbs: float, verdict: str) -> None:
    """Below an eighth of a client's rate, a confusion of bits and bytes looks like a small file system."""
    judgement = judged("p5", 1, "storage_read", 0, "GB/s", gbs)
    assert judgement.verdict == verdict, judgement.reason
    words = ": it depends on the size of the file system, and 8 times this would fit as well"
    assert judgement.reason.endswith(words) == (verdict == "cannot-tell")


@pytest.mark.parametrize(("value", "verdict"), [(50, "refused"), (350, "ok"), (440, "cannot-tell"), (600, "refused")])
def test_verdict_without_knowledge_of_reduction_in_switches(value: float, verdict: str) -> None:
    """Unknown reduction in switches matters only between the rates with and without it."""
    judgement = judged("a3-ultragpu-8g", 16, "all_reduce_busbw", 0, "GB/s", value)
    assert judgement.verdict == verdict, judgement.reason
    assert ("if the fabric adds up in switches, which is not known, even less" in judgement.reason) == (verdict == "ok")


@pytest.mark.parametrize("quantity", [each for each in QUANTITIES if each.endswith("busbw")])
def test_one_accelerator_by_itself_has_no_busbw(quantity: str) -> None:
    """It has no busbw for any number of bytes; two such nodes depend on their link."""
    alone = judged("g6-8xlarge", 1, quantity, 16 * GIB, "GB/s", 10)
    words = "no healthy machine passes: one accelerator by itself transfers nothing, and its busbw is 0"
    assert (alone.verdict, alone.reason) == ("refused", words)
    assert judged("g6-8xlarge", 2, quantity, 16 * GIB, "GB/s", 10).verdict == "cannot-tell"


def test_the_reason_of_one_that_is_fine() -> None:
    """The reason has the arithmetic."""
    assert judged("p5", 1, "nic_bandwidth", 0, "Gb/s", 96).reason == (
        "96 Gb/s is 97% of what one NIC can reach, 99 Gb/s (a NIC of 100 Gb/s, 0.99 of it data)"
    )
    assert (
        "of what the 32 NICs of a node together can reach" in judged("p5", 1, "nic_bandwidth", 0, "Gb/s", 3000).reason
    )


real = st.sampled_from(sorted(row.name for row in modelled()))
any_machine = st.sampled_from(sorted(catalog.machine_names()))
quantities = st.sampled_from(QUANTITIES)
counts = st.integers(1, NODES_MAX)
sizes = st.one_of(st.just(0), st.integers(1, SIZE_BYTES_MAX))
values = st.floats(0, VALUE_MAX)
BANDWIDTHS = [quantity for quantity in QUANTITIES if quantity != "matmul_bf16"]


@relaxed
@given(any_machine, counts, quantities, sizes, st.sampled_from(UNITS), values)
@example("p5", 1, "all_reduce_busbw", 1, "MB/s", 5e-324)
@example("p5", NODES_MAX, "alltoall_busbw", 1, "Gb/s", VALUE_MAX)
def test_every_row_gets_a_verdict_and_a_reason(
    machine: str, nodes: int, quantity: str, size_bytes: int, unit: str, value: float
) -> None:
    """Any row gets an answer."""
    judgement = judged(machine, nodes, quantity, size_bytes, unit, value)
    assert judgement.verdict in ("ok", "refused", "cannot-tell")
    assert judgement.reason
    assert "inf" not in judgement.reason


@relaxed
@given(real, st.integers(1, 200), quantities, sizes, st.floats(1e-3, 1e6), st.floats(1, 1e3))
def test_verdict_is_monotonic(
    machine: str, nodes: int, quantity: str, size_bytes: int, value: float, more: float
) -> None:
    """With a rising value the verdict goes from too low to fine to impossible, and never back."""
    unit = "TFLOP/s" if quantity == "matmul_bf16" else "GB/s"
    here, above = (judged(machine, nodes, quantity, size_bytes, unit, each) for each in (value, value * more))
    if quantity == "nic_bandwidth":  # may mean one of them, or all of them
        assume("NICs of a node" in here.reason)
    if "no healthy machine passes" in here.reason:
        assert above.verdict == "refused"
    if here.verdict == "ok":
        assert "a broken machine passes" not in above.reason
    if "a broken machine passes" in above.reason:
        assert here.verdict == "refused"


@relaxed
@given(real, st.integers(1, 200), st.sampled_from(BANDWIDTHS), sizes, st.integers(1, 10**9))
def test_a_value_in_another_unit_is_judged_alike(
    machine: str, nodes: int, quantity: str, size_bytes: int, mbs: int
) -> None:
    """Bytes, bits and thousands of either: the same speed gets the same verdict."""
    same = ((mbs, "MB/s"), (mbs / 1000, "GB/s"), (mbs * 8 / 1000, "Gb/s"))
    verdicts = {judged(machine, nodes, quantity, size_bytes, unit, value).verdict for value, unit in same}
    nudged = {judged(machine, nodes, quantity, size_bytes, "MB/s", nextafter(mbs, to)).verdict for to in (0, 1e12)}
    assert len(verdicts) == 1 or len(nudged) == 2  # a value on the border may fall to either side


def test_compute_in_another_unit_is_judged_alike() -> None:
    """TFLOP/s are thousands of GFLOP/s."""
    for tflops in (1, 396, 398, 742, 834, 835, 989):
        verdicts = {
            judged("p5", 1, "matmul_bf16", 0, *each).verdict
            for each in (("TFLOP/s", tflops), ("GFLOP/s", tflops * 1000))
        }
        assert len(verdicts) == 1


def test_a_number_for_all_nics_of_eight_is_one_of_a_single_nic_times_eight() -> None:
    """Two readings are possible, one of them a slip: the quantity is named after a single NIC."""
    for name, total, verdict in (("H200.8", 8, "refused"), ("p5", 32, "ok"), ("H100.8", 16, "ok"), ("p4d", 4, "ok")):
        rate_gbps = float(catalog.machine_names()[name].nic_rate_gbps)  # type: ignore[arg-type]
        for unit, value in (("Gb/s", 0.96 * total * rate_gbps), ("GB/s", 0.12 * total * rate_gbps)):
            assert judged(name, 1, "nic_bandwidth", 0, unit, value).verdict == verdict


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("p55", "did you mean p5?"),
        ("bm.gpu.h100.8", "did you mean BM.GPU.H100.8?"),
        ("Standard_ND96isr_H100_v6", "did you mean Standard_ND96isr_H100_v5?"),
        ("quantum", "a row in catalog/machines would be needed"),
        ("", "a row in catalog/machines would be needed"),
    ],
)
def test_a_machine_that_nobody_has_looked_up(name: str, hint: str) -> None:
    """The message only suggests similar names."""
    judgement = judged(name, 2, "all_reduce_busbw", GIB, "GB/s", 200)
    assert judgement.verdict == "cannot-tell"
    assert judgement.reason == f"the catalog knows no machine of this name: {hint}"


@relaxed
@given(real, st.integers(2, 200), st.integers(1, SIZE_BYTES_MAX), st.floats(0.55, 0.95))
def test_generous_to_what_lies_well_below_the_ceiling(machine: str, nodes: int, size_bytes: int, share: float) -> None:
    """Thresholds from 55 to 95 % of the reachable rate are never refused."""
    reason = judged(machine, nodes, "all_reduce_busbw", size_bytes, "GB/s", 1e12).reason
    ceiling = float(reason.split(" can reach, ")[1].split(" ")[0])
    assert judged(machine, nodes, "all_reduce_busbw", size_bytes, "GB/s", share * ceiling).verdict != "refused"


LABELLED = labelled()


def test_right_thresholds_are_never_refused() -> None:
    """These are published for healthy machines, or equivalent."""
    right = [each for each in LABELLED if each.verdict == "ok"]
    assert len(right) > 1500
    assert [judgement.reason for each in right if (judgement := each.judged()).verdict != "ok"] == []


def test_unknown_facts_are_not_guessed() -> None:
    """The verdict is unknown even for a plausible number."""
    assert {each.judged().verdict for each in LABELLED if each.verdict == "cannot-tell"} == {"cannot-tell"}


def test_slips_are_refused() -> None:
    """Slips that a small file system or a slow start would explain are excepted; the table has their number."""
    wrong = [each for each in LABELLED if each.verdict == "refused"]
    missed = [each for each in wrong if each.judged().verdict != "refused"]
    count, of = Counter(each.how for each in missed), Counter(each.how for each in wrong)
    print("\n".join(f"{how}: missed {count[how]} of {of[how]}" for how in of))
    assert len(of) == 17
    not_storage = [each.threshold for each in missed if not each.threshold.quantity.startswith("storage")]
    assert len(not_storage) < 0.003 * len(wrong)
    # a start of 40 us is healthy, one of 5 us is possible, and dominates small payloads
    assert all(row.size_bytes <= 2 * MIB for row in not_storage)
    # The size of a file system is unknown, so that only impossible values are noticed.
    of_files = {each.how for each in missed if each.threshold.quantity.startswith("storage")}
    assert of_files.isdisjoint({"8 times as much", "1,000 times as much"})
