"""Find the declared field behind a value of the plan, and the effect of its change.

The policy is defined beside the declared field. Some fields have other names in a plan; the table here maps them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stampworks import catalog
from stampworks.changes.differences import Difference, PathStep
from stampworks.changes.review import DeclaredChange, Policy
from stampworks.declaration.fields import change, fields, is_list, section_of
from stampworks.declaration.values import DIRECTORY
from stampworks.plan import EVERYBODY, Plan, Storage
from stampworks.planning.build import file_systems
from stampworks.planning.build.storage import EXPIRY, expiring, options
from stampworks.planning.changes import order, stateful
from stampworks.planning.changes.access import access
from stampworks.planning.rules.managed import public

DECLARED: Mapping[str, str] = {
    "groups": "pools",
    "groups[]": "pools[]",
    "groups[].role": "pools[].scheduling_only",
    "directory": "directory.kind",
    "directory.homes": "",
    "directory.start_tls": "directory.tls",
    "fabric.rails[].rate_mbps": "fabric.rail_rate_mbps",
    "network.pods": "",
    "network.pods.cidr": "network.pods_cidr",
    "network.pods.services_cidr": "network.services_cidr",
    "network.pods.per_node": "scheduler.pods_per_node",
    "network.existing.nodes_group": "network.existing.security_groups.nodes",
    "network.existing.storage_group": "network.existing.security_groups.storage",
    "account.head_profile": "account.instance_profiles.head",
    "account.nodes_profile": "account.instance_profiles.nodes",
    "roll.unavailable_max": "roll.max_unavailable_percent",
    "scheduler.accounts[].users": "",
    "training.node_ranks": "training.ranks",
    "training.ranks": "",
    "teams": "groups",
    "teams[]": "groups[]",
    "teams[].gid": "groups[].gid",
    "teams[].folder": "",
    "users[].home": "",
    "users[].keyless": "users[].keys",
}
"""Declared fields of plan values that have another name; empty for derived values."""
LOCKED: Mapping[str, Policy] = {"groups[].launch.image": "roll", "scheduler.parts[].version": "in place"}
"""Effects of a change of values that are not declared: they were looked up and are kept in the stack's lock."""
LOGIN = "scheduler.login_nodes"
"""The field that determines everything about login nodes."""
API = "scheduler.api_from"
"""A field that is reported even for a new stack: it exposes the API server to the internet."""
RECABLING = ("fabric.leaf_nodes", "fabric.oversubscription")
"""Fields that determine how many nodes a leaf has."""


def declared(way: Sequence[PathStep]) -> str:
    """Return the declared field of a plan value; empty when no field leads to it."""
    for length in range(len(way), 0, -1):
        here = _plain([step for step in way[:length] if step.field != "order"])
        path = _spelled(here)
        whole = length == len(way)
        if whole and path.endswith("[]"):  # adding or removing an entry is a change of its list
            path = path.removesuffix("[]")
        if (field := fields().get(path)) and (whole or not (section_of(field) or is_list(field))):
            return path
        if here in DECLARED and not path:
            return ""
    return ""


def _spelled(here: str) -> str:
    if here in DECLARED:
        return DECLARED[here]
    return here.replace("groups[].", "pools[].", 1) if here.startswith("groups[].") else here


def spelled(field: str, each: Difference) -> str:
    """Return the field with the names of its entries, as the user would look for it."""
    if field == LOGIN:
        return field
    keys = [step.key for step in each.way if step.key]
    path = field
    for key in keys[: field.count("[]")]:
        path = path.replace("[]", f"[{key}]", 1)
    last = each.way[-1]
    return f"{path}[{last.key}]" if field and last.key and len(keys) > field.count("[]") else path


def of_lock(each: Difference, names: Collection[tuple[PathStep, ...]]) -> bool:
    """Whether it was looked up again, while the nodes' published image stayed the same."""
    return _plain(each.way) in LOCKED and (*each.way[:-1], PathStep("published_image")) not in names


def _looked_up(each: Difference) -> Policy | None:
    """Return the effect of another value. The first value has none: no cluster is created without it."""
    policy = LOCKED.get(_plain(each.way))
    return policy if each.a else policy and "in place"


def _plain(way: Sequence[PathStep]) -> str:
    return ".".join(step.field + ("[]" if step.key else "") for step in way)


def field_of(way: Sequence[PathStep], *plans: Plan) -> str:
    """Return the declared field of a value in these plans. The head has none; login nodes have only their number."""
    if way[0].field == "groups" and any(way[0].key == plan.controller.name for plan in plans):
        return ""
    if way[0].field == "groups" and any(way[0].key == group.name for plan in plans for group in plan.login):
        return LOGIN
    return declared(way)


def decided_by(way: Sequence[PathStep], a: Plan, b: Plan) -> str:
    """Return the field that causes a difference. The zone of the head follows the first pool."""
    its_zone = tuple(way) == (PathStep("groups", b.controller.name), PathStep("zone"))
    return "pools" if its_zone else field_of(way, a, b)


def ruled(each: Difference, field: str, written: str, a: Plan, b: Plan) -> DeclaredChange:
    """Return the declared change behind a difference, with its policy and the storage that it deletes."""
    policy = _policy(each, field)
    why, loses = "", tuple(one.name for one in stateful.anew(each.way, a, b) if not one.protect)
    if isinstance(each.a, Storage) and each.b is None:
        policy, why, loses = _removed_storage(each.a, policy)
    elif each.way[0].field == "storage" and (gone := _expiring(each, a, b)):
        why, loses = f"{gone} is deleted", (gone,)
    elif each.way[0].field == "storage" and (decided := _homes_change(each, a, b) or _file_system_change(each, a, b)):
        policy, why = decided
    elif said := _deleted_queues(each, a, b) or access(each, b):
        why = said
    elif field == API:
        why = public(each.b)
    elif each.way[0].field == "tags" and b.managed:
        policy, why = "roll", "the cloud makes its nodes from a template that has them"
    elif kept := [one for one in stateful.anew(each.way, a, b) if one.protect]:
        policy, why = "refuse", _protected_text(kept)
    elif field in RECABLING and a.fabric.leaf_nodes != b.fabric.leaf_nodes and b.fabric.kind != "simulated":
        policy = change(fields()["fabric.leaf_nodes"])
        why = f"a leaf has {b.fabric.leaf_nodes} nodes instead of {a.fabric.leaf_nodes}: nodes get other cables"
    elif policy == "in place" and stateful.renews_network(each.way, a, b):
        policy, why = "replace", "its subnets get other ranges: the network is created again, with all nodes"
    restarts = sum(nodes.count for nodes in order.staying(order.restarting(each, policy, a, b), a, b))
    return DeclaredChange(each, field, written, policy, restarts, why, () if policy == "refuse" else loses)


def _removed_storage(storage: Storage, policy: Policy | None) -> tuple[Policy | None, str, tuple[str, ...]]:
    """Return policy, reason and losses when a storage is taken out."""
    if storage.existing:
        return policy, f"nodes do not mount it any more; {storage.existing} itself stays as it is", ()
    if storage.protect:
        return "refuse", "it is protected: write protect: false and stamp that first", ()
    return policy, "", (storage.name,)


def _policy(each: Difference, field: str) -> Policy | None:
    if field == "pools" and each.way[-1].field in ("order", "zone"):
        return "replace"  # addresses follow the order of pools, and the head follows the first pool
    if field == "scheduler.addons" and each.a is None:
        return "in place"  # adding an add-on removes no objects, unlike its removal
    return change(fields()[field]) if field else _looked_up(each)


def _deleted_queues(each: Difference, a: Plan, b: Plan) -> str:
    """Describe the namespaces or queues that Kubernetes deletes, which it refuses while they contain gangs."""
    where, refused = [step.field for step in each.way], "`up` refuses while a gang is in it"
    if where == ["scheduler", "accounts"] and (gone := order.namespaces_gone(a, b)):
        named = each.way[-1].key if each.b is None else EVERYBODY
        if named in gone:
            return f"namespace {named} is deleted with everything in it; {refused}"
    if where == ["scheduler", "queues"] and each.b is None and b.scheduler.traits.has_namespaces:
        return f"is removed from each namespace; {refused}"
    return ""


def _protected_text(kept: Sequence[stateful.Stateful]) -> str:
    names = ", ".join(one.name for one in kept)
    let_go = ", ".join(one.let_go for one in kept)
    return f"protected resources would be replaced by empty ones ({names}): write {let_go}, and stamp that first"


def _homes_change(each: Difference, a: Plan, b: Plan) -> tuple[Policy | None, str] | None:
    """Refuse a change of the homes' storage, which would leave them behind. None if they do not move."""
    before, after = stateful.moved_homes(a, b)
    if not before or not (len(each.way) == 1 or each.way[-1].field in ("homes", "order")):
        return None
    what = f"homes and folders of groups are on {before}, and users would find empty ones on {after}"
    return "refuse", f"{what}: write homes: true at {before}"


def _expiring(each: Difference, a: Plan, b: Plan) -> str:
    """Describe the objects that a bucket deletes from now on; empty for none."""
    before, after = ({one.name: one for one in plan.storage}.get(each.way[0].key) for plan in (a, b))
    return expiring(before, after) if before and after and each.way[-1].field in EXPIRY else ""


def _file_system_change(each: Difference, a: Plan, b: Plan) -> tuple[Policy | None, str] | None:
    """Return the vendor's effect of a changed option. A change that would replace the file system is refused, because
    it holds data."""
    before, after = ({one.name: one for one in plan.storage}.get(each.way[0].key) for plan in (a, b))
    if before is None or after is None or DIRECTORY in (before.kind, after.kind):
        return None
    if before.existing and before.existing == after.existing and each.way[-1].field not in ("mount", "kind"):
        return "in place", f"only what is said about {after.existing} changes"
    field = each.way[-1].field
    names = {*before.features, *after.features} if field == "features" else {field}
    found = [one for one in file_systems.change(options(before), options(after)).options if one.option in names]
    if lost := [one.rule for one in found if one.effect in ("replace", "refused")]:
        return "refuse", "; ".join(lost)
    if unclear := [one.rule for one in found if isinstance(one.effect, catalog.Unknown)]:
        return None, "; ".join(dict.fromkeys(unclear))
    return ("in place", "") if found else None
