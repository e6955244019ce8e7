"""The hourly cost of a plan, as far as prices are published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stampworks import catalog
from stampworks.changes.charges import Charge, Cost
from stampworks.declaration.values import DIRECTORY
from stampworks.plan import Group, Offer, Plan, Storage
from stampworks.planning.build import file_systems
from stampworks.planning.build.storage import options
from stampworks.planning.clouds import CLOUDS

MONTH_HOURS = 730
"""A twelfth of a year's 8,760 hours."""
BOUGHT_BEFORE = frozenset({"reserved", "block"})
"""Purchases that are paid for whether nodes run or not."""


@dataclass(frozen=True)
class NoPrice:
    """The reason why something has no price."""

    why: str
    sold: bool = True
    """Whether it is sold at all."""


def cost(plan: Plan) -> Cost:
    """Add up everything that is billed by the hour. The sum is unknown when a part is; unknown parts are named."""
    groups = plan.running
    nodes = [_group_charge(plan, each) for each in groups]
    storage = [
        _storage_charge(plan, each) for each in plan.storage if each.name not in by_use(plan) and not each.existing
    ]
    charges = (*nodes, *storage, *_part_charges(plan, groups))
    return Cost(charges, tuple(_uncounted(plan)) if any(each.sold for each in nodes) else ())


def _part_charges(plan: Plan, groups: Sequence[Group]) -> Iterator[Charge]:
    """Yield the charges besides nodes and file systems, where a cloud starts nodes: disks, and ways out of the
    network."""
    launches = CLOUDS[plan.cloud].launches
    if launches is None:
        return
    disks = [(group, group.launch.disk_gib, group.name) for group in groups if group.launch]
    disks += [(group, each.gib, each.of_node(group.name)) for group in groups for each in group.volumes]
    basis = " + ".join(f"{group.counts} x {gib} GiB ({name})" for group, gib, name in disks)
    least = sum(group.count_min * gib for group, gib, _ in disks)
    most = sum(group.count * gib for group, gib, _ in disks)
    yield _part_charge(plan, "disks", "disk", basis, least, most)
    own = plan.network.existing is None  # the owners of an existing network pay for its NAT gateway
    if plan.network.egress == "nat" and own:
        yield _part_charge(plan, "NAT gateway", "NAT gateway", "1 x NAT gateway")
        yield _part_charge(plan, "public address", "public address", "1 x public address, of the NAT gateway")
    if plan.scheduler.database == "managed":
        why = f"no price of a managed database in {plan.region} is known"
        yield Charge("database of the accounting", "1 x database", None, None, why)
    if own and (addressed := [each for each in plan.network.endpoints if each not in launches.routed]):
        basis = f"{len(addressed)} x endpoint: {', '.join(addressed)}"
        yield _part_charge(plan, "endpoints", "endpoint", basis, len(addressed), len(addressed))


def _part_charge(plan: Plan, what: str, part: catalog.Part, basis: str, least: int = 1, most: int = 1) -> Charge:
    found = catalog.part_price(plan.cloud, part, plan.region)
    if isinstance(found, catalog.Unknown):
        return Charge(what, basis, None, None, f"no price of a {part} in {plan.region} is known")
    hours, unit = (1, "an hour each") if found.per == "hour" else (MONTH_HOURS, f"a {found.per}")
    usd_min, usd = (round(count * found.usd / hours, 6) for count in (least, most))
    return Charge(what, basis, usd_min, usd, f"{found.usd:g} USD {unit}: {_source(found)}")


def _source(found: catalog.Price | catalog.StoragePrice | catalog.PartPrice) -> str:
    return f"{found.source}, read {found.read}, {found.trust} source"


def by_use(plan: Plan) -> list[str]:
    """List storage that is billed by use, without a declared size. Empty it costs nothing; its future content is
    unknown."""
    if CLOUDS[plan.cloud].launches is None:
        return []
    rows = {each.name: file_systems.resolve(options(each)) for each in plan.storage if each.kind != DIRECTORY}
    own = {each.name for each in plan.storage if not each.existing}
    return [name for name, row in rows.items() if name in own and row is not None and row.capacity == ()]


def _uncounted(plan: Plan) -> Iterator[str]:
    """Name further items that the cloud bills, by use or without a price in the catalog."""
    launches = CLOUDS[plan.cloud].launches
    if launches is None:
        yield "other billed items, such as disks and traffic"
        return
    if plan.network.existing:
        yield "the owners' bill for the existing network"
    elif plan.network.egress == "nat":
        yield "each GB that passes through the NAT gateway"
    if {*plan.network.endpoints} - {*launches.routed} and not plan.network.existing:
        yield "each GB that passes through the endpoints"
    if used := by_use(plan):
        yield f"storage and traffic of {', '.join(used)}, billed by use"
    if plan.scheduler.traits.control_plane:
        yield plan.scheduler.traits.control_plane
    yield "traffic to other zones and to the internet, requests, and logs"


def _group_charge(plan: Plan, group: Group) -> Charge:
    what = f"pool {group.name}" if group.role == "worker" else group.name
    basis = f"{group.counts} x {_sort(plan, group)}"
    basis += "".join(f", else {each.purchase}" for each in group.fallbacks)
    prices = []
    for found in (price_of(plan, group), *(_price_of_fallback(plan, group, each) for each in group.fallbacks)):
        if isinstance(found, NoPrice):
            return Charge(what, basis, None, None, found.why, found.sold)
        prices.append(found)
    why = ", else ".join(f"{found.usd_per_hour:g} USD a node: {_source(found)}" for found in prices)
    least, most = least_and_most(group, *(found.usd_per_hour for found in prices))
    return Charge(what, basis, round(least, 6), round(most, 6), why)


def least_and_most(group: Group, own: float, *others: float) -> tuple[float, float]:
    """Return the lowest and the highest cost of all nodes. Elastic nodes may or may not run, and count at the highest
    price among their ways of purchase."""
    elastic = group.count - group.count_min
    if group.purchase in BOUGHT_BEFORE:
        return group.count * own, group.count * own + elastic * max(others, default=0)
    return group.count_min * own, group.count_min * own + elastic * max((own, *others))


def _price_of_fallback(plan: Plan, group: Group, offer: Offer) -> catalog.Price | NoPrice:
    if offer.purchase in BOUGHT_BEFORE:
        return NoPrice(f"how much of {offer.name} was bought, which is paid for while nothing runs, is not declared")
    return price_of(plan, replace(group, purchase=offer.purchase))


def price_of(plan: Plan, group: Group) -> catalog.Price | NoPrice:
    """Return the price of one node, if it is published for this machine, region and purchase."""
    if group.machine.simulated:
        return NoPrice("simulated machines are not for sale", sold=False)
    if group.purchase == "owned":
        return NoPrice("machines of your own have no price", sold=False)
    if group.purchase == "reserved":
        return NoPrice("for how long it is reserved, which prices are for, is not declared")
    found = catalog.price(plan.cloud, group.machine.name, plan.region, group.purchase)
    return NoPrice(f"no price of {_sort(plan, group)}, is known") if isinstance(found, catalog.Unknown) else found


def _sort(plan: Plan, group: Group) -> str:
    return f"{group.machine.name}, {group.purchase}" + (f" in {plan.region}" if plan.region else "")


def _storage_charge(plan: Plan, storage: Storage) -> Charge:
    what, basis = f"storage {storage.name}", _basis(storage)
    found = price_of_storage(plan, storage)
    if isinstance(found, NoPrice):
        return Charge(what, basis, None, None, found.why, found.sold)
    unit = catalog.file_systems()[storage.kind].capacity_unit
    why = f"{found.usd_per_month:g} USD a {unit} and month: {_source(found)}"
    usd = round(storage.capacity * found.usd_per_month / MONTH_HOURS, 6)
    return Charge(what, basis, usd, usd, why)


def _basis(storage: Storage) -> str:
    unit = catalog.file_systems()[storage.kind].capacity_unit
    basis = f"{storage.capacity} {unit} of " if storage.capacity else ""
    basis += " ".join(filter(None, (storage.kind, storage.tier)))
    return basis + (f" with {', '.join(storage.bought)}" if storage.bought else "")


def price_of_storage(plan: Plan, storage: Storage) -> catalog.StoragePrice | NoPrice:
    """Return the monthly price per unit of capacity, if nothing else is billed."""
    if plan.controller.machine.simulated:
        return NoPrice("it is on the machine that simulates the cluster", sold=False)
    if storage.kind == DIRECTORY:
        return NoPrice("a disk of your own has no price", sold=False)
    row = file_systems.resolve(options(storage))
    found = catalog.storage_price(row.name, plan.region) if row else catalog.UNKNOWN
    if isinstance(found, catalog.Unknown) or not storage.capacity:
        return NoPrice(f"no price of it{f' in {plan.region}' if plan.region else ''} is known")
    extra = [name for name in ("throughput_mbps", "read_cache_gib", "metadata_iops") if getattr(storage, name)]
    if extra := [*extra, *(feature for feature in storage.features if feature == "backups")]:
        return NoPrice(f"the charges for {', '.join(extra)} are not known")
    return found
