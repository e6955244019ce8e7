"""A user's first five minutes: her key, her home, her team's folder, her repository, a job in her environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.shared import key_of
from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
LIMIT_S = 300
"""Time limit for six starts of torch on a busy machine."""
HOME, TEAM = "/shared/home/alice", "/shared/teams/nlp"
PAGE = (ROOT / "docs/how-to/users.md").read_text().split("## The first five minutes", 1)[1]
COMMANDS, JOB = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]
TORCHRUN = """\
srun torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:29500 src/sums.py
"""
PROJECT = {
    "pyproject.toml": """\
[project]
name = "sums"
version = "1.0"
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
""",
    "src/sums.py": """\
import os, torch, torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    found = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(found)
    print("sum", int(found), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
""",
    "train.py": "import sums\nsums.main()\n",  # only the job's environment has this module
    "job.sh": JOB + TORCHRUN,
}
"""Her repository, as on her own machine."""


def outputs(stack: Stack) -> dict[str, Any]:
    done = stack.run("stack", "output", "--json")
    assert done.returncode == 0, done.stdout
    return dict(json.loads(done.stdout))


def login(command: str, user: str, key: Path) -> list[str]:
    """Run a printed login command as a user, with a key."""
    words = shlex.split(command)
    words[words.index("-i") + 1] = str(key)
    words[words.index("-l") + 1] = user
    return words


def heard(login_: Sequence[str], command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*login_, command], input=given, capture_output=True, text=True, timeout=LIMIT_S)


class Person:
    """A user who logged in with a private key and the command of the outputs."""

    def __init__(self, stack: Stack, name: str) -> None:
        self._login = login(outputs(stack)["logins"][name], name, key_of(stack, name))

    def says(self, command: str, given: str = "") -> str:
        done = heard(self._login, command, given)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def fails(self, command: str) -> str:
        done = heard(self._login, command)
        assert done.returncode != 0, done.stdout
        return done.stdout + done.stderr

    def pushes(self, folder: Path, to: str) -> None:
        [*ssh, host] = self._login
        git(folder, "push", "-q", f"{host}:{to}", "main", ssh=ssh)

    def on_a_terminal(self, command: str) -> str:
        [*before, where] = self._login
        return heard([*before[:-1], "-tt", before[-1], where], command).stdout.strip()


def test_her_home_is_the_same_everywhere(slurm: Stack) -> None:
    """Only she can read it; files in her team's folder belong to the team."""
    alice, bob = Person(slurm, "alice"), Person(slurm, "bob")
    assert alice.says("hostname; pwd; stat -c '%a %U %G' .").splitlines() == ["login-001", HOME, "700 alice alice"]
    nodes = "srun --nodes=4 sh -c 'cd && echo $HOME $(stat -c %i .)' | sort -u"
    assert alice.says(nodes) == f"{HOME} {alice.says('stat -c %i .')}"
    alice.says("umask 077; echo secret >mine; chmod 644 mine")
    assert "Permission denied" in bob.fails(f"cat {HOME}/mine")
    assert "Permission denied" in bob.fails(f"srun cat {HOME}/mine")
    alice.says(f"echo ours >{TEAM}/shared")
    assert bob.says(f"cat {TEAM}/shared; stat -c '%U %G' {TEAM}/shared").splitlines() == ["ours", "alice nlp"]
    alice.says(f"rm mine {TEAM}/shared")


def test_logins_of_users(slurm: Stack) -> None:
    """Users log in with their keys where they may; no user logs in as root, or on a node without a job."""
    said = outputs(slurm)
    hers, his = key_of(slurm, "alice"), key_of(slurm, "bob")
    assert heard(login(said["ssh"], "alice", hers), "hostname").stdout.strip() == "head"
    for user, key in (("root", hers), ("alice", his)):
        for command in (said["ssh"], said["logins"]["alice"]):
            assert "Permission denied" in heard(login(command, user, key), "hostname").stderr
    assert "no active jobs on this node" in Person(slurm, "alice").fails("ssh -o BatchMode=yes gpu-001 hostname")
    # a key that she installs herself is not declared
    alice = Person(slurm, "alice")
    alice.says("install -d -m 700 .ssh; cat >.ssh/authorized_keys", his.with_suffix(".pub").read_text())
    assert "Permission denied" in heard(login(said["ssh"], "alice", his), "hostname").stderr
    alice.says("rm -r .ssh")
    # nor does one in the home of a user with an empty list of keys; without the list it would count
    home = "/shared/home/dave"
    slurm.shell("head", f"runuser -u dave -- install -d -m 700 {home}/.ssh")
    public = shlex.quote(his.with_suffix(".pub").read_text())
    slurm.shell("head", f"echo {public} | runuser -u dave -- tee {home}/.ssh/authorized_keys")
    assert "dave" not in said["logins"]
    assert "Permission denied" in heard(login(said["ssh"], "dave", his), "hostname").stderr
    slurm.shell("head", f"rm -r {home}/.ssh")


def git(folder: Path, *argv: str, ssh: Sequence[str] = ()) -> None:
    identity = [part for key in ("name", "email") for part in ("-c", f"user.{key}=alice@laptop")]
    environment = {**os.environ, "GIT_SSH_COMMAND": shlex.join(ssh)}
    command = ["git", *identity, *argv]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


def test_her_first_five_minutes(slurm: Stack, tmp_path: Path) -> None:
    """The page's commands: her repository, an environment of her own with the node's torch, and a job in it."""
    alice, bob = Person(slurm, "alice"), Person(slurm, "bob")
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    alice.says(f"git init -q --bare -b main {TEAM}/sums.git")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Add sums")
    alice.pushes(tmp_path, f"{TEAM}/sums.git")

    *prepare, submit = COMMANDS.splitlines()
    for command in prepare:
        alice.says(command)
    assert alice.says("venv/bin/python -c 'import sums, torch; print(sums.__file__)'").startswith(f"{HOME}/venv/lib/")
    said = alice.says(submit).splitlines()
    assert [line for line in said if line.startswith(("rails", "sum"))] == [
        "rails rail0,rail1",
        *["sum 3 of 2 local 0"] * 6,
    ], said
    [number] = [line.split()[-1] for line in said if line.startswith("Submitted batch job ")]
    assert alice.says(f"sacct -X -n -P -j {number} -o jobname,user,state,nnodes") == "job.sh|alice|COMPLETED|2"
    assert number not in alice.says("squeue --me --noheader --format=%i").split()
    assert alice.on_a_terminal("srun --pty tty").startswith("/dev/pts/")

    assert "externally-managed-environment" in alice.fails("pip install ./sums")
    assert "dubious ownership" in bob.fails(f"git clone -q {TEAM}/sums.git")
    bob.says(f"git config --global --add safe.directory {TEAM}/sums.git")
    bob.says(f"git clone -q {TEAM}/sums.git && rm -r sums .gitconfig")
    alice.says(f"rm -rf venv sums .cache {TEAM}/sums.git")


def test_an_output_that_cannot_be_written(slurm: Stack) -> None:
    """Slurm reports only a signal; the reason is shown with it, and stays available."""
    alice = Person(slurm, "alice")
    alice.fails("sbatch --wait --job-name=lost --output=/shared/home/bob/out-%j --wrap hostname")
    why = alice.says("sacct -X -n -P --name=lost -o state,admincomment")
    assert why.startswith("FAILED|alice cannot write the output /shared/home/bob/out-"), why
