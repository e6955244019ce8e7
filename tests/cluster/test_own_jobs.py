"""Jobs of users on a real Slurm: a file or a command with its folder, until its end."""

from __future__ import annotations

import json
import shlex
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stack import Stack
from tests.project import wait_for

pytestmark = pytest.mark.cluster

RUNS = "/shared/runs"
SECRET = "s3cr3t-of-alice"
SOON_S = 60
IMAGE = """
set -e
rm -rf /shared/image
mkdir -p /shared/image && cd /shared/image && mkdir bin proc sys dev tmp etc
for program in bash cat id; do
    cp "$(command -v $program)" bin/
    for library in $(ldd "$(command -v $program)" | grep -o '/[^ ]*'); do
        mkdir -p ".$(dirname "$library")"
        cp "$library" ".$library"
    done
done
echo small > etc/which
chown -R alice: .
"""


def submit(
    slurm: Stack, text: str, *options: str, name: str = "job", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Submit a file as alice, from a separate folder."""
    folder = slurm.folder / "jobs"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in variables.items():
            patch.setenv(key, value)
        return slurm.stampworks("submit", "-s", "test", f"jobs/{name}.yaml", "--user", "alice", *options)


def listed(slurm: Stack, *options: str) -> dict[str, dict[str, Any]]:
    done = slurm.stampworks("jobs", "-s", "test", "--json", *options)
    assert done.returncode == 0, done.stderr
    return {job["name"]: job for job in json.loads(done.stdout)["jobs"]}


def secret_is_gone(slurm: Stack, name: str) -> None:
    wait_for(lambda: slurm.shell("head", f"ls {RUNS}/{name}.alice | grep -c secrets || true") == "0", SOON_S)


def test_a_job_with_all_that_it_takes_along(slurm: Stack) -> None:
    """Two nodes, a folder, a variable, a secret; its log, its exit code, and nothing of the secret left anywhere."""
    source = slurm.folder / "jobs" / "source"
    source.mkdir(parents=True, exist_ok=True)
    (source / "say.sh").write_text('echo "$GREETING from $NODE_RANK of $NNODES, first $MASTER_ADDR, ${#TOKEN}"\n')
    text = """\
nodes: 2
workdir: source
env: {GREETING: "it's me"}
secrets: [{name: TOKEN}]
setup: echo "set up"
run: |
  bash say.sh
  if [ "$NODE_RANK" = 0 ]; then srun --nodes=2 hostname; fi
  sleep 2
  exit 7
"""
    done = submit(slurm, text, "--wait", name="whole", TOKEN=SECRET)
    assert done.returncode == 7, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {"0: it's me from 0 of 2, first gpu-001, 15", "1: it's me from 1 of 2, first gpu-001, 15"} <= set(lines), (
        lines
    )
    assert {"0: set up", "1: set up", "0: 0: gpu-001", "0: 1: gpu-002"} <= set(lines), lines
    assert done.stderr.endswith("job whole: failed: exit code 7\n")
    job = listed(slurm)["whole"]
    assert (job["state"], job["user"], job["exit_code"], job["nodes"]) == ("failed", "alice", 7, ["gpu-001", "gpu-002"])
    assert job["gpu_hours"] > 0
    assert job["usd"] is None
    secret_is_gone(slurm, "whole")
    kept = f"grep -rl {SECRET} /shared /var/log /var/lib/stampworks/state /home 2>/dev/null || true"
    assert slurm.shell("head", kept) == ""
    assert SECRET not in slurm.shell("head", f"sacct -o ALL -P; scontrol show job; cat {RUNS}/whole.alice/*.sh")
    again = submit(slurm, text.replace("exit 7", "exit 0"), "--wait", name="whole", TOKEN=SECRET)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "set up" not in again.stdout  # once a node for this content
    assert slurm.stampworks("logs", "-s", "test", "whole").stdout == "\n".join(again.stdout.splitlines()[1:]) + "\n"


def wheel(folder: Path) -> None:
    """Write a package for a machine without an index."""
    about = {"METADATA": "Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n", "RECORD": ""}
    about["WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / "brought-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("brought.py", 'NAME = "brought"\n')
        for name, text in about.items():
            archive.writestr(f"brought-1.0.dist-info/{name}", text)


@pytest.mark.long
def test_an_environment_that_setup_makes(slurm: Stack) -> None:
    """Nodes share the job's folder, so that they create the environment one after the other. pip installs the submitted
    packages."""
    source = slurm.folder / "jobs" / "environment"
    source.mkdir(parents=True)
    wheel(source)
    text = """\
nodes: 2
workdir: environment
setup: |
  flock venv.lock sh -ec '
    python3 -m venv --system-site-packages venv
    venv/bin/pip install --no-index --find-links . brought
  '
run: venv/bin/python -c 'import brought, numpy, sys; print(brought.NAME, sys.prefix)'
"""
    done = submit(slurm, text, "--wait", name="environment")
    assert done.returncode == 0, done.stdout + done.stderr
    prefix = f"{RUNS}/environment.alice/workdir/venv"
    assert {f"0: brought {prefix}", f"1: brought {prefix}"} <= set(done.stdout.splitlines()), done.stdout


def test_job_is_private_to_its_user(slurm: Stack) -> None:
    """Scripts, variables, log and secrets are its user's alone."""
    text = "secrets: [{name: TOKEN}]\nenv: {COLOR: blue-of-alice}\ngpus_per_node: 2\nrun: sleep 600\n"
    assert submit(slurm, text, name="mine", TOKEN=SECRET).returncode == 0
    wait_for(lambda: listed(slurm)["mine"]["state"] == "running", SOON_S)
    number, [node] = listed(slurm)["mine"]["id"], listed(slurm)["mine"]["nodes"]

    def as_bob(command: str) -> str:
        return slurm.shell("head", f"cd /tmp; runuser -l bob -c {shlex.quote(command)} 2>&1 || true")

    environments = f"srun --nodelist={node} --ntasks=1 --gres=gpu:1 sh -c 'cat /proc/[0-9]*/environ' | tr '\\0' '\\n'"
    assert "SLURM_JOB_USER=bob" in as_bob(environments)
    for command in (
        *(f"scontrol show job {number}", "squeue --format=%all", f"sacct --job={number} --format=ALL --parsable"),
        *(f"sacct --job={number} --batch-script", f"sacct --job={number} --env-vars"),
        *(f"scontrol write batch_script {number} -", environments, f"srun --nodelist={node} ps -ef"),
    ):
        said = as_bob(command)
        assert said or command.startswith("sacct"), command  # sacct stores neither without options
        assert "blue-of-alice" not in said, command
        assert SECRET not in said, command
    assert "Permission denied" in as_bob(f"ls {RUNS}/mine.alice")
    assert as_bob("ls -d /shared/home/*/*") == "ls: cannot access '/shared/home/*/*': No such file or directory"
    assert slurm.shell("head", "stat -c '%a %U' /shared/home/alice /shared/home/bob") == "700 alice\n700 bob"
    assert (
        slurm.shell("head", f"stat -c '%a %U' {RUNS}/mine.alice {RUNS}/mine.alice/secrets.sh") == "700 alice\n600 alice"
    )
    other = slurm.shell("head", f"runuser -u bob -- cat {RUNS}/mine.alice/secrets.sh 2>&1 || true")
    assert "Permission denied" in other
    busy = submit(slurm, "run: x\n", name="mine")
    assert busy.returncode == 1
    assert "job mine of alice is at work: job " in busy.stderr
    cancelled = slurm.stampworks("cancel", "-s", "test", "mine")
    assert cancelled.returncode == 0
    assert cancelled.stdout.startswith("job mine is cancelled: job ")
    secret_is_gone(slurm, "mine")
    assert listed(slurm)["mine"]["state"] == "cancelled"


@pytest.mark.long
def test_a_secret_goes_with_a_job_that_never_started(slurm: Stack) -> None:
    blocker = slurm.shell("head", "sbatch --parsable --exclusive --nodes=4 --output=/dev/null --wrap='sleep 600'")
    assert submit(slurm, "secrets: [{name: TOKEN}]\nrun: x\n", name="never", TOKEN=SECRET).returncode == 0
    found = listed(slurm)
    assert (found["never"]["state"], found["wrap"]["state"], found["wrap"]["user"]) == ("waiting", "running", "root")
    assert found["wrap"]["id"] == int(blocker)
    assert set(listed(slurm, "--mine", "alice")) >= {"never"}
    assert "wrap" not in listed(slurm, "--mine", "alice")
    assert slurm.stampworks("cancel", "-s", "test", "never").returncode == 0
    slurm.shell("head", f"scancel {blocker}")
    secret_is_gone(slurm, "never")


@pytest.mark.long
def test_tasks_and_an_order(slurm: Stack) -> None:
    """An array ends like its worst task. A dependent job is refused then, and waits for a running one."""
    tasks = submit(
        slurm, "array: 0-2%2\ngpus_per_node: 2\nrun: echo $ARRAY_INDEX; exit $ARRAY_INDEX\n", "--wait", name="many"
    )
    assert tasks.returncode == 2, tasks.stdout + tasks.stderr
    assert {"0: 0", "1: 1", "2: 2"} <= set(tasks.stdout.splitlines())
    refused = submit(slurm, "depends_on: [many, nobody]\nrun: x\n", name="after")
    assert refused.returncode == 2
    assert "depends_on[0]: job many has not ended well" in refused.stderr
    assert "depends_on[1]: alice has no job nobody" in refused.stderr
    assert submit(slurm, "run: sleep 5\n", name="before").returncode == 0
    assert submit(slurm, "depends_on: [before]\nrun: echo after\n", "--wait", name="after").stdout.endswith("after\n")
    assert listed(slurm)["before"]["state"] == "finished"


@pytest.mark.long
def test_a_folder_as_its_image(slurm: Stack) -> None:
    """The job sees that root, its own folder and the declared mounts; its writes do not persist."""
    slurm.shell("head", IMAGE)
    text = (
        "image: /shared/image\nmounts: [shared]\nrun: cat /etc/which; echo x > /written; cat /shared/image/etc/which\n"
    )
    done = submit(slurm, text, "--wait", name="inside")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1:] == ["small", "small"]
    assert "written" not in slurm.shell("head", "ls /shared/image")


def test_nothing_is_copied_for_a_wrong_file(slurm: Stack) -> None:
    """Plan and this machine are asked first; the cluster, when the rest is right."""
    wrong = "nodes: 5\nsecrets: [{name: NOT_SET_ANYWHERE}]\nworkdir: nowhere\nrun: x\n"
    done = submit(slurm, wrong, name="wrong")
    assert done.returncode == 2
    for words in (
        "jobs/wrong.yaml:1:8: nodes: queue main has 4 nodes, not 5",
        "jobs/wrong.yaml:2:11: secrets[0]: the variable NOT_SET_ANYWHERE is not set here",
        "jobs/wrong.yaml:3:10: workdir: ",
        "3 problems in jobs/wrong.yaml: nothing was changed.",
    ):
        assert words in done.stderr, done.stderr
    done = submit(slurm, "image: /shared/nowhere\nrun: x\n", name="wrong")
    assert done.returncode == 2
    assert "jobs/wrong.yaml:1:8: image: /shared/nowhere does not exist" in done.stderr
    assert "wrong.alice" not in slurm.shell("head", f"ls {RUNS}")


def test_a_command(slurm: Stack) -> None:
    """The words of the command arrive unchanged."""
    done = slurm.stampworks("submit", "-s", "test", "--user", "alice", "--wait", "--", "echo", "a  b", "$HOME", "'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["a  b $HOME '"]
    assert done.stdout.startswith("job echo is submitted: job ")


@pytest.mark.long
def test_time_is_nearly_up(slurm: Stack) -> None:
    """The signal comes before the limit; the job saves, is requeued, and continues."""
    text = """\
time_limit: 2m
retry: 1
checkpoint: {grace: 110s}
run: |
  if [ -e "$CHECKPOINT_PATH/step" ]; then echo "goes on"; exit 0; fi
  trap 'echo 1 > "$CHECKPOINT_PATH/step"; echo saved; exit 3' TERM
  sleep 300 & wait
"""
    assert submit(slurm, text, name="timed").returncode == 0
    number = listed(slurm)["timed"]["id"]
    wait_for(lambda: slurm.shell("head", f"squeue --noheader --jobs={number} --format=%r") == "BeginTime", SOON_S)
    wait_for(lambda: not slurm.shell("head", "squeue --noheader --states=completing"), SOON_S)
    slurm.shell("head", f"scontrol update jobid={number} starttime=now+2")
    followed = slurm.stampworks("logs", "-s", "test", "timed", "--follow")
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert followed.stdout.endswith("goes on\n")
