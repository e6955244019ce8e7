"""All rules, in the order of their findings. docs/reference/rules.md is made from this table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stampworks.changes.outcomes import NOT_STAMPED
from stampworks.plan import Plan
from stampworks.planning.rules import (
    addons,
    addresses,
    cost,
    existing,
    fabric,
    host_hardware,
    hosts,
    images,
    managed,
    network_now,
    offers,
    placement,
    purchase,
    queues,
    quota,
    reading,
    release,
    reservations,
    rights,
    scheduler,
    storage,
    terms,
    training,
)
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.rule import Id, Need, Rule

NOTHING: Final[tuple[Need, ...]] = ()
FACTS: Final[tuple[Need, ...]] = ("facts",)
TODAY: Final[tuple[Need, ...]] = ("today",)
BOTH: Final[tuple[Need, ...]] = ("facts", "today")

_ADDON = ("scheduler.addons.*",)
_HOSTS = ("hosts.machines", "hosts.machines[]")

RULES: Final = (
    Rule(NOT_STAMPED, NOTHING, placement.stamped, ("cloud", "hosts")),
    Rule("fabric.loopback", FACTS, fabric.loopback, ("fabric.rail_rate_mbps",)),
    Rule("addresses.room", NOTHING, addresses.addresses, ("network.cidr", "network.pods_cidr")),
    Rule("addresses.storage", NOTHING, addresses.storage_addresses, ("network.cidr",)),
    Rule("addresses.pods", NOTHING, addresses.pods, ("network.pods_cidr",)),
    Rule(
        "kueue",
        NOTHING,
        queues.queues,
        several=(
            Id("kueue.queues", "Kueue does all that the scheduler is declared to do.", ()),
            Id("kueue.preemption", "Preempted jobs are requeued: Kueue cannot cancel them.", ("scheduler.preemption",)),
            Id("kueue.accounting", "No accounting is declared: only Slurm supports it.", ("scheduler.accounting",)),
            Id(
                "kueue.time-limit",
                "No queue has a time limit: Kueue limits single jobs only.",
                ("scheduler.queues[].time_limit_minutes",),
            ),
            Id(
                "kueue.preempts",
                "A priority preempts every lower one: Kueue uses only weights.",
                ("scheduler.priorities[]",),
            ),
            Id("kueue.namespace", "The name of an account is a free namespace.", ("scheduler.accounts[].name",)),
            Id(
                "kueue.quota",
                "The limit of an account is enough for one node of a queue.",
                ("scheduler.accounts[].accelerators_max",),
            ),
            Id(
                "kueue.limit",
                "The limit of an account concerns a single pool: Kueue counts it in each.",
                ("scheduler.accounts[].accelerators_max",),
            ),
            Id(
                "kueue.share",
                "The share of an account owns at least one node of each queue.",
                ("scheduler.accounts[].share",),
            ),
            Id(
                "kueue.names",
                "Names of accounts, queues and storage give distinct names of objects.",
                ("scheduler.accounts[].name", "storage[].name"),
            ),
            Id(
                "kueue.priority",
                "The priority of a queue reaches the jobs of `stampworks submit`.",
                ("scheduler.queues",),
            ),
        ),
    ),
    Rule("pools.queue", NOTHING, scheduler.without_queue, ("pools[]",)),
    Rule(
        "kubernetes",
        TODAY,
        managed.managed,
        several=(
            Id("kubernetes.version", "The cloud still supports the version of Kubernetes.", ("release",)),
            Id(
                "kubernetes.api",
                "The caller of an `up` reaches the server of Kubernetes.",
                ("scheduler.api_from",),
            ),
            Id(
                "kubernetes.proof",
                "Proofs and runs start from an image that is named by its digest.",
                ("scheduler.workloads_image",),
            ),
            Id(
                "kubernetes.storage",
                "A driver brings the storage into pods, on the declared way.",
                ("storage[]", "storage[].efa"),
            ),
            Id(
                "kubernetes.images",
                "Nodes reach the registries of all images that the cluster runs.",
                ("network.egress",),
            ),
        ),
    ),
    Rule(
        "addons",
        NOTHING,
        addons.addons,
        several=(
            Id("addons.fit", "All add-ons go together.", ()),
            Id("addons.needs", "All required add-ons exist.", _ADDON),
            Id("addons.hardware", "The hardware of the nodes has the add-ons that it needs, and no others.", _ADDON),
            Id("addons.installer", "The add-on is installed before its objects are created.", _ADDON),
            Id("addons.mig", "Accelerators are whole: queues, runs and proofs count no parts of them.", _ADDON),
            Id("addons.kubernetes", "The add-on is for the version of Kubernetes of the release.", _ADDON),
            Id("addons.excludes", "No two add-ons exclude each other.", _ADDON),
        ),
    ),
    Rule("placement.region", NOTHING, placement.region, ("region",)),
    Rule("placement.zones", NOTHING, placement.zones, ("pools",)),
    Rule("placement.subnet", NOTHING, placement.subnets_of_nodes, ("pools[].zone",)),
    Rule(
        "purchase",
        NOTHING,
        purchase.purchases,
        several=(
            Id("purchase.block", "A pool in a block of capacity names the block.", ("pools[].purchase",)),
            Id("purchase.reserved", "A pool in reserved capacity names the reservation.", ("pools[].purchase",)),
            Id("purchase.end", "Mail is sent before a block of capacity ends.", ("budget.notify",)),
            Id("purchase.spot", "A pool of spot instances has storage that outlives its nodes.", ("pools[].purchase",)),
        ),
    ),
    Rule("machine.shape", NOTHING, purchase.shapes, ("pools[].count", "pools[].purchase")),
    Rule("group.size", NOTHING, purchase.group_sizes, ("pools[].count",)),
    Rule("release.accelerator", NOTHING, release.drivers, ("pools[].machine",)),
    Rule("release.client", NOTHING, release.clients, ("storage[].kind",)),
    Rule("release.torch", NOTHING, release.provable, ("pools[].machine",)),
    Rule(
        "elastic",
        NOTHING,
        purchase.elastic,
        several=(
            Id("elastic.boot", "Nodes that start later can configure themselves.", ("pools[].count_min",)),
            Id("elastic.purchase", "Nodes that stop cost nothing while they are stopped.", ("pools[].count_min",)),
            Id(
                "elastic.proof", "Enough nodes always run for a proof to measure them together.", ("pools[].count_min",)
            ),
        ),
    ),
    Rule("account", FACTS, reading.account),
    Rule("rights.up", FACTS, rights.rights),
    Rule("rights.launch", FACTS, rights.launches),
    Rule("placement.offers", FACTS, offers.offers, ("pools[].zone", "pools[].machine", "region")),
    Rule(
        "purchase.reservation",
        BOTH,
        reservations.reservations,
        (
            *("pools[].reservation", "pools[].machine", "pools[].zone", "pools[].purchase", "pools[].count"),
            *("pools[].fallbacks[].reservation", "pools[].fallbacks[].purchase"),
        ),
    ),
    Rule("quota", FACTS, quota.machine_limits, ("pools", "pools[].fallbacks[]")),
    Rule("quota", FACTS, quota.other_limits, ("network", "storage")),
    Rule("machine.interfaces", FACTS, offers.interfaces, ("pools[].machine", "region")),
    Rule("network.endpoints", FACTS, network_now.services, ("network.egress",)),
    Rule(
        "network.now",
        FACTS,
        network_now.network_now,
        several=(
            Id("addresses.free", "The subnet of nodes has free addresses for the nodes to come.", ("network.cidr",)),
            Id("network.public", "The subnet of nodes gives no public addresses.", ("network",)),
            Id("network.egress", "A route leads from the private subnets to the world.", ("network.egress",)),
        ),
    ),
    Rule("existing.network", FACTS, existing.networks, ("network.existing.vpc", "network.cidr")),
    Rule(
        "existing.subnets",
        FACTS,
        existing.subnets,
        ("network.existing.subnets", "network.existing.subnets[]", "network.existing.subnets[].*"),
    ),
    Rule(
        "existing.groups",
        FACTS,
        existing.groups,
        several=(
            Id(
                "existing.groups",
                "Existing security groups let nodes and file systems reach each other, and nodes the world.",
                ("network.existing.security_groups", "network.existing.security_groups.*"),
            ),
            Id(
                "existing.efa",
                "The existing group of nodes allows all traffic from and to itself, as EFA needs.",
                ("network.existing.security_groups.nodes",),
            ),
        ),
    ),
    Rule(
        "existing.room",
        FACTS,
        existing.rooms,
        several=(
            Id(
                "existing.room",
                "Existing subnets have free addresses for new nodes and file systems.",
                ("network.existing.subnets", "network.existing.subnets[].id"),
            ),
            Id(
                "existing.public",
                "The existing subnet of nodes gives no public addresses.",
                ("network.existing.subnets[].id",),
            ),
        ),
    ),
    Rule(
        "existing.storage",
        FACTS,
        terms.storage,
        tuple(f"storage[].{field}" for field in ("existing", "tier", "capacity", "efa")),
    ),
    Rule("existing.key", FACTS, terms.keys, ("account.key",)),
    Rule("existing.profile", FACTS, terms.profiles, ("account.instance_profiles.*",)),
    Rule("existing.boundary", FACTS, terms.boundary, ("account.permissions_boundary",)),
    Rule("tags.policy", FACTS, terms.tags, ("tags", "tags[]", "tags[].name", "tags[].value")),
    Rule("existing.egress", FACTS, existing.ways, ("network.egress",)),
    Rule("placement.near", FACTS, network_now.nearness, ("pools", "pools[]")),
    Rule("image.there", BOTH, images.images, ("region",)),
    Rule("hosts.asked", FACTS, hosts.asked, _HOSTS),
    Rule("hosts.reached", FACTS, hosts.reached, _HOSTS),
    Rule("hosts.identity", FACTS, hosts.identity, _HOSTS),
    Rule("hosts.container", FACTS, hosts.containers, _HOSTS),
    Rule("hosts.sudo", FACTS, hosts.rights, _HOSTS),
    Rule("hosts.system", FACTS, hosts.system, _HOSTS),
    Rule("hosts.claimed", FACTS, hosts.claims, _HOSTS),
    Rule("hosts.machine", FACTS, host_hardware.machines, _HOSTS),
    Rule("hosts.kinds", FACTS, host_hardware.kinds, _HOSTS),
    Rule("hosts.ports", FACTS, host_hardware.ports, _HOSTS),
    Rule("hosts.fabric", FACTS, host_hardware.fabric, _HOSTS),
    Rule("hosts.inside", FACTS, hosts.inside, _HOSTS),
    Rule("hosts.mtu", FACTS, host_hardware.mtus, _HOSTS),
    Rule("hosts.clock", FACTS, hosts.clocks, _HOSTS),
    Rule("hosts.disks", FACTS, host_hardware.disks, _HOSTS),
    Rule("hosts.storage", FACTS, hosts.storage, (*_HOSTS, "storage[].existing")),
    Rule("fabric.nics", NOTHING, fabric.fabrics, ("pools[].machine",)),
    Rule("fabric.mixed", NOTHING, fabric.one_fabric, ("pools",)),
    Rule("machine.facts", NOTHING, fabric.known_facts_of_machines, ("pools[].machine",)),
    Rule("memory.fit", NOTHING, training.memory_fit, ("training.layout",)),
    Rule("training.idle", NOTHING, training.idle, ("training.batch",)),
    Rule(
        "storage",
        NOTHING,
        storage.file_systems_of,
        several=(
            Id("storage.legal", "The vendor sells the file system with these options.", ("storage[].*",)),
            Id("storage.efa", "Nodes reach storage with `efa: true` over EFA.", ("storage[].efa",)),
            Id("storage.fleet", "Saving the memory of all accelerators costs little of the time.", ("storage[]",)),
            Id("storage.zone", "All pools are in the zone of the file system.", ("pools",)),
        ),
    ),
    Rule("storage.runs", NOTHING, storage.runs, ("storage[]",)),
    Rule("storage.checkpoints", NOTHING, storage.kept, ("training.checkpoints.directory",)),
    Rule("scheduler.database", NOTHING, scheduler.vouched, ("scheduler.database",)),
    Rule("price.age", TODAY, cost.prices, ("pools[].machine", "storage[]")),
    Rule("cost.budget", NOTHING, cost.budget, ("budget.monthly_usd",)),
    Rule("cost.notify", NOTHING, cost.told, ("budget.notify",)),
    Rule(  # Last, because its findings are not mistakes in the declaration
        "lock",
        NOTHING,
        images.lookups,
        several=(
            Id(images.LOCKED, "The lock holds the image that nodes boot.", ("region",)),
            Id(images.EXAMPLE, "The lock is not the example that a stack came with.", ("region",)),
            Id(images.PARTS, "The lock holds the versions of the cloud's Kubernetes add-ons.", ("region",)),
            Id(
                images.PREPARED,
                "The image of the nodes has the software that they cannot install.",
                ("network.egress", "release"),
            ),
        ),
    ),
)


def rules(plan: Plan, facts: Facts | None, as_of: str | None = None) -> tuple[Finding, ...]:
    """Return the findings of all rules, in a fixed order. Without the day or a fact, rules that need it report
    unknown."""
    known = known_of(plan, facts, as_of)
    return tuple(finding for rule in RULES for finding in rule.findings(plan, known))


def known_of(plan: Plan, facts: Facts | None, as_of: str | None) -> Facts:
    """Return the facts that hold for this plan on this day."""
    return reading.of_this(plan, replace(facts or Facts(), as_of=as_of))
