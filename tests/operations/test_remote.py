"""Commands on a node: the hosts that ssh trusts, quoting for the remote shell, and errors of silent nodes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks.operations import InputError, UnknownError, remote
from stampworks.plan import Roster

from tests.operations.slurm.standin import KEY, StandIn

ECHO = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
HOSTILE = [
    "two words",
    "it's",
    'a "quote"',
    "$(touch owned)",
    "`touch owned`",
    "a\nb",
    "*",
    ";false",
    "",
    "-rf",
    "ä",
    "\\",
]


def test_arguments_arrive_word_by_word(cluster: StandIn) -> None:
    """The program on the node gets any argument unchanged."""
    assert json.loads(remote.ask(cluster.roster, "gpu-001", [*ECHO, *HOSTILE])) == HOSTILE


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5))
def test_any_arguments_arrive(cluster: StandIn, words: list[str]) -> None:
    """Any text without a null byte survives the remote shell."""
    assert json.loads(remote.ask(cluster.roster, "head", [*ECHO, *words])) == words


def test_the_command_is_stable(cluster: StandIn) -> None:
    """The ssh command uses the roster's prefix, trusts only the roster's key and ignores user settings."""
    command = remote.ssh_command(
        dataclasses.replace(cluster.roster, reach=("nsenter", "-n")), "gpu-001", ["echo", "a b"]
    )
    assert command[:7] == ["nsenter", "-n", "ssh", "-F", "none", "-i", cluster.roster.identity_file]
    assert command[-5:] == ["-l", "root", "--", "10.77.1.1", "echo 'a b'"]
    options = [value for flag, value in itertools.pairwise(command) if flag == "-o"]
    assert options[-2:] == ["HostKeyAlias=gpu-001", f"KnownHostsCommand=/bin/echo gpu-001 {KEY}"]
    assert {"BatchMode=yes", "ControlMaster=no", "StrictHostKeyChecking=yes"} <= set(options)


def test_a_user_comes_with_a_key_of_her_own(cluster: StandIn) -> None:
    """The user logs in to the head with any key that ssh finds, and to other nodes through the head."""
    hers = dataclasses.replace(cluster.roster, reach=(), user="alice", identity_file="")
    command = remote.ssh_command(hers, "head", remote.as_user("alice", ["echo", "a b"]))
    assert command[:5] == ["ssh", "-F", "none", "-o", "ConnectTimeout=10"]
    assert command[-5:] == ["-l", "alice", "--", "10.77.0.2", "bash -l -c 'echo '\"'\"'a b'\"'\"''"]
    assert not [word for word in command if word.startswith(("Identit", "Batch"))]
    assert remote.ssh_command(hers, "gpu-001", ["echo", "a b"])[-3:] == [
        *("--", "10.77.0.2", "ssh gpu-001 'echo '\"'\"'a b'\"'\"''"),
    ]
    assert remote.ssh_command(hers, "gpu-001")[-4:] == ["-t", "--", "10.77.0.2", "ssh gpu-001"]


def test_ssh_itself_accepts_the_command(cluster: StandIn) -> None:
    """The real ssh understands every option, and a command that starts with a dash is no option of its."""
    command = remote.ssh_command(dataclasses.replace(cluster.roster, reach=()), "gpu-001", ["-V"])
    command.insert(1, "-G")
    shown = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    settings_shown = dict(line.split(" ", 1) for line in shown.splitlines() if " " in line)
    assert settings_shown["stricthostkeychecking"] == "true"
    assert settings_shown["hostkeyalias"] == "gpu-001"
    assert settings_shown["knownhostscommand"] == f"/bin/echo gpu-001 {KEY}"
    assert settings_shown["host"] == "10.77.1.1"


def test_an_identity_file_may_hold_a_percent_sign(cluster: StandIn) -> None:
    """ssh expands % in file names; the toolkit's path is literal."""
    roster = dataclasses.replace(cluster.roster, identity_file="/tmp/100%/id")
    assert "/tmp/100%%/id" in remote.ssh_command(roster, "head")


def test_without_a_command_it_logs_in(cluster: StandIn) -> None:
    """Without a command, ssh opens a shell."""
    assert remote.ssh_command(cluster.roster, "head")[-1] == "10.77.0.2"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("gpu-003", "did you mean gpu-002 or gpu-001?"),
        ("login", "there are: gpu-001, gpu-002, head"),
    ],
)
def test_an_unknown_node_is_told_its_neighbours(cluster: StandIn, asked: str, hint: str) -> None:
    """The error for an unknown node offers similar names."""
    with pytest.raises(InputError) as caught:
        remote.ssh_command(cluster.roster, asked)
    assert str(caught.value) == f"no node is called {asked!r} in cluster local\n  hint: {hint}"


def test_many_nodes_are_not_all_listed(cluster: StandIn) -> None:
    """A thousand names would hide the message."""
    first = cluster.roster.members[0]
    members = tuple(dataclasses.replace(first, name=f"n{number:04}") for number in range(1000))
    with pytest.raises(InputError, match=r"n0008, \.\.\. \(1000 in all\)$"):
        remote.ssh_command(dataclasses.replace(cluster.roster, members=members), "login")


@pytest.mark.parametrize("key", ["", "ssh-ed25519", "ssh-ed25519 AAAA;reboot", "%h AAAA", "ssh-rsa\nAAAA"])
def test_a_node_without_a_good_host_key_is_not_contacted(cluster: StandIn, key: str) -> None:
    """A host key that is missing or malformed stops before ssh is started, and never reaches its options."""
    odd = dataclasses.replace(cluster.roster.members[0], host_key=key)
    roster = dataclasses.replace(cluster.roster, members=(odd,))
    with pytest.raises(UnknownError) as caught:
        remote.ssh_command(roster, "head")
    assert str(caught.value) == ("the roster has no usable host key for 'head'\n  hint: `pulumi up` renews the roster")


def test_a_node_that_refuses_is_named(cluster: StandIn) -> None:
    """The error has ssh's message."""
    cluster.unreachable()
    with pytest.raises(UnknownError) as caught:
        remote.ask(cluster.roster, "head", ["true"])
    assert str(caught.value) == (
        "head cannot be reached: ssh: connect to host 10.77.0.2 port 22: Connection refused\n"
        "  hint: `pulumi up` restarts dead nodes"
    )


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "echo >&2; echo 'SessionManagerPlugin is not found. Please refer to the documentation.' >&2; exit 255",
            "SessionManagerPlugin is not found. Please refer to the documentation.",
        ),
        ("printf 'i-1 is not\\033[1m connected.\\n' >&2; exit 254", "i-1 is not\\x1b[1m connected."),
        ("exit 1", ""),
    ],
)
def test_a_way_to_a_node_that_fails_is_named(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    """The real ssh reports the failure without its cause."""
    tunnel = tmp_path / "tunnel"
    tunnel.write_text(f"#!/bin/sh\n{program}\n")
    tunnel.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    head = dataclasses.replace(remote.head(cluster.roster), target="i-1")
    way = ("tunnel", "--target", "%h")
    roster = dataclasses.replace(cluster.roster, members=(head,), reach=(), identity_file="", proxy=way)
    with pytest.raises(UnknownError) as caught:
        remote.ask(roster, "head", ["true"])
    error, _, hint = str(caught.value).partition("\n  hint: ")
    if said:
        assert (error, hint) == (f"head cannot be reached: {said}", "ssh goes through: tunnel --target i-1")
    else:
        assert re.match("head cannot be reached: (it printed nothing|.*exchange|.*onnection)", error), (
            "by who is faster"
        )
        assert hint == "`pulumi up` restarts dead nodes"


def test_a_program_that_fails_is_quoted(cluster: StandIn) -> None:
    """The last line of a failing program is in the error, with where to look."""
    with pytest.raises(remote.RemoteError) as caught:
        remote.ask(cluster.roster, "gpu-001", ["sh", "-c", "echo first >&2; echo 'no such job' >&2; exit 3"])
    assert str(caught.value) == (
        "gpu-001: sh ended with exit code 3: no such job\n  hint: look there: stampworks ssh gpu-001"
    )


def test_a_silent_program_has_a_time_limit(cluster: StandIn) -> None:
    """A program that hangs is given up."""
    with pytest.raises(UnknownError, match=r"^head: sleep did not answer within 1 s\n"):
        remote.ask(cluster.roster, "head", ["sleep", "20"], timeout_s=1)


@pytest.mark.parametrize("program", ["exec yes", "exec yes >&2"])
def test_an_answer_that_never_ends_is_cut(cluster: StandIn, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """An answer takes limited memory, and is cut long before its time limit."""
    monkeypatch.setattr(remote, "BYTES_MAX", 3 << 20)
    with pytest.raises(UnknownError) as caught:
        remote.ask(cluster.roster, "head", ["sh", "-c", program], timeout_s=120)
    assert str(caught.value) == ("head: sh said more than 3 MiB and was ended\n  hint: look there: stampworks ssh head")


def test_a_program_that_only_closes_its_output_has_a_time_limit(cluster: StandIn) -> None:
    """An end of the output is not the end of the program."""
    with pytest.raises(UnknownError, match=r"^head: sh did not answer within 1 s\n"):
        remote.ask(cluster.roster, "head", ["sh", "-c", "exec sleep 20 >&- 2>&-"], timeout_s=1)


def test_a_missing_program_on_this_machine_is_named(cluster: StandIn) -> None:
    """The error names the package with nsenter or ssh."""
    roster: Roster = dataclasses.replace(cluster.roster, reach=("no-such-program",))
    with pytest.raises(UnknownError) as caught:
        remote.ask(roster, "head", ["true"])
    assert str(caught.value) == (
        "no-such-program is not installed on this machine\n  hint: install it, for ssh: apt-get install openssh-client"
    )


def test_odd_bytes_are_no_reason_to_crash(cluster: StandIn) -> None:
    """Output that is not UTF-8 is read with replacement characters."""
    assert remote.ask(cluster.roster, "head", ["printf", r"\377ok"]) == "�ok"


def test_a_cluster_without_a_head_says_so(cluster: StandIn) -> None:
    """The controller is looked for by its group, not by luck."""
    with pytest.raises(UnknownError) as caught:
        remote.head(cluster.without("head"))
    assert str(caught.value) == (
        "cluster local has no controller: no node of the group 'head' is running\n"
        "  hint: `pulumi up --refresh` starts one again"
    )


def test_nothing_is_owned(cluster: StandIn) -> None:
    """No quoting test above created a file on the node."""
    assert not Path("owned").exists()
