"""Options of a file system, its throughput, and the effects of changes: each rule both ways."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks import catalog, planning
from stampworks.catalog import UNKNOWN, FileSystemTier, Ranges
from stampworks.declaration import DeclarationError, load_value
from stampworks.physics.bounds import Bound
from stampworks.plan import Plan, fingerprint
from stampworks.planning.build.file_systems import Options, change, check, client, client_most, delivered, nearest

FSX = Options("fsx-lustre", "PERSISTENT_2 SSD", 250, 4800)
EFA = Options("fsx-lustre", "PERSISTENT_2 SSD", 1000, 9600, metadata_iops=12000, efa=True)
TIERING = Options(
    "fsx-lustre", "PERSISTENT_2 INTELLIGENT_TIERING", throughput_mbps=8000, read_cache_gib=64, metadata_iops=6000
)
HDD = Options("fsx-lustre", "PERSISTENT_1 HDD", 12, 6000)
SCRATCH = Options("fsx-lustre", "SCRATCH_2", capacity=1200)
AZURE = Options("azure-managed-lustre", mbps_per_tib=125, capacity=16 * 1024)
GOOGLE = Options("google-managed-lustre", "set performance", 1000, 9000)
ZFS = Options("fsx-openzfs", "SINGLE_AZ_2", capacity=1024, throughput_mbps=640)
ORACLE = Options("oracle-managed-lustre", mbps_per_tib=250, capacity=31200)

LEGAL = [
    ("aws", FSX),
    ("aws", EFA),
    ("aws", dataclasses.replace(EFA, metadata_iops="automatic")),
    ("aws", TIERING),
    ("aws", dataclasses.replace(TIERING, efa=True)),
    ("aws", HDD),
    ("aws", SCRATCH),
    ("aws", Options("fsx-lustre", "SCRATCH_1", capacity=7200)),
    ("aws", Options("fsx-lustre", "PERSISTENT_1 SSD", 50, 2400)),
    ("aws", ZFS),
    *(("aws", dataclasses.replace(ZFS, throughput_mbps=mbps)) for mbps in (160, 3840, 7680, 10240)),
    *(("aws", dataclasses.replace(ZFS, tier="SINGLE_AZ_HA_1", throughput_mbps=mbps)) for mbps in (64, 3072, 4096)),
    ("azure", AZURE),
    ("google", GOOGLE),
    ("google", Options("google-managed-lustre", "dynamic", capacity=944_000)),
    ("google", Options("google-parallelstore", "SCRATCH", capacity=16000)),
    ("google", Options("google-filestore", "ZONAL", capacity=1280)),
    ("oracle", ORACLE),
    ("oracle", dataclasses.replace(ORACLE, capacity=166_400)),
    ("aws", Options("s3")),
    ("hosts", Options("local-nvme")),
]


@pytest.mark.parametrize(("cloud", "options"), LEGAL, ids=lambda case: getattr(case, "kind", case))
def test_sold_options_are_valid(cloud: str, options: Options) -> None:
    """A file system with options of its documentation has no findings."""
    assert check(options, cloud) == ()


ILLEGAL: list[tuple[str, Options, dict[str, Any], str, str, str]] = [
    ("aws", FSX, {"kind": "fsx-luster"}, "kind", "no file system is called 'fsx-luster'", "write fsx-lustre"),
    ("azure", FSX, {}, "kind", "azure has no Amazon FSx for Lustre", "azure has azure-managed-lustre, blob"),
    (
        *(
            "aws",
            FSX,
            {"tier": None, "mbps_per_tib": None},
            "tier",
            "Amazon FSx for Lustre comes in more than one tier",
        ),
        "write tier: SCRATCH_1, SCRATCH_2, PERSISTENT_1 SSD, PERSISTENT_1 HDD, PERSISTENT_2 SSD or "
        "PERSISTENT_2 INTELLIGENT_TIERING",
    ),
    (
        *("google", GOOGLE, {"tier": "basic"}, "tier", "Google Cloud Managed Lustre has no tier 'basic'"),
        "write tier: set performance or dynamic",
    ),
    (
        *("aws", FSX, {"mbps_per_tib": None}, "mbps_per_tib"),
        *(
            "Amazon FSx for Lustre PERSISTENT_2 SSD needs a throughput per TiB",
            "write mbps_per_tib: 125, 250, 500 or 1000",
        ),
    ),
    (
        *("aws", FSX, {"mbps_per_tib": 200}, "mbps_per_tib"),
        "Amazon FSx for Lustre PERSISTENT_2 SSD does not come with 200 MB/s per TiB",
        "write mbps_per_tib: 125, 250, 500 or 1000",
    ),
    (
        *("aws", ZFS, {"throughput_mbps": 512}, "throughput_mbps"),
        "throughput_mbps 512 MB/s is not valid for Amazon FSx for OpenZFS SINGLE_AZ_2: allowed are 160 to 320 in "
        "steps of 160, "
        "640 to 1280 in steps of 640, 2560 to 5120 in steps of 1280, 7680 to 10240 in steps of 2560",
        "write throughput_mbps: 320 or 640",
    ),
    (
        *("aws", SCRATCH, {"mbps_per_tib": 200}, "mbps_per_tib"),
        *("Amazon FSx for Lustre SCRATCH_2 does not let its throughput per TiB be chosen", "leave mbps_per_tib out"),
    ),
    (
        *("aws", FSX, {"capacity": 3000}, "capacity"),
        "capacity 3000 GiB is not valid for Amazon FSx for Lustre PERSISTENT_2 SSD: allowed are 1200, "
        "2400 and more in steps of 2400",
        "write capacity: 2400 or 4800",
    ),
    (
        *("aws", FSX, {"capacity": 1000}, "capacity"),
        "capacity 1000 GiB is not valid for Amazon FSx for Lustre PERSISTENT_2 SSD: allowed are 1200, "
        "2400 and more in steps of 2400",
        "write capacity: 1200",
    ),
    (
        *("aws", FSX, {"capacity": None}, "capacity", "Amazon FSx for Lustre PERSISTENT_2 SSD needs capacity"),
        "1200, 2400 and more in steps of 2400 GiB",
    ),
    (
        *("aws", HDD, {"capacity": 7200}, "capacity"),
        "capacity 7200 GiB is not valid for Amazon FSx for Lustre PERSISTENT_1 HDD: allowed are 6000 and more in "
        "steps of 6000",
        "write capacity: 6000 or 12000",
    ),
    (
        *("aws", EFA, {"capacity": 2400}, "capacity"),
        "capacity 2400 GiB is not valid for Amazon FSx for Lustre PERSISTENT_2 SSD with EFA: allowed are 4800 "
        "and more in steps of 4800",
        "write capacity: 4800",
    ),
    (
        *("aws", EFA, {"metadata_iops": None}, "metadata_iops"),
        "Amazon FSx for Lustre PERSISTENT_2 SSD with EFA needs metadata_iops",
        "write metadata_iops: automatic, or a number",
    ),
    (
        *("aws", SCRATCH, {"efa": True}, "efa", "Amazon FSx for Lustre SCRATCH_2 has no EFA"),
        "PERSISTENT_2 SSD have it",
    ),
    ("azure", AZURE, {"efa": True}, "efa", "Azure Managed Lustre has no EFA", "no Azure Managed Lustre has it"),
    (
        *("aws", FSX, {"metadata_iops": 18000}, "metadata_iops"),
        "metadata_iops 18000 IOPS is not valid for Amazon FSx for Lustre PERSISTENT_2 SSD: allowed are 1500 to 3000 in "
        "steps of 1500, 3000 to 6000 in steps of 3000, 6000 to 12000 in steps of 6000, 12000 to 192000 in steps of "
        "12000",
        "write metadata_iops: 12000 or 24000",
    ),
    (
        *("aws", SCRATCH, {"metadata_iops": 1500}, "metadata_iops"),
        "Amazon FSx for Lustre SCRATCH_2 has no metadata_iops to choose",
        "leave metadata_iops out",
    ),
    (
        *("aws", TIERING, {"metadata_iops": "automatic"}, "metadata_iops"),
        "Amazon FSx for Lustre PERSISTENT_2 INTELLIGENT_TIERING does not choose its metadata IOPS",
        "6000 to 12000 in steps of 6000",
    ),
    (
        *("aws", TIERING, {"metadata_iops": None}, "metadata_iops"),
        "Amazon FSx for Lustre PERSISTENT_2 INTELLIGENT_TIERING needs metadata_iops",
        "6000 to 12000 in steps of 6000 IOPS",
    ),
    (
        *("aws", TIERING, {"capacity": 4800}, "capacity"),
        "Amazon FSx for Lustre PERSISTENT_2 INTELLIGENT_TIERING has no capacity to choose",
        "leave capacity out",
    ),
    (
        *("aws", TIERING, {"throughput_mbps": 5000}, "throughput_mbps"),
        "throughput_mbps 5000 MB/s is not valid for Amazon FSx for Lustre PERSISTENT_2 INTELLIGENT_TIERING: "
        "allowed are 4000 to "
        "2000000 in steps of 4000",
        "write throughput_mbps: 4000 or 8000",
    ),
    (
        *("aws", TIERING, {"read_cache_gib": 32}, "read_cache_gib"),
        "read_cache_gib 32 GiB is not valid for Amazon FSx for Lustre PERSISTENT_2 INTELLIGENT_TIERING: allowed "
        "are 64 to 262144 "
        "in steps of 1",
        "write read_cache_gib: 64",
    ),
    (
        *("aws", SCRATCH, {"features": ("backups",)}, "features", "Amazon FSx for Lustre SCRATCH_2 has no backups"),
        "PERSISTENT_1 SSD, PERSISTENT_1 HDD, PERSISTENT_2 SSD have it",
    ),
    (
        *("aws", FSX, {"features": ("backups", "data-repository")}, "features"),
        "Amazon FSx for Lustre has backups and data-repository only one at a time",
        "take out one of backups, data-repository",
    ),
    (
        *("azure", AZURE, {"capacity": 20 * 1024}, "capacity"),
        "capacity 20480 GiB is not valid for Azure Managed Lustre: allowed are 16384 to 131072 in steps of 16384",
        "write capacity: 16384 or 32768",
    ),
    (
        *("azure", AZURE, {"capacity": 144 * 1024}, "capacity"),
        "capacity 147456 GiB is not valid for Azure Managed Lustre: allowed are 16384 to 131072 in steps of 16384",
        "write capacity: 131072",
    ),
    (
        *("google", GOOGLE, {"capacity": 1_539_000}, "capacity"),
        "capacity 1539000 GiB is not valid for Google Cloud Managed Lustre set performance: allowed are 9000 to "
        "1530000 in steps "
        "of 9000, 1584000 to 10008000 in steps of 72000",
        "write capacity: 1530000 or 1584000",
    ),
    (
        *("oracle", ORACLE, {"capacity": 130_000}, "capacity"),
        "capacity 130000 GB is not valid for OCI File Storage with Lustre: allowed are 31200 to 124800 in steps "
        "of 10400, 124800 and more in steps of 41600",
        "write capacity: 124800 or 166400",
    ),
    (
        *("aws", Options("s3"), {"capacity": 5}, "capacity"),
        *("Amazon S3 has no capacity to choose", "leave capacity out"),
    ),
]


@pytest.mark.parametrize(("cloud", "options", "wrong", "option", "text", "hint"), ILLEGAL)
def test_refused_options_are_named(
    cloud: str, options: Options, wrong: dict[str, Any], option: str, text: str, hint: str
) -> None:
    """Options are a change away from a legal file system: the finding names option, rule and a legal value."""
    [finding] = check(dataclasses.replace(options, **wrong), cloud)
    assert (finding.verdict, finding.option, finding.text, finding.hint) == ("fail", option, text, hint)


def test_nearest_numbers_stand_beside_the_words() -> None:
    """Choices of a program: the legal numbers on both sides."""
    [finding] = check(dataclasses.replace(FSX, capacity=3000), "aws")
    assert (finding.below, finding.above) == (2400, 4800)
    [finding] = check(dataclasses.replace(FSX, mbps_per_tib=2000), "aws")
    assert (finding.below, finding.above) == (1000, None)


@pytest.mark.parametrize("kind", ["weka", "vast", "beegfs", "storage-scale", "ddn-exascaler", "nfs"])
def test_uncatalogued_size_is_unknown(kind: str) -> None:
    """Sizes of the user's own servers are arbitrary, and the catalog does not know them."""
    findings = check(Options(kind, capacity=7), "hosts")
    assert {finding.verdict for finding in findings} == {"unknown"}


def test_a_feature_that_nobody_looked_up_is_unknown() -> None:
    """The feature may or may not exist."""
    [finding] = check(dataclasses.replace(TIERING, features=("backups",)), "aws")
    assert finding.verdict == "unknown"
    assert finding.text.startswith(
        "the catalog does not know whether Amazon FSx for Lustre PERSISTENT_2 INTELLIGENT_TIERING has"
    )


RANGED = [
    (name, tier, ranges)
    for tier in catalog.file_system_tiers().values()
    for name, ranges in [("capacity", tier.capacity), ("efa", tier.capacity_efa), ("iops", tier.metadata_iops)]
    if ranges not in ((), UNKNOWN)
]


@given(case=st.sampled_from(RANGED), data=st.data())
def test_every_step_is_legal_and_nothing_between(case: tuple[str, FileSystemTier, Ranges], data: st.DataObject) -> None:
    """Numbers on the grid are their own neighbours; others lie between two nearest legal numbers."""
    ranges = case[2]
    first, last, step = data.draw(st.sampled_from(ranges))
    assert isinstance(first, int)
    assert isinstance(step, int)
    most = 50 if isinstance(last, catalog.Unknown) else (last - first) // step
    on = first + data.draw(st.integers(0, most)) * step
    assert nearest(ranges, on) == (on, on)
    off = on + data.draw(st.integers(1, max(1, step - 1)))
    below, above = nearest(ranges, off)
    assert below is not None
    assert below >= on
    for side in (below, above):
        assert side is None or nearest(ranges, side) == (side, side)
    assert below <= off
    assert above is None or above >= off


@given(value=st.integers(1, 20_000))
def test_nearest_agrees_with_counting(value: int) -> None:
    """The arithmetic agrees with a list of all legal sizes."""
    legal = [1200, *range(2400, 60_000, 2400)]
    ranges = catalog.file_system_tiers()["fsx-scratch-2"].capacity
    assert ranges is not UNKNOWN
    below, above = nearest(ranges, value)
    assert below == max((size for size in legal if size <= value), default=None)
    assert above == min(size for size in legal if size >= value)


def test_performance_of_file_systems() -> None:
    """In the API's own example, 2,400 GiB with 50 MB/s per TiB are 120 MB/s; the derivation is next to the number."""
    found = delivered(Options("fsx-lustre", "PERSISTENT_1 SSD", 50, 2400), "aws")
    assert found.read is not UNKNOWN
    assert found.write is not UNKNOWN
    assert found.read.value == pytest.approx(0.12)
    assert found.read.why == "50 MB/s per TiB x 2.4 TiB (2400 GiB / 1000)"
    assert found.write == found.read


def test_throughput_per_tb_of_storage_sold_in_gb() -> None:
    found = delivered(ORACLE, "oracle")
    assert found.read is not UNKNOWN
    assert found.read.why == "250 MB/s per TB x 31.2 TB (31200 GB / 1000)"
    [finding] = check(dataclasses.replace(ORACLE, mbps_per_tib=300), "oracle")
    assert finding.text == "OCI File Storage with Lustre does not come with 300 MB/s per TB"


def test_scratch_writes_half_of_what_it_reads() -> None:
    """This is the only kind whose documentation separates reads from writes."""
    found = delivered(SCRATCH, "aws")
    assert found.read is not UNKNOWN
    assert found.write is not UNKNOWN
    assert found.read.value == pytest.approx(0.24)
    assert found.write.value == pytest.approx(0.12)


def test_unpublished_performance_is_unknown() -> None:
    """Azure does not tell reads from writes: the latter are unknown, not the same."""
    found = delivered(AZURE, "azure")
    assert found.read is not UNKNOWN
    assert found.read.value == pytest.approx(2.0)
    assert found.write is UNKNOWN
    assert found.notes == {
        "write": "write throughput of Azure Managed Lustre: not published apart from reads, or not known to the "
        "catalog",
        "metadata_iops": "metadata operations of Azure Managed Lustre: the cloud chooses their number, or none is "
        "published",
    }


def test_bought_throughput_and_metadata_are_delivered() -> None:
    """Bought performance is the delivered one."""
    assert getattr(delivered(TIERING, "aws").read, "value", None) == 8.0
    assert getattr(delivered(ZFS, "aws").read, "value", None) == 0.64
    assert delivered(TIERING, "aws").write is UNKNOWN
    assert getattr(delivered(EFA, "aws").metadata_iops, "value", None) == 12000


CLIENTS = [
    (FSX, "p5", 12.5, "throughput of a client of Amazon FSx for Lustre over TCP"),
    (FSX, "m7i", 12.5, "throughput of a client of Amazon FSx for Lustre over TCP"),
    (EFA, "p5", 87.5, "throughput of a client of Amazon FSx for Lustre over EFA"),
    (EFA, "g6", 0.99 * 12.5, "1 NIC x 100 Gb/s, 0.99 of it data"),
    (EFA, "g6e", 0.99 * 50, "4 NICs x 100 Gb/s, 0.99 of it data"),
    (EFA, "m7i", 12.5, "throughput of a client of Amazon FSx for Lustre over TCP"),
    (EFA, "trn2", 12.5, "throughput of a client of Amazon FSx for Lustre over TCP"),
]


@pytest.mark.parametrize(("options", "machine", "gbs", "why"), CLIENTS)
def test_rate_of_one_node(options: Options, machine: str, gbs: float, why: str) -> None:
    """The limit is that of the client, and of the NICs: without EFA the traffic is TCP."""
    found = client(options, catalog.machines()[machine])
    assert isinstance(found, Bound)
    assert found.value == pytest.approx(gbs)
    assert found.why == why
    assert client_most(options, catalog.machines()[machine]) == found


@pytest.mark.parametrize(
    ("options", "machine", "gbs", "why"),
    [
        (GOOGLE, "a3-ultragpu-8g", 50.0, "limit of any client on a3-ultragpu-8g"),
        (GOOGLE, "a2-highgpu-8g", 0.99 * 12.5, "1 NIC x 100 Gb/s, 0.99 of it data"),
    ],
)
def test_limits_of_clients(options: Options, machine: str, gbs: float, why: str) -> None:
    """A limit is no promise: vendors do not publish the rate that a client reaches."""
    assert client(options, catalog.machines()[machine]) is UNKNOWN
    found = client_most(options, catalog.machines()[machine])
    assert isinstance(found, Bound)
    assert found.value == pytest.approx(gbs)
    assert found.why == why


@pytest.mark.parametrize(
    ("options", "machine"), [(AZURE, "ND96isr_H100_v5"), (Options("local-nvme"), "p5"), (Options("directory"), "p5")]
)
def test_unknown_rate_of_one_node(options: Options, machine: str) -> None:
    """NICs on the fabric say nothing about traffic on other NICs."""
    assert client_most(options, catalog.machines()[machine]) is UNKNOWN


def test_invalid_options_have_unknown_performance() -> None:
    """A size that the cloud refuses has no performance."""
    found = delivered(dataclasses.replace(FSX, capacity=3000), "aws")
    assert found.read is UNKNOWN
    assert set(found.notes.values()) == {"throughput: unknown, for it cannot be made like this"}


CHANGES: list[tuple[Options, dict[str, Any], Any]] = [
    (FSX, {}, None),
    (FSX, {"capacity": 7200}, "in place"),
    (FSX, {"capacity": 2400}, "replace"),
    (FSX, {"mbps_per_tib": 500}, "in place"),
    (FSX, {"mbps_per_tib": 125}, "in place"),
    (EFA, {"mbps_per_tib": 500}, "refused"),
    (HDD, {"mbps_per_tib": 40, "capacity": 9000}, "refused"),
    (HDD, {"capacity": 12000}, "in place"),
    (FSX, {"tier": "PERSISTENT_1 SSD", "mbps_per_tib": 200}, "replace"),
    (FSX, {"kind": "s3", "tier": None, "mbps_per_tib": None, "capacity": None}, "replace"),
    (Options("fsx-lustre", "SCRATCH_1", capacity=1200), {"capacity": 2400}, "replace"),
    (EFA, {"metadata_iops": 24000}, "in place"),
    (EFA, {"metadata_iops": 6000}, "replace"),
    (EFA, {"metadata_iops": "automatic"}, UNKNOWN),
    (dataclasses.replace(EFA, metadata_iops="automatic"), {"metadata_iops": 24000}, UNKNOWN),
    (FSX, {"metadata_iops": 1500}, "refused"),
    (EFA, {"efa": False}, "replace"),
    (TIERING, {"throughput_mbps": 12000}, "in place"),
    (TIERING, {"throughput_mbps": 4000}, "refused"),
    (TIERING, {"read_cache_gib": 128}, "in place"),
    (FSX, {"features": ("compression", "root-squash")}, "in place"),
    (dataclasses.replace(FSX, features=("compression", "backups")), {"features": ()}, "in place"),
    (dataclasses.replace(FSX, features=("root-squash",)), {"features": ()}, "refused"),
    (HDD, {"features": ("hdd-read-cache",)}, "replace"),
    (dataclasses.replace(HDD, features=("hdd-read-cache",)), {"features": ()}, "replace"),
    (ZFS, {"capacity": 2048, "throughput_mbps": 160, "features": ("compression",)}, "in place"),
    (ZFS, {"capacity": 512}, "refused"),
    (ZFS, {"tier": "SINGLE_AZ_HA_2"}, "replace"),
    (AZURE, {"capacity": 32 * 1024}, "replace"),
    (AZURE, {"mbps_per_tib": 250}, "replace"),
    (AZURE, {"features": ("compression",)}, UNKNOWN),
    (GOOGLE, {"capacity": 1_530_000}, "in place"),
    (GOOGLE, {"capacity": 1_584_000}, "refused"),
    (dataclasses.replace(GOOGLE, capacity=1_584_000), {"capacity": 1_656_000}, "in place"),
    (GOOGLE, {"mbps_per_tib": 500, "capacity": 18000}, "replace"),
    (dataclasses.replace(GOOGLE, capacity=18000), {"capacity": 9000}, "refused"),
    (Options("google-parallelstore", "SCRATCH", capacity=12000), {"capacity": 16000}, "replace"),
    (ORACLE, {"capacity": 166_400}, "in place"),
    (dataclasses.replace(ORACLE, capacity=41_600), {"capacity": 31_200}, "refused"),
    (Options("google-filestore", "ZONAL", capacity=1024), {"capacity": 1280}, UNKNOWN),
]


@pytest.mark.parametrize(("before", "changed", "effect"), CHANGES)
def test_effects_of_changes(before: Options, changed: dict[str, Any], effect: str | None) -> None:
    """Changes happen in place, create a new and empty file system, are refused, or are unknown, as the cloud
    documents."""
    found = change(before, dataclasses.replace(before, **changed))
    assert found.effect == effect
    assert all(each.rule for each in found.options)
    assert bool(found.options) == bool(changed)


def test_a_replacement_settles_what_would_be_refused() -> None:
    """Allow a replacement file system with less throughput: the limits on in-place changes do not apply to it."""
    found = change(EFA, dataclasses.replace(EFA, capacity=4800, mbps_per_tib=500))
    assert [each.effect for each in found.options] == ["refused", "replace"]
    assert found.effect == "replace"


def test_a_change_says_what_clients_notice_and_why() -> None:
    """The text has the cloud's rule and its effects."""
    [only] = change(FSX, dataclasses.replace(FSX, mbps_per_tib=500)).options
    assert (only.before, only.after) == (250, 500)
    assert only.interrupts == "for a few minutes, while its servers are exchanged"
    assert only.rule == "throughput per TiB can go up and down among the values of its type"


def test_leaving_out_the_only_choice_changes_nothing() -> None:
    """Azure has a single tier, so that its name may be left out."""
    assert change(AZURE, dataclasses.replace(AZURE, tier="AMLFS-Durable-Premium")).effect is None


def test_a_throughput_that_one_tier_alone_has_names_it() -> None:
    """Only unambiguous values may be omitted."""
    pools = [{"name": "gpu", "machine": "a3-megagpu-8g", "count": 2}]
    told = {"version": 1, "name": "test", "cloud": "google", "region": "us-central1", "pools": pools}

    def planned(**storage: Any) -> Plan:
        one = {"name": "s", "kind": "google-managed-lustre", "capacity": 18000, "mount": "/s", **storage}
        return planning.plan(load_value({**told, "storage": [one]}, "test"))

    plan = planned(mbps_per_tib=1000)
    assert plan.storage[0].tier == "set performance"
    assert fingerprint(plan) == fingerprint(planned(mbps_per_tib=1000, tier="set performance"))
    assert [each.why for each in plan.reasons if each.path == "storage.s.tier"] == [
        "no other tier of google-managed-lustre has 1000 MB/s a TiB"
    ]
    with pytest.raises(DeclarationError, match="comes in more than one tier"):
        planned()
