"""Proving a cluster: takes nodes aside, lets a campaign measure them, holds back those that failed.

Meanwhile nobody else's job starts on them: a reservation is Slurm's own word for that. Jobs that run are left alone,
and so are nodes that somebody else holds.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from stampworks import qualification
from stampworks.operations import remote, reservation, slurm
from stampworks.operations.drain import hold
from stampworks.operations.errors import InputError, OperationError, UnknownError, nearest
from stampworks.operations.reservation import Lease
from stampworks.operations.status import TAKES_JOBS
from stampworks.plan import Level, Member, Roster
from stampworks.qualification import Ask, Certificate, Evidence, Finding, Heard, Measured, NodeVerdict, Subject, Verdict
from stampworks.reasons import BYTES_MAX, DrainReason, written
from stampworks.schedulers import slurm as slurm_files

Progress = Callable[[str], None]

PROGRAMS = "/usr/local/lib/stampworks/workloads"
PYTHON = f"{PROGRAMS}/python"
"""With the torch that fits the node."""
PORT_FIRST, PORTS = 20_000, 10_000
_READY_S = 60.0
"""How long a node is waited for before all: it may have been made anew just now."""
QUICK_ONLY = "proven at the quick level only, when it was made anew: it has had jobs since"
WORDS_MAX = 200
_START_S = 10.0
"""The nodes are free and nobody else's: what does not start by then does not start."""
_LOOK_S = 30.0
_OTHER_PROGRAMS = "the programs on the nodes do not know what is asked: `pulumi up` brings those of this release"
_LOOKS = 16
"""At one time: each is an ssh."""


@dataclass
class _Nodes:
    """Who can be measured, and what is said of those who cannot."""

    ready: list[str] = field(default_factory=list)
    ours: dict[str, DrainReason] = field(default_factory=dict)
    """Held back by an earlier proof, and why: to be given back if they pass now."""
    aside: dict[str, _Aside] = field(default_factory=dict)
    set_apart: set[str] = field(default_factory=set)
    """Held by a person: out of service on purpose, and no part of the verdict."""


@dataclass(frozen=True)
class _Aside:
    """Why a node is not measured, and what that says of it."""

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
    """Measures the named nodes, or all, beside others than those `without`, and says what was found.

    Nodes that failed take no jobs when this returns.

    Of nodes that are not measured, the earlier certificate's word stands as long as they are the same machines; so does
    that of a roll, for those that it gave back and that have jobs again.
    """
    members = {member.name: member for member in roster.members if member.name in subject.nodes}
    if unknown := [name for name in names or () if name not in members]:
        raise InputError(f"no node is called {unknown[0]!r} in cluster {subject.cluster}", nearest(unknown[0], members))
    wanted = list(members if names is None else dict.fromkeys(names))
    started = _now()
    evidence = Evidence()
    others = [name for name in members if name not in wanted and name not in without]
    found, lease = _reserved(subject, roster, wanted, others, progress)
    wanted += [name for name in found.ready if name not in wanted]
    still = _rolled(rolled, members, qualification.proven_digest(subject, programs)) | _still_proven(
        subject, level, programs, earlier, members
    )
    with _taken_aside(roster, found, lease, progress) as release:
        if lease:
            _measure(_Work(subject, lease, level, evidence, progress), found.ready)
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
        toolkit=version("stampworks"),
    )


def to_prove(subject: Subject, roster: Roster, earlier: Certificate | None, level: Level, programs: str) -> list[str]:
    """The nodes whose proof is missing or no longer holds; all of them after a failure that is no node's own."""
    members = {member.name: member for member in roster.members if member.name in subject.nodes}
    still = _still_proven(subject, level, programs, earlier, members)
    if not earlier or any(finding.verdict != "pass" and not finding.nodes for finding in earlier.findings):
        return list(members)
    held = held_back(roster)
    return [
        name
        for name in members
        if name in held or name not in still or (still[name].verdict, still[name].why) != ("pass", ())
    ]


def held_back(roster: Roster) -> dict[str, str]:
    """Nodes that take no jobs until they have passed, whatever is known of them, and why; none if Slurm is silent."""
    with contextlib.suppress(OperationError):
        held = [node for node in slurm.nodes(roster).values() if "drain" in node.states and node.reason.by == "proof"]
        return {node.name: node.reason.text for node in held}
    return {}


def _reserved(
    subject: Subject, roster: Roster, wanted: Sequence[str], others: Sequence[str], progress: Progress
) -> tuple[_Nodes, Lease | None]:
    """Those who can be measured, with some to measure them with, as nobody's but ours; no lease when there are none."""
    patience_s = 60.0 * subject.proof.budget_minutes
    while wanted:
        reservation.await_turn(roster, patience_s, progress)
        progress("asking Slurm about the nodes")
        look = _with_health(roster, wanted)
        found = _sorted_out(look, wanted)
        found.ready += _partners(subject, look, found, others)
        if not found.ready:
            return found, None
        if lease := reservation.take(roster, found.ready):
            return found, lease
    return _Nodes(), None


def _with_health(roster: Roster, names: Sequence[str]) -> slurm.Look:
    """What Slurm says, after those whom the health check holds have looked again: one that was repaired is well now.

    Who is not well and does not know it yet finds out before its first program, as before any job.
    """
    look = slurm.look(roster)
    held = [name for name in names if name in look.nodes and _held_by_health(look.nodes[name])]
    if not held:
        return look

    def look_at(name: str) -> None:
        with contextlib.suppress(UnknownError):  # Slurm, asked next, says that it is silent
            remote.hear(roster, name, [slurm_files.HEALTH], _LOOK_S)

    with ThreadPoolExecutor(_LOOKS) as threads:
        list(threads.map(look_at, held))
    return slurm.look(roster)


def _held_by_health(node: slurm.Node) -> bool:
    return "drain" in node.states and node.reason.by == "health"


def _sorted_out(look: slurm.Look, wanted: Sequence[str]) -> _Nodes:
    busy = {name: job.id for job in look.jobs for name in job.nodes}
    found = _Nodes()
    for name in wanted:
        node = look.nodes.get(name)
        if node is None:
            found.aside[name] = _Aside("unknown", "Slurm does not know it")
        elif name in busy:
            found.aside[name] = _Aside("unknown", f"job {busy[name]} runs on it", busy=True)
        elif "drain" in node.states and node.reason.personal:
            found.aside[name] = _Aside("unknown", f"held by {node.reason.who}: {node.reason.text}", held=True)
            found.set_apart.add(name)
        elif "drain" in node.states and node.reason.by == "proof":
            found.ours[name] = node.reason
            found.ready.append(name)
        elif (why := _out_of_order(node)) and "not_responding" not in node.states:  # it may be about to answer
            found.aside[name] = _Aside("fail", why, held=True)
        else:
            found.ready.append(name)
    return found


def _partners(subject: Subject, look: slurm.Look, found: _Nodes, others: Sequence[str]) -> list[str]:
    """As many free nodes as are to be measured, and two at least, neighbours first: nobody can be measured alone."""
    if not found.ready or not others:
        return []
    leaves = {subject.leaf(name) for name in found.ready}
    free = _sorted_out(look, others)
    candidates = [name for name in free.ready if name not in free.ours]
    candidates.sort(key=lambda name: subject.leaf(name) not in leaves)
    return candidates[: max(2, len(found.ready))]


def _out_of_order(node: slurm.Node | None) -> str:
    """What keeps a node from taking jobs; empty for none."""
    if node is None:
        return "Slurm does not know it"
    if TAKES_JOBS.issuperset(node.states):
        return ""
    if TAKES_JOBS.issuperset({*node.states} - {"not_responding"}):  # what was once its reason is none now
        return "it does not answer Slurm"
    states = "+".join(state for state in node.states if state not in TAKES_JOBS)
    return f"{states}: {node.reason.text}" if node.reason.text else states


@contextlib.contextmanager
def _taken_aside(
    roster: Roster, found: _Nodes, lease: Lease | None, progress: Progress
) -> Iterator[Callable[[Sequence[NodeVerdict]], None]]:
    """The nodes take nobody's jobs but ours in here; yields what is told who takes jobs afterwards.

    Whoever was held back before is held back again, unless that says that it passed, however this ends.
    """
    held = dict(found.ours)

    def release(verdicts: Sequence[NodeVerdict]) -> None:
        for verdict in verdicts:
            if verdict.verdict == "pass":
                held.pop(verdict.name, None)
            elif verdict.verdict == "fail" and verdict.name in {*found.ready, *found.ours}:
                held[verdict.name] = DrainReason("proof", "", _one_line("; ".join(verdict.why)))

    if not lease:
        yield release
        return
    try:
        if ours := [name for name in found.ours if name in found.ready]:
            remote.ask(
                roster, remote.head(roster).name, ["scontrol", "update", f"nodename={','.join(ours)}", "state=resume"]
            )
        _set_late_aside(roster, found, progress)
        yield release
    finally:
        try:
            _hold(roster, held)
        finally:
            lease.give_back()


def _set_late_aside(roster: Roster, found: _Nodes, progress: Progress) -> None:
    """A job may have started just before the reservation, and a node may not answer yet, or never."""
    for job in slurm.jobs(roster):
        for name in job.nodes:
            if name in found.ready:
                found.ready.remove(name)
                found.aside[name] = _Aside("unknown", f"job {job.id} runs on it", busy=True)
    for name, why in _lost(roster, found.ready, _READY_S, progress).items():
        found.ready.remove(name)
        found.aside[name] = _Aside("fail", why, held=True)


def _lost(roster: Roster, names: Sequence[str], limit_s: float, progress: Progress) -> dict[str, str]:
    """Those of these nodes that take no jobs, and why; one that is about to answer is waited for."""
    known = slurm.answered(roster, names, limit_s, progress)
    return {name: why for name in names if (why := _out_of_order(known.get(name)))}


@dataclass
class _Work:
    """What a proof that is under way knows."""

    subject: Subject
    lease: Lease
    level: Level
    evidence: Evidence
    progress: Progress

    @property
    def roster(self) -> Roster:
        return self.lease.roster


def _measure(work: _Work, nodes: Sequence[str]) -> None:
    """Carries campaigns out, within their budget: what was not measured by then is unknown."""
    deadline = time.monotonic() + 60 * work.subject.proof.budget_minutes
    for queue, together in _by_queue(work.subject, nodes):
        _carry_out(work, queue, together, deadline)
    if left := tuple(name for name in nodes if not any(name in each.nodes for each in work.evidence.findings)):
        why = "nothing was measured on it: no queue has its pool"
        work.evidence.add([qualification.finding_without_number("limits", "unknown", left, why)])


def _by_queue(subject: Subject, nodes: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The nodes that one job can have together: of the queue with the most of them first."""
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
    """Those on which a job starts: before one, each looks whether it is well, and drains itself if it is not.

    A program that starts on some nodes only would wait for the others.
    """
    work.progress("calling the roll")
    while nodes:
        job, srun = _job(work.subject, queue, nodes)
        # where a node is not well, srun may wait long for those that are: who is not is drained by then
        code, _, _ = _heard(work.roster, [*_within(_START_S), *srun, "true"], _LOOK_S)
        if not code or not (lost := _lost_by(work, job, nodes)):
            break  # if it is not for the nodes that nothing starts, what is asked next will say so
        for name, why in lost.items():
            work.evidence.add([qualification.finding_without_number("answering", "fail", (name,), why)])
        nodes = tuple(name for name in nodes if name not in lost)
    return nodes


def _run(work: _Work, queue: str, asked: Ask) -> Heard:
    """One start of the programs through Slurm, ended there when it takes too long."""
    work.lease.extend(asked.seconds)
    members = {member.name: member for member in work.roster.members}
    options = {**asked.options, "cluster": _cluster(work.subject, [members[name] for name in asked.nodes])}
    job, srun = _job(work.subject, queue, asked.nodes)
    program = ["env", f"PYTHONPATH={PROGRAMS}", PYTHON, "-m", "validation", *asked.programs]
    command = [*_within(asked.seconds), *srun, *program, "--options", _packed(options)]
    code, output, said = _heard(work.roster, command, asked.seconds + 15)
    heard = qualification.read(output)
    if not code:
        return heard
    why = {124: f"it took more than {asked.seconds:.0f} s", 2: _OTHER_PROGRAMS}.get(code, said[:WORDS_MAX])
    lost = _lost_by(work, job, asked.nodes)
    return Heard(heard.results, (*heard.unreadable, f"{asked.what}: {why}"), lost)


def _within(seconds: float) -> list[str]:
    return ["timeout", "--kill-after=5", f"{seconds:.0f}"]


def _job(subject: Subject, queue: str, nodes: Sequence[str]) -> tuple[str, list[str]]:
    """The name of a job of ours with a rank on each node, and how it begins."""
    name = f"{reservation.NAME}-{secrets.token_hex(4)}"
    machines = [subject.pool_of[node].machine for node in nodes]
    # a job that has a node for itself has its accelerators too, but its programs see none that were not asked for
    accelerators = min((0 if machine.simulated else machine.accelerators for machine in machines), default=0)
    return name, [
        "srun",
        f"--reservation={reservation.NAME}",
        f"--partition={queue}",
        f"--job-name={name}",
        f"--nodelist={','.join(nodes)}",
        f"--nodes={len(nodes)}",
        "--ntasks-per-node=1",
        "--exclusive",
        *([f"--gres=gpu:{accelerators}"] if accelerators else []),
        "--chdir=/tmp",
        "--input=none",
        "--label",
        "--kill-on-bad-exit=0",
        f"--immediate={_START_S:.0f}",
        "--wait=0",  # a rank may end long before the last one; how long all may take is said apart
        "--",
    ]


def _heard(roster: Roster, command: Sequence[str], limit_s: float) -> tuple[int, str, str]:
    try:
        return remote.hear(roster, remote.head(roster).name, command, limit_s)
    except UnknownError as error:
        return -1, "", str(error).splitlines()[0]


def _lost_by(work: _Work, job: str, nodes: Sequence[str]) -> dict[str, str]:
    """After a job that has failed: which of its nodes take none any more, and why."""
    with contextlib.suppress(OperationError):
        remote.ask(work.roster, remote.head(work.roster).name, ["scancel", f"--name={job}"])
    return _lost(work.roster, nodes, slurm.ANSWER_S, work.progress)


def _packed(options: Mapping[str, Any]) -> str:
    """In one argument, which has a largest length: the options of a thousand nodes are longer than that as text."""
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
    """What an earlier certificate says of machines that are still the same, if it still means the same."""
    if not earlier or (earlier.cluster, earlier.cloud) != (subject.cluster, subject.cloud):
        return {}
    if (earlier.proven, earlier.level) != (qualification.proven_digest(subject, programs), level):
        return {}
    return _of_same_machines(earlier, members)


def _rolled(certificate: Certificate | None, members: Mapping[str, Member], terms: str) -> dict[str, NodeVerdict]:
    """What a roll has proven of machines that are still the same. That is something, but less than is declared."""
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
            verdicts.append(NodeVerdict(name, member.instance, "unknown", False, started, ("it was not looked at",)))
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


def _hold(roster: Roster, reasons: Mapping[str, DrainReason]) -> None:
    """They take no jobs, each for its reason; who is drained in the meantime keeps the reason it has."""
    known = slurm.nodes(roster) if reasons else {}
    free = [name for name in reasons if name in known and "drain" not in known[name].states]
    hold(roster, {name: reasons[name] for name in free})


def _one_line(text: str) -> str:
    """As much as Slurm keeps."""
    plain = "".join(char if char.isprintable() and char != '"' else " " for char in text)
    room = BYTES_MAX - len(written(DrainReason("proof", "", "")).encode())
    return plain if len(plain.encode()) <= room else plain.encode()[: room - 3].decode(errors="ignore") + "..."


def _kept(
    earlier: Certificate, still: Mapping[str, NodeVerdict], wanted: Sequence[str]
) -> tuple[list[Finding], list[Measured]]:
    """What is known of nodes that were not looked at this time."""
    same = {name for name in still if name not in wanted}
    about = {finding: tuple(name for name in finding.nodes if name in same) for finding in earlier.findings}
    findings = [replace(finding, nodes=left) for finding, left in about.items() if left]
    return findings, [each for each in earlier.measured if not same.isdisjoint((each.node, each.peer))]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
