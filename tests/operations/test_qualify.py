"""Proving nodes through Slurm: who is measured, who is held back, and that nothing is left behind."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.operations import InputError, qualify, to_prove
from stampworks.operations.qualify import _by_queue
from stampworks.plan import Roster
from stampworks.qualification import Certificate, Subject, subject_of

from tests.operations.standin import StandIn, job, node

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
    """What the programs on the nodes answer, by program."""

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
    """Nobody else's job starts on them in between, and the reservation goes, whatever happens."""
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "pass"}
    lines = [line for line in log(cluster) if "reservation" in line]
    assert lines[0] == "scontrol delete reservationname=stampworks-proof"  # of somebody who was killed
    assert lines[1] == (
        "scontrol create reservation reservationname=stampworks-proof starttime=now duration=11 users=root "
        "flags=ignore_jobs nodes=gpu-001,gpu-002"
    )
    assert lines[2] == "srun --reservation=stampworks-proof --nodelist=gpu-001,gpu-002"
    assert lines[3:] == ["scontrol delete reservationname=stampworks-proof"]


def test_who_failed_takes_no_jobs(cluster: StandIn, said: Any) -> None:
    """Its reason is what was found, and says that it is its proof that holds it."""
    missing = [{"node": "gpu-002", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")], missing)})
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "fail"}
    assert certificate.verdict == "fail"
    assert cluster.updates == ['update nodename=gpu-002 state=drain reason="proof: /shared is not mounted"']


def test_as_many_may_fail_as_were_declared(cluster: StandIn, said: Any) -> None:
    """They are held back all the same."""
    missing = [{"node": "gpu-002", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")], missing)})
    lenient = dataclasses.replace(SUBJECT, proof=dataclasses.replace(SUBJECT.proof, failed_nodes_max=1))
    certificate = qualify(lenient, cluster.roster, "quick", print)
    assert certificate.verdict == "pass"
    assert [each.name for each in certificate.nodes if each.held] == ["gpu-002"]
    assert len(cluster.updates) == 1


def test_who_passes_again_takes_jobs_again(cluster: StandIn, said: Any) -> None:
    """Also when the last proof held it back."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="proof: /shared is not mounted"))
    assert verdicts(prove(cluster)) == {"gpu-001": "pass", "gpu-002": "pass"}
    assert cluster.updates == ["update nodename=gpu-002 state=resume"]


def test_jobs_are_left_alone(cluster: StandIn, said: Any) -> None:
    """A node that works is not measured, and nothing is known of it but what was known before."""
    cluster.jobs([job(12, "alice", "gpu-002")])
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "unknown"}
    assert certificate.nodes[1].why == ("job 12 runs on it",)
    cluster.jobs([])
    earlier = prove(cluster)
    cluster.jobs([job(12, "alice", "gpu-002")])
    assert verdicts(prove(cluster, earlier=earlier)) == {"gpu-001": "pass", "gpu-002": "pass"}


def test_an_old_proof_says_nothing_of_other_terms(cluster: StandIn, said: Any) -> None:
    """A node that works while release or programs change is not proven by what it was."""
    earlier = prove(cluster, programs="p")
    cluster.jobs([job(12, "alice", "gpu-002")])
    assert verdicts(prove(cluster, earlier=earlier, programs="q"))["gpu-002"] == "unknown"


def test_a_job_that_was_faster_is_left_alone(cluster: StandIn, said: Any) -> None:
    """It has started between the look and the reservation."""
    cluster.jobs([], [job(12, "alice", "gpu-002")])
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "unknown"}
    assert "srun --reservation=stampworks-proof --nodelist=gpu-001" in log(cluster)


def test_who_was_held_stays_held_when_it_breaks_off(cluster: StandIn, said: Any) -> None:
    """For the old reason, and before anybody else may use the node again."""
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
    """What was found by then counts; nobody passes who was to be measured further."""
    clock = iter([0.0] * 4 + [1e9] * 100)
    monkeypatch.setattr(sys.modules["stampworks.operations.qualify"].time, "monotonic", lambda: next(clock))
    missing = [{"node": "gpu-002", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")], missing)})
    certificate = prove(cluster, level="standard")
    assert verdicts(certificate)["gpu-001"] == "unknown"
    assert "the budget of 10 min was used up during: limits" in certificate.nodes[0].why[0]


def test_a_persons_drain_is_no_failure(cluster: StandIn, said: Any) -> None:
    """The node is out of service on purpose: it is not measured, and the rest may pass."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="person alice: new cable"))
    certificate = prove(cluster)
    assert certificate.verdict == "pass"
    assert certificate.nodes[1].why == ("held by alice: new cable",)
    assert cluster.updates == []


def test_a_node_that_answers_nothing_is_unknown(cluster: StandIn, said: Any) -> None:
    """No answer is no pass, and no fault either."""
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-001")])})
    certificate = prove(cluster)
    assert verdicts(certificate) == {"gpu-001": "pass", "gpu-002": "unknown"}
    assert certificate.verdict == "unknown"
    assert cluster.updates == []


def test_programs_that_do_not_start_are_unknown(cluster: StandIn, said: Any) -> None:
    """Slurm's words say why."""
    cluster.program("srun", "#!/bin/sh\necho 'srun: error: Unable to allocate resources' >&2\nexit 1\n")
    certificate = prove(cluster)
    assert certificate.verdict == "unknown"
    assert "srun: error: Unable to allocate resources" in certificate.nodes[0].why[0]


def test_no_such_node(cluster: StandIn, said: Any) -> None:
    """Nothing is done before the names are right."""
    with pytest.raises(InputError, match="no node is called 'gpu-003' in cluster local"):
        prove(cluster, "gpu-003")
    assert not (cluster.folder / "slurm").exists()


def renewed(roster: Roster, name: str) -> Roster:
    members = [dataclasses.replace(each, instance="2") if each.name == name else each for each in roster.members]
    return dataclasses.replace(roster, members=tuple(members))


def test_what_did_not_change_needs_no_new_proof(cluster: StandIn, said: Any) -> None:
    """A node that is another machine does; all do when the programs or what is declared changed."""
    earlier = prove(cluster, programs="p")
    everybody = ["gpu-001", "gpu-002"]
    assert to_prove(SUBJECT, cluster.roster, earlier, "quick", "p") == []
    assert to_prove(SUBJECT, renewed(cluster.roster, "gpu-002"), earlier, "quick", "p") == ["gpu-002"]
    assert to_prove(SUBJECT, cluster.roster, earlier, "quick", "q") == everybody
    assert to_prove(SUBJECT, cluster.roster, earlier, "standard", "p") == everybody
    assert to_prove(SUBJECT, cluster.roster, None, "quick", "p") == everybody
    slower = dataclasses.replace(SUBJECT, release="2027.02")
    assert to_prove(slower, cluster.roster, earlier, "quick", "p") == everybody


def test_nobody_to_prove_is_nobody_measured(cluster: StandIn, said: Any) -> None:
    """A cluster that shrank keeps what is known of those who stayed."""
    earlier = prove(cluster)
    (cluster.folder / "slurm").unlink()
    left = cluster.without("gpu-002")
    certificate = qualify(SUBJECT, left, "quick", print, names=[], earlier=earlier)
    assert certificate.verdict == "pass"
    assert verdicts(certificate) == {"gpu-001": "pass"}
    assert not any(line.startswith("srun") or "reservation" in line for line in log(cluster))
    assert {each.nodes for each in certificate.findings} == {("gpu-001",)}


def test_a_node_is_measured_with_others(cluster: StandIn, said: Any) -> None:
    """Free ones beside it, for its rails have two ends; what is found of those counts as well."""
    earlier = prove(cluster)
    missing = [{"node": "gpu-001", "rail": "", "what": "/shared is not mounted"}]
    said({**WELL, "limits": answer("limits", [value("memory", 1e9, "gpu-002")], missing)})
    certificate = prove(cluster, "gpu-002", earlier=earlier)
    assert "srun --reservation=stampworks-proof --nodelist=gpu-002,gpu-001" in log(cluster)
    assert verdicts(certificate) == {"gpu-001": "fail", "gpu-002": "pass"}


def test_pools_without_a_queue_in_common_are_measured_apart(cluster: StandIn, said: Any) -> None:
    """A job can have nodes of one queue only; who is in none is not proven."""
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
