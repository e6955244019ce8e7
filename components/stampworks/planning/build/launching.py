"""Choose how a cloud starts nodes: launch parameters, and egress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from stampworks import catalog
from stampworks.declaration import AGAIN, Declaration, DeclarationSource
from stampworks.declaration.wording import alternatives
from stampworks.plan import DATABASE, Egress, Group, Launch, Network, Plan, Release, Software, Subnet, Tag
from stampworks.planning.build import existing, hosts
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.ports import STORAGE
from stampworks.planning.clouds.choices import Choices, Launches, Subnets

EGRESS = "egress"
"""Name of the subnet of the NAT gateway."""
MAKE_IMAGE = "make an image that has the release, and lock that, as docs/how-to/aws-images.md says"


def launched(
    groups: Sequence[Group], source: DeclarationSource, release: Release, choices: Choices, notes: Notes
) -> tuple[Group, ...]:
    """Add launch parameters to the groups whose nodes the cloud starts."""
    if choices.launches is None:
        return tuple(groups)
    how, lock = choices.launches, source.lock
    if lock.region not in ("", source.sound.region):
        problem = f"the images were looked up in {lock.region}, and each region has its own"
        notes.problem("region", problem, MAKE_IMAGE if lock.made_with and not lock.is_example else AGAIN)
    if lock.made_with not in ("", release.name):
        problem = (
            f"the images of the lock were made with release {lock.made_with}, but the declared release is "
            f"{release.name}"
        )
        other = f"make images with {release.name}, or write release: {lock.made_with}"
        notes.problem("release", problem, AGAIN if lock.is_example else other)
    notes.reason("groups.launch.disk_gib", how.disk_why)
    managed = choices.runs(source.sound.scheduler.kind) is not None
    return tuple(
        _launched(group, release, source, how, managed, notes) if group.role != "scheduling only" else group
        for group in groups
    )


def tagged(declaration: Declaration, groups: Sequence[Group], choices: Choices, notes: Notes) -> tuple[Tag, ...]:
    """Return the tags of all created resources. A cloud refuses a resource with too many tags, and a node with a wrong
    one."""
    tags, how = tuple(Tag(each.name, each.value) for each in declaration.tags), choices.launches
    if how is None:
        return tags
    if (over := len(tags) - how.tags_max) > 0:
        problem = f"there are {len(tags)} tags, and room for {how.tags_max}: {how.tags_why}"
        notes.problem("tags", problem, f"take {over} out")
    if elastic := ", ".join(group.name for group in groups if group.elastic):
        for index, tag in enumerate(tags):
            if wrong := " ".join(sorted({*tag.name} & {*how.tags_unread})):
                problem = (
                    f"nodes of {elastic} that do not always run read their own tags, whose names must not "
                    f"contain {wrong}"
                )
                notes.problem(f"tags[{index}].name", f"{problem} in its name", f"write it without {wrong}")
    return tags


def elsewhere(release: Release) -> Iterator[tuple[Software, str]]:
    """Yield the software that nodes need and their repositories lack, with its publisher's repository."""
    row = catalog.releases()[release.name]
    for rows, needed in ((row.hardware, release.hardware), (row.clients, release.clients)):
        yield from ((each, where) for each in needed if (where := rows[each.name].repository))


def minor(release: Release) -> str:
    """Return the minor version of Kubernetes as clouds write it, like 1.35; empty for another scheduler."""
    return ".".join(dict(release.kubernetes).get("kubernetes", "").split(".")[:2])


def locked(part: str, release: Release) -> str:
    """Return the lock's name of a managed component, whose version depends on that of Kubernetes."""
    return f"{minor(release)}/{part}"


def _launched(
    group: Group, release: Release, source: DeclarationSource, how: Launches, managed: bool, notes: Notes
) -> Group:
    row = catalog.machines()[group.machine.name]
    vendor = _vendor_kind(group, row, catalog.releases()[release.name])
    kind = (" managed accelerated" if group.machine.accelerators else " managed") if managed else vendor
    suite = f"{release.suite}{kind}"
    image = catalog.published_image(row, suite)
    published = image.of(row, minor(release))
    if not published:
        problem = f"nodes of release {release.name} boot an image for x86_64, and {row.name} of {group.name} is arm64"
        notes.problem("release", problem, f"write release: {alternatives(made_with_packer(row.cloud))}")
    together = [purchase for purchase in how.together if group.rails]
    if vendor and not managed:
        brought = catalog.releases()[release.name].vendor_images[row.cloud]
        parts = ", ".join(f"{part} {version}" for each in brought.parts.values() for part, version in each.items())
        notes.reason(f"groups.{group.name}.launch.published_image", f"{brought.image}, which has {parts}")
    if group.rails:
        why = how.together_why if group.purchase in together else how.apart_why
        notes.reason(f"groups.{group.name}.launch.placed_together", why)
    return replace(
        group,
        volumes=tuple(replace(volume, gib=how.state_gib) for volume in group.volumes),
        launch=Launch(
            instance_type=row.aliases[0],
            image=source.lock.images[published].id if published in source.lock.images else "",
            published_image=published,
            prepared=managed or source.lock.made_with == release.name,
            user=image.user,
            root_device=image.root_device,
            agent=catalog.agent_package(row, suite, source.sound.region),
            disk_gib=how.disk_gib,
            interfaces=how.interfaces(row, source.sound.network.card_addresses),
            placed_together=group.purchase in together,
        ),
        fallbacks=tuple(replace(each, placed_together=each.purchase in together) for each in group.fallbacks),
    )


def _vendor_kind(group: Group, machine: catalog.Machine, release: catalog.Release) -> str:
    """Return the additions to the suite if nodes boot the release's vendor image; empty otherwise."""
    image = release.vendor_images.get(machine.cloud)
    return f" {image.kind}" if image and (machine.accelerator in release.accelerators or group.rails) else ""


def made_with_packer(cloud: str) -> list[str]:
    """Return the releases whose images can be built: those without a vendor's image."""
    return [
        row.name
        for row in catalog.releases().values()
        if cloud in (row.clouds or (cloud,)) and cloud not in row.vendor_images
    ]


def vendor_image(plan: Plan, group: Group) -> catalog.VendorImage | None:
    """Return the vendor's image that the nodes of a group boot; None for another image."""
    return catalog.releases()[plan.release.name].vendor_images[plan.cloud] if plan.boots_vendor_image(group) else None


def _refuse_options(declaration: Declaration, choices: Choices, notes: Notes) -> None:
    """Refuse settings that need a cloud that starts nodes."""
    existing.network(declaration, (), choices, notes)
    if declaration.network.card_addresses:
        problem = f"the NICs of nodes of {declaration.cloud} cannot be chosen"
        notes.problem("network.card_addresses", problem, "take it out")
    if declaration.network.egress and not hosts.listed(declaration):
        problem = f"egress cannot be chosen on {declaration.cloud} yet"
        notes.problem("network.egress", problem, "take it out")


def connected(network: Network, declaration: Declaration, choices: Choices, notes: Notes) -> Network:
    """Return the network with egress for its nodes, and the endpoints that they need."""
    wanted, card_addresses = declaration.network.egress, declaration.network.card_addresses
    if choices.launches is None:
        _refuse_options(declaration, choices, notes)
        return replace(network, egress=wanted or "nat") if hosts.listed(declaration) else network
    how, egress = choices.launches, wanted or "nat"
    endpoints = _endpoints(egress, declaration, how, choices)
    if not wanted:
        notes.reason("network.egress", "nodes have private addresses, and packages and images come from the internet")
    found = existing.network(declaration, network.subnets, choices, notes)
    if found:
        return replace(
            network,
            zone=declaration.pools[0].zone,
            egress=egress,
            endpoints=endpoints,
            card_addresses=card_addresses,
            existing=found,
        )
    managed = declaration.scheduler.database == "managed"
    addressed = {"endpoints": len({*endpoints} - {*how.routed}), "database": int(managed)}
    more = sum(addressed.values())
    if egress == "nat":
        notes.reason(f"network.subnets.{EGRESS}", _BESIDE_STORAGE)
        notes.reason(f"network.subnets.{EGRESS}.needed", "1 x 1 (gateway) = 1")
    known = all(subnet.needed is not None for subnet in network.subnets)
    if more and known:
        parts = " + ".join(f"{count} x 1 ({what})" for what, count in addressed.items() if count)
        notes.reason(f"network.subnets.{STORAGE}.needed", f"{parts} = {more}")
    subnets = tuple(
        replace(each, needed=_sum(each.needed, more)) if each.name == STORAGE else each for each in network.subnets
    )
    if egress == "nat":
        subnets = tuple(_split_storage(subnets, EGRESS, public=True))
    if managed:
        notes.reason(f"network.subnets.{DATABASE}", _BESIDE_STORAGE)
        notes.reason(f"network.subnets.{DATABASE}.needed", "1 x 1 (database) = 1")
        subnets = tuple(_split_storage(subnets, DATABASE, public=False))
    if choices.subnets:
        _refuse_small(network.cidr, subnets, choices.subnets, notes)
    return replace(
        network,
        subnets=subnets,
        zone=declaration.pools[0].zone,
        egress=egress,
        endpoints=endpoints,
        card_addresses=card_addresses,
    )


def _endpoints(egress: Egress, declaration: Declaration, how: Launches, choices: Choices) -> tuple[str, ...]:
    own = choices.runs(declaration.scheduler.kind)
    more = own.endpoints if own and egress == "none" else ()
    return (*how.endpoints[egress], *more)


_BESIDE_STORAGE = f"half of what {STORAGE} had, which takes few addresses"


def _split_storage(subnets: Sequence[Subnet], name: str, *, public: bool) -> Iterator[Subnet]:
    """Split the subnet of file systems, which needs few addresses, to make room for a subnet with a single address."""
    for subnet in subnets:
        if subnet.name == STORAGE:
            lower, upper = (str(half) for half in IPv4Network(subnet.cidr).subnets())
            yield replace(subnet, cidr=lower)
            yield replace(subnet, name=name, cidr=upper, needed=1, public=public)
        else:
            yield subnet


def _refuse_small(cidr: str, subnets: Sequence[Subnet], rules: Subnets, notes: Notes) -> None:
    """Refuse split subnets that are smaller than the cloud allows."""
    prefix = max((IPv4Network(each.cidr).prefixlen for each in subnets), default=0)  # empty after another problem
    if (beyond := prefix - rules.longest_prefix) <= 0:
        return
    small = [each.name for each in subnets if IPv4Network(each.cidr).prefixlen == prefix]
    enough = IPv4Network(cidr).supernet(prefixlen_diff=beyond)
    notes.problem(
        "network.cidr",
        f"{cidr} is too small: it leaves a /{prefix} for each of {', '.join(small)}, and the cloud has no subnet "
        f"smaller than a /{rules.longest_prefix}",
        f"the smallest range that suffices is a /{enough.prefixlen}, for example {enough}",
    )


def _sum(needed: int | None, more: int) -> int | None:
    return None if needed is None else needed + more
