"""Proving a cluster: reserve nodes, let a campaign measure them, and hold back failed ones.

Meanwhile no other user's job starts on them. Running jobs are left alone, and so are nodes that others hold.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from stampworks import qualification
from stampworks.operations.errors import InputError, nearest
from stampworks.operations.ground import Ended, NodeStanding, Progress, ProvingGround
from stampworks.operations.schedulers import port_of
from stampworks.operations.status import holder
from stampworks.plan import Level, Member, Roster
from stampworks.qualification import (
    Ask,
    Certificate,
    CheckFinding,
    Evidence,
    Heard,
    Measured,
    NodeVerdict,
    Subject,
    Verdict,
)
from stampworks.text.names import fold
from stampworks.text.reasons import DrainReason, kept
from stampworks.text.version import VERSION

PROGRAMS = "/usr/local/lib/stampworks/workloads"
PYTHON = f"{PROGRAMS}/python"
"""Interpreter with the torch that fits the node."""
PYTHON_OF_IMAGE = "python3"
PORT_FIRST, PORTS = 20_000, 10_000
_READY_S = 60.0
"""Seconds to wait for nodes at first: they may just have been replaced."""
QUICK_ONLY = "proven at the quick level only, when it was replaced: jobs have run on it since"
WORDS_MAX = 200
_START_S = 10.0
"""Seconds to start: the nodes are free and reserved, so that a program that has not started by then never will."""
_ANSWER_S = 30.0
"""Seconds to wait for a node after a failed start: it may answer soon."""
_OTHER_PROGRAMS = "the programs on the nodes are of another release: `pulumi up` installs those of this one"


@dataclass
class _Nodes:
    """Nodes that can be measured, and the reasons of the others."""

    ready: list[str] = field(default_factory=list)
    ours: dict[str, DrainReason] = field(default_factory=dict)
    """Held back by an earlier proof, and why: to be given back if they pass now."""
    aside: dict[str, _Aside] = field(default_factory=dict)
    set_apart: set[str] = field(default_factory=set)
    """Held by a person, or for a notice of the cloud: out of service on purpose, and no part of the verdict."""


@dataclass(frozen=True)
class _Aside:
    """A node that is not measured: the reason, and its meaning for the proof."""

    verdict: Verdict
    why: str
    held: bool = False
    busy: bool = False


def qualify(
    subject: Subject,
    roster: Roster,
    level: Level,
    progress: Progress,
    names: Sequence[str] | None = None,
    earlier: Certificate | None = None,
    rolled: Certificate | None = None,
    without: Collection[str] = (),
    fingerprint: str = "",
    programs: str = "",
) -> Certificate:
    """Measure the named nodes or all, together with others except `without`, and return the certificate.

    Failed nodes take no jobs when this returns. Nodes that are not measured keep the verdict of the earlier certificate
    while they are the same machines, or of a roll, for nodes that it returned and that have jobs again.
    """
    subject = subject.with_members(roster)
    members = {member.name: member for member in roster.members if member.name in subject.nodes}
    if unknown := [name for name in names or () if name not in members]:
        raise InputError(f"no node is called {unknown[0]!r} in cluster {subject.cluster}", nearest(unknown[0], members))
    wanted = list(members if names is None else dict.fromkeys(names))
    started = _now()
    evidence = Evidence()
    others = [name for name in members if name not in wanted and name not in without]
    ground = port_of(subject.scheduler).ground(subject, roster)
    found = _reserved(subject, ground, wanted, others, progress)
    wanted += [name for name in found.ready if name not in wanted]
    still = _rolled(rolled, members, qualification.proven_digest(subject, programs)) | _still_proven(
        subject, level, programs, earlier, members
    )
    with _taken_aside(ground, found, progress) as release:
        _measure(_Work(subject, ground, members, level, evidence, progress), found.ready)
        verdicts = _verdicts(members, wanted, found, evidence, still, started)
        release(verdicts)
    if earlier:
        evidence.add(*_kept(earlier, still, wanted))
    rails = qualification.rail_verdicts(subject, evidence)
    return Certificate(
        version=qualification.VERSION,
        cluster=subject.cluster,
        cloud=subject.cloud,
        fingerprint=fingerprint,
        proven=qualification.proven_digest(subject, programs),
        release=subject.release,
        level=level,
        verdict=qualification.overall(subject, verdicts, evidence.findings, found.set_apart),
        started=started,
        ended=_now(),
        nodes=tuple(verdicts),
        rails=rails,
        findings=tuple(evidence.findings),
        measured=tuple(evidence.measured),
        toolkit=VERSION,
    )


def to_prove(subject: Subject, roster: Roster, earlier: Certificate | None, level: Level, programs: str) -> list[str]:
    """Return the nodes without a valid proof; all nodes after a failure of the whole cluster."""
    subject = subject.with_members(roster)
    members = {member.name: member for member in roster.members if member.name in subject.nodes}
    still = _still_proven(subject, level, programs, earlier, members)
    if not earlier or any(finding.verdict != "pass" and not finding.nodes for finding in earlier.findings):
        return list(members)
    held = held_back(subject, roster)
    return [
        name
        for name in members
        if name in held or name not in still or (still[name].verdict, still[name].why) != ("pass", ())
    ]


def held_back(subject: Subject, roster: Roster) -> dict[str, str]:
    """Return the nodes that take no jobs until they pass, with the reasons."""
    held = port_of(subject.scheduler).ground(subject, roster).held()
    return {name: why.text for name, why in held.items() if why.by == "proof"}


def _reserved(
    subject: Subject, ground: ProvingGround, wanted: Sequence[str], others: Sequence[str], progress: Progress
) -> _Nodes:
    """Return the nodes to measure, with partners to measure them with; reserve all of them from here on."""
    patience_s = 60.0 * subject.proof.budget_minutes
    while wanted:
        ground.await_turn(patience_s, progress)
        progress(f"asking {ground.scheduler} about the nodes")
        look = ground.look(wanted)
        found = _sorted_out(ground, look, wanted)
        if beside := _partners(subject, ground, look, found, others):
            progress(f"measuring {fold(beside)}, too: rails have two ends")
            found.ready += beside
        if not found.ready or ground.take(found.ready):
            return found
    return _Nodes()


def _sorted_out(ground: ProvingGround, look: Mapping[str, NodeStanding], wanted: Sequence[str]) -> _Nodes:
    found = _Nodes()
    for name in wanted:
        node = look.get(name)
        if node is None:
            found.aside[name] = _Aside("unknown", f"{ground.scheduler} does not know it")
        elif node.busy:
            found.aside[name] = _Aside("unknown", node.busy, busy=True)
        elif node.held and node.held.lasting:
            by = node.held.who or holder(node.held)
            found.aside[name] = _Aside("unknown", f"held by {by}: {node.held.text}", held=True)
            found.set_apart.add(name)
        elif node.held and node.held.by == "proof":
            found.ours[name] = node.held
            found.ready.append(name)
        elif node.out and not node.silent:  # a silent node may be about to answer
            found.aside[name] = _Aside("fail", node.out, held=True)
        else:
            found.ready.append(name)
    return found


def _partners(
    subject: Subject, ground: ProvingGround, look: Mapping[str, NodeStanding], found: _Nodes, others: Sequence[str]
) -> list[str]:
    """Return free nodes as partners: as many as are to be measured, at least two, neighbours first. A single node
    cannot be compared."""
    if not found.ready or not others:
        return []
    leaves = {subject.leaf(name) for name in found.ready}
    free = _sorted_out(ground, look, others)
    candidates = [name for name in free.ready if name not in free.ours]
    candidates.sort(key=lambda name: subject.leaf(name) not in leaves)
    return candidates[: max(2, len(found.ready))]


@contextlib.contextmanager
def _taken_aside(
    ground: ProvingGround, found: _Nodes, progress: Progress
) -> Iterator[Callable[[Sequence[NodeVerdict]], None]]:
    """Reserve the nodes within the context; yield a function that takes the nodes that may take jobs afterwards.

    Nodes that were held back before are held back again unless they passed, however this ends.
    """
    held = dict(found.ours)

    def release(verdicts: Sequence[NodeVerdict]) -> None:
        for verdict in verdicts:
            if verdict.verdict == "pass":
                held.pop(verdict.name, None)
            elif verdict.verdict == "fail" and verdict.name in {*found.ready, *found.ours}:
                held[verdict.name] = kept(DrainReason("proof", "", "; ".join(verdict.why)))

    if not found.ready:
        yield release
        return
    try:
        if ours := [name for name in found.ours if name in found.ready]:
            ground.let_in(ours)
        _set_late_aside(ground, found, progress)
        yield release
    finally:
        try:
            ground.hold(held)
        finally:
            ground.give_back()


def _set_late_aside(ground: ProvingGround, found: _Nodes, progress: Progress) -> None:
    """Drop the nodes that cannot be measured. A job may have started just before the reservation, but not on held
    nodes, where jobs can only wait. A node may not answer yet, or never."""
    for name, what in ground.busy().items():
        if name in found.ready and name not in found.ours:
            found.ready.remove(name)
            found.aside[name] = _Aside("unknown", what, busy=True)
    ground.prepare(found.ready, progress)
    for name, why in ground.lost(found.ready, _READY_S, progress).items():
        found.ready.remove(name)
        found.aside[name] = _Aside("fail", why, held=True)


@dataclass
class _Work:
    """State of an active proof."""

    subject: Subject
    ground: ProvingGround
    members: Mapping[str, Member]
    level: Level
    evidence: Evidence
    progress: Progress

    def start(self, queue: str, nodes: Sequence[str], program: Sequence[str], limit_s: float) -> Ended:
        machines = [self.subject.pool_of[node].machine for node in nodes]
        accelerators = min((0 if machine.simulated else machine.accelerators for machine in machines), default=0)
        return self.ground.start(queue, nodes, accelerators, program, limit_s)

    def lost(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return the nodes that take no jobs after a failed start, with the reasons."""
        return self.ground.lost(nodes, _ANSWER_S, self.progress)


def _measure(work: _Work, nodes: Sequence[str]) -> None:
    """Run campaigns within their budget: unfinished measurements are unknown."""
    deadline = time.monotonic() + 60 * work.subject.proof.budget_minutes
    for queue, together in _by_queue(work.subject, nodes):
        _carry_out(work, queue, together, deadline)
    if left := tuple(name for name in nodes if not any(name in each.nodes for each in work.evidence.findings)):
        why = "nothing was measured on it: its pool is in no queue"
        work.evidence.add([qualification.finding_without_number("limits", "unknown", left, why)])


def _by_queue(subject: Subject, nodes: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return groups of nodes that a job can have together: those of the queue with most of them first."""
    left = list(nodes)
    while left:
        reach = {queue.name: [n for n in left if subject.pool_of[n].name in queue.pools] for queue in subject.queues}
        queue = max(reach, key=lambda name: len(reach[name]), default="")
        if not queue or not reach[queue]:
            return
        yield queue, tuple(reach[queue])
        left = [name for name in left if name not in reach[queue]]


def _carry_out(work: _Work, queue: str, nodes: tuple[str, ...], deadline: float) -> None:
    nodes = _roll_call(work, queue, nodes)
    budget_s = deadline - time.monotonic()
    campaign = qualification.campaign(work.subject, nodes, work.level, work.evidence, budget_s)
    heard: Heard | None = None
    with contextlib.suppress(StopIteration):
        while True:
            asked = campaign.send(heard) if heard else next(campaign)
            work.progress(asked.what)
            begun = time.monotonic()
            heard = replace(_run(work, queue, asked), seconds=time.monotonic() - begun)


def _roll_call(work: _Work, queue: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes on which a job starts: each checks its health before, and drains itself if it fails.

    A program that starts on some nodes only would wait for the others.
    """
    work.progress("asking all nodes to answer")
    while nodes:
        ended = work.start(queue, nodes, ["true"], _START_S)
        if not ended.code or not (lost := work.lost(nodes)):
            break  # if the nodes are not the cause, the next request shows it
        for name, why in lost.items():
            work.evidence.add([qualification.finding_without_number("answering", "fail", (name,), why)])
        nodes = tuple(name for name in nodes if name not in lost)
    return nodes


def _run(work: _Work, queue: str, asked: Ask) -> Heard:
    """Start the programs through the scheduler, and end them after the time limit."""
    work.ground.extend(asked.seconds)
    options = {**asked.options, "cluster": _cluster(work.subject, [work.members[name] for name in asked.nodes])}
    python = PYTHON_OF_IMAGE if work.subject.image else PYTHON
    program = ["env", f"PYTHONPATH={PROGRAMS}", python, "-m", "validation", *asked.programs]
    ended = work.start(queue, asked.nodes, [*program, "--options", _packed(options)], asked.seconds)
    heard = qualification.read(ended.output)
    if not ended.code:
        return heard
    why = {124: f"it took more than {asked.seconds:.0f} s", 2: _OTHER_PROGRAMS}.get(ended.code, ended.said[:WORDS_MAX])
    return Heard(heard.results, (*heard.unreadable, f"{asked.what}: {why}"), work.lost(asked.nodes))


def _packed(options: Mapping[str, Any]) -> str:
    """Return options as a compressed argument: the text for a thousand nodes exceeds the limit of an argument."""
    text = json.dumps(options, separators=(",", ":")).encode()
    return "packed:" + base64.b64encode(zlib.compress(text, 9)).decode()


def _cluster(subject: Subject, members: Sequence[Member]) -> dict[str, Any]:
    return {
        "nodes": [
            {"name": member.name, "address": member.address, "rails": list(member.rail_addresses)} for member in members
        ],
        "rails": [rail.interface for rail in subject.fabric.rails],
        "shared": subject.shared,
        "port": PORT_FIRST + secrets.randbelow(PORTS),
    }


def _still_proven(
    subject: Subject, level: Level, programs: str, earlier: Certificate | None, members: Mapping[str, Member]
) -> dict[str, NodeVerdict]:
    """Return the verdicts of an earlier certificate on unchanged machines, if they are still comparable."""
    if not earlier or (earlier.cluster, earlier.cloud) != (subject.cluster, subject.cloud):
        return {}
    if (earlier.proven, earlier.level) != (qualification.proven_digest(subject, programs), level):
        return {}
    return _of_same_machines(earlier, members)


def _rolled(certificate: Certificate | None, members: Mapping[str, Member], terms: str) -> dict[str, NodeVerdict]:
    """Return the verdicts of a roll on unchanged machines. They prove less than the declared level."""
    if not certificate or certificate.proven != terms:
        return {}
    found = _of_same_machines(certificate, members)
    passed = {name: each for name, each in found.items() if each.verdict == "pass"}
    return {name: replace(each, why=(QUICK_ONLY,)) for name, each in passed.items()}


def _of_same_machines(certificate: Certificate | None, members: Mapping[str, Member]) -> dict[str, NodeVerdict]:
    now = {name: member.instance for name, member in members.items()}
    return {
        each.name: each for each in (certificate.nodes if certificate else ()) if now.get(each.name) == each.instance
    }


def _verdicts(
    members: Mapping[str, Member],
    wanted: Sequence[str],
    found: _Nodes,
    evidence: Evidence,
    still: Mapping[str, NodeVerdict],
    started: str,
) -> list[NodeVerdict]:
    verdicts = []
    for name, member in members.items():
        busy = name in found.aside and found.aside[name].busy
        if name in still and (name not in wanted or busy):
            verdicts.append(still[name])
        elif name in wanted:
            verdicts.append(_verdict(member, found, evidence, started))
        elif still:
            verdicts.append(NodeVerdict(name, member.instance, "unknown", False, started, ("it was not checked",)))
    return verdicts


def _verdict(member: Member, found: _Nodes, evidence: Evidence, started: str) -> NodeVerdict:
    name = member.name
    if name in found.aside:
        aside = found.aside[name]
        return NodeVerdict(name, member.instance, aside.verdict, aside.held, started, (aside.why,))
    about = [finding for finding in evidence.findings if name in finding.nodes]
    verdict = qualification.worst(finding.verdict for finding in about)
    reasons = tuple(finding.why for finding in about if finding.verdict != "pass")
    if not about:
        reasons = ("nothing was measured on it",)
    return NodeVerdict(name, member.instance, verdict, verdict == "fail", started, reasons)


def _kept(
    earlier: Certificate, still: Mapping[str, NodeVerdict], wanted: Sequence[str]
) -> tuple[list[CheckFinding], list[Measured]]:
    """Return earlier verdicts on nodes that were not checked this time."""
    same = {name for name in still if name not in wanted}
    about = {finding: tuple(name for name in finding.nodes if name in same) for finding in earlier.findings}
    findings = [replace(finding, nodes=left) for finding, left in about.items() if left]
    return findings, [each for each in earlier.measured if not same.isdisjoint((each.node, each.peer))]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
