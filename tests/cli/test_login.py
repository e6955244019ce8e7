"""`stampworks login`, and the use of the file that it writes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from stampworks.cli import connections, exits
from stampworks.cli.main import main
from stampworks.plan import Member

from tests.operations.slurm.standin import StandIn, job, node


def target(cluster: str, member: Member) -> str:
    """A route to each node."""
    return f"ssh://127.0.0.1/{cluster}/{member.name}"


@pytest.fixture
def file(cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Her connection; the stand-in plays ssh for it, too."""
    monkeypatch.setattr("stampworks.clouds.local.door.target", target)
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001", gres="", gres_used=""))
    made = tmp_path / "alice.json"
    assert main(["login", "--as", "alice", "--to", str(made)]) == exits.FINE
    return made


@pytest.fixture
def alone(cluster: StandIn, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Connection of a user without project and Pulumi; ssh is a stand-in."""
    ssh = tmp_path / "hers" / "ssh"
    ssh.parent.mkdir()
    # a login shell would look for Slurm's programs at their paths on a node
    cluster.program("bash", '#!/bin/sh\n[ "$1 $2" = "-l -c" ] || exit 99\nexec sh -c "$3"\n')
    via = shlex.join(cluster.roster.reach)
    ssh.write_text(f'#!/bin/sh\nexec {via} "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path / "hers")
    monkeypatch.setattr("stampworks.operations.members", None)
    monkeypatch.setenv("STAMPWORKS_USER", "")
    monkeypatch.setenv("STAMPWORKS_STACK", str(file))
    return file


def test_the_file_is_hers_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file contains the plan, host keys and addresses, and no private key."""
    assert file.stat().st_mode & 0o777 == 0o600
    found = json.loads(file.read_text())
    assert (found["connection"], found["user"], found["plan"]["name"]) == (1, "alice", "local")
    roster = found["roster"]
    assert (roster["user"], roster["identity_file"], roster["reach"]) == ("alice", "", [])
    assert [each["target"] for each in roster["members"]][:2] == ["ssh://127.0.0.1/local/head", ""]
    assert "PRIVATE" not in file.read_text()
    assert main(["login", "--as", "alice", "--to", str(file)]) == exits.FINE  # written again
    said = capsys.readouterr()
    assert said.err.startswith("warning: no key of hers is declared (users[].keys): ")
    assert said.out.splitlines() == [
        f"{file} connects alice to cluster local; it holds no secret",
        f"with it and her ssh key: stampworks status -s {file}",
    ]


def test_it_is_enough(
    alone: Path, cluster: StandIn, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Her verbs go by ssh as herself, and no project, Pulumi or cloud is asked."""
    monkeypatch.setattr("stampworks.cli.output.SHOWN_AFTER_S", 600.0)  # a slow machine says how long a verb took
    assert main(["status"]) == exits.FINE
    assert main(["run", "--pool", "gpu", "hostname"]) == exits.FINE
    cluster.jobs([{**job(7, "alice", "gpu-001"), "name": "demo", "comment": "stampworks:training"}])
    assert main(["jobs"]) == exits.FINE
    assert capfd.readouterr().err == ""
    sent = (cluster.folder / "sent").read_text()
    assert "runuser" not in sent.partition("ssh://")[2]
    assert "bash -l -c 'srun --nodes=2" in sent


@pytest.mark.parametrize(
    "verb",
    [
        ["drain", "gpu-001", "--reason", "x"],
        ["return", "gpu-001"],
        ["qualify"],
        ["roll", "gpu-001", "--cancel"],
        ["fault", "list"],
        ["fault", "inject", "xid"],
        ["fault", "clear"],
        ["login", "--as", "bob"],
    ],
)
def test_shared_state_is_for_administrators(verb: list[str], alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(verb) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        f"{verb[0]} is for administrators of cluster local, and {alone} is a connection of alice\n"
        "  hint: name a stack: -s STACK\n"
    )


@pytest.mark.parametrize("verb", [["run", "--user", "root", "id"], ["submit", "training", "x", "--user", "root"]])
def test_connection_is_refused_for_another_user(
    verb: list[str], alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(verb) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (f"{alone} is a connection of alice, and not of root\n  hint: leave --user out\n")


def test_an_administrator_names_the_user(
    cluster: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root must name a user, so that no job runs as root by accident."""
    monkeypatch.delenv("STAMPWORKS_USER")
    assert main(["submit", "training", "demo"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "no user is given for the job\n"
        "  hint: name one: --user USER, or $STAMPWORKS_USER; --user root runs it as root\n"
    )


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--as", "alic"], "no user is called 'alic' in cluster local\n  hint: did you mean alice?\n"),
        (
            ["--as", "alice", "--to", "hers"],
            "hers has no name for a connection\n  hint: call it FILE.json, so that -s can name it\n",
        ),
        (
            ["--as", "alice", "--to", "other.json"],
            "other.json is there, and is no connection\n  hint: choose another file: --to FILE.json\n",
        ),
    ],
)
def test_refused_connection_files(
    more: list[str], text: str, file: Path, cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    Path("other.json").write_text("{}")
    assert main(["login", *more]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == text
    assert Path("other.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"connection": 2},
            "{file} is a connection of version 2, and this release of stampworks reads version 1\n",
        ),
        ({"plan": {}}, "{file} is no connection of this release of stampworks: Connection.plan: lacks version, "),
        ({"user": "bob"}, "{file} is no connection of this release of stampworks: Connection.roster: it is no user's"),
        (
            {"kubeconfig": "client-key-data: x"},
            "{file} holds a key, and other users can read it\n  hint: chmod 600 {file}\n",
        ),
    ],
)
def test_a_file_that_is_no_good(
    change: dict[str, object], text: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong file is refused with its fault and a remedy; nothing is sent anywhere."""
    connections.read.cache_clear()
    capsys.readouterr()
    alone.write_text(json.dumps({**json.loads(alone.read_text()), **change}))
    alone.chmod(0o644)
    assert main(["jobs"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err.startswith(text.format(file=alone))


def test_a_file_that_others_may_write(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that others may write is refused: it names a command that ssh runs."""
    connections.read.cache_clear()
    capsys.readouterr()
    alone.chmod(0o620)
    assert main(["jobs"]) == exits.WRONG_INPUT
    said = f"{alone} names commands that ssh runs, and other users can write to it\n  hint: chmod 600 {alone}\n"
    assert capsys.readouterr().err == said


def test_a_connection_of_another_release_is_written_anew(file: Path, cluster: StandIn) -> None:
    """The error of an outdated connection says how to write it again."""
    Path("other.json").write_text(json.dumps({"connection": 99}))
    assert main(["login", "--as", "alice", "--to", "other.json"]) == exits.FINE
    assert json.loads(Path("other.json").read_text())["user"] == "alice"


def test_a_connection_in_its_place_needs_no_name(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This holds outside of projects; in a project, verbs use its stack."""
    place = tmp_path / "config" / "stampworks" / "connection.json"
    place.parent.mkdir(parents=True)
    alone.rename(place)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("STAMPWORKS_STACK")
    assert main(["status"]) == exits.FINE
    assert capsys.readouterr().out.splitlines()[-6] == "cluster local on local: pass"
    monkeypatch.chdir(tmp_path / "project")
    assert main(["status"]) == exits.UNKNOWN  # no Pulumi exists in this environment


def test_slurm_verbs_ask_no_kubernetes(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kubectl", "get", "nodes"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "the scheduler of cluster local is Slurm\n  hint: use stampworks ssh head -- sinfo\n"
    )
