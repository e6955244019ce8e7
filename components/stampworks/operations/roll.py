"""Renew nodes of a running cluster in waves, each of which is proven before the next.

A wave is a few nodes of a leaf. Its nodes are drained, get a new disk after their jobs, are configured and measured,
and take jobs again. The first failed node ends the roll: all others stay as before. The only record of begun work is
the scheduler's drain reason, so that the next roll continues after a kill at any point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stampworks import configuration, qualification
from stampworks.operations.drain import LEAVES, RENEWED
from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.operations.gathering import complete, wanted
from stampworks.operations.ground import NodeStanding
from stampworks.operations.members import endings, members, renewal
from stampworks.operations.qualify import qualify
from stampworks.operations.schedulers import port_of, service_of
from stampworks.operations.service import Service, vacate
from stampworks.plan import Attached, Level, Member, Plan, Roster
from stampworks.qualification import Certificate, NodeVerdict
from stampworks.text.names import fold
from stampworks.text.reasons import UNPROVEN, DrainReason, kept

Progress = Callable[[str], None]
Play = Callable[[Roster, Collection[str]], None]
"""Runs the cluster's playbook on some of its nodes."""
Keep = Callable[[Certificate], None]
"""Receives the measurements so far after each wave, so that they survive later failures."""


_BACK = "to go back, undo the change and run pulumi up"
_ANSWER_S = 120.0
"""Seconds until silent nodes count as out of service: a scheduler that has just started has not heard of its nodes."""


class RollStoppedError(OperationError):
    """Some nodes were not renewed; nodes of later waves are unchanged."""


@dataclass(frozen=True)
class Order:
    """Order to renew nodes: their new template, and the proof of them."""

    plan: Plan
    content: str
    """Digest of the image's installation."""
    programs: str
    """A digest of the programs that measure."""
    fingerprint: str


@dataclass
class _Work:
    """A roll, and its progress."""

    order: Order
    progress: Progress
    play: Play
    keep: Keep
    pending: dict[str, str]
    """Nodes of later waves, and the reasons of their renewal."""
    reasons: Mapping[str, str]
    """The same at the beginning, also of nodes in earlier waves."""
    failed: frozenset[str] = frozenset()
    """Nodes that failed after their renewal by an earlier roll."""
    begun: list[str] = field(default_factory=list)
    """Nodes that an earlier roll renewed and did not resume."""
    strangers: frozenset[str] = frozenset()
    """Nodes that have just joined, which the playbook configures afterwards: no job runs there."""
    proven_again: set[str] = field(default_factory=set)
    """Nodes that were out of service and keep their disk: each is proven once, when it blocks the roll."""
    done: list[str] = field(default_factory=list)
    """Nodes that take jobs again, or took none before the roll."""
    proven: dict[str, NodeVerdict] = field(default_factory=dict)
    """Verdicts of rolls on unchanged nodes: of this roll and, under the same terms, of the previous one."""
    seen: dict[str, Member] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return self.order.plan

    def service(self) -> Service:
        return service_of(self.plan, self.roster())

    def roster(self) -> Roster:
        """Return all members, dead ones with their last data: the configuration must not depend on which nodes are
        down."""
        now = members(self.plan.cloud, self.plan.name, self.plan.region)
        groups = {group.name for group in self.plan.groups}  # a group that was taken out goes at the end of the `up`
        self.seen |= {member.name: member for member in now.members if member.group in groups}
        return replace(now, members=tuple(self.seen[name] for name in sorted(self.seen)))


def outdated(plan: Plan, content: str) -> Mapping[str, str]:
    """Return the nodes that a roll would renew, with the reasons."""
    return renewal(plan.cloud).outdated(plan, content)


def condemn(plan: Plan, names: Sequence[str], why: str, machine: bool = False) -> None:
    """Let the next roll renew these nodes, or replace their machines; without a reason, cancel that. The scheduler may
    not know a broken node yet."""
    nodes = {node.name for group in plan.stamped for node in group.nodes}
    for name in names:
        if name not in nodes:
            raise InputError(f"no node is called {name!r} in cluster {plan.name}", nearest(name, nodes))
    renewal(plan.cloud).condemn(plan, names, why, machine)


def instructions(order: Order, roster: Roster, checks: Mapping[str, str], attached: Attached) -> dict[str, Any]:
    """Inventory with which the playbook configures some nodes of the roster, and leaves the others unchanged."""
    plan = order.plan
    files = port_of(plan.scheduler.kind).files(plan, roster)
    ends = endings(plan.cloud, plan.name, plan.region)
    return configuration.inventory(plan, roster, files, checks, order.content, attached, True, ends)


def roll(order: Order, earlier: Certificate | None, progress: Progress, play: Play, keep: Keep) -> None:
    """Renew all outdated nodes.

    A node that failed the last time, as the earlier certificate says, has to pass before others begin.
    """
    plan = order.plan
    late = outdated(plan, order.content)
    work = _Work(order, progress, play, keep, dict(late), dict(late))
    before = members(plan.cloud, plan.name, plan.region)
    instances = {member.name: member.instance for member in work.roster().members}
    same = [each for each in (earlier.nodes if earlier else ()) if instances.get(each.name) == each.instance]
    work.failed = frozenset(each.name for each in same if each.verdict != "pass")
    known = _known(service_of(plan, before))
    work.begun = _begun(work, known)
    if not work.pending and not work.begun:
        return
    if earlier and earlier.proven == _terms(order):
        work.proven = {each.name: each for each in same}
    try:
        _await_all(work)
        _tell_apart(work, before, known)
        if plan.controller in plan.stamped:
            _make_head_anew(work)
        _make_logins_anew(work)
        while wave := _next_wave(work):
            _make_anew(work, wave)
    except RollStoppedError:
        raise
    except (OperationError, configuration.PlaybookFailed, renewal(plan.cloud).Failure) as error:
        what, _, hint = str(error).partition("\n  hint: ")
        hint = f"{hint or 'repair the named problem and run pulumi up, which continues'}; {_BACK}"
        raise _stopped(work, what, [], hint) from error


def _terms(order: Order) -> str:
    return qualification.proven_digest(qualification.subject_of(order.plan), order.programs)


def _known(service: Service) -> dict[str, NodeStanding]:
    """Return the nodes that the scheduler knows; empty when it is not configured yet, because then no roll has
    begun."""
    with contextlib.suppress(OperationError):
        return service.look()
    return {}


def _await_all(work: _Work) -> None:
    """Wait for all nodes, so that the configuration is complete: for a head that this `up` replaced, and new nodes.

    A node that is to be renewed and did not return from its last disk replacement is renewed at once: no job runs
    there.
    """
    plan = work.plan
    all_ = [wanted(group) for group in plan.stamped]
    now = complete(plan.cloud, plan.name, plan.region, all_, work.progress, but=work.pending)
    away = sorted(set(work.pending) - {member.name for member in now.members})
    if away:
        work.progress(f"renewing {fold(away)}: {work.pending[away[0]]}")
        _renew(work, away)
        work.begun += [node.name for pool in plan.pools for node in pool.nodes if node.name in away]


def _tell_apart(work: _Work, before: Roster, known: Mapping[str, NodeStanding]) -> None:
    """Let members of removed groups leave while the head still knows them, and separate old members from new ones."""
    plan, there = work.plan, {member.name for member in before.members}
    if known:
        leaving = dict.fromkeys(sorted(there - work.seen.keys()), LEAVES)
        vacate(service_of(plan, before), leaving, plan.scheduler.drain_timeout_minutes, work.progress)
    familiar = there.intersection(known) if known else there
    work.strangers = frozenset({node.name for pool in plan.pools for node in pool.nodes} - familiar)


def _renew(work: _Work, names: Sequence[str]) -> None:
    """Renew nodes, which from then on count as changed."""
    for name in names:
        del work.pending[name]
    renewal(work.plan.cloud).renew(work.plan, work.order.content, names, work.progress)


def _begun(work: _Work, known: Mapping[str, NodeStanding]) -> list[str]:
    nodes = [node.name for pool in work.plan.pools for node in pool.nodes if node.name not in work.pending]
    return [name for name in nodes if name in work.seen and _on_its_way(work, name, known)]


def _on_its_way(work: _Work, name: str, known: Mapping[str, NodeStanding]) -> bool:
    """Return whether a roll holds the node: during the wait for its jobs, after its renewal, or after a failed
    proof."""
    held = known[name].held if name in known else None
    if held is None or held.by not in ("stampworks", "proof"):
        return False
    return held.text.startswith((RENEWED.text, UNPROVEN.text)) or name in work.failed


def _make_head_anew(work: _Work) -> None:
    """Renew the head. Jobs continue without it. It comes first: a newer scheduler supports older nodes, and not vice
    versa."""
    plan = work.plan
    heads = [node.name for node in plan.controller.nodes]
    if late := [name for name in heads if name in work.pending]:
        work.progress(f"renewing {fold(late)}: {work.pending[late[0]]}")
        _renew(work, late)
    work.play(work.roster(), heads)
    nodes = [node.name for pool in plan.pools for node in pool.nodes if node.name not in work.strangers]
    work.service().await_answers(nodes, _ANSWER_S, work.progress)


def _make_logins_anew(work: _Work) -> None:
    """Renew login nodes one after the other, so that users can log in to another one. Their jobs continue."""
    plan = work.plan
    names = [node.name for group in plan.login for node in group.nodes]
    for name in [each for each in names if each in work.pending]:
        work.progress(f"renewing {name}: {work.pending[name]}")
        _renew(work, [name])
        work.play(work.roster(), [name])


def _next_wave(work: _Work) -> list[str]:
    """Return the nodes of the next wave; empty at the end. Raise an error if too many nodes are out of service."""
    if work.begun or not work.pending:
        return work.begun
    known = work.service().look()
    if waiting := [name for name in sorted(work.pending) if _on_its_way(work, name, known)]:
        return waiting  # the wave in which an earlier roll was killed
    out = {name: node.out for name, node in known.items() if node.out and name not in work.strangers}
    if wave := next_wave(work.plan, work.pending, out, {name for name, node in known.items() if node.busy}):
        return wave
    if again := [name for name in _repairable(work, out, known) if name not in work.proven_again]:
        _prove_again(work, again, known)
        return _next_wave(work)
    lines = [f"{name}: {why}" for name, why in sorted(out.items())]
    raise _stopped(work, "the limit of nodes out of service at once is reached", lines, _make_room(known, out))


def _repairable(work: _Work, out: Collection[str], known: Mapping[str, NodeStanding]) -> list[str]:
    """Return nodes that keep their disk and are out of service for something that this `up` may have repaired."""
    members = work.seen.keys() - work.pending.keys() - {*work.done}
    here = [node.name for pool in work.plan.pools for node in pool.nodes if node.name in members and node.name in out]
    return [name for name in here if not known[name].busy and not ((held := known[name].held) and held.lasting)]


def _prove_again(work: _Work, names: Sequence[str], known: Mapping[str, NodeStanding]) -> None:
    """Configure nodes that are out of service, prove them, and return those that pass.

    Otherwise an `up` would stop at a problem that it has just repaired: its own proof comes after the roll.
    """
    plan, service = work.plan, work.service()
    work.proven_again |= {*names}
    work.progress(f"{fold(names)}: out of service; repairing and proving before others are renewed")
    proves = plan.proof.level != "none"
    for name in names:
        held = known[name].held
        if not proves or not held or held.by not in ("proof", "health"):
            service.hold({name: UNPROVEN if proves else RENEWED})
    work.play(work.roster(), names)
    if not proves:
        service.give_back_own(names)
        return
    # at the declared level: a quicker proof may not measure what a node is held for
    _measured(work, work.roster(), names, plan.proof.level)


def _make_room(known: Mapping[str, NodeStanding], out: Collection[str]) -> str:
    """Return a hint with the remedies for nodes that are out of service."""
    held = {name: why for name in sorted(out) if (why := known[name].held)}
    users = [name for name, why in held.items() if why.lasting and why.by != "cloud"]
    others = [name for name in sorted(out) if name not in users]
    hints = [f"return what users hold (stampworks return {' '.join(users)})"] if users else []
    hints += [f"repair {fold(others)}, which pulumi up then proves and returns first"] if others else []
    hints += ["renew them as well (stampworks roll NODE --reason TEXT)", "allow more by roll.max_unavailable_percent"]
    return f"{', or '.join(hints)}; then run pulumi up"


def next_wave(plan: Plan, pending: Collection[str], out: Collection[str], busy: Collection[str]) -> list[str]:
    """Order the nodes: first those out of service, then idle ones, then busy ones, each wave from a single leaf.

    A wave that fails then affects a single place.
    """
    most = dict(plan.roll.unavailable_max)
    for pool in plan.pools:
        missed_by_nobody = (set(pending) & set(out)) - set(busy)
        if first := [node for node in pool.nodes if node.name in missed_by_nobody]:
            return [node.name for node in first if node.leaf == first[0].leaf][: most[pool.name]]
    for pool in plan.pools:
        room = most[pool.name] - sum(1 for node in pool.nodes if node.name in out)
        late = [node for node in pool.nodes if node.name in pending]
        if late and room > 0:
            chosen = [node for node in late if node.name not in busy] or late
            return [node.name for node in chosen if node.leaf == chosen[0].leaf][:room]
    return []


def _make_anew(work: _Work, wave: Sequence[str]) -> None:
    late = [name for name in wave if name in work.pending]
    others = len(work.pending) - len(late)
    after = f"; {others} more after this" if others else ""
    work.progress(f"{fold(wave)}: {work.pending.get(wave[0], 'begun earlier')}{after}")
    _carry_out(work, wave, late)
    work.done += wave
    work.strangers -= {*wave}


def _carry_out(work: _Work, wave: Sequence[str], late: Sequence[str]) -> None:
    plan, cloud = work.plan, renewal(work.plan.cloud)
    ours, others = _vacated(work, wave)
    _renew(work, late)
    work.begun = []
    roster = work.roster()
    work.play(roster, wave)
    work.service().take_in(plan, wave, others, work.progress)
    if plan.proof.level == "none":
        work.service().give_back_own(ours)
    elif ours:
        # A proof takes nodes back into service to measure them. If it is killed, nothing else says that they are new.
        cloud.condemn(plan, ours, "it was never proven: its roll was interrupted")
        _prove(work, roster, ours)


def _vacated(work: _Work, wave: Sequence[str]) -> tuple[list[str], dict[str, DrainReason]]:
    """Wait until the nodes are free.

    Return those to resume after a pass, and the reasons that hold the others. A person's drain stays, and so does the
    end of a machine's capacity. A failed proof stays until the proof after the roll; reasons of the health check or
    Slurm concerned the old disk.
    """
    plan, service, proves = work.plan, work.service(), work.plan.proof.level != "none"
    limit, again = plan.scheduler.drain_timeout_minutes, plan.roll.jobs == "requeue"
    vacate(service, {name: _because(work, name, RENEWED) for name in wave}, limit, work.progress, again=again)
    known = service.look()
    held = {name: why for name in wave if name in known and (why := known[name].held)}
    ours = [name for name, why in held.items() if not why.lasting]
    if proves:
        ours = [name for name in ours if held[name].by != "proof" or _on_its_way(work, name, known)]
    service.hold({name: _because(work, name, UNPROVEN if proves else RENEWED) for name in ours})
    return ours, {name: why for name, why in held.items() if name not in ours}


def _because(work: _Work, name: str, reason: DrainReason) -> DrainReason:
    """Return the drain reason with the reason for the renewal, so that all users see it."""
    why = work.reasons.get(name, "")
    return kept(replace(reason, text=f"{reason.text}: {why}")) if why else reason


def _measured(work: _Work, roster: Roster, names: Sequence[str], level: Level) -> Certificate:
    """Prove these nodes, without those that still have their earlier disk, and return the certificate."""
    order = work.order
    return qualify(
        qualification.subject_of(order.plan),
        roster,
        level,
        work.progress,
        names=names,
        without=work.pending,  # other programs run on them
        fingerprint=order.fingerprint,
        programs=order.programs,
    )


def _prove(work: _Work, roster: Roster, names: Sequence[str]) -> None:
    plan, found = work.plan, _measured(work, roster, names, "quick")
    own = [each for each in found.nodes if each.name in names]
    renewal(plan.cloud).condemn(plan, names, "")
    work.proven |= {each.name: each for each in own}
    nodes = tuple(work.proven.values())
    work.keep(replace(found, nodes=nodes, verdict=qualification.worst(each.verdict for each in nodes)))
    bad = [each for each in own if each.verdict != "pass"]
    failed = [each for each in nodes if each.verdict == "fail"]
    if len(failed) > plan.proof.failed_nodes_max or any(each.verdict == "unknown" for each in own):
        raise _not_passed(work, bad, names)


def _not_passed(work: _Work, bad: Sequence[NodeVerdict], wave: Sequence[str]) -> RollStoppedError:
    lines = [f"{each.name} ({each.verdict}): {why}" for each in bad for why in each.why]
    names = fold([each.name for each in bad])
    work.done += [name for name in wave if name not in {each.name for each in bad}]
    hint = f"repair the named problem and run pulumi up, which proves {names} again and goes on; for another new disk: "
    hint += f"stampworks roll {' '.join(each.name for each in bad)} --reason TEXT (--machine: another machine); {_BACK}"
    return _stopped(work, f"{names} did not pass after the new disk and takes no jobs", lines, hint)


def _stopped(work: _Work, what: str, lines: Sequence[str], hint: str) -> RollStoppedError:
    said = [f"the roll has stopped: {what}", *(f"  {line}" for line in lines)]
    said += [f"  renewed: {fold(sorted(work.done))}"] if work.done else []
    said += [f"  unchanged: {fold(sorted(work.pending))}"] if work.pending else []
    return RollStoppedError("\n".join(said), hint)
