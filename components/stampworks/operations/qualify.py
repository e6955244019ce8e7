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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from stampworks import qualification
from stampworks.operations import remote, slurm
from stampworks.operations.drain import hold
from stampworks.operations.errors import InputError, OperationError, UnknownError, nearest
from stampworks.operations.status import TAKES_JOBS
from stampworks.plan import Level, Member, Roster
from stampworks.qualification import Ask, Certificate, Evidence, Finding, Heard, Measured, NodeVerdict, Subject, Verdict
from stampworks.reasons import BYTES_MAX, DrainReason, written
from stampworks.schedulers import slurm as slurm_files

Progress = Callable[[str], None]

RESERVATION = "stampworks-proof"
PROGRAMS = "/usr/local/lib/stampworks/workloads"
PORT_FIRST, PORTS = 20_000, 10_000
_READY_S = 60.0
_START_S = 10.0
"""The nodes are free and nobody else's: what does not start by then does not start."""
_LOOK_S = 30.0
_LOOKS = 16
"""At one time: each is an ssh."""


@dataclass
class _Nodes:
    """Who can be measured, and what is said of those who cannot."""

    ready: list[str] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    """Held back by an earlier proof: to be given back if they pass now."""
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
    fingerprint: str = "",
    programs: str = "",
) -> Certificate:
    """Measures the named nodes, or all, and says what was found. Nodes that failed take no jobs when this returns.

    Of nodes that are not measured, the earlier certificate's word stands as long as they are the same machines.
    """
    members = {member.name: member for member in roster.members if member.name in subject.nodes}
    if unknown := [name for name in names or () if name not in members]:
        raise InputError(f"no node is called {unknown[0]!r} in cluster {subject.cluster}", nearest(unknown[0], members))
    wanted = list(members if names is None else dict.fromkeys(names))
    started = _now()
    evidence = Evidence()
    progress("asking the nodes whether they are well")
    _look_after(roster, wanted)
    found = _sorted_out(roster, wanted)
    partners = _partners(subject, roster, found, [name for name in members if name not in wanted])
    found.ready += partners
    wanted += partners
    with _taken_aside(roster, subject, found, progress):
        _measure(subject, roster, found.ready, level, evidence, progress)
    verdicts = _verdicts(members, wanted, found, evidence, earlier, started)
    _hold(roster, found, verdicts)
    if earlier:
        evidence.add(*_kept(earlier, wanted, members))
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
    """The nodes whose proof is missing or no longer holds."""
    there = [member for member in roster.members if member.name in subject.nodes]
    if (
        earlier is None
        or earlier.proven != qualification.proven_digest(subject, programs)
        or earlier.level != level
        or any(finding.verdict != "pass" and not finding.nodes for finding in earlier.findings)
    ):
        return [member.name for member in there]
    proven = {each.name: each.instance for each in earlier.nodes if each.verdict == "pass"}
    return [member.name for member in there if proven.get(member.name) != member.instance]


def _look_after(roster: Roster, names: Sequence[str]) -> None:
    """Has every node look whether it is well, as before a job. Who is not drains itself, and nothing waits for it."""

    def look(name: str) -> None:
        with contextlib.suppress(UnknownError):  # Slurm, asked next, says that it is silent
            remote.hear(roster, name, [slurm_files.HEALTH], _LOOK_S)

    with ThreadPoolExecutor(_LOOKS) as threads:
        list(threads.map(look, names))


def _sorted_out(roster: Roster, wanted: Sequence[str]) -> _Nodes:
    known, jobs = slurm.nodes(roster), slurm.jobs(roster)
    busy = {name: job.id for job in jobs for name in job.nodes}
    found = _Nodes()
    for name in wanted:
        node = known.get(name)
        if node is None:
            found.aside[name] = _Aside("unknown", "Slurm does not know it")
        elif name in busy:
            found.aside[name] = _Aside("unknown", f"job {busy[name]} runs on it", busy=True)
        elif "drain" in node.states and node.reason.by == "person":
            found.aside[name] = _Aside("unknown", f"held by {node.reason.who}: {node.reason.text}", held=True)
            found.set_apart.add(name)
        elif "drain" in node.states and node.reason.by in ("proof", "stampworks"):
            found.ours.append(name)
            found.ready.append(name)
        elif (why := _out_of_order(node)) and "not_responding" not in node.states:  # it may be about to answer
            found.aside[name] = _Aside("fail", why, held=True)
        else:
            found.ready.append(name)
    return found


def _partners(subject: Subject, roster: Roster, found: _Nodes, others: Sequence[str]) -> list[str]:
    """As many free nodes as are to be measured, and two at least, neighbours first: nobody can be measured alone."""
    if not found.ready or not others:
        return []
    leaves = {subject.leaf(name) for name in found.ready}
    free = _sorted_out(roster, others)
    candidates = [name for name in free.ready if name not in free.ours]
    candidates.sort(key=lambda name: subject.leaf(name) not in leaves)
    return candidates[: max(2, len(found.ready))]


def _out_of_order(node: slurm.Node | None) -> str:
    """What keeps a node from taking jobs; empty for none."""
    if node is None:
        return "Slurm does not know it"
    if TAKES_JOBS.issuperset(node.states):
        return ""
    states = "+".join(node.states)
    return f"{states}: {node.reason.text}" if node.reason.text else states


@contextlib.contextmanager
def _taken_aside(roster: Roster, subject: Subject, found: _Nodes, progress: Progress) -> Iterator[None]:
    """Nobody else's job starts on the nodes in here. What a killed predecessor left behind is taken away first."""
    if not found.ready:
        yield
        return
    head = remote.head(roster).name
    _without_reservation(roster)
    minutes = subject.proof.budget_minutes + 1
    # counted from now on by Slurm itself, so that nodes are not kept for ever when we are killed
    more = [f"reservationname={RESERVATION}", "starttime=now", f"duration={minutes}", "users=root", "flags=ignore_jobs"]
    remote.ask(roster, head, ["scontrol", "create", "reservation", *more, f"nodes={','.join(found.ready)}"])
    try:
        if found.ours:
            remote.ask(roster, head, ["scontrol", "update", f"nodename={','.join(found.ours)}", "state=resume"])
        _wait_until_ready(roster, found, progress)
        yield
    finally:
        _without_reservation(roster)


def _without_reservation(roster: Roster) -> None:
    with contextlib.suppress(OperationError):  # there is none; or Slurm ends it by itself when its time is over
        remote.ask(roster, remote.head(roster).name, ["scontrol", "delete", f"reservationname={RESERVATION}"])


def _wait_until_ready(roster: Roster, found: _Nodes, progress: Progress) -> None:
    until = time.monotonic() + _READY_S
    while silent := _lost(roster, found.ready):
        if time.monotonic() > until:
            break
        progress(f"waiting for {', '.join(silent)} to answer Slurm")
        time.sleep(0.5)
    for name, why in silent.items():
        found.ready.remove(name)
        found.aside[name] = _Aside("fail", why, held=True)


def _lost(roster: Roster, names: Sequence[str]) -> dict[str, str]:
    """Those of these nodes that take no jobs now, and why."""
    known = slurm.nodes(roster)
    return {name: why for name in names if (why := _out_of_order(known.get(name)))}


def _measure(
    subject: Subject, roster: Roster, nodes: Sequence[str], level: Level, evidence: Evidence, progress: Progress
) -> None:
    """Carries a campaign out, within its budget: what was not measured by then is unknown."""
    deadline = time.monotonic() + 60 * subject.proof.budget_minutes
    campaign = qualification.campaign(subject, nodes, level, evidence)
    heard: Heard | None = None
    with contextlib.suppress(StopIteration):
        while True:
            asked = campaign.send(heard) if heard else next(campaign)
            progress(asked.what)
            if (left_s := deadline - time.monotonic()) < 1:
                why = f"the budget of {subject.proof.budget_minutes} min was used up before: {asked.what}"
                evidence.add([_unknown(asked, why)])
                return
            heard = _run(subject, roster, asked, min(asked.seconds, left_s))


def _unknown(asked: Ask, why: str) -> Finding:
    return Finding(asked.programs[0], "unknown", asked.nodes, "", "", "", 0, None, None, why, False)


def _run(subject: Subject, roster: Roster, asked: Ask, seconds: float) -> Heard:
    """One start of the programs through Slurm, ended there when it takes too long."""
    members = {member.name: member for member in roster.members}
    options = {**asked.options, "cluster": _cluster(subject, [members[name] for name in asked.nodes])}
    name = f"{RESERVATION}-{secrets.token_hex(4)}"
    srun = [
        "timeout",
        "--kill-after=5",
        f"{seconds:.0f}",
        "srun",
        f"--reservation={RESERVATION}",
        f"--partition={_queue(subject, asked.nodes)}",
        f"--job-name={name}",
        f"--nodelist={','.join(asked.nodes)}",
        f"--nodes={len(asked.nodes)}",
        "--ntasks-per-node=1",
        "--exclusive",
        "--chdir=/tmp",
        "--input=none",
        "--kill-on-bad-exit=0",
        f"--immediate={_START_S:.0f}",
        "--wait=0",  # a rank may end long before the last one; how long all may take is said above
        "--",
        "env",
        f"PYTHONPATH={PROGRAMS}",
        "python3",
        "-m",
        "validation",
        *asked.programs,
        "--options",
        _packed(options),
    ]
    head = remote.head(roster).name
    try:
        code, output, said = remote.hear(roster, head, srun, seconds + 15)
    except UnknownError as error:
        code, output, said = -1, "", str(error).splitlines()[0]
    heard = qualification.read(output)
    if code and code != 1:
        with contextlib.suppress(OperationError):
            remote.ask(roster, head, ["scancel", f"--name={name}"])
        why = f"it took more than {seconds:.0f} s" if code == 124 else said
        return Heard(heard.results, (*heard.unreadable, f"{asked.what}: {why}"), _lost(roster, asked.nodes))
    return heard


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
        "port": PORT_FIRST + secrets.randbelow(PORTS),
    }


def _queue(subject: Subject, nodes: Sequence[str]) -> str:
    """A queue that all of these nodes are in."""
    pools = {subject.pool_of[node].name for node in nodes}
    for queue in sorted(subject.queues, key=lambda queue: not queue.default):
        if pools.issubset(queue.pools):
            return queue.name
    raise UnknownError(
        f"no queue has all of the pools {', '.join(sorted(pools))}, so that nothing can be measured between them",
        "declare a queue with all pools, or proof.level: quick",
    )


def _verdicts(
    members: Mapping[str, Member],
    wanted: Sequence[str],
    found: _Nodes,
    evidence: Evidence,
    earlier: Certificate | None,
    started: str,
) -> list[NodeVerdict]:
    before = {each.name: each for each in earlier.nodes} if earlier else {}
    verdicts = []
    for name, member in members.items():
        known = before.get(name)
        still = known if known and known.instance == member.instance else None
        busy = name in found.aside and found.aside[name].busy
        if still and (name not in wanted or busy):
            verdicts.append(still)
        elif name in wanted:
            verdicts.append(_verdict(member, found, evidence, started))
        elif earlier:
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


def _hold(roster: Roster, found: _Nodes, verdicts: Sequence[NodeVerdict]) -> None:
    """Nodes that failed take no jobs, each with its reason; those that passed and were held take jobs already."""
    known = slurm.nodes(roster)
    ready = [each for each in verdicts if each.name in found.ready and each.name in known]
    failed = [each for each in ready if each.verdict == "fail" or (each.verdict != "pass" and each.name in found.ours)]
    # whom the health check has drained in the meantime keeps its reason
    free = [each for each in failed if "drain" not in known[each.name].states]
    hold(roster, {each.name: DrainReason("proof", "", _one_line("; ".join(each.why))) for each in free})


def _one_line(text: str) -> str:
    """As much as Slurm keeps."""
    plain = "".join(char if char.isprintable() and char != '"' else " " for char in text)
    room = BYTES_MAX - len(written(DrainReason("proof", "", "")).encode())
    return plain if len(plain.encode()) <= room else plain.encode()[: room - 3].decode(errors="ignore") + "..."


def _kept(
    earlier: Certificate, wanted: Sequence[str], members: Mapping[str, Member]
) -> tuple[list[Finding], list[Measured]]:
    """What is known of nodes that were not looked at this time."""
    now = {name: member.instance for name, member in members.items()}
    same = {each.name for each in earlier.nodes if now.get(each.name) == each.instance and each.name not in wanted}
    about = {finding: tuple(name for name in finding.nodes if name in same) for finding in earlier.findings}
    findings = [replace(finding, nodes=left) for finding, left in about.items() if left]
    return findings, [each for each in earlier.measured if not same.isdisjoint((each.node, each.peer))]


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
