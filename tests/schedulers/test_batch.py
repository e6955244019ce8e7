"""The batch script of a run, carried out by a shell with a stand-in for Slurm's programs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from stampworks.schedulers import batch as schedulers_batch
from stampworks.schedulers.batch import BatchJob, files, on_node, script

from tests.project import wait_for

SRUN = """#!/bin/sh
echo "$@" > "$HERE/srun.said"
echo "$STAMPWORKS_SUBMITTED from $BATCH_NODE" > "$HERE/srun.knows"
trap 'echo told > "$HERE/srun.told"; exit 75' USR1
touch "$HERE/begun"
i=0
while [ $i -lt ${LASTS:-0} ]; do sleep 0.1; i=$((i + 1)); done
exit ${CODE:-0}
"""
SCONTROL = """#!/bin/sh
case "$1 $2" in
    "show hostnames") echo "$3" | tr , '\\n' ;;
    "show job") [ -e "$HERE/silent" ] && exit 1
        printf '%s\\n' "JobId=$3 JobName=demo" "   Requeue=1 Restarts=${RESTARTS:-0} BatchFlag=1 Reboot=0" ;;
    *) echo "$@" > "$HERE/scontrol.said" ;;
esac
"""
SQUEUE = """#!/bin/sh
case "$*" in
    *%V) [ "$SLURM_TIME_FORMAT" = %s ] && echo 1795287600 ;;
    *%N) echo asked >> "$HERE/squeue.said"; [ -e "$HERE/nodes" ] && cat "$HERE/nodes" ;;
esac
"""


@pytest.fixture
def batch(tmp_path: Path) -> BatchJob:
    """Return a job in a folder with a blank and a quote: everything must be quoted."""
    folder = tmp_path / "it's a run"
    folder.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("squeue", SQUEUE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    program = ("python3", "-m", "training", "--options", f"{folder}/options.json")
    return BatchJob("demo", "training", str(folder), "main", 2, (), "gpu:h100:8", "/usr/lib/programs", program)


def variables(here: Path) -> dict[str, str]:
    path = f"{here}:{os.environ['PATH']}"
    return {**os.environ, "HERE": str(here), "PATH": path, "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu-001"}


def begun(batch: BatchJob, **environment: str) -> subprocess.Popen[bytes]:
    here = Path(batch.folder).parent
    (here / "batch.sh").write_text(script(batch))
    process = subprocess.Popen(["sh", here / "batch.sh"], env={**variables(here), **environment})
    wait_for((here / "begun").exists, 20)
    return process


def node(batch: BatchJob, code: int, place: str, **environment: str) -> subprocess.Popen[bytes]:
    """Run a node of an elastic run with a program that ends like that."""
    here = Path(batch.folder).parent
    (here / "node.sh").write_text(on_node(batch))
    mine = {"SLURM_PROCID": place, "BATCH_NODE": "gpu-001"}
    program = ["sh", "-c", 'exit "$1"', "sh", str(code)]
    return subprocess.Popen(["sh", here / "node.sh", *program], env={**variables(here), **mine, **environment})


def content(batch: BatchJob, name: str) -> str:
    path = Path(batch.folder).parent / name
    return path.read_text() if path.exists() else ""


def test_options_of_sbatch(batch: BatchJob) -> None:
    """The job has one task for each whole node, and restarts after a failure; the log is appended."""
    lines = script(batch).splitlines()
    assert lines[0] == "#!/bin/sh"
    told = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    assert told == [
        *("--job-name=demo", "--comment=stampworks:training", "--partition=main", "--nodes=2", "--ntasks-per-node=1"),
        *("--exclusive", "--gres=gpu:h100:8", "--chdir=/tmp", f"--output={batch.folder}/log", "--open-mode=append"),
        *("--requeue", "--no-kill", "--dependency=singleton", "--signal=B:USR1@60"),
    ]
    other = script(replace(batch, exclude=("cpu-001", "cpu-002"), gres=""))
    assert "#SBATCH --exclude=cpu-001,cpu-002\n" in other
    assert "--gres" not in other
    assert "#SBATCH --signal=B:USR1@900\n" in script(replace(batch, notice_s=900))


@pytest.mark.parametrize("code", [0, 1, 75])
def test_the_exit_code_is_kept(batch: BatchJob, code: int) -> None:
    """Slurm gets it, and the folder keeps it; that of an earlier start is removed."""
    (Path(batch.folder) / "exit").write_text("9")
    assert begun(batch, CODE=str(code)).wait(20) == code
    assert (Path(batch.folder) / "exit").read_text() == f"{code}\n"
    assert content(batch, "srun.said").strip().endswith(f"PYTHONPATH=/usr/lib/programs {' '.join(batch.program)}")
    assert content(batch, "scontrol.said") == ""


def test_time_is_up(batch: BatchJob) -> None:
    """The programs are signalled and awaited, and the job is requeued."""
    process = begun(batch, LASTS="200")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 0
    assert content(batch, "srun.told") == "told\n"
    assert content(batch, "scontrol.said") == "requeue 7\n"
    assert not (Path(batch.folder) / "exit").exists()


def test_a_run_that_is_through_when_its_time_is_up(batch: BatchJob) -> None:
    """A finished run is not restarted, in any order of events."""
    (Path(batch.folder).parent / "srun").write_text(SRUN.replace("exit 75", "exit 0"))
    process = begun(batch, LASTS="200")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 0
    assert content(batch, "scontrol.said") == ""


def test_a_cancelled_run_is_not_put_back(batch: BatchJob) -> None:
    """Slurm signals the programs itself; the script waits for their last output."""
    process = begun(batch, LASTS="5", CODE="75")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 75
    assert content(batch, "scontrol.said") == ""


def test_files_of_a_batch_job(batch: BatchJob) -> None:
    """The programs of an elastic run are wrapped on each node; others run as they are."""
    assert list(files(batch)) == ["batch.sh"]
    assert "node.sh" not in script(batch)
    elastic = replace(batch, elastic=True)
    assert list(files(elastic)) == ["batch.sh", "node.sh"]
    assert begun(elastic).wait(20) == 0
    assert f"PYTHONPATH=/usr/lib/programs sh {batch.folder}/node.sh python3 -m" in content(batch, "srun.said")


def test_programs_know_since_when_they_were_waited_for(batch: BatchJob) -> None:
    """Programs know the time of submission, and the node of the script, without which the job never ends."""
    assert begun(batch).wait(20) == 0
    assert content(batch, "srun.knows") == "1795287600 from gpu-001\n"


@pytest.mark.parametrize("lasts", ["5", "300"])
def test_the_first_program_says_how_a_run_ended(batch: BatchJob, lasts: str) -> None:
    """Though srun calls the loss of a node a failure, or waits for it."""
    process = begun(batch, CODE="1", LASTS=lasts)
    (Path(batch.folder) / "ended-7-0").write_text("0\n")
    assert process.wait(20) == 0
    assert (Path(batch.folder) / "exit").read_text() == "0\n"


def test_an_end_of_an_earlier_start_is_forgotten(batch: BatchJob) -> None:
    (Path(batch.folder) / "ended-7-0").write_text("0\n")
    assert begun(batch, CODE="1").wait(20) == 1


@pytest.mark.parametrize("code", [0, 1])
def test_an_end_of_an_earlier_attempt_is_not_this_ones(batch: BatchJob, code: int) -> None:
    """A node that was taken for lost has returned, and reports its end late."""
    process = begun(batch, CODE=str(code), LASTS="15", SLURM_RESTART_COUNT="1", RESTARTS="1")
    assert node(batch, 75, "0").wait(20) == 75
    assert process.wait(20) == code
    assert (Path(batch.folder) / "exit").read_text() == f"{code}\n"


@pytest.mark.parametrize("lasts", ["1", "200"])
def test_the_script_of_an_earlier_attempt_has_nothing_to_say(batch: BatchJob, lasts: str) -> None:
    """It neither reports the end of the run nor requeues it: the run is active again."""
    process = begun(batch, CODE="75", LASTS=lasts, RESTARTS="1")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 75
    assert content(batch, "scontrol.said") == ""
    assert not (Path(batch.folder) / "exit").exists()


def test_a_controller_that_is_silent_when_time_is_up(batch: BatchJob) -> None:
    """The script asks until it answers: it must know whether the attempt is still its own before a requeue."""
    silent = Path(batch.folder).parent / "silent"
    silent.touch()
    process = begun(batch, LASTS="200")
    process.send_signal(signal.SIGUSR1)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    assert content(batch, "scontrol.said") == ""
    silent.unlink()
    assert process.wait(20) == 0
    assert content(batch, "scontrol.said") == "requeue 7\n"


@pytest.mark.parametrize("code", [0, 1, 75])
def test_first_node_writes_the_end(batch: BatchJob, code: int) -> None:
    """Other nodes write nothing."""
    assert node(batch, code, "1").wait(20) == code
    assert not (Path(batch.folder) / "ended-7-0").exists()
    assert node(batch, code, "0").wait(20) == code
    assert (Path(batch.folder) / "ended-7-0").read_text() == f"{code}\n"
    assert content(batch, "scontrol.said") == ""


def test_a_first_node_that_is_lost(batch: BatchJob) -> None:
    """A program without an answer of the first node requeues the job, once Slurm has removed that node from it."""
    nodes = Path(batch.folder).parent / "nodes"
    nodes.write_text("gpu-001,gpu-002\n")
    process = node(batch, 69, "1")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    assert content(batch, "scontrol.said") == ""
    nodes.unlink()  # the controller does not answer for a while
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    nodes.write_text("gpu-002\n")
    assert process.wait(20) == 0
    assert content(batch, "scontrol.said") == "requeue 7\n"


def test_a_node_that_waits_for_nobody_any_more(batch: BatchJob) -> None:
    """After the end of the job, the node ends at once."""
    process = node(batch, 69, "1")
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 69
    assert content(batch, "scontrol.said") == ""


def quick(monkeypatch: pytest.MonkeyPatch, polls: int) -> None:
    text = schedulers_batch._ON_NODE.replace(f"-lt {schedulers_batch.NOTICED_S} ]", f"-lt {polls} ]")
    assert text != schedulers_batch._ON_NODE
    monkeypatch.setattr(schedulers_batch, "_ON_NODE", text)


@pytest.mark.parametrize("nodes", ["gpu-002", "gpu-001,gpu-002"])
def test_a_node_of_an_earlier_attempt_puts_nothing_back(
    batch: BatchJob, monkeypatch: pytest.MonkeyPatch, nodes: str
) -> None:
    """The job was restarted, with or without the missing node."""
    quick(monkeypatch, 2)
    (Path(batch.folder).parent / "nodes").write_text(f"{nodes}\n")
    assert node(batch, 69, "1", RESTARTS="1").wait(20) == 69
    assert content(batch, "scontrol.said") == ""


def test_a_first_node_that_slurm_never_takes_away(batch: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node does not answer, and squeue still lists the job as running: the job is requeued. Only answers of squeue
    count."""
    quick(monkeypatch, 2)
    here = Path(batch.folder).parent
    process = node(batch, 69, "1")
    wait_for(lambda: content(batch, "squeue.said").count("asked") >= 3, 20)  # more often than it may answer
    assert process.poll() is None
    (here / "nodes").write_text("gpu-001,gpu-002\n")
    assert process.wait(20) == 0
    assert content(batch, "scontrol.said") == "requeue 7\n"


def test_a_job_that_runs_no_more_is_not_put_back(batch: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user has cancelled or requeued it."""
    quick(monkeypatch, 2)
    (Path(batch.folder).parent / "nodes").write_text("")
    assert node(batch, 69, "1").wait(20) == 69
    assert content(batch, "scontrol.said") == ""


def test_a_run_that_goes_on_without_a_node_is_not_put_back(batch: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node was cut off for a while from the first one, which continues with the others."""
    quick(monkeypatch, 2)
    (Path(batch.folder).parent / "nodes").write_text("gpu-001,gpu-002\n")
    events = Path(batch.folder) / "events.jsonl"
    events.write_text('{"what": "step", "step": 1}\n')
    process = node(batch, 69, "1")
    wait_for(lambda: content(batch, "squeue.said"), 20)
    events.write_text('{"what": "step", "step": 1}\n{"what": "step", "step": 2}\n')
    assert process.wait(20) == 69
    assert content(batch, "scontrol.said") == ""
