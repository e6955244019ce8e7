"""The catalog's file systems: ranges that can be, names that exist, facts that fit together."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import catalog
from stampworks.catalog import storage
from stampworks.catalog.rows import load

PRODUCTS = {
    *(
        "fsx-lustre",
        "fsx-openzfs",
        "azure-managed-lustre",
        "google-managed-lustre",
        "google-parallelstore",
        "oracle-managed-lustre",
    ),
    *(
        "efs",
        "google-filestore",
        "oracle-file-storage",
        "weka",
        "vast",
        "beegfs",
        "storage-scale",
        "ddn-exascaler",
        "nfs",
    ),
    *("directory", "s3", "blob", "gcs", "oci-object-storage", "local-nvme"),
}


def test_the_kinds_of_file_system() -> None:
    """All kinds that a cluster may have to mount are in the table, each with a protocol."""
    assert set(catalog.file_systems()) == PRODUCTS
    assert {tier.kind for tier in catalog.file_system_tiers().values()} == PRODUCTS


def test_a_way_to_buy_is_named_once() -> None:
    """Kind, tier and throughput per TiB identify a single row, so that a declaration is unambiguous."""
    names = [(tier.kind, tier.tier, tier.mbps_per_tib) for tier in catalog.file_system_tiers().values()]
    assert len(names) == len(set(names))


def test_throughput_comes_with_capacity_or_is_bought_or_neither_is_known() -> None:
    """A kind whose throughput depends on its TiB declares the capacity; a kind without such throughput has a reason."""
    for tier in catalog.file_system_tiers().values():
        if tier.mbps_per_tib:
            assert tier.capacity, tier.name
            assert tier.read_mbps_per_tib == tier.mbps_per_tib, tier.name
        if tier.read_mbps_per_tib == 0:
            assert tier.throughput_mbps, tier.name


def test_nothing_writes_faster_than_it_reads() -> None:
    """A write rate above the read rate is a column that was copied wrongly."""
    for tier in catalog.file_system_tiers().values():
        read, write = tier.read_mbps_per_tib, tier.write_mbps_per_tib
        if isinstance(read, float) and isinstance(write, float):
            assert write <= read, tier.name


def test_efa_needs_as_much_throughput_in_every_tier() -> None:
    """The smallest file system with EFA has the same servers in every tier: capacity times throughput agrees."""
    smallest = {
        tier.capacity_efa[0][0] * tier.mbps_per_tib  # type: ignore[index, operator]
        for tier in catalog.file_system_tiers().values()
        if tier.tier == "PERSISTENT_2 SSD"
    }
    assert smallest == {4_800_000}


@pytest.mark.parametrize(("kind", "unit"), [("azure-managed-lustre", 1024), ("google-managed-lustre", 1)])
def test_smallest_sizes_have_the_same_throughput(kind: str, unit: int) -> None:
    """Clouds build their tiers from equal servers, so that a wrong minimum stands out."""
    least = {
        tier.capacity[0][0] / unit * tier.mbps_per_tib  # type: ignore[index, operator]
        for tier in catalog.tiers_of(kind)
        if tier.tier != "dynamic"
    }
    assert least <= {1_920, 2_000} if unit == 1024 else least == {9_000_000}


def test_published_maxima_are_what_their_pages_say_in_pib() -> None:
    """Google prints each maximum twice, in GiB and rounded in PiB: both agree."""
    printed = {"1000": 9.5, "500": 19.1, "250": 38.2, "125": 11.7, "dynamic": 80.1}
    for name, pib in printed.items():
        ranges = catalog.file_system_tiers()[f"google-lustre-{name}"].capacity
        last = ranges[-1][1]  # type: ignore[index]
        assert isinstance(last, int)
        assert last / 2**20 == pytest.approx(pib, abs=0.06)


def test_every_fact_has_a_source() -> None:
    """Every kind has a source and the date of reading."""
    for kind in catalog.file_systems().values():
        assert kind.source
        assert kind.read.startswith("2026-")


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ([[1200, 2400]], "[1200, 2400] is not [first, last, step]"),
        ([[1200, 2500, 1200]], "no number of steps of 1200 leads from 1200 to 2500"),
        ([[2400, 1200, 1200]], "no number of steps of 1200 leads from 2400 to 1200"),
        ([[0, 2400, 1200]], "0 and 1200 have to be more than 0"),
        ([[1200, 2400, 0]], "1200 and 0 have to be more than 0"),
        ([[1200, "unknown", 1200], [2400, "unknown", 2400]], "only the last range can have no maximum"),
        ([[1200, 4800, 1200], [2400, "unknown", 2400]], "2400 follows 4800"),
        ([["unknown", 4800, 1200]], "first and step have to be known: write unknown for all of it"),
    ],
)
def test_a_range_that_cannot_be_is_named(ranges: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names row, fact and fault of the data file."""
    change(monkeypatch, "tiers", "fsx-scratch-2", {"capacity": ranges})
    with pytest.raises(catalog.CatalogError) as error:
        storage.file_system_tiers.__wrapped__()
    assert str(error.value) == f"file_systems.yaml: fsx-scratch-2: capacity: {text}"


def test_a_row_of_no_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiers and changes belong to a kind that is there, and changes to tiers that are."""
    change(monkeypatch, "tiers", "fsx-scratch-2", {"kind": "lustre"})
    with pytest.raises(catalog.CatalogError, match=r"fsx-scratch-2: kind: no file system is called 'lustre'$"):
        storage.file_system_tiers.__wrapped__()
    change(monkeypatch, "changes", "fsx-tier", {"kind": "lustre"})
    with pytest.raises(catalog.CatalogError, match=r"fsx-tier: kind: no file system is called 'lustre'$"):
        storage.file_system_changes.__wrapped__()
    change(monkeypatch, "changes", "fsx-tier", {"tiers": ["SCRATCH_3"]})
    with pytest.raises(catalog.CatalogError, match=r"fsx-tier: tiers: fsx-lustre has no SCRATCH_3$"):
        storage.file_system_changes.__wrapped__()


def change(monkeypatch: pytest.MonkeyPatch, table: str, row: str, facts: dict[str, Any]) -> None:
    """Replace facts of a row, as if the data file contained them."""
    data = load(storage.FILE)
    changed = data | {table: data[table] | {row: data[table][row] | facts}}
    monkeypatch.setattr(storage, "load", lambda file: changed if file == storage.FILE else load(file))
