"""The decisions of Slurm's modules: its files, its controller, its accounting, nodes that are ready."""

from __future__ import annotations

import grp
import pwd
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.modules import (
    slurm_accounting,
    slurm_cached,
    slurm_controller,
    slurm_ready,
)
from stampworks.operations.drain import LEAVES, RENEWED
from stampworks.text.reasons import prefix, written

# --- slurm_cached


def cached(tmp_path: Path, text: str, check: bool = False) -> dict[str, Any]:
    files = {"slurm.conf": text, "job_submit.lua": "never sent"}
    return slurm_cached.answer({"files": files, "directory": str(tmp_path), "limit_s": 0.3}, check)


def test_slurmds_copy_is_kept(tmp_path: Path) -> None:
    """An edited or removed copy is restored; check mode only reports it."""
    (tmp_path / "slurm.conf").write_text("edited")
    assert cached(tmp_path, "right", check=True)["drift"] == [f"{tmp_path}/slurm.conf differs"]
    assert (tmp_path / "slurm.conf").read_text() == "edited"
    assert cached(tmp_path, "right")["changed"]
    assert (tmp_path / "slurm.conf").read_text() == "right"
    assert not cached(tmp_path, "right")["changed"]
    (tmp_path / "slurm.conf").unlink()
    assert cached(tmp_path, "right", check=True)["drift"] == [f"{tmp_path}/slurm.conf is missing"]
    assert cached(tmp_path / "not fetched yet", "right") == {"changed": False, "drift": []}


def test_a_copy_that_is_on_its_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller with another configuration sends it a moment later, which is no change by the module."""
    (tmp_path / "slurm.conf").write_text("old")
    monkeypatch.setattr(time, "sleep", lambda _: (tmp_path / "slurm.conf").write_text("right"))
    assert not cached(tmp_path, "right")["changed"]


# --- slurm_controller

GOOD = "slurmctld: slurmctld version 24.11.5 started\nslurmctld: Running as primary controller\n"
BAD = (
    "slurmctld: error: Parse error in file slurm.conf line 7\n"
    "slurmctld: error: Could not open node state file /var/lib/slurm/slurmctld/node_state: No such file or directory\n"
    "slurmctld: debug: nothing\n"
    "slurmctld: fatal: Unable to process configuration file\n"
    "slurmctld: error: Parse error in file slurm.conf line 7\n"
)


def test_the_trial_shares_nothing_with_the_real_controller(tmp_path: Path) -> None:
    """It uses neither the controller's state nor its database; settings that need the database are replaced."""
    text = slurm_controller.trial_text(
        "ClusterName=x\nStateSaveLocation=/var/lib/slurm\nAccountingStorageType=accounting_storage/slurmdbd\n"
        "AccountingStorageEnforce=qos\nPreemptType=preempt/qos\nPriorityType=priority/multifactor\n"
        'PartitionName=x TRESBillingWeights="CPU=0,GRES/gpu=1" State=UP\n',
        tmp_path,
    )
    assert text.splitlines() == [
        "ClusterName=x",
        "PreemptType=preempt/partition_prio",
        "PriorityType=priority/basic",
        "PartitionName=x State=UP",
        "",
        f"StateSaveLocation={tmp_path}/state",
        f"SlurmctldPidFile={tmp_path}/pid",
    ]


def test_the_complaint_is_what_was_fatal_first() -> None:
    """Each line appears once."""
    expected = "Unable to process configuration file; Parse error in file slurm.conf line 7"
    assert slurm_controller.complaint(BAD, 20) == expected
    assert slurm_controller.complaint("", 20) == "no answer within 20 s: it said nothing"


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Call the module on a test folder, with a controller of the test."""
    user = pwd.getpwuid(tmp_path.stat().st_uid).pw_name
    monkeypatch.setattr(slurm_controller, "group_id", lambda _: tmp_path.stat().st_gid)
    monkeypatch.setattr(slurm_controller, "supervisor", Running)
    monkeypatch.setattr(slurm_controller, "bring_up", lambda *_: None)
    monkeypatch.setattr(slurm_controller, "outdated", lambda *_: False)
    return {
        "files": {"slurm.conf": "new"},
        "directory": str(tmp_path),
        "user": user,
        "service": "slurmctld",
        "trial_s": 1.0,
    }


class Running:
    restarted: list[str] = []  # noqa: RUF012 (the test looks at it)

    def running(self, _name: str) -> str:
        return "this run"

    def control(self, _name: str, verb: str) -> None:
        self.restarted.append(verb)


def test_a_refused_configuration_stays_out(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running controller never sees it; check mode does not even try it."""
    (tmp_path / "slurm.conf").write_text("old")
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: BAD)
    said = (
        "slurmctld refuses this configuration, so it was not put in place: "
        "Unable to process configuration file; Parse error in file slurm.conf line 7"
    )
    assert slurm_controller.answer(controller, False)["msg"] == said
    assert (tmp_path / "slurm.conf").read_text() == "old"
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: pytest.fail("tried"))
    assert slurm_controller.answer(controller, True)["drift"] == [f"{tmp_path}/slurm.conf differs"]


def test_an_accepted_configuration_goes_in_once(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run does not try the same configuration again."""
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    drift = [f"{controller['directory']}/slurm.conf is missing"]
    assert slurm_controller.answer(controller, False) == {"changed": True, "drift": drift, "files": ["slurm.conf"]}
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: pytest.fail("tried again"))
    assert slurm_controller.answer(controller, False) == {"changed": False, "drift": [], "files": []}


def test_the_old_files_go_back_when_the_controller_is_gone(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that the trial could not check must not stay either."""

    def gone(*_: Any) -> None:
        raise Refused("slurmctld does not answer")

    (tmp_path / "slurm.conf").write_text("old")
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    monkeypatch.setattr(slurm_controller, "bring_up", gone)
    assert slurm_controller.answer(controller, False)["msg"] == "slurmctld does not answer"
    assert (tmp_path / "slurm.conf").read_text() == "old"
    assert Running.restarted.pop() == "restart"


def test_a_queue_from_before_the_accounting_forgets_its_number(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld would end because of it; without accounting, or without a restart, it stays."""
    number = tmp_path / "clustername"
    number.write_text("stand|3167")
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    plain = {**controller, "state": str(tmp_path)}
    assert slurm_controller.answer(plain, False)["changed"]
    assert number.read_text() == "stand|3167"
    accounted = {**plain, "files": {"slurm.conf": "AccountingStorageType=accounting_storage/slurmdbd\n"}}
    assert slurm_controller.answer(accounted, False)["changed"]
    assert number.read_text() == "stand"
    number.write_text("stand|3667")
    assert not slurm_controller.answer(accounted, False)["changed"]
    assert number.read_text() == "stand|3667"


def test_nodes_that_slurm_never_heard_of_are_held(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known nodes are not held, although Slurm calls them unknown after a restart."""
    updates: list[list[str]] = []
    states = {"gpu-001": "unknown*", "gpu-002": "unknown*"}

    def slurm(argv: list[str], **_: Any) -> Any:
        updates.extend([argv[2:]] if argv[0] == "scontrol" else [])
        return subprocess.CompletedProcess(argv, 0, "".join(f"{name}|{it}\n" for name, it in states.items()), "")

    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    monkeypatch.setattr(slurm_controller, "run", slurm)
    first = {**controller, "state": str(tmp_path), "new_reason": "proof: not proven yet"}
    slurm_controller.answer(first, False)
    assert updates == [["nodename=gpu-001,gpu-002", "state=drain", 'reason="proof: not proven yet"']]
    slurm_controller.answer(first, False)
    assert len(updates) == 1, "a restart"
    states |= {"gpu-003": "unknown*", "gpu-004": "idle"}
    slurm_controller.answer(first, False)
    assert updates[1:] == [["nodename=gpu-003", "state=drain", 'reason="proof: not proven yet"']]
    (tmp_path / "stampworks-nodes").unlink()
    (tmp_path / "node_state").touch()
    slurm_controller.answer(first, False)
    assert len(updates) == 2, "a queue that is older than the record"


def test_a_controller_with_another_key_or_program_is_restarted(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld reads both only at its start."""
    (tmp_path / "slurm.conf").write_text("new")
    monkeypatch.undo()
    monkeypatch.setattr(slurm_controller, "group_id", lambda _: tmp_path.stat().st_gid)
    monkeypatch.setattr(slurm_controller, "supervisor", Running)
    monkeypatch.setattr(slurm_controller, "await_ping", lambda _: None)
    monkeypatch.setattr(slurm_controller, "outdated", lambda _, names: f"{tmp_path}/slurm.key" in names)
    Running.restarted.clear()
    drift = ["slurmctld runs with what it was started with before a change"]
    assert slurm_controller.answer(controller, True)["drift"] == drift
    assert Running.restarted == []
    assert slurm_controller.answer(controller, False) == {"changed": True, "drift": drift, "files": []}
    assert Running.restarted == ["restart"]


# --- slurm_accounting

PRIORITIES = [{"name": "low", "weight": 1, "preempts": []}, {"name": "high", "weight": 9, "preempts": ["low"]}]
ACCOUNT = {"name": "research", "users": ["alice"], "share": 2, "accelerators_max": 16}


def rows(text: str, *columns: str) -> dict[str, dict[str, str]]:
    return {row[columns[0]]: row for row in slurm_accounting.parsed(text, columns)}


def test_priorities_are_made_before_they_are_said_to_preempt() -> None:
    """Only differing priorities are changed."""
    found = rows("normal|0||cluster\nlow|1||requeue\nold|5||requeue\n", "name", "priority", "preempt", "preemptmode")
    assert slurm_accounting.qos_commands(PRIORITIES, "requeue", found) == [
        ["add", "qos", "high"],
        ["modify", "qos", "high", "set", "priority=9", "preempt=low", "preemptmode=requeue"],
        ["delete", "qos", "old"],
    ]
    found = rows(
        "normal|0||cluster\nlow|1||requeue\nhigh|9|low|requeue\n", "name", "priority", "preempt", "preemptmode"
    )
    assert slurm_accounting.qos_commands(PRIORITIES, "requeue", found) == []


def associations(text: str) -> dict[str, dict[str, str]]:
    columns = ("account", "user", "fairshare", "grptres", "qos")
    return {f"{row['account']}/{row['user']}": row for row in slurm_accounting.parsed(text, columns)}


def test_accounts_are_made_with_their_limits() -> None:
    """An account first, then its users."""
    found = associations("root||1||normal\nroot|root|1||normal\n")
    assert slurm_accounting.account_commands("cluster=c", [ACCOUNT], PRIORITIES, found) == [
        ["add", "account", "research", "cluster=c", "fairshare=2", "grptres=gres/gpu=16", "qos=high,low,normal"],
        ["add", "user", "alice", "account=research", "cluster=c"],
    ]


def test_root_may_use_every_priority() -> None:
    """Root's jobs prove nodes of every queue; slurmdbd creates root with a single priority."""
    command = ["modify", "account", "root", "where", "cluster=c", "set", "qos=high,low,normal"]
    for text in ("", "root||1||normal\n"):
        assert slurm_accounting.root_commands("cluster=c", PRIORITIES, associations(text)) == [command]
    assert slurm_accounting.root_commands("cluster=c", PRIORITIES, associations("root||1||high,low,normal\n")) == []


def test_accounts_that_are_right_are_left_alone() -> None:
    """This includes an account without a limit, which sacctmgr shows as empty."""
    found = associations(
        "root||1||normal\nresearch||2|gres/gpu=16|high,low,normal\nresearch|alice|1||normal\nfree||1||high,low,normal\n"
    )
    accounts_ = [ACCOUNT, {"name": "free", "users": [], "share": 1, "accelerators_max": 0}]
    assert slurm_accounting.account_commands("cluster=c", accounts_, PRIORITIES, found) == []


def test_the_first_account_that_a_user_names_is_their_default() -> None:
    """Otherwise Slurm uses the account to which the user was added first."""
    found = {"alice": {"user": "alice", "defaultaccount": "research"}, "bob": {"user": "bob", "defaultaccount": "x"}}
    wanted = {"alice": "research", "bob": "product", "new": "product"}
    assert slurm_accounting.default_commands("cluster=c", wanted, found) == [
        ["modify", "user", "bob", "where", "cluster=c", "set", "defaultaccount=product"],
        ["modify", "user", "new", "where", "cluster=c", "set", "defaultaccount=product"],
    ]


def test_a_lifted_limit_and_people_who_left() -> None:
    """Users and limits that are no longer declared are removed."""
    found = associations(
        "root||1||normal\nroot|root|1||normal\nresearch||2|gres/gpu=16|high,low,normal\n"
        "research|alice|1||normal\nresearch|bob|1||normal\ngone||1||normal\ngone|alice|1||normal\n"
    )
    accounts_ = [{**ACCOUNT, "accelerators_max": 0}]
    commands = slurm_accounting.account_commands("cluster=c", accounts_, PRIORITIES, found)
    assert commands + slurm_accounting.removals("cluster=c", accounts_, found) == [
        [
            *("modify", "account", "research", "where", "cluster=c", "set"),
            *("fairshare=2", "grptres=gres/gpu=-1", "qos=high,low,normal"),
        ],
        ["delete", "user", "bob", "where", "account=research", "cluster=c"],
        ["delete", "account", "gone", "where", "cluster=c"],
    ]


def test_sacctmgr_is_asked_again_until_slurmdbd_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that was just started needs a moment; any other error is raised at once."""
    answers = ["error: Unable to connect to slurmdbd", ""]

    def fake(argv: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        said = answers.pop(0)
        return subprocess.CompletedProcess(argv, 1 if said else 0, "a|b\n", said)

    monkeypatch.setattr(slurm_accounting, "run", fake)
    assert slurm_accounting.sacctmgr("show", "qos") == "a|b\n"
    answers.append("error: You are not running a supported accounting_storage plugin")
    with pytest.raises(Refused, match="sacctmgr show qos: error: You are not running"):
        slurm_accounting.sacctmgr("show", "qos")


def test_members_of_a_group_are_users_of_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are those that the node resolves now, each once; a missing group is an error, not an empty group."""
    known = {"ml": ["dora", "alice"], "ops": ["dora"]}
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_mem=known[name]))
    account = {"name": "research", "users": ["alice"], "share": 1}
    assert slurm_accounting.with_members(account, ["ml", "ops"])["users"] == ["alice", "dora"]
    assert slurm_accounting.with_members(account, []) == account
    with pytest.raises(Refused, match="no group is called gone: does the directory have it, and does it answer"):
        slurm_accounting.with_members(account, ["gone"])


# --- slurm_ready


def ready(nodes: list[str], check: bool = False) -> dict[str, Any]:
    return slurm_ready.answer({"nodes": nodes, "own_reason": prefix("stampworks"), "limit_s": 0}, check)


def test_only_what_an_up_drained_takes_jobs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain of a person, of the health check or of Slurm is not undone."""
    reasons = (written(LEAVES), written(RENEWED), "person alice: stampworks: x", "health: disk", "new fans")
    states = {name: ("drained", reason) for name, reason in zip("abcde", reasons, strict=True)}
    commands: list[list[str]] = []
    monkeypatch.setattr(slurm_ready, "look", lambda: states)
    monkeypatch.setattr(slurm_ready, "run", commands.append)
    result = ready([*"abcde"])
    assert commands == [["scontrol", "update", "nodename=a,b", "state=resume"]]
    assert (result["changed"], sorted(result["held"])) == (True, ["c", "d", "e"])
    assert ready([*"abcde"], check=True)["changed"]
    assert len(commands) == 1


def test_nodes_that_slurm_has_not_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star means no answer; a drained node did answer and keeps its reason."""
    states = {"a": ("idle", ""), "b": ("down*", "Not responding"), "c": ("unknown", ""), "d": ("drained", "fan")}
    assert slurm_ready.unheard(["a", "b", "c", "d", "e"], states) == ["b", "c", "e"]
    monkeypatch.setattr(slurm_ready, "look", lambda: states)
    assert ready(["a", "d"])["held"] == {"d": "drained: fan"}
    result = ready(["a", "b", "e"])
    assert result["msg"] == (
        "slurmctld has not heard of 2 of 3 nodes within 0 s: b is down*; e is unknown to it. "
        "What slurmd says is on the node in /var/log/stampworks/slurmd/current; "
        "clocks that differ by a minute are enough (pulumi refresh compares them)"
    )


def test_a_node_that_came_back_takes_jobs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two silences Slurm does not recognize its own reason, and never resumes a restarted node; a node that is
    silent, or has another reason, stays down."""
    twice = "Not responding : Not responding"
    states = {"a": ("down", twice), "b": ("down", "Not responding"), "c": ("drained", twice), "d": ("down", "new fans")}
    states |= {"e": ("down", f"{twice} : new fans"), "f": ("down", "Node unexpectedly rebooted")}
    commands: list[list[str]] = []
    monkeypatch.setattr(slurm_ready, "look", lambda: states)
    monkeypatch.setattr(slurm_ready, "run", commands.append)
    result = ready([*"abcdef"])
    assert commands == [["scontrol", "update", "nodename=a,b,f", "state=resume"]]
    assert result["drift"][0] == f"Slurm still holds a: {twice}"
    assert sorted(result["held"]) == ["c", "d", "e"]
    assert ready([*"abcdef"], check=True)["drift"] == [], "a look has Slurm's own words for it"
