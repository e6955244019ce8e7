"""`stampworks status`, `ssh` and `run` against a stand-in for a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main

from tests.operations.slurm.standin import StandIn, job, node

KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43} alice@laptop"


def healthy(cluster: StandIn) -> None:
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001", gres="", gres_used=""))


@pytest.fixture(autouse=True)
def nodes(cluster: StandIn) -> None:
    healthy(cluster)


def srun(cluster: StandIn) -> list[str]:
    words = (cluster.folder / "srun").read_text().splitlines()
    return [word for word in words if not word.startswith(("--job-name=", "--immediate="))]


def test_status_as_a_table(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a node, the verdict first; a reason that no longer holds is not shown."""
    cluster.nodes(node("gpu-001", reason="gone by"), node("gpu-002"), node("cpu-001", gres="", gres_used=""))
    cluster.jobs([job(7, "alice", "gpu-001"), job(8, "alice", "gpu-[001-002]")])
    assert main(["status"]) == exits.FINE
    assert capsys.readouterr().out == (
        "cluster local on local: pass\n"
        "  node     pool  address    state  jobs  GPUs used  rails  held by  reason\n"
        "  head     head  10.77.0.2  up     -     -              -        -       -\n"
        "  gpu-001  gpu   10.77.1.1  idle   7, 8  0 of 8         2        -       -\n"
        "  gpu-002  gpu   10.77.1.2  idle   8     0 of 8         2        -       -\n"
        "  cpu-001  cpu   10.77.2.1  idle   -     -              -        -       -\n"
    )


def test_status_of_a_broken_node(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems stand below the table, and escape sequences in a reason are shown, not obeyed."""
    healthy(cluster)
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="\x1b[2Jxid 79"), node("gpu-002"), node("cpu-001"))
    assert main(["status"]) == exits.NO
    out = capsys.readouterr().out
    assert out.startswith("cluster local on local: fail\n")
    assert out.endswith("gpu-001: idle+drain, held by Slurm: \\x1b[2Jxid 79\n")
    assert "\x1b" not in out


def test_status_of_a_silent_cluster(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown result has its own exit code."""
    cluster.unreachable()
    assert main(["status"]) == exits.UNKNOWN
    assert capsys.readouterr().out.endswith(
        "head cannot be reached: ssh: connect to host 10.77.0.2 port 22: Connection refused\n"
    )


def test_status_as_json(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """--json has everything, unknown values as null."""
    healthy(cluster)
    assert main(["status", "--json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "pass"
    assert found["nodes"][1]["gpus"] == 8


def test_run_takes_every_node_of_the_default_queue(cluster: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """The command runs as root, one task per node, in a folder that every node has."""
    assert main(["run", "--", "echo", "it's", "$HOME", "two  words"]) == 0
    assert capfd.readouterr().out == "it's $HOME two  words\n"
    assert srun(cluster) == ["--nodes=3", "--ntasks-per-node=1", "--partition=main", "--chdir=/tmp"]
    assert (cluster.folder / "user").read_text() == "as root\n"


def test_run_on_a_pool_as_a_user(cluster: StandIn) -> None:
    """The other nodes of the queue are kept out by name, and all of these have accelerators, which it sees."""
    assert main(["run", "--pool", "gpu", "--nodes", "1", "--user", "alice", "--", "true"]) == 0
    assert srun(cluster)[0] == "--nodes=1"
    assert srun(cluster)[-2:] == ["--exclude=cpu-001", "--gres=gpu:8"]
    assert (cluster.folder / "user").read_text() == "as alice\n"


def test_a_command_begins_with_the_first_word(cluster: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """Options and `--` after the first word belong to the command."""
    assert main(["run", "--nodes", "1", "echo", "--nodes", "2", "--", "--help"]) == 0
    assert capfd.readouterr().out == "--nodes 2 -- --help\n"


def test_run_takes_the_nodes_that_can_take_it(cluster: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """Unavailable nodes are named with the reason, and no job waits for them in Slurm."""
    cluster.nodes(
        node("gpu-001", "IDLE", "DRAIN", reason="person alice: new fans"),
        node("gpu-002", "MIXED", gres_used="gpu:h100:2(IDX:0-1)"),
        node("cpu-001", "ALLOCATED", gres="", gres_used=""),
    )
    cluster.jobs([job(7, "bob", "gpu-002,cpu-001"), job(8, "bob", "cpu-001")])
    assert main(["run", "--pool", "gpu", "--gpus", "2", "hostname"]) == 0
    assert capfd.readouterr().err == "left out: gpu-001: drain: new fans (held by alice)\n"
    assert srun(cluster)[0] == "--nodes=1"
    assert srun(cluster)[-2:] == ["--exclude=gpu-001,cpu-001", "--gres=gpu:2"]
    assert "--immediate=60" in (cluster.folder / "srun").read_text().splitlines()


def test_run_waits_for_nobody_unless_it_is_asked_to(cluster: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """Without `--wait`, the answer is no with every reason. With it, the verb waits for running jobs only."""
    cluster.nodes(
        node("gpu-001", "IDLE", "DRAIN", reason="person alice: new fans"),
        node("gpu-002", "MIXED", gres_used="gpu:h100:2(IDX:0-1)"),
    )
    cluster.jobs([job(7, "bob", "gpu-002")])
    busy = "  gpu-001: drain: new fans (held by alice)\n  gpu-002: busy with job 7\n"
    assert main(["run", "--pool", "gpu", "hostname"]) == exits.NO
    assert capfd.readouterr().err == (
        f"none of the nodes of pool gpu can take it now\n{busy}  hint: --wait waits for nodes on which jobs run\n"
    )
    assert main(["run", "--pool", "gpu", "--gpus", "1", "--nodes", "2", "hostname"]) == exits.NO
    assert capfd.readouterr().err == (
        "1 of the nodes of pool gpu can take it now, not 2\n"
        "  gpu-001: drain: new fans (held by alice)\n  hint: ask for 1 to 1\n"
    )
    assert main(["run", "--pool", "gpu", "--wait", "true"]) == 0
    assert srun(cluster)[-2:] == ["--exclude=gpu-001,cpu-001", "--gres=gpu:8"]
    assert "--immediate" not in (cluster.folder / "srun").read_text()


def test_run_says_which_nodes_are_not_there(cluster: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """Missing nodes are those that always run; too few accelerators are another reason."""
    cluster.roster = cluster.without("gpu-001")
    assert main(["run", "--gpus", "1", "true"]) == 0
    assert capfd.readouterr().err == ("left out: gpu-001: it does not run\nleft out: cpu-001: it has no accelerators\n")


def test_run_starts_no_node_of_another_pool(cluster: StandIn) -> None:
    """Slurm would start elastic nodes of the other pool."""
    cluster.roster = cluster.without("cpu-001")
    assert main(["run", "--pool", "gpu", "true"]) == 0
    assert srun(cluster)[-2:] == ["--exclude=cpu-001", "--gres=gpu:8"]


def test_status_says_how_users_log_in(project: Path, cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Each user with keys is listed with the command from the stack's output."""
    file = project / "stacks" / "Pulumi.local.yaml"
    file.write_text(file.read_text().replace("uid: 2001}", f"uid: 2001, keys: ['{KEY}']}}"))
    assert main(["status"]) == exits.FINE
    *_, blank, line = capsys.readouterr().out.splitlines()
    assert blank == ""
    assert line.startswith("alice logs in with: ")
    assert line.endswith(" -l alice -- 10.77.0.2")
    assert "-i '~/.ssh/id_ed25519'" in line
    assert main(["status", "--json"]) == exits.FINE
    assert json.loads(capsys.readouterr().out)["logins"] == {"alice": line.removeprefix("alice logs in with: ")}


@pytest.mark.parametrize("code", [1, 2, 3, 4, 77, 254])
def test_run_passes_the_exit_code(code: int, cluster: StandIn) -> None:
    """The command's own exit status is passed through."""
    assert main(["run", "--", "sh", "-c", f"exit {code}"]) == code
    assert not (cluster.folder / "scancel").exists()


def test_run_passes_255_of_a_command(cluster: StandIn) -> None:
    """ssh uses 255 for itself: when the head answers, it was the command's."""
    assert main(["run", "--", "sh", "-c", "exit 255"]) == 255


def test_run_without_a_connection(cluster: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """A silent head gives ssh's exit status 255; nothing is known about the command."""
    cluster.unreachable()
    assert main(["run", "--", "true"]) == exits.UNKNOWN
    assert "head cannot be reached: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["run"], "run needs a command\n  hint: for example: stampworks run hostname\n"),
        (
            ["run", "--pool", "gpu", "--gpus", "9", "true"],
            "nodes of pool gpu have 8 accelerators, not 9\n  hint: ask for 0 to 8\n",
        ),
        (
            ["run", "--gpus", "all", "true"],
            "stampworks run: argument --gpus: 'all' is not a number of accelerators: write 0 or more\n"
            "  hint: `stampworks run --help` says more\n",
        ),
        (
            ["run", "--nodes", "4", "--", "true"],
            "queue main has 3 nodes now, not 4\n  hint: ask for 1 to 3\n",
        ),
        (
            ["run", "--pool", "gpus", "--", "true"],
            "no pool is called 'gpus' in cluster local\n  hint: did you mean gpu?\n",
        ),
        (
            ["run", "--user", "alic", "--", "true"],
            "no user is called 'alic' in cluster local\n  hint: did you mean alice?\n",
        ),
        (
            ["ssh", "gpu-01"],
            "no node is called 'gpu-01' in cluster local\n  hint: did you mean gpu-001 or gpu-002 or cpu-001?\n",
        ),
    ],
)
def test_missing_nodes_and_jobs(
    argv: list[str], text: str, cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors about unknown pools, users and nodes suggest similar names, and no command runs."""
    assert main(argv) == exits.WRONG_INPUT
    assert capsys.readouterr().err == text
    assert not (cluster.folder / "sent").exists()


def in_a_process(cluster: StandIn, verb: list[str]) -> list[str]:
    """Run the same command line in a separate process, with the stand-in for a cluster."""
    program = (
        "import sys, stampworks.operations as o; from stampworks.plan import *; "
        f"o.members = lambda *_: from_dict(Roster, {cluster_data(cluster)!r}); "
        "from stampworks.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-c", program, *verb]


def cluster_data(cluster: StandIn) -> dict[str, object]:
    from stampworks.plan import to_dict

    return to_dict(cluster.roster)


def test_ssh_hands_over_one_line(cluster: StandIn, project: Path) -> None:
    """The remote shell reads the words joined by blanks, as with plain ssh."""
    for words in (["echo $((1 + 1)); echo b"], ["echo", "$((1 + 1));", "echo", "b"]):
        done = subprocess.run(
            in_a_process(cluster, ["ssh", "head", "--", *words]), capture_output=True, timeout=30, check=False
        )
        assert (done.stdout, done.returncode) == (b"2\nb\n", 0)


def queued(number: int, name: str, state: str, nodes: str) -> dict[str, object]:
    return {**job(number, "alice", nodes), "name": name, "job_state": [state], "comment": "stampworks:training"}


@pytest.mark.parametrize("asked", ["demo", "7"])
def test_ssh_to_a_job(asked: str, cluster: StandIn, project: Path) -> None:
    """A job is found by name or number; the session is on its first node."""
    cluster.jobs([queued(7, "demo", "RUNNING", "gpu-[002-003]")])
    command = in_a_process(cluster, ["ssh", "--job", asked, "--", "hostname"])
    assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    assert (cluster.folder / "sent").read_text().splitlines()[-1] == "10.77.1.2 hostname"


@pytest.mark.parametrize(
    ("asked", "code", "text"),
    [
        ("dem", exits.WRONG_INPUT, "no job is called 'dem'\n  hint: did you mean demo?\n"),
        (
            "demo",
            exits.NO,
            "job demo is on no node now: it is waiting\n  hint: stampworks jobs lists running jobs\n",
        ),
    ],
)
def test_ssh_to_a_job_that_is_nowhere(
    asked: str, code: int, text: str, cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.jobs([queued(7, "demo", "PENDING", "")])
    assert main(["ssh", "--job", asked]) == code
    assert capsys.readouterr().err == text


def test_ssh_becomes_ssh(cluster: StandIn, project: Path) -> None:
    """Output, input and exit code are the remote command's own."""
    command = in_a_process(cluster, ["ssh", "gpu-001", "--", "sh", "-c", "cat; exit 7"])
    done = subprocess.run(command, input=b"in and out", capture_output=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == (b"in and out", 7)


@pytest.mark.parametrize("verb", [["ssh", "head"], ["run", "--", "true"]])
def test_a_missing_program_of_this_machine(
    verb: list[str], cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without ssh or nsenter the cluster is unreachable: the error names the package."""
    cluster.roster = dataclasses.replace(cluster.roster, reach=("no-such-program",))
    assert main(verb) == exits.UNKNOWN
    assert capsys.readouterr().err == (
        "no-such-program is not installed on this machine\n"
        "  hint: install it, for ssh: apt-get install openssh-client\n"
    )


@contextlib.contextmanager
def running(cluster: StandIn, script: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A run whose command has started: process, output and errors."""
    command = in_a_process(cluster, ["run", "--", "sh", "-c", f"echo on; {script}"])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"on\n"
        yield process, process.stdout, process.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_cancels_its_job(cluster: StandIn, project: Path, number: signal.Signals) -> None:
    """srun on the head would outlive its ssh: the job is cancelled by its own name, quietly."""
    with running(cluster, "exec sleep 60") as (process, _, errors):
        # a terminal sends to the whole foreground group, a service manager to the one process
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        assert process.wait(timeout=30) == 128 + number
        end_group(process.pid)
        assert b"Traceback" not in errors.read()
    [name] = [word for word in (cluster.folder / "srun").read_text().splitlines() if word.startswith("--job-name=")]
    assert (cluster.folder / "scancel").read_text() == f"--name={name.removeprefix('--job-name=')}\n"


def test_a_run_whose_reader_leaves_is_cancelled(cluster: StandIn, project: Path) -> None:
    """`stampworks run -- yes | head -1`: ssh and its job would otherwise run for ever."""
    with running(cluster, "trap '' PIPE; exec sleep 60") as (process, output, errors):
        output.close()
        assert process.wait(timeout=30) == exits.BROKEN_PIPE
        end_group(process.pid)
        assert errors.read() == b""
    assert (cluster.folder / "scancel").read_text().startswith("--name=stampworks-run-")


def end_group(group: int) -> None:
    """End the stand-in for a remote command, which has no other owner."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
