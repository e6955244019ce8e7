"""Proofs of nodes through Slurm: measured nodes, held nodes, and no remains."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import re
import sys
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.operations import InputError, OperationError, held_back, holder, qualify, to_prove
from stampworks.operations.qualify import _by_queue
from stampworks.operations.slurm import reservation
from stampworks.plan import Roster
from stampworks.qualification import Certificate, Subject, subject_of

from tests.operations.slurm.standin import StandIn, job, node

DECLARED = {
    "version": 1,
    "name": "local",
    "cloud": "local",
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 2}],
    "fabric": {"rail_rate_mbps": 200, "leaf_nodes": 2},
}
SUBJECT: Subject = subject_of(planning.plan(load_value(DECLARED, "test")))

# Answers in place of the programs on the nodes: what a file says, by program.
_SRUN = f"""#!{sys.executable} -IS
import json, os, pathlib, sys
here = pathlib.Path(os.environ["HERE"])
with (here / "slurm").open("a") as log:
    log.write("srun " + " ".join(word for word in sys.argv[1:] if "nodelist" in word or "reservation" in word) + "\\n")
if sys.argv[-1] == "true":
    sys.exit()
said = json.loads((here / "said.json").read_text())
words = sys.argv[sys.argv.index("validation") + 1:]
for program in words[:words.index("--options")]:
    print(said.get(program, ""))
sys.exit(int(said.get("code", "0")))
"""


def answer(
    workload: str,
    values: list[dict[str, Any]],
    problems: list[dict[str, str]] | None = None,
    versions: tuple[str, ...] = (),
) -> str:
    names = ["gpu-001", "gpu-002"]
    texts = [{"quantity": "library_version", "node": name, "name": "kernel", "text": "6"} for name in versions]
    data = {
        "version": 1, "workload": workload, "rank": 0, "ranks": 2, "nodes": names, "started": "2026-11-21T19:00:00Z",
        "seconds": 1.0, "backend": "", "device": "cpu", "values": values, "texts": texts, "problems": problems or [],
    }  # fmt: skip
    packed = base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()
    parts = [packed[at : at + 800] for at in range(0, len(packed), 800)]
    return "\n".join(f"stampworks-result {workload} 0 {n}/{len(parts)} {part}" for n, part in enumerate(parts, 1))


def value(quantity: str, of: float, where: str = "", **more: Any) -> dict[str, Any]:
    empty = {"unit": "count", "peer": "", "rail": "", "device": "", "bytes": 0, "simulated": False, "note": ""}
    return {"quantity": quantity, "node": where, **empty, "value": of, "low": of, "high": of, "samples": 1, **more}


WELL = {
    "limits": answer("limits", [value("memory", 1e9, name) for name in ("gpu-001", "gpu-002")]),
    "inventory": answer("inventory", [value("accelerators", 8, "gpu-001")], versions=("gpu-001", "gpu-002")),
}


@pytest.fixture
def said(cluster: StandIn) -> Any:
    """Answers of the programs on the nodes, by program."""

    def say(answers: Mapping[str, str]) -> None:
        (cluster.folder / "said.json").write_text(json.dumps(answers))

    cluster.program("srun", _SRUN)
    cluster.program("timeout", '#!/bin/sh\nshift 2\nexec "$@"\n')
    say(WELL)
    return say


def prove(cluster: StandIn, *names: str, **more: Any) -> Certificate:
    more = {"level": "quick", "progress": print, **more}
    return qualify(SUBJECT, cluster.roster, more.pop("level"), more.pop("progress"), names=names or None, **more)


def verdicts(certificate: Certificate) -> dict[str, str]:
    return {each.name: each.verdict for each in certificate.nodes}


def log(cluster: StandIn) -> list[str]:
    return (cluster.folder / "slurm").read_text().splitlines()


def test_nodes_are_reserved_while_they_are_measured(cluster: StandIn, said: Any) -> None:
    """No other job starts on them meanwhile, and the reservation is always deleted."""
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "pass"}
    lines = [line for line in log(cluster) if "reservation" in line and "show" not in line]
    assert re.fullmatch(
        "scontrol create reservation reservationname=stampworks-proof starttime=now duration=5 users=root "
        r"flags=ignore_jobs comment=\w+@\S+ since 20\S+Z \(process \d+ begun \d+ in \S+\) nodes=gpu-001,gpu-002",
        lines[0],
    )
    assert lines[1:3] == ["srun --reservation=stampworks-proof --nodelist=gpu-001,gpu-002"] * 2
    assert lines[3:] == ["scontrol delete reservationname=stampworks-proof"]


def test_failed_node_is_drained(cluster: StandIn, said: Any) -> None:
    """The drain's reason is the finding, marked as the proof's."""
    missing = [{"node": "gpu-002", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")], missing)})
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "fail"}
    assert certificate.verdict == "fail"
    assert cluster.updates == ['update nodename=gpu-002 state=drain reason="proof: /shared is not mounted"']


def test_as_many_may_fail_as_were_declared(cluster: StandIn, said: Any) -> None:
    """Failed nodes are held nevertheless."""
    missing = [{"node": "gpu-002", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")], missing)})
    lenient = dataclasses.replace(SUBJECT, proof=dataclasses.replace(SUBJECT.proof, failed_nodes_max=1))
    certificate = qualify(lenient, cluster.roster, "quick", print)
    assert certificate.verdict == "pass"
    assert [each.name for each in certificate.nodes if each.held] == ["gpu-002"]
    assert len(cluster.updates) == 1


def test_passed_node_is_resumed(cluster: StandIn, said: Any) -> None:
    """This includes nodes that the last proof held."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="proof: /shared is not mounted"))
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "pass"}
    assert cluster.updates == ["update nodename=gpu-002 state=resume"]


def test_held_back_nodes(cluster: StandIn) -> None:
    """Free nodes and nodes held for another reason are left out. Without an answer of Slurm no node counts as free."""
    cluster.nodes(
        node("gpu-001", "IDLE", reason="proof: memlock is small"),
        node("gpu-002", "IDLE", "DRAIN", reason="proof: /shared is not mounted"),
        node("gpu-003", "IDLE", "DRAIN", reason="alice: new cable"),
    )
    assert held_back(SUBJECT, cluster.roster) == {"gpu-002": "/shared is not mounted"}
    cluster.program("scontrol", "#!/bin/sh\nexit 1\n")
    with pytest.raises(OperationError):
        held_back(SUBJECT, cluster.roster)


def test_jobs_are_left_alone(cluster: StandIn, said: Any) -> None:
    """A busy node is not measured, and keeps its earlier result."""
    cluster.jobs([job(12, "alice", "gpu-002")])
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "unknown"}
    assert certificate.nodes[1].why == ("job 12 runs on it",)
    cluster.jobs([])
    earlier = prove(cluster)
    cluster.jobs([job(12, "alice", "gpu-002")])
    assert verdicts(prove(cluster, earlier=earlier)) == {"gpu-001": "pass", "gpu-002": "pass"}


def test_an_old_proof_says_nothing_of_other_terms(cluster: StandIn, said: Any) -> None:
    """A busy node is not proven by an earlier proof of another release or other programs."""
    earlier = prove(cluster, programs="p")
    cluster.jobs([job(12, "alice", "gpu-002")])
    assert verdicts(prove(cluster, earlier=earlier, programs="q"))["gpu-002"] == "unknown"


def test_a_job_that_was_faster_is_left_alone(cluster: StandIn, said: Any) -> None:
    """The job started between the look and the reservation."""
    cluster.jobs([], [job(12, "alice", "gpu-002")])
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "unknown"}
    assert "srun --reservation=stampworks-proof --nodelist=gpu-001" in log(cluster)


def test_waiting_job_does_not_delay_the_proof(cluster: StandIn, said: Any) -> None:
    """The job would wait for the proof, and the proof for the job."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="proof: /shared is not mounted"))
    cluster.jobs([], [job(12, "alice", "gpu-002")])
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "pass"}


def test_interrupted_proof_restores_the_drain(cluster: StandIn, said: Any) -> None:
    """The old reason is restored before any other job can start."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="proof: /shared is not mounted"))

    def stop(line: str) -> None:
        if line.startswith("limits"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove(cluster, progress=stop)
    assert cluster.updates == [
        "update nodename=gpu-002 state=resume",
        'update nodename=gpu-002 state=drain reason="proof: /shared is not mounted"',
    ]
    assert log(cluster)[-1] == "scontrol delete reservationname=stampworks-proof"
    drained = log(cluster).index('scontrol update nodename=gpu-002 state=drain reason="proof: /shared is not mounted"')
    assert drained < len(log(cluster)) - 1


def test_an_up_that_goes_on_keeps_what_it_holds(cluster: StandIn, said: Any) -> None:
    """A node that is about to leave gets no jobs by being measured."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="stampworks: leaves the cluster"))
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "fail"}
    assert cluster.updates == []


def test_time_that_is_used_up_proves_nobody(cluster: StandIn, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings until then count; no node passes that was still to be measured."""
    clock = itertools.count(step=100)  # minutes pass between two looks
    monkeypatch.setattr(sys.modules["stampworks.operations.qualify"].time, "monotonic", lambda: next(clock))
    missing = [{"node": "gpu-002", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")], missing)})
    certificate = prove(cluster, level="standard")
    assert verdicts(certificate) == {"gpu-001": "unknown", "gpu-002": "fail"}
    assert any("of the budget of 10 min 0 s are left" in why for why in certificate.nodes[0].why)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("person alice: new cable", "held by alice: new cable"),
        ("cloud: spot instance: terminate at noon", "held by its cloud: spot instance: terminate at noon"),
    ],
)
def test_a_persons_drain_and_a_notice_of_the_cloud_are_no_failure(
    reason: str, why: str, cluster: StandIn, said: Any
) -> None:
    """The node is out of service on purpose: it is not measured, and the rest may pass."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason=reason))
    certificate = prove(cluster)
    assert certificate.verdict == "pass"
    assert certificate.nodes[1].why == (why,)
    assert cluster.updates == []


def test_a_node_that_answers_nothing_is_unknown(cluster: StandIn, said: Any) -> None:
    """A missing answer is neither a pass nor a failure."""
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")])})
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "unknown"}
    assert certificate.verdict == "unknown"
    assert cluster.updates == []


def test_programs_that_do_not_start_are_unknown(cluster: StandIn, said: Any) -> None:
    """The reason is Slurm's message."""
    cluster.program("srun", "#!/bin/sh\necho 'srun: error: Unable to allocate resources' >&2\nexit 1\n")
    certificate = prove(cluster)
    assert certificate.verdict == "unknown"
    assert "srun: error: Unable to allocate resources" in certificate.nodes[0].why[0]


def test_no_such_node(cluster: StandIn, said: Any) -> None:
    """Names are checked before any change."""
    with pytest.raises(InputError, match="no node is called 'gpu-003' in cluster local"):
        prove(cluster, "gpu-003")
    assert not (cluster.folder / "slurm").exists()


def renewed(roster: Roster, name: str) -> Roster:
    members = [dataclasses.replace(each, instance="2") if each.name == name else each for each in roster.members]
    return dataclasses.replace(roster, members=tuple(members))


def test_unchanged_nodes_need_no_proof(cluster: StandIn, said: Any) -> None:
    """A replaced machine needs a proof. After a change of programs or declaration all nodes need one."""
    earlier = prove(cluster, programs="p")
    everybody = ["gpu-001", "gpu-002"]
    assert to_prove(SUBJECT, cluster.roster, earlier, "quick", "p") == []
    assert to_prove(SUBJECT, renewed(cluster.roster, "gpu-002"), earlier, "quick", "p") == ["gpu-002"]
    assert to_prove(SUBJECT, cluster.roster, earlier, "quick", "q") == everybody
    assert to_prove(SUBJECT, cluster.roster, earlier, "standard", "p") == everybody
    assert to_prove(SUBJECT, cluster.roster, None, "quick", "p") == everybody
    slower = dataclasses.replace(SUBJECT, release="2027.02")
    assert to_prove(slower, cluster.roster, earlier, "quick", "p") == everybody


def test_shrunken_cluster_is_not_measured(cluster: StandIn, said: Any) -> None:
    """Keep the measurements of the remaining nodes when a cluster shrinks."""
    earlier = prove(cluster)
    (cluster.folder / "slurm").unlink()
    left = cluster.without("gpu-002")
    certificate = qualify(SUBJECT, left, "quick", print, names=[], earlier=earlier)
    assert certificate.verdict == "pass"
    assert verdicts(certificate) == {"gpu-001": "pass"}
    assert not (cluster.folder / "slurm").exists()
    assert {each.nodes for each in certificate.findings} == {("gpu-001",)}


def test_a_node_is_measured_with_others(cluster: StandIn, said: Any) -> None:
    """Free nodes are measured with it, because rails have two ends; their results count as well."""
    earlier = prove(cluster)
    missing = [{"node": "gpu-001", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-002")], missing)})
    steps: list[str] = []
    certificate = prove(cluster, "gpu-002", earlier=earlier, progress=steps.append)
    assert "measuring gpu-001, too: rails have two ends" in steps
    assert "srun --reservation=stampworks-proof --nodelist=gpu-002,gpu-001" in log(cluster)
    assert verdicts(certificate) == {"gpu-001": "fail", "gpu-002": "pass"}


def test_pools_without_a_queue_in_common_are_measured_apart(cluster: StandIn, said: Any) -> None:
    """A job can use nodes of a single queue. Nodes without a queue are not proven."""
    names = ("gpu-001", "cpu-001")
    pools = [{"name": name, "machine": "sim-h100", "count": 1} for name in ("gpu", "cpu")]
    for queues, asked in (
        (
            [{"name": "a", "pools": ["gpu"], "default": True}, {"name": "b", "pools": ["cpu"]}],
            ["a gpu-001", "b cpu-001"],
        ),
        (
            [{"name": "a", "pools": ["gpu"], "default": True}, {"name": "b", "pools": ["gpu", "cpu"]}],
            ["b gpu-001,cpu-001"],
        ),
    ):
        declared = {**DECLARED, "pools": pools, "scheduler": {"queues": queues}}
        apart = subject_of(planning.plan(load_value(declared, "test")))
        found = [(queue, ",".join(nodes)) for queue, nodes in _by_queue(apart, names)]
        assert [" ".join(each) for each in found] == asked


def test_a_proof_waits_for_another_one(cluster: StandIn, said: Any) -> None:
    """The message names the other proof. The proof does not touch its nodes, and continues when it ends."""
    held = cluster.folder / "reservation"
    held.write_text("alice@laptop since 2026-11-21T23:00:00Z (process 7 begun 9 in another.1)")
    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            held.unlink()

    assert verdicts(prove(cluster, progress=progress)) == {"gpu-001": "pass", "gpu-002": "pass"}
    assert told[:2] == ["waiting for another proof of alice@laptop since 2026-11-21T23:00:00Z"] * 2
    assert not held.exists()


def test_a_proof_that_does_not_end_is_named(cluster: StandIn, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder, since when, and a remedy are named; nothing of it is touched."""
    held = cluster.folder / "reservation"
    held.write_text("alice@laptop since 2026-11-21T23:00:00Z (process 7 begun 9 in another.1)")
    clock = itertools.count(step=400)
    monkeypatch.setattr(sys.modules["stampworks.operations.slurm.reservation"].time, "monotonic", lambda: next(clock))
    with pytest.raises(OperationError) as caught:
        prove(cluster)
    assert str(caught.value) == (
        "another proof of alice@laptop since 2026-11-21T23:00:00Z is running on cluster local\n"
        "  hint: wait for it, or end it there; nodes of a killed proof are free after 5 minutes"
    )
    assert held.exists()
    assert cluster.updates == []


def test_remains_of_a_killed_proof_are_removed(cluster: StandIn, said: Any) -> None:
    """Its process has ended, or the pid belongs to another process."""
    held = cluster.folder / "reservation"
    gone = holder.ourselves().replace(" begun ", " begun 1")
    held.write_text(gone)
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "pass"}
    alive = holder.ourselves()
    assert (holder.is_gone(gone), holder.is_gone(alive)) == (True, False)


def test_a_lease_that_is_somebody_elses_by_now_is_left_alone(cluster: StandIn, said: Any) -> None:
    """The lease expired, for example while a laptop was closed, and now belongs to another proof."""
    held = cluster.folder / "reservation"

    def progress(line: str) -> None:
        if line.startswith("limits"):
            held.write_text("alice@laptop since 2026-11-21T23:00:00Z")

    prove(cluster, progress=progress)
    assert held.read_text().startswith("alice")


def test_a_long_measurement_extends_the_lease(cluster: StandIn, said: Any) -> None:
    """The lease is extended by the maximum duration."""
    lease = reservation.take(cluster.roster, ["gpu-001"])
    assert lease
    assert reservation.take(cluster.roster, ["gpu-001"]) is None  # Slurm creates it once
    lease.extend(30)
    assert not [line for line in log(cluster) if "endtime" in line]
    lease.extend(600)
    assert log(cluster)[-1] == "scontrol update reservationname=stampworks-proof endtime=now+15minutes"


def test_a_node_that_registers_is_waited_for(cluster: StandIn, said: Any) -> None:
    """The wait comes before the first start, and after a start that failed because of the node. An old drain reason
    does not count."""
    silent = node("gpu-002", "IDLE", "NOT_RESPONDING", reason="stampworks: waits for a new head")
    cluster.nodes(node("gpu-001"), silent)
    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        if line.startswith("waiting"):
            cluster.nodes(node("gpu-001"), node("gpu-002"))

    assert verdicts(prove(cluster, progress=progress)) == {"gpu-001": "pass", "gpu-002": "pass"}
    assert told[1:3] == ["waiting for gpu-002 to answer Slurm", "asking all nodes to answer"]


def test_a_node_that_stays_silent_is_named(cluster: StandIn, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message describes the present state."""
    monkeypatch.setattr(sys.modules["stampworks.operations.qualify"], "_READY_S", 0.0)
    silent = node("gpu-002", "IDLE", "NOT_RESPONDING", reason="stampworks: waits for a new head")
    cluster.nodes(node("gpu-001"), silent)
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "fail"}
    assert certificate.nodes[1].why == ("it does not answer Slurm",)


def test_a_node_that_the_health_check_holds_looks_again(cluster: StandIn, said: Any) -> None:
    """A repaired node may be healthy; all others are checked before their first program, like before any job."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="health: rail0 has no carrier"))
    prove(cluster)
    looks = [line for line in (cluster.folder / "sent").read_text().splitlines() if "stampworks-health" in line]
    assert looks == ["10.77.1.2 /usr/local/sbin/stampworks-health"]


def test_a_node_that_is_not_well_is_not_waited_for(cluster: StandIn, said: Any) -> None:
    """The node drains itself before its first program; the others are measured, and its reason stays."""
    cluster.program("srun-well", _SRUN)
    drained = "nodename=gpu-002 state=drain reason=health:\\ rail1\\ has\\ no\\ carrier"
    fails = f"case $* in *gpu-002*) scontrol update {drained}; echo 'error: Job prolog failed' >&2; exit 1;; esac"
    cluster.program("srun", f'#!/bin/sh\n{fails}\nexec "$HERE/bin/srun-well" "$@"\n')
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "fail"}
    assert certificate.nodes[1].why == ("drain: rail1 has no carrier",)
    assert [line for line in cluster.updates if "proof" in line] == []


def test_a_proof_has_all_accelerators_of_its_nodes(cluster: StandIn, said: Any) -> None:
    """Programs see only accelerators that the job requests."""
    cluster.program("srun", '#!/bin/sh\necho "$*" | grep -o "gres=gpu:[0-9]*" >>"$HERE/asked"\nexit 1\n')
    prove(cluster)
    assert (cluster.folder / "asked").read_text() == ""
    [pool] = SUBJECT.pools
    real = dataclasses.replace(pool, machine=dataclasses.replace(pool.machine, simulated=False))
    qualify(dataclasses.replace(SUBJECT, pools=(real,)), cluster.roster, "quick", print)
    assert {*(cluster.folder / "asked").read_text().split()} == {"gres=gpu:8"}
