"""Tests of prices: each belongs to an existing part, and has a source."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import catalog
from stampworks.catalog import UNKNOWN, price_lists
from stampworks.catalog.rows import load, rows


def test_every_price_is_of_a_machine_of_its_cloud() -> None:
    """A name that the catalog does not have, or of another cloud, is a price that nothing finds."""
    for price in catalog.prices().values():
        assert catalog.machines()[price.machine].cloud == price.cloud, price.name


def test_every_storage_price_is_of_a_way_to_buy() -> None:
    """The same for file systems."""
    assert {price.tier for price in catalog.storage_prices().values()} <= set(catalog.file_system_tiers())


def test_every_part_is_billed_in_one_way() -> None:
    """The sum multiplies a disk by its GiB and the month, and all other parts by the hour."""
    found = {(price.part, price.per) for price in catalog.part_prices().values()}
    assert found == {
        *((part, "hour") for part in ("NAT gateway", "public address", "endpoint")),
        ("disk", "GiB and month"),
    }


def test_a_part_has_the_price_of_its_region() -> None:
    """A price without a region is used only for regions without a price of their own."""
    address = catalog.part_price("aws", "public address", "ap-south-1")
    assert address is not UNKNOWN
    assert (address.region, address.usd) == ("all", 0.005)
    assert catalog.part_price("aws", "NAT gateway", "ap-south-1") is UNKNOWN
    assert catalog.part_price("google", "public address", "us-central1") is UNKNOWN
    ireland = catalog.part_price("aws", "NAT gateway", "eu-west-1")
    assert ireland is not UNKNOWN
    assert ireland.usd == 0.048


def test_units_make_a_node() -> None:
    """A price per accelerator is multiplied by the number of accelerators; a price per node is not."""
    for row in rows(price_lists.PriceList, load("prices.yaml")["nodes"], "prices.yaml").values():
        assert row.units == (1 if row.unit == "node" else catalog.machines()[row.machine].accelerators), row.name


def test_a_price_of_another_region_machine_or_purchase_is_no_price() -> None:
    """Prices of similar machines or regions are not used as guesses."""
    found = catalog.price("aws", "p5", "us-east-1", "on-demand")
    assert found is not UNKNOWN
    assert found.usd_per_hour == 55.04
    assert catalog.price("aws", "p5", "moon-1", "on-demand") is UNKNOWN
    assert catalog.price("aws", "p5", "us-east-1", "reserved-3y") is UNKNOWN
    assert catalog.price("google", "p5", "us-east-1", "on-demand") is UNKNOWN


SOURCES = {
    "old": {"source": "a page of 2024", "as_of": "2024-12", "read": "2026-11-22", "trust": "primary"},
    "new": {"source": "a page of 2026", "as_of": "2026-01", "read": "2026-11-21", "trust": "secondary"},
    "undated": {"source": "a page", "as_of": "unknown", "read": "2026-11-23", "trust": "primary"},
}
ROW = {"cloud": "aws", "machine": "p5", "purchase": "block", "unit": "node", "units": 1, "usd": {"us-east-2": 39.33}}


def test_the_newest_of_conflicting_prices_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices are sorted by month, newest first; entries without a date come last."""
    nodes = {
        "a": {**ROW, "source": "old"},
        "b": {**ROW, "usd": {"us-east-2": 31.46}, "source": "undated"},
        "c": {**ROW, "usd": {"all": 4.5}, "unit": "accelerator", "units": 8, "source": "new"},
    }
    pretend(monkeypatch, {"sources": SOURCES, "nodes": nodes, "file_systems": {}})
    found = catalog.conflicting_prices("aws", "p5", "us-east-2", "block")
    assert [(each.usd_per_hour, each.as_of) for each in found] == [
        (36.0, "2026-01"),
        (39.33, "2024-12"),
        (31.46, UNKNOWN),
    ]
    assert found[0].why == "8 x 4.5 for one accelerator"
    assert catalog.price("aws", "p5", "us-east-2", "block") == found[0]


def test_a_price_without_a_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure names its source."""
    pretend(monkeypatch, {"sources": SOURCES, "nodes": {"a": {**ROW, "source": "hearsay"}}, "file_systems": {}})
    with pytest.raises(catalog.CatalogError) as error:
        price_lists.prices()
    assert str(error.value) == "prices.yaml: a: source: no source is called 'hearsay'"


def pretend(monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]) -> None:
    """Replace the data file's content."""
    monkeypatch.setattr(price_lists, "load", lambda file: data)
    for name in ("prices", "storage_prices", "price_sources"):
        monkeypatch.setattr(price_lists, name, getattr(price_lists, name).__wrapped__)
