"""The batch script of a run, carried out by a shell with a stand-in for Slurm's programs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from stampworks.schedulers.batch import Batch, script

SRUN = """#!/bin/sh
echo "$@" > "$HERE/srun.said"
trap 'echo told > "$HERE/srun.told"; exit 75' USR1
touch "$HERE/begun"
i=0
while [ $i -lt ${LASTS:-0} ]; do sleep 0.1; i=$((i + 1)); done
exit ${CODE:-0}
"""
SCONTROL = """#!/bin/sh
echo "$@" > "$HERE/scontrol.said"
"""


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """In a folder with a blank and a quote: everything must be quoted."""
    folder = tmp_path / "it's a run"
    folder.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    program = ("python3", "-m", "training", "--options", f"{folder}/options.json")
    return Batch("demo", "training", str(folder), "main", 2, (), "gpu:h100:8", "/usr/lib/programs", program)


def begun(batch: Batch, **environment: str) -> subprocess.Popen[bytes]:
    here = Path(batch.folder).parent
    (here / "batch.sh").write_text(script(batch))
    path = f"{here}:{os.environ['PATH']}"
    variables = {**os.environ, "HERE": str(here), "PATH": path, "SLURM_JOB_ID": "7", **environment}
    process = subprocess.Popen(["sh", here / "batch.sh"], env=variables)
    deadline = time.monotonic() + 20
    while not (here / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def content(batch: Batch, name: str) -> str:
    path = Path(batch.folder).parent / name
    return path.read_text() if path.exists() else ""


def test_what_slurm_is_told(batch: Batch) -> None:
    """One task a node, all of it, again after a failure; the log goes on where it was."""
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


@pytest.mark.parametrize("code", [0, 1, 75])
def test_the_exit_code_is_kept(batch: Batch, code: int) -> None:
    """For Slurm, and in the folder for later; that of an earlier start is forgotten."""
    (Path(batch.folder) / "exit").write_text("9")
    assert begun(batch, CODE=str(code)).wait(20) == code
    assert (Path(batch.folder) / "exit").read_text() == f"{code}\n"
    assert content(batch, "srun.said").strip().endswith(f"PYTHONPATH=/usr/lib/programs {' '.join(batch.program)}")
    assert content(batch, "scontrol.said") == ""


def test_time_is_up(batch: Batch) -> None:
    """The programs are told and waited for, and the job goes back into the queue."""
    process = begun(batch, LASTS="200")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 0
    assert content(batch, "srun.told") == "told\n"
    assert content(batch, "scontrol.said") == "requeue 7\n"
    assert not (Path(batch.folder) / "exit").exists()


def test_a_run_that_is_through_when_its_time_is_up(batch: Batch) -> None:
    """What has finished is not started again, whoever is told what when."""
    (Path(batch.folder).parent / "srun").write_text(SRUN.replace("exit 75", "exit 0"))
    process = begun(batch, LASTS="200")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 0
    assert content(batch, "scontrol.said") == ""


def test_a_cancelled_run_is_not_put_back(batch: Batch) -> None:
    """Slurm tells the programs itself; the script waits for what they have to say."""
    process = begun(batch, LASTS="5", CODE="75")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 75
    assert content(batch, "scontrol.said") == ""
