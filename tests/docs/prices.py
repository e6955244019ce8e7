"""Writes docs/reference/prices.md from the catalog: python -m tests.docs.prices"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

from stampworks import catalog
from stampworks.catalog import UNKNOWN, Part, PartPrice, Price, Purchase, StoragePrice

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "prices.md"
PURCHASES: tuple[Purchase, ...] = typing.get_args(Purchase)
RENTED = [each for each in catalog.machines().values() if each.cloud not in ("local", "hosts")]
HEADER = """\
# Prices

The few prices in the catalog: list prices in US dollars without taxes, read on a page or from a feed.
`components/stampworks/catalog/prices.yaml` has the figures and their sources; `python -m tests.docs.prices` writes
this page again.

A cell has the number of regions with a price, and its newest month; `undated` marks a source without a date. All other
prices are unknown: a sum that needs one is unknown, too, and lists it. No price is derived from another region, machine
or form of purchase. If sources contradict each other, the newest counts.

To add a price, add its source and the row that cites it, and run `pytest tests/catalog tests/docs`.
"""


def page() -> str:
    """The whole page."""
    sections = [
        HEADER,
        "## Nodes\n",
        *nodes(),
        "\n## File systems\n",
        *file_systems(),
        "\n## Other items\n",
        *parts(),
        "\n## Contradictions\n",
        *conflicts(),
    ]
    return "\n".join([*sections, "\n## Sources\n", *sources()]) + "\n"


def nodes() -> Iterator[str]:
    """A row for each machine that can be rented."""
    yield f"| machine | cloud | {' | '.join(PURCHASES)} |"
    yield f"| --- | --- |{' --- |' * len(PURCHASES)}"
    for machine in RENTED:
        found = [price for price in catalog.prices().values() if price.machine == machine.name]
        cells = [known([price for price in found if price.purchase == purchase]) for purchase in PURCHASES]
        yield f"| {machine.name} | {machine.cloud} | {' | '.join(cells)} |"


def file_systems() -> Iterator[str]:
    """Return a row for each way to buy a file system from a cloud."""
    yield "| file system | tier | a month of a GiB |"
    yield "| --- | --- | --- |"
    for tier in catalog.file_system_tiers().values():
        kind = catalog.file_systems()[tier.kind]
        if kind.managed:
            found = [price for price in catalog.storage_prices().values() if price.tier == tier.name]
            yield f"| {kind.title} | {tier.name} | {known(found)} |"


def parts() -> Iterator[str]:
    """A row for each part and cloud; a cloud that starts no nodes yet has none."""
    yield "| part | cloud | price |"
    yield "| --- | --- | --- |"
    for part in typing.get_args(Part):
        found = [price for price in catalog.part_prices().values() if price.part == part]
        for cloud in dict.fromkeys(price.cloud for price in found):
            yield f"| {part}, by {found[0].per} | {cloud} | {known([each for each in found if each.cloud == cloud])} |"


def conflicts() -> Iterator[str]:
    """Return all prices of things with several prices."""
    yield "| machine | region | purchase | dollars an hour of a node, the newest first |"
    yield "| --- | --- | --- | --- |"
    for key in sorted({(each.cloud, each.machine, each.region, each.purchase) for each in catalog.prices().values()}):
        found = catalog.conflicting_prices(*key)
        if len({round(each.usd_per_hour, 2) for each in found}) > 1:
            figures = ", ".join(f"{each.usd_per_hour:.2f} ({month(each)})" for each in found)
            yield f"| {key[1]} | {key[2]} | {key[3]} | {figures} |"


def sources() -> Iterator[str]:
    yield "| source | holds from | read | by |"
    yield "| --- | --- | --- | --- |"
    for each in catalog.price_sources().values():
        yield f"| {each.source} | {month(each)} | {each.read} | {each.trust} |"


def known(found: Iterable[Price | StoragePrice | PartPrice]) -> str:
    """Return the number of regions and the newest date; unknown without prices."""
    prices = list(found)
    if not prices:
        return "unknown"
    regions = {price.region for price in prices}
    count = "all regions" if "all" in regions else f"{len(regions)} region{'s' if len(regions) > 1 else ''}"
    dates = [month(price) for price in prices if price.as_of is not UNKNOWN]
    return f"{count}, {max(dates, default='undated')}"


def month(dated: Price | StoragePrice | PartPrice | catalog.PriceSource) -> str:
    return "undated" if dated.as_of is UNKNOWN else str(dated.as_of)


if __name__ == "__main__":
    PAGE.write_text(page())
