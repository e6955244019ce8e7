"""`stampworks submit`, `jobs`, `logs` and `cancel` against a stand-in for a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.cli import exits
from stampworks.cli import jobs as command
from stampworks.cli.main import main
from stampworks.declaration import load_stack
from stampworks.operations import jobs as operations
from stampworks.operations import runs
from stampworks.operations.job import Job
from stampworks.plan import Member, Roster
from stampworks.planning.cost import NoPrice, price_of

from tests.operations.slurm.standin import StandIn, node
from tests.operations.test_jobs import SBATCH, OfTeams, queued

STACK = """
    storage:
      - {name: shared, kind: directory, mount: /shared}
"""
ROOT = Path(__file__).resolve().parents[2]
TRAIN = ["submit", "training", "demo", "--pool", "gpu"]


@pytest.fixture(autouse=True)
def shared(project: Path, cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shared directory that is a folder here."""
    file = project / "stacks" / "Pulumi.local.yaml"
    file.write_text(file.read_text().replace("    users:\n", STACK.lstrip("\n") + "    users:\n"))
    folder = tmp_path / "shared"
    monkeypatch.setattr(runs, "folder_of_all", lambda plan: str(folder))
    monkeypatch.setattr(operations, "_POLL_S", 0.01)
    cluster.program("sbatch", SBATCH)
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001"))
    return folder


def test_submit(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line reports the submission; a second submission continues the run."""
    assert main(TRAIN) == exits.FINE
    assert capsys.readouterr().out == f"run demo is submitted: job 7 on 2 nodes, in {shared}/demo\n"
    assert main(TRAIN) == exits.FINE
    assert capsys.readouterr().out == f"run demo goes on: job 7 on 2 nodes, in {shared}/demo\n"
    assert main([*TRAIN, "--set", "steps=7"]) == exits.NO
    assert "run demo exists with other options:\n  steps: 100 before, 7 now\n" in capsys.readouterr().err


def test_submit_as_json(tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of a file and of the command line are merged."""
    (tmp_path / "options.json").write_text('{"steps": 5, "batch": 8}')
    assert main([*TRAIN, "--options", str(tmp_path / "options.json"), "--set", "steps=6", "--json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)
    assert found == {"run": "demo", "job": 7, "nodes": 2, "folder": f"{shared}/demo", "resumes": False, "warnings": []}
    options = json.loads((shared / "demo" / "options.json").read_text())
    assert (options["steps"], options["batch"]) == (6, 8)


def test_pools_of_different_machines(capsys: pytest.CaptureFixture[str]) -> None:
    """A run has as many ranks on each node."""
    assert main(["submit", "training", "demo"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "queue main has pools of different machines: gpu of sim-h100, cpu of sim-cpu\n  hint: choose one: --pool POOL\n"
    )


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["submit", "train", "demo"], "did you mean training?"),
        ([*TRAIN, "--nodes", "0"], "'0' is not a number of nodes: write 1 or more"),
        ([*TRAIN, "--options", "nowhere.json"], "nowhere.json: No such file or directory"),
        (["logs", "demo"], "no run is called 'demo' on cluster local\n  hint: there are none\n"),
        (["logs", "../demo"], "'../demo' is not a legal name of a run\n"),
        (["cancel", "demo"], "no run is called 'demo' on cluster local\n  hint: there are none\n"),
    ],
)
def test_refused(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line is refused with the fault and a remedy."""
    assert main(argv) in (exits.WRONG_INPUT, exits.FAILED)
    assert text in capsys.readouterr().err


def at_work(cluster: StandIn, *states: tuple[str, str]) -> None:
    """Set squeue's answers about the run, call by call."""
    cluster.jobs(*[[queued("demo", state, reason)] for state, reason in states])


def test_waiting_for_the_end(cluster: StandIn, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output shows the reason to wait and the outcome; the exit code says whether the run finished."""
    cluster.jobs([], [queued("demo", "PENDING", "Resources")], [queued("demo", "COMPLETED")])
    assert main([*TRAIN, "--wait"]) == exits.FINE
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "run demo: finished"
    assert "run demo: waits: not enough nodes are free now\n" in said.err
    cluster.jobs([], [queued("demo", "RUNNING")], [queued("demo", "NODE_FAIL")])
    assert main([*TRAIN, "--wait"]) == exits.NO
    assert capsys.readouterr().out.splitlines()[-1] == "run demo: failed: its first node was lost"


def test_a_log(cluster: StandIn, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log goes to stdout and progress to stderr; control characters are shown as text."""
    assert main(TRAIN) == exits.FINE
    (shared / "demo" / "log").write_text("0: hello\n0: \x1b[2J\tworld")
    events: list[dict[str, Any]] = [
        {"at": 1.0, "what": "start", "settings": {"steps": 100}},
        {"at": 2.0, "what": "step", "step": 1, "loss": 5.5, "tokens": 64, "seconds": 1.0},
    ]
    (shared / "demo" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    capsys.readouterr()
    at_work(cluster, ("RUNNING", "None"))
    assert main(["logs", "demo"]) == exits.FINE
    assert capsys.readouterr().out == "0: hello\n0: \\x1b[2J world\n"
    at_work(cluster, ("RUNNING", "None"), ("CANCELLED", "None"))
    assert main(["logs", "demo", "--follow"]) == exits.NO
    said = capsys.readouterr()
    assert said.out == "0: hello\n0: \\x1b[2J world\n"
    lines = said.err.splitlines()
    assert (lines[0], lines[-1]) == ("run demo: step 1/100, loss 5.500, goodput 100%", "run demo: cancelled")


def test_a_list(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Each job has a line, with the reason to wait at its end. Jobs of sbatch are listed with their resources."""
    assert main(["jobs"]) == exits.FINE
    assert capsys.readouterr().out == "there are no jobs\n"
    waiting = queued("demo", "PENDING", "Dependency", start_time={"set": True, "number": 1795305600})
    ended: dict[str, Any] = {
        "start_time": {"set": True, "number": 1795305600},
        "end_time": {"set": True, "number": 1795307400},
    }
    held: dict[str, Any] = {
        "tres_alloc_str": "cpu=1,node=2,gres/gpu=16",
        "exit_code": {"return_code": {"set": True, "number": 3}},
    }
    hers = queued("own", "FAILED", number=8, nodes="gpu-[001-002]", user_name="alice", comment="", **ended, **held)
    cluster.jobs([waiting, hers])
    assert main(["jobs"]) == exits.FINE
    assert capsys.readouterr().out == (
        "  name  kind      state    job  user   queue  nodes          since                 hours  GPU hours  why\n"
        "  demo  training  waiting    7  root   main   2              2026-11-22T00:00:00Z      -          -  "
        "place 1 in its queue: it waits for another job to end\n"
        "  own   -         failed     8  alice  main   gpu-[001-002]  2026-11-22T00:00:00Z   0.50       8.00  "
        "exit code 3\n"
    )
    assert main(["jobs", "--json", "--mine", "alice"]) == exits.FINE
    [job] = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["name"], job["id"], job["gpu_hours"], job["usd"], job["exit_code"]) == ("own", 8, 8.0, None, 3)


def test_cost_so_far() -> None:
    """Accelerator hours at the price of the nodes' machine; unknown where prices differ or a job has used nothing."""
    plan = planning.plan(load_stack("aws-dev-g6", ROOT / "stacks"))
    [pool] = [pool for pool in plan.pools if pool.machine.accelerators]
    price = price_of(plan, pool)
    assert not isinstance(price, NoPrice)
    member = Member("gpu-001", pool.name, "i-1", "10.0.0.1", (), "")
    roster = Roster(plan.name, plan.cloud, (), "", "", (member,))
    usd = command._prices(plan, roster)
    job = Job("own", "job", "running", 8, "alice", ("gpu-001",), 1, 0, "", gpu_hours=10.0)
    assert usd(job) == round(10 * price.usd_per_hour / pool.machine.accelerators, 2) > 0
    assert usd(replace(job, nodes=("gpu-001", "cpu-001"))) is None
    assert usd(replace(job, gpu_hours=None)) is None


def test_cancelling(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The output says how to continue the run."""
    at_work(cluster, ("RUNNING", "None"))
    assert main(["cancel", "demo"]) == exits.FINE
    assert (cluster.folder / "scancel").read_text() == "7\n"
    assert capsys.readouterr().out == (
        "run demo is cancelled: job 7; its checkpoints stay, and submit continues from them\n"
    )
    at_work(cluster, ("COMPLETED", "None"))
    assert main(["cancel", "demo"]) == exits.FINE
    assert capsys.readouterr().out == "there was nothing to cancel: run demo: finished\n"


def test_a_silent_cluster(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown result has its own exit code."""
    cluster.unreachable()
    for argv in (TRAIN, ["jobs"], ["logs", "demo"], ["cancel", "demo"]):
        assert main(argv) == exits.UNKNOWN
        assert "head cannot be reached: " in capsys.readouterr().err


def test_waiting_is_for_the_submitted_job(
    cluster: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kubernetes may know a run of that name of another team, too."""
    cluster.jobs([])
    runs_of_both = OfTeams(research="finished", product="running")
    real, submitted = operations.of_cluster, list[str]()

    def submit(*_: object) -> str:
        submitted.append("")
        return "research/demo"

    monkeypatch.setattr(operations, "submit", submit)
    monkeypatch.setattr(operations, "of_cluster", lambda *of: runs_of_both if submitted else real(*of))
    assert main([*TRAIN, "--wait"]) == exits.FINE
    assert capsys.readouterr().out.endswith("run demo: finished\n")


ON_KUBERNETES = ["submit", "training", "demo", "-s", "local-k8s"]


def test_a_run_is_written_down(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is printed without access to the cluster. YAML documents and the JSON List contain the same
    objects."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("stampworks.cli.clusters.members_of", None)
    assert main([*ON_KUBERNETES, "--print", "trainjob", "--set", "steps=5"]) == exits.FINE
    said = capsys.readouterr().out
    assert "&id" not in said
    assert said.startswith("apiVersion: v1\nkind: ConfigMap\nmetadata:\n")  # people read these first
    objects = list(yaml.safe_load_all(said))
    assert [each["kind"] for each in objects] == ["ConfigMap", "TrainingRuntime", "TrainJob"]
    assert json.loads(objects[0]["data"]["options.json"])["steps"] == 5
    assert main([*ON_KUBERNETES, "--print", "trainjob", "--set", "steps=5", "--json"]) == exits.FINE
    assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": objects}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--image", "some"], "--image needs --print\n  hint: leave it out, or add --print jobset\n"),
        (["--print", "mpijob", "--image", "some", "--user", "alice"], "it is not known whether some has a user alice"),
        (["--print", "pod"], "argument --print: invalid choice: 'pod'"),
        (["--print", "jobset", "--wait"], "not allowed with argument"),
        (["--print", "jobset", "--nodes", "3"], "queue gpu has 2 nodes now, not 3"),
    ],
)
def test_manifests_that_cannot_be_printed(
    more: list[str], text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*ON_KUBERNETES, *more]) == exits.WRONG_INPUT
    said = capsys.readouterr()
    assert text in said.err
    assert said.out == ""
