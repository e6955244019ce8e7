"""The nodes that a change stops, and the order of steps in an `up`, which is that of cluster/component.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stampworks.changes.differences import Difference
from stampworks.changes.review import AffectedNodes, DeclaredChange, Operation, Policy, Stage
from stampworks.plan import EVERYBODY, Group, Plan, declared_pools
from stampworks.planning.build.storage import EXPIRY
from stampworks.planning.changes import stateful
from stampworks.text.names import fold


def restarting(each: Difference, policy: Policy | None, a: Plan, b: Plan) -> frozenset[str]:
    """Return the groups whose nodes are replaced."""
    if policy not in ("roll", "replace"):
        return frozenset()
    first = each.way[0]
    if _recables(each, b):
        return frozenset(group.name for group in a.groups if group.rails)
    if first.field != "groups":
        return frozenset(group.name for group in a.groups)
    if first.key:
        head = {b.controller.name} if stateful.moves_head(each.way, a, b) else set()
        return frozenset({first.key, *head})
    places = [{group.name: place for place, group in enumerate(declared_pools(plan.groups))} for plan in (a, b)]
    return frozenset(name for name, place in places[0].items() if places[1].get(name, place) != place)


def _recables(each: Difference, plan: Plan) -> bool:
    """Whether the change concerns real cables. A simulated fabric belongs to the creation of nodes instead."""
    return each.way[0].field == "fabric" and plan.fabric.kind != "simulated"


def staying(groups: frozenset[str], a: Plan, b: Plan) -> tuple[AffectedNodes, ...]:
    """Return the nodes of these groups that exist before and after."""
    return tuple(
        AffectedNodes(one.name, min(one.count, other.count), min(_names(one), _names(other), key=len))
        for one, other in _common_groups(a, b)
        if one.name in groups
    )


def restarted(changes: Sequence[DeclaredChange], a: Plan, b: Plan) -> tuple[AffectedNodes, ...]:
    """Return the nodes that any of these changes replaces."""
    of_each = (restarting(each.difference, each.policy, a, b) for each in changes)
    return staying(frozenset[str]().union(*of_each), a, b)


def joining(a: Plan | None, b: Plan | None) -> tuple[AffectedNodes, ...]:
    """Return the nodes that the `up` starts. Elastic nodes start with the work, before and after."""
    return _only_in(b, a, lambda group: group.count_min)


def leaving(a: Plan | None, b: Plan | None) -> tuple[AffectedNodes, ...]:
    """Return the nodes that the `up` removes, assuming that all of them run."""
    return _only_in(a, b, lambda group: group.count)


def _only_in(here: Plan | None, there: Plan | None, run: Callable[[Group], int]) -> tuple[AffectedNodes, ...]:
    others = {group.name: group for group in _real(there)}
    found = []
    for group in _real(here):
        other = others.get(group.name)
        known = set(_names(other)[: run(other)]) if other else set()
        more = run(group) - (run(other) if other else 0)
        if more > 0:
            names = tuple(name for name in _names(group)[: run(group)] if name not in known)
            found.append(AffectedNodes(group.name, more, names))
    return tuple(found)


def idling(a: Plan, b: Plan) -> tuple[AffectedNodes, ...]:
    """Return the nodes that always ran, and become elastic."""
    found = [(one.name, _names(other)[other.count_min : one.count_min]) for one, other in _common_groups(a, b)]
    return tuple(AffectedNodes(name, len(names), names) for name, names in found if names)


def operations(changes: Sequence[DeclaredChange], a: Plan, b: Plan) -> tuple[Operation, ...]:
    """Return the steps of the `up` that makes the changes; none if one of them is refused, because nothing happens
    then."""
    if any(each.policy == "refuse" for each in changes):
        return ()
    return tuple(Operation(stage, text) for stage, text in _steps(changes, a, b))


def making(plan: Plan) -> tuple[Operation, ...]:
    """Return the steps that create a new cluster."""
    pools = [each for each in joining(None, plan) if each.group != plan.controller.name]
    steps: list[tuple[Stage, str]] = [
        ("network", "is made"),
        *((("storage", ", ".join(each.name for each in plan.storage)),) if plan.storage else ()),
        ("head", f"{plan.controller.name} starts"),
        *((("nodes", f"{', '.join(map(_words, pools))} start"),) if pools else ()),
        *_configured(plan, "all nodes are configured"),
        *_proof(plan),
    ]
    return tuple(Operation(stage, text) for stage, text in steps)


def _steps(changes: Sequence[DeclaredChange], a: Plan, b: Plan) -> Iterator[tuple[Stage, str]]:
    stages = {_stage(each) for each in changes}
    rolled = [each for each in changes if each.policy == "roll"]
    if "network" in stages or _in_a_new_network(changes, a, b):
        yield "network", _network(changes, a, b)
    yield from (("storage", f"{name} is replaced with all it holds") for name in _replaced_storage(changes))
    if "storage" in stages:
        yield "storage", "is made or changed before the nodes that mount it"
    gone = [each.difference.way[0] for each in changes if _stage(each) == "removal"]
    yield from (("nodes", text) for text in _nodes(changes, {step.key for step in gone}, a, b))
    yield from (("roll", text) for text in _roll(rolled, a, b))
    if "roll" in stages and not rolled:
        yield "roll", "the next node uses it"
    if rolled or stages - {"proof", "roll"}:
        yield from _configured(b, "all nodes are configured; jobs go on")
    yield from _proof(b) if changes else ()
    for step in gone:
        if step.field == "groups":
            yield "removal", "the group of login nodes" if _logins(step.key, a) else f"pool {step.key}"
        elif any(each.name == step.key and each.existing for each in a.storage):
            yield "removal", f"the mount of storage {step.key}, which itself stays"
        else:
            yield "removal", f"storage {step.key}, and all it holds is lost"
    yield from (("removal", f"namespace {name}, and all that is in it") for name in namespaces_gone(a, b))


def namespaces_gone(a: Plan, b: Plan) -> tuple[str, ...]:
    """Return the namespaces of removed accounts, if the scheduler stays the same."""
    if a.scheduler.kind != b.scheduler.kind or not a.scheduler.traits.has_namespaces:
        return ()
    before, after = ([each.name for each in plan.scheduler.accounts] or [EVERYBODY] for plan in (a, b))
    return tuple(name for name in before if name not in after)


def _in_a_new_network(changes: Sequence[DeclaredChange], a: Plan, b: Plan) -> bool:
    """Whether nodes move to another zone, and with them all subnets."""
    moved = any(stateful.moves_head(each.difference.way, a, b) for each in changes)
    return moved and stateful.moves_network(a, b)


def _network(changes: Sequence[DeclaredChange], a: Plan, b: Plan) -> str:
    what = "subnets" if b.network.subnets else "rails, leaves and trunks"
    anew = any(each.policy == "replace" and _stage(each) == "network" for each in changes)
    anew = anew or _in_a_new_network(changes, a, b)
    return f"is replaced, with its {what}" if anew else f"{what} are changed"


def _replaced_storage(changes: Sequence[DeclaredChange]) -> tuple[str, ...]:
    """Return storage that is replaced and loses its data. A bucket whose objects expire stays the same bucket."""
    anew = (each for each in changes if _stage(each) != "removal" and each.difference.way[-1].field not in EXPIRY)
    return tuple(dict.fromkeys(name for each in anew for name in each.loses))


def _nodes(changes: Sequence[DeclaredChange], gone: set[str], a: Plan, b: Plan) -> Iterator[str]:
    replaced = restarted([each for each in changes if each.policy == "replace"], a, b)
    yield from (f"{_words(each)} {'starts' if each.count == 1 else 'start'}" for each in joining(a, b))
    for each in replaced:
        kept = a.scheduler.traits.keeps
        stay = each.group == a.controller.name and kept not in _replaced_storage(changes)
        are = "is" if each.count == 1 else "are"
        yield f"{_words(each)} {are} taken down and made again" + (f", but for {kept}" if stay else "")
    for each in leaving(a, b):
        if _logins(each.group, a):
            yield f"{_words(each)} {'goes' if each.count == 1 else 'go'}: users there are logged out"
            continue
        when = "with their pool, at the end" if each.group in gone else "now"
        through = "takes no new jobs, and goes when its" if each.count == 1 else "take no new jobs, and go when their"
        yield f"{_words(each)} {through} jobs have ended, {when}"
    for each in idling(a, b):
        ends, start = ("ends when its", "starts") if each.count == 1 else ("end when their", "start")
        yield f"{_words(each)} {ends} jobs have ended, and {start} when jobs need them from then on"


def _roll(rolled: Sequence[DeclaredChange], a: Plan, b: Plan) -> Iterator[str]:
    at_most = dict(b.roll.unavailable_max)
    jobs = "their jobs end first" if b.roll.jobs == "wait" else "their jobs start again elsewhere"
    for each in restarted(rolled, a, b):
        if b.managed:
            proven = each.group != b.controller.name and b.proof.level != "none"
            waits = ", and new ones take none before the proof at the end" if proven else ""
            waves = f"{at_most.get(each.group, 1)} at a time, by the cloud itself"
            yield f"{_words(each)} {waves}: their pods are evicted{waits}"
        elif each.group == b.controller.name:
            yield f"{_words(each)} first, while jobs go on"
        elif _logins(each.group, b):
            yield f"{_words(each)} one by one: users there are logged out, while jobs go on"
        else:
            waves = f"in waves of at most {at_most.get(each.group, 1)}, each within one leaf"
            yield f"{_words(each)} {waves}: {jobs}, then {_replacement_text(each.group, rolled, a, b)} and a proof"


def _replacement_text(name: str, rolled: Sequence[DeclaredChange], a: Plan, b: Plan) -> str:
    """Describe the replacement of a group's nodes: a cloud keeps the machine when only its disk changes."""
    if all(_recables(each.difference, b) for each in rolled):
        return "other cables"
    before, after = ({group.started_as for group in plan.groups if group.name == name} for plan in (a, b))
    return "a new disk" if before == after else "another machine"


def _configured(plan: Plan, text: str) -> tuple[tuple[Stage, str], ...]:
    """Return the configuration step; none if the cloud creates the nodes, because no playbook configures them."""
    return () if plan.managed else (("playbook", text),)


def _proof(plan: Plan) -> tuple[tuple[Stage, str], ...]:
    proof = plan.proof
    measured = f"changed nodes are measured: level {proof.level}, at most {proof.budget_minutes} min"
    return (("proof", measured),) if proof.level != "none" else ()


def _stage(each: DeclaredChange) -> Stage:
    """Return the step of an `up` that makes the change."""
    way = each.difference.way
    first = way[0].field
    if each.policy == "roll" or first in ("release", "roll"):
        return "roll"
    if first in ("network", "fabric"):
        return "network"
    if first in ("groups", "storage"):
        gone = len(way) == 1 and way[0].key and each.difference.b is None
        return "removal" if gone else "nodes" if first == "groups" else "storage"
    return "proof" if first == "proof" else "playbook"


def _logins(group: str, plan: Plan) -> bool:
    return any(each.name == group for each in plan.login)


def _words(nodes: AffectedNodes) -> str:
    return fold(nodes.names) or f"{nodes.count} of {nodes.group}"


def _common_groups(a: Plan, b: Plan) -> list[tuple[Group, Group]]:
    """Return the groups that exist before and after."""
    after = {group.name: group for group in _real(b)}
    return [(group, after[group.name]) for group in _real(a) if group.name in after]


def _real(plan: Plan | None) -> list[Group]:
    return [*plan.running] if plan else []


def _names(group: Group) -> tuple[str, ...]:
    return tuple(node.name for node in group.nodes)
