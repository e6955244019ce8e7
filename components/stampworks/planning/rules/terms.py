"""Storage of an account's owners, and their terms: keys, boundaries, profiles of machines, and tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from stampworks.declaration.values import DIRECTORY
from stampworks.plan import Plan, Storage, existing_parts
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.existing import ABSENT
from stampworks.planning.rules.findings import Facts, Finding, Severity
from stampworks.planning.rules.reading import UnknownFact, known

if TYPE_CHECKING:
    from stampworks.planning.rules.owned import Boundary, OwnedStorage


def storage(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Existing storage is in the account, in reach of the nodes, and as declared."""
    id_ = "existing.storage"
    for index, one in enumerate(plan.storage):
        if not one.existing or one.kind == DIRECTORY:
            continue
        place = f"storage[{index}]"
        try:
            there: dict[str, OwnedStorage] = {each.id: each for each in known(facts, "owned_storage")}
        except UnknownFact as unread:
            text = f"whether {one.existing} of {one.name} can be mounted: {unread}"
            yield Finding(id_, "unknown", text, unread.hint, f"{place}.existing", subject=one.name)
            continue
        wrong = list(_wrong(plan, one, there.get(one.existing)))
        for field, text, hint in wrong:
            yield Finding(id_, "fail", text, hint, f"{place}.{field}", subject=one.name)
        if not wrong:
            text = f"{one.existing} of {one.name} is there, and nodes can mount it"
            yield Finding(id_, "pass", text, "", f"{place}.existing", subject=one.name)


def _wrong(plan: Plan, one: Storage, found: OwnedStorage | None) -> Iterator[tuple[str, str, str]]:
    """Yield field, text and hint of problems with existing storage."""
    id_, network = one.existing, plan.network.existing
    if found is None:
        yield "existing", f"the account has no {one.kind} {id_} in {plan.region}", ABSENT
        return
    if found.region != plan.region:
        yield "existing", f"{id_} is in {found.region}, and nodes are in {plan.region}", "take one of the same region"
        return
    if not found.networks and one.kind != "s3":
        yield "existing", f"{id_} has an address in no network", "ask its owners for one in the zone of the nodes"
    elif network and found.networks and network.vpc not in found.networks:
        text = f"{id_} is in {', '.join(found.networks)}, and nodes are in {network.vpc}"
        yield "existing", text, f"take one of {network.vpc}, or write the network that it is in"
    elif found.networks and plan.network.zone not in found.zones:
        text = f"{id_} has an address in {', '.join(found.zones)}, and none in {plan.network.zone}, where the nodes are"
        yield "existing", text, "put the nodes into its zone, or ask its owners for an address in theirs"
    if found.tier and one.tier and found.tier != one.tier:
        yield "tier", f"{id_} is {found.tier}, and not {one.tier}", f"write tier: {found.tier}"
    if found.capacity and one.capacity and found.capacity != one.capacity:
        yield "capacity", f"{id_} has {found.capacity} GiB, and not {one.capacity}", f"write capacity: {found.capacity}"
    if one.efa and not found.efa:
        yield "efa", f"{id_} was made without EFA", "take efa out"


def keys(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The key of the account's owners is there, and encrypts data now."""
    if not (key := plan.account.key):
        return
    id_, place = "existing.key", "account.key"
    try:
        one = next((each for each in known(facts, "owned_keys") if each.id == key), None)
    except UnknownFact as unread:
        yield Finding(id_, "unknown", f"whether {key} encrypts: {unread}", unread.hint, place)
        return
    if one is None:
        yield Finding(id_, "fail", f"there is no {key}", ABSENT, place)
    elif one.state != "Enabled":
        text = f"{key} encrypts nothing: its state is {one.state}"
        yield Finding(id_, "fail", text, "ask its owners to enable it, or take another", place)
    elif not one.encrypts:
        text = f"{key} is not a symmetric key for encryption, which disks and file systems need"
        yield Finding(id_, "fail", text, "take a symmetric key", place)
    else:
        yield Finding(id_, "pass", f"{key} is enabled, and encrypts data", "", place)


def profiles(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Instance profiles of the account's owners are there."""
    id_ = "existing.profile"
    for field, name in (("head", plan.account.head_profile), ("nodes", plan.account.nodes_profile)):
        place = f"account.instance_profiles.{field}"
        if not name:
            continue
        try:
            there = known(facts, "owned_profiles")
        except UnknownFact as unread:
            text = f"whether there is an instance profile {name}: {unread}"
            yield Finding(id_, "unknown", text, unread.hint, place, subject=field)
            continue
        if name in there:
            yield Finding(id_, "pass", f"there is an instance profile {name}", "", place, subject=field)
        else:
            text = f"the account has no instance profile {name}"
            yield Finding(id_, "fail", text, "write an existing one, or remove it", place, subject=field)


def boundary(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The boundary allows every action that nodes need."""
    arn, forms = plan.account.permissions_boundary, CLOUDS[plan.cloud].existing
    if not arn or forms is None:
        return
    id_, place = "existing.boundary", "account.permissions_boundary"
    try:
        one = next((each for each in known(facts, "boundaries") if each.id == arn), None)
    except UnknownFact as unread:
        yield Finding(id_, "unknown", f"whether {arn} allows what nodes do: {unread}", unread.hint, place)
        return
    if one is None:
        yield Finding(id_, "fail", f"there is no policy {arn}", ABSENT, place)
        return
    if plan.managed:
        text = f"whether {arn} allows what roles of a managed Kubernetes do: their policies are the cloud's own"
        yield Finding(id_, "unknown", text, "ask its owners", place)
        return
    lacking, depends = _judged(one, forms.rights(plan))
    if lacking:
        text = f"{arn} does not allow {', '.join(lacking)}, which nodes need"
        hint = f"ask its owners to add a statement that allows {', '.join(lacking)}"
        yield Finding(id_, "fail", text, hint, place)
    elif depends:
        text = f"whether {arn} allows {', '.join(depends)}: its statements have conditions, or name resources"
        yield Finding(id_, "unknown", text, "ask its owners", place)
    else:
        yield Finding(id_, "pass", f"{arn} allows what nodes need", "", place)


def _judged(one: Boundary, actions: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the actions that a boundary does not allow, and those that depend on the call."""
    lacking, depends = [], []
    for action in actions:
        denied, allowed, unsure = (_match(action, each) for each in (one.denied, one.allowed, one.depends))
        if denied or not (allowed or unsure):
            lacking.append(action)
        elif unsure:
            depends.append(action)
    return lacking, depends


def _match(action: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(action.lower(), each.lower()) for each in patterns)


def tags(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Declared tags have the names and values that the account's organisation asks for."""
    if CLOUDS[plan.cloud].existing is None or not plan.tags:
        return
    if facts.account is None and not existing_parts(plan):
        return  # the rule `account` says so
    id_ = "tags.policy"
    try:
        rules = {each.name.lower(): each for each in known(facts, "tag_rules")}
    except UnknownFact as unread:
        text = f"whether the organisation takes the tags {', '.join(tag.name for tag in plan.tags)}: {unread}"
        yield Finding(id_, "unknown", text, unread.hint, "tags", "warning")
        return
    for index, tag in enumerate(plan.tags):
        if (rule := rules.get(tag.name.lower())) is None:
            continue
        severity: Severity = "error" if rule.enforced else "warning"
        place, refused = f"tags[{index}]", ", and refuses others" if rule.enforced else ""
        if rule.name != tag.name:
            text = f"the organisation spells the tag {rule.name}, and not {tag.name}{refused}"
            yield Finding(id_, "fail", text, f"write name: {rule.name}", f"{place}.name", severity, tag.name)
        elif rule.values and not any(fnmatchcase(tag.value, each) for each in rule.values):
            text = f"the organisation takes no {tag.name}: {tag.value}{refused}"
            hint = f"write one of {', '.join(rule.values)}"
            yield Finding(id_, "fail", text, hint, f"{place}.value", severity, tag.name)
        else:
            text = f"{tag.name}: {tag.value} is as the organisation asks"
            yield Finding(id_, "pass", text, "", place, severity, tag.name)
