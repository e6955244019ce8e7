"""`stampworks submit` of a job of a user, against a stand-in for a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main
from stampworks.operations import jobs as operations
from stampworks.operations import runs

from tests.operations.slurm.standin import StandIn, node
from tests.operations.test_jobs import SBATCH, queued

STORAGE = "storage:\n      - {name: shared, kind: directory, mount: /shared}\n    users:\n"
JOB = "nodes: 2\nqueue: gpus\nsecrets: [{name: TOKEN}]\nrun: hostname\n"
OWN = ["submit", "job.yaml", "--user", "alice"]


@pytest.fixture(autouse=True)
def shared(project: Path, cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A shared directory on this machine, and a job file in the working directory.

    The watcher of a secret ends with the directory.
    """
    file = project / "stacks" / "Pulumi.local.yaml"
    file.write_text(file.read_text().replace("users:\n", STORAGE))
    folder = tmp_path / "shared"
    monkeypatch.setattr(runs, "folder_of_all", lambda plan: str(folder))
    monkeypatch.setattr(operations, "_POLL_S", 0.01)
    monkeypatch.setenv("TOKEN", "hidden")
    cluster.program("sbatch", SBATCH)
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001"))
    Path("job.yaml").write_text(JOB)
    yield folder
    for secrets in folder.glob("*/secrets.sh"):
        secrets.unlink()


def test_a_job_is_written_down_and_queued(shared: Path, cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """One line reports the submission; no command line contains the secret."""
    assert main(OWN) == exits.FINE
    assert capsys.readouterr().out == f"job job is submitted: job 7 on 2 nodes, in {shared}/job.alice\n"
    assert (cluster.folder / "sbatch").read_text() == f"--parsable {shared}/job.alice/batch.sh\n"
    assert (shared / "job.alice" / "run.sh").read_text() == "hostname\n"
    assert "hidden" not in (cluster.folder / "sent").read_text()


def test_options_take_the_place_of_the_file(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OWN, "--nodes", "1", "--name", "other", "--gpus", "2", "--env", "A=b=c", "--json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)
    folder = shared / "other.alice"
    assert found == {"name": "other", "job": 7, "nodes": 1, "user": "alice", "folder": str(folder)}
    script = (folder / "batch.sh").read_text()
    assert "#SBATCH --gres=gpu:h100:2\n" in script
    assert "export A=b=c\n" in script


def test_the_exit_code_of_the_job(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"return_code": {"set": True, "number": 42}}
    of = {"comment": "stampworks:job", "user_name": "alice"}
    cluster.jobs([], [queued("job", "RUNNING", **of)], [queued("job", "FAILED", exit_code=ended, **of)])  # type: ignore[arg-type]
    assert main([*OWN, "--wait"]) == 42
    assert capsys.readouterr().err.endswith("job job: failed: exit code 42\n")


def test_a_dry_run(cluster: StandIn, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shows every file, and asks no cluster."""
    cluster.unreachable()
    assert main([*OWN, "--dry-run"]) == exits.FINE
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("# ---- ")] == [
        f"# ---- {shared}/job.alice/{name}" for name in ("batch.sh", "node.sh", "run.sh")
    ]
    assert "hidden" not in said
    assert not (cluster.folder / "sent").exists()


def test_a_command(shared: Path) -> None:
    assert main(["submit", "--queue", "gpus", "--", "/bin/echo", "a b", "$HOME"]) == exits.FINE
    assert (shared / "echo.root" / "run.sh").read_text() == "/bin/echo 'a b' '$HOME'\n"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["submit"], "submit needs either a job file or a command\n"),
        (["submit", "job.yaml", "--", "ls"], "submit needs either a job file or a command\n"),
        (["submit", "training"], "submit training needs a name\n"),
        (["submit", "training", "demo", "--gpus", "2"], "--gpus: training is a bundled workload\n"),
        (["submit", "job.yaml", "--set", "a=1"], "--set: a job of your own has none\n"),
        (["submit", "job.yaml", "--env", "A"], "--env A: it has no value\n"),
        (["submit", "jbo.yaml"], "jbo.yaml: does not exist\n  hint: did you mean 'job.yaml'?"),
        (["submit", "job.yaml", "--user", "alcie"], "no user is called 'alcie' in cluster local\n"),
        (["submit", "job.yaml", "--nodes", "9"], "command line: nodes: queue gpus has 2 nodes, not 9\n"),
        (["submit", "--gpus", "x", "--", "ls"], "'x' is not a number of accelerators: write 0 or more"),
    ],
)
def test_refused(argv: list[str], text: str, cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster receives no request."""
    assert main(argv) == exits.WRONG_INPUT
    assert text in capsys.readouterr().err
    assert not (cluster.folder / "sent").exists()


def test_a_secret_that_is_missing(
    cluster: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TOKEN")
    Path("job.yaml").write_text(JOB.replace("}]", "}, {name: B, file: nowhere}]"))
    assert main(OWN) == exits.WRONG_INPUT
    said = capsys.readouterr().err
    assert "secrets[0]: the variable TOKEN is not set here\n" in said
    assert "secrets[1]: nowhere: No such file or directory\n" in said
    assert not (cluster.folder / "sent").exists()


def test_a_job_at_work(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """A user may have a single job of a name at a time; other users may use the same name."""
    cluster.jobs([queued("job", "RUNNING", comment="stampworks:job", user_name="alice")])
    assert main(OWN) == exits.NO
    assert "job job of alice is at work: job 7, running\n" in capsys.readouterr().err
    cluster.jobs([queued("job", "RUNNING", comment="stampworks:job", user_name="bob")])
    assert main(OWN) == exits.FINE


def test_a_job_that_vanishes_while_it_is_waited_for(
    cluster: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Schedulers forget deleted jobs, and Kubernetes forgets ended jobs after a while."""
    monkeypatch.setattr(operations, "_BACK_S", 0.1)
    Path("job.yaml").write_text(
        JOB.replace("secrets: [{name: TOKEN}]\n", "")
    )  # with secrets, the watcher would ask Slurm, too
    of = {"comment": "stampworks:job", "user_name": "alice"}
    cluster.jobs([], [queued("job", "RUNNING", **of)], [])  # type: ignore[arg-type]
    assert main([*OWN, "--wait"]) == exits.NO
    assert capsys.readouterr().err.endswith(
        "job job: cancelled: its scheduler knows it no more, and it has left no exit code: it was cancelled or "
        "deleted\n"
    )


def test_a_job_that_has_left_its_exit_code(
    shared: Path, cluster: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("job.yaml").write_text(
        JOB.replace("secrets: [{name: TOKEN}]\n", "")
    )  # with secrets, the watcher would ask Slurm, too
    of = {"comment": "stampworks:job", "user_name": "alice"}
    cluster.jobs([], [queued("job", "RUNNING", **of)], [])  # type: ignore[arg-type]
    cluster.program("sbatch", f"{SBATCH}echo 5 >{shared}/job.alice/exit\n")
    monkeypatch.setattr(operations, "_BACK_S", 0.1)
    assert main([*OWN, "--wait"]) == 5
    assert capsys.readouterr().err.endswith("job job: failed: exit code 5\n")


_BREAKS = """#!/bin/sh
{answer}
echo "client_loop: send disconnect: Broken pipe" >&2
exit 255
"""


def test_an_answer_that_was_lost(shared: Path, cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The connection breaks after sbatch: a job that waits needs its secrets, and is found when Slurm answers."""
    waits = [queued("job", "PENDING", comment="stampworks:job", user_name="alice")]
    cluster.program("sbatch", _BREAKS.format(answer=""))
    cluster.jobs([], waits)
    assert main(OWN) == exits.FINE
    assert "job job is submitted: job 7 on 2 nodes" in capsys.readouterr().out
    assert (shared / "job.alice" / "secrets.sh").exists()


def test_an_answer_that_stays_lost(shared: Path, cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The job's files stay, and the error says how to find out."""
    cluster.program("sbatch", _BREAKS.format(answer='touch "$HERE/unreachable"'))
    assert main(OWN) == exits.UNKNOWN
    folder = shared / "job.alice"
    assert capsys.readouterr().err.endswith(
        f"job job may be submitted or not, and what it needs stays in {folder}: head cannot be reached: "
        "client_loop: send disconnect: Broken pipe\n"
        "  hint: stampworks jobs shows it if it is; then cancel it, or wait: logs job --follow\n"
    )
    assert (folder / "secrets.sh").exists()


def test_a_refusal_of_slurm(shared: Path, cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The job was not accepted: its secrets are deleted, and the next command need not wait."""
    cluster.program("sbatch", "#!/bin/sh\necho 'Batch job submission failed: Invalid account' >&2\nexit 1\n")
    assert main(OWN) != exits.FINE
    assert "Invalid account" in capsys.readouterr().err
    assert not {"secrets.sh", "claim"} & {path.name for path in (shared / "job.alice").iterdir()}
    cluster.program("sbatch", SBATCH)
    assert main(OWN) == exits.FINE


def test_two_commands_at_once(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second command is refused, and leaves the folder of the first unchanged."""
    assert main(OWN) == exits.FINE
    (shared / "job.alice" / "claim").touch()
    Path("job.yaml").write_text(f"name: job\n{JOB}")
    capsys.readouterr()
    assert main(OWN) == exits.WRONG_INPUT
    said = capsys.readouterr().err
    assert "job.yaml:1:7: name: job job of alice: another command has been submitting it for " in said
    assert "hint: stampworks logs job --follow, or another name: --name NAME\n" in said
    assert (shared / "job.alice" / "number").exists()
