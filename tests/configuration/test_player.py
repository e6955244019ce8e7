"""Results of the player from inventory, events and processes, without any host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks.configuration import playbooks_dir, player
from stampworks.configuration.inventory import connection
from stampworks.plan import Roster
from stampworks.text.printable import masking

HOST = {"ansible_host": "192.0.2.1", "node_host_key": "ssh-ed25519 AAAA"}


def inventory(**variables: Any) -> dict[str, Any]:
    return {"all": {"vars": variables, "hosts": {"one": HOST}, "children": {"base": {"hosts": {"one": {}}}}}}


def test_host_keys_are_known_before_the_first_connection(tmp_path: Path) -> None:
    """ssh refuses a host whose key differs from the one that its cloud reported."""
    player.prepare(tmp_path, inventory(), ["one"])
    assert (tmp_path / "known_hosts").read_text() == "192.0.2.1 ssh-ed25519 AAAA\n"
    arguments = player.environment(tmp_path, tmp_path, False, 3)["ANSIBLE_SSH_ARGS"]
    assert "StrictHostKeyChecking=yes" in arguments
    assert f"UserKnownHostsFile={tmp_path}/known_hosts" in arguments


@pytest.mark.parametrize(
    "text",
    [
        "{{ lookup('pipe', 'id') }}",
        "{% if x %}",
        "a {# comment #}",
        "yes",
        "0x10",
        "!unsafe x",
        "- 'a'\n: b",
        "ü\u2028",
        "#jinja2: variable_start_string:'[['\n[[ x ]]",
    ],
)
def test_user_text_is_never_a_template(tmp_path: Path, text: str) -> None:
    """Strings arrive unchanged; strings that look like templates arrive as data."""
    player.prepare(tmp_path, inventory(text=text), [])
    loaded: list[tuple[str, str]] = []

    class Loader(yaml.SafeLoader):
        pass

    def unsafe(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        loaded.append(("unsafe", node.value))
        return str(loader.construct_scalar(node))

    Loader.add_constructor("!unsafe", unsafe)
    back = yaml.load((tmp_path / "inventory.yml").read_text(), Loader)  # noqa: S506 (a safe loader with one tag more)
    assert back["all"]["vars"]["text"] == text
    assert bool(loaded) == ("{" in text or "[[" in text)


def test_everything_that_is_written_is_inside_the_folder(tmp_path: Path) -> None:
    """The user's settings are not read, and the user's folders not written."""
    environment = player.environment(tmp_path, Path("/playbooks"), False, 3)
    inside = ("ANSIBLE_CONFIG", "ANSIBLE_HOME", "ANSIBLE_LOCAL_TEMP", "ANSIBLE_SSH_CONTROL_PATH_DIR")
    assert all(environment[name].startswith(str(tmp_path)) for name in inside)
    assert "-F none" in environment["ANSIBLE_SSH_ARGS"]


ROLES = [
    {"name": "late", "path": "/a {{ b }}/late", "variables": '{"late_text": "{{ x }}", "late_number": 1}'},
    {"name": "later", "path": "/later", "variables": "{}"},
]


def test_own_roles_run_before_the_first_look_at_health(tmp_path: Path) -> None:
    """Each role is a play with its own group; the order of the rest stays."""
    site = playbooks_dir() / "site.yml"
    ours = yaml.safe_load(site.read_text())
    composed, whole = player.with_own_roles(tmp_path, site, ROLES)
    text = composed.read_text()
    plays = yaml.safe_load(text.replace("!unsafe ", ""))
    assert plays == whole
    names = [play["name"] for play in plays]
    at = names.index("Health")
    assert names[at - 3 : at] == ["Workloads", "late", "later"]
    assert [play for play in plays if play["name"] not in ("late", "later")] == ours
    assert (plays[at - 2]["hosts"], plays[at - 2]["gather_facts"]) == ("late", True)
    [task] = plays[at - 2]["tasks"]
    assert task["ansible.builtin.import_role"] == {"name": "late"}
    assert task["vars"] == {"late_text": "{{ x }}", "late_number": 1}
    assert "late_text: !unsafe" in text, "data, and never a template"
    assert "{{" not in site.read_text(), "so that no word of ours is marked as data"


@pytest.mark.parametrize("text", ["{{ x }}", "{% if x %}", "a {# comment #}", "#jinja2: x"])
def test_the_stages_are_known_whatever_a_role_is_told(tmp_path: Path, text: str) -> None:
    """Data in the playbook is marked for Ansible alone."""
    roles = [{"name": "late", "path": "/late", "variables": json.dumps({"late_text": text})}]
    (tmp_path / "work.yml").write_text(yaml.safe_dump([{"name": "Health", "hosts": "health"}]))
    composed, plays = player.with_own_roles(tmp_path, tmp_path / "work.yml", roles)
    assert "!unsafe" in composed.read_text()
    hosts: dict[str, Any] = {"all": {"children": {"late": {}, "health": {}}}}
    assert player.stages(plays, hosts) == ["late", "Health"]


def test_own_roles_are_found_by_name_whatever_their_folder_is_called(tmp_path: Path) -> None:
    """Ansible would take braces in a path for a template, and a colon for its end."""
    player.with_own_roles(tmp_path, playbooks_dir() / "site.yml", ROLES)
    assert (tmp_path / "roles" / "late").readlink() == Path("/a {{ b }}/late")
    assert player.environment(tmp_path, Path("/p"), False, 3)["ANSIBLE_ROLES_PATH"] == f"/p/roles:{tmp_path}/roles"


def test_without_own_roles_the_playbook_is_ours(tmp_path: Path) -> None:
    """The playbook is used unchanged, so that `ansible-playbook` by hand does the same."""
    site = playbooks_dir() / "site.yml"
    assert player.with_own_roles(tmp_path, site, []) == (site, yaml.safe_load(site.read_text()))


def test_plays_without_hosts_do_not_count_as_stages(tmp_path: Path) -> None:
    """Progress counts only the plays with hosts."""
    playbook = tmp_path / "site.yml"
    playbook.write_text(
        yaml.safe_dump([{"name": n, "hosts": h} for n, h in (("A", "all"), ("B", "base"), ("C", "storage"))])
    )
    assert player.stages(yaml.safe_load(playbook.read_text()), inventory()) == ["A", "B"]


ENDED = {"failures": {"one": 1}, "dark": {"two": 1}}


def test_events_become_few_and_small() -> None:
    """A task reports its progress, a failure its reason; other events are dropped."""
    translate = player.Translator(["Base", "Fabric"], check=False)
    events = [
        {"event": "playbook_on_play_start", "event_data": {"name": "Fabric"}},
        {"event": "playbook_on_task_start", "event_data": {"role": "fabric", "task": "Do"}},
        {"event": "runner_on_ok", "event_data": {"host": "one"}},
        {
            "event": "runner_on_failed",
            "event_data": {"host": "one", "role": "fabric", "task": "Do", "res": {"msg": "no"}},
        },
        {"event": "runner_on_failed", "event_data": {"host": "two", "task": "Do", "res": {}, "ignore_errors": True}},
        {"event": "runner_on_unreachable", "event_data": {"host": "two", "task": "Do", "res": {"msg": "gone"}}},
        {
            "event": "playbook_on_stats",
            "event_data": {"processed": {"one": 1, "two": 1}, "changed": {"one": 3}} | ENDED,
        },
    ]
    lines = [line for event in events for line in translate.events(event)]
    assert lines == [
        {"event": "task", "role": "fabric", "task": "Do", "stage": 2, "stages": 2},
        {"event": "failure", "host": "one", "task": "fabric : Do", "message": "no"},
        {"event": "failure", "host": "two", "task": "", "message": "gone"},
    ]
    assert translate.end(False) == {
        "event": "end",
        "hosts": 2,
        "changed": 3,
        "finished": False,
        "failed": ["one", "two"],
    }


def test_a_task_that_no_host_needs_is_told() -> None:
    """It is reported as skipped at its end, unless one of the hosts needs it."""
    translate = player.Translator(["Storage"], check=False)
    start = {"event": "playbook_on_task_start", "event_data": {"role": "storage", "task": "See"}}
    skipped, ok = ({"event": f"runner_on_{kind}", "event_data": {"host": "one"}} for kind in ("skipped", "ok"))
    end = {"event": "playbook_on_stats", "event_data": ENDED}
    asked = [start, skipped, skipped, start, skipped, ok, start, start, skipped, end]
    kinds = [line["event"] for event in asked for line in translate.events(event)]
    assert kinds == ["task", "skipped", "task", "task", "task", "skipped"]


def test_nodes_that_start_anew_are_told_together() -> None:
    """They are reported once, after all were asked; other nodes are not among them."""
    translate = player.Translator(["Reboot"], check=False, mask=lambda text: text.replace("s3cret", "***"))
    facts: list[tuple[str, dict[str, Any]]] = [
        ("one", {"needed": True, "why": "driver: s3cret"}),
        ("two", {"needed": False, "why": ""}),
        ("three", {"needed": True, "why": "efa"}),
    ]
    asked = [
        {"event": "runner_on_ok", "event_data": {"host": host, "res": {"ansible_facts": {"pending_reboot": fact}}}}
        for host, fact in facts
    ]
    start = {"event": "playbook_on_task_start", "event_data": {"role": "reboot", "task": "Start"}}
    lines = [line for event in [start, *asked, start, start] for line in translate.events(event)]
    task = {"event": "task", "role": "reboot", "task": "Start", "stage": 0, "stages": 1}
    assert lines == [task, {"event": "restarts", "why": {"one": "driver: ***", "three": "efa"}}, task, task]


def test_a_look_says_what_would_change_and_what_hosts_say() -> None:
    """A change is described by the module, or by the task's name if its result is hidden."""
    translate = player.Translator(["Base"], check=True)
    results = [
        {"changed": True, "drift": ["/etc/hosts differs"], "diff": [{"before": "s3cret"}]},
        {"changed": True, "censored": "the output has been hidden"},
        {"changed": False, "ansible_facts": {"node_facts": {"cores": 4}}},
        {"changed": False},
    ]
    data = [{"host": "one", "role": "base", "task": "Do", "res": result} for result in results]
    events = [{"event": "playbook_on_play_start", "event_data": {"name": "Base"}}]
    events += [{"event": "runner_on_ok", "event_data": each} for each in data]
    assert [line for event in events for line in translate.events(event)] == [
        {"event": "drift", "host": "one", "words": ["/etc/hosts differs"]},
        {"event": "drift", "host": "one", "words": ["base : Do would change something"]},
        {"event": "facts", "host": "one", "facts": {"cores": 4}},
    ]


RESCUE = """
- name: Base
  hosts: all
  gather_facts: false
  tasks:
    - block:
        - {ansible.builtin.fail: {msg: not here}, when: inventory_hostname != 'three'}
      rescue:
        - ansible.builtin.debug: {msg: then otherwise}
    - {ansible.builtin.fail: {msg: "lost with {{ key }}"}, when: inventory_hostname == failing}
"""


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("failing", "failed"), [("nobody", []), ("two", ["two"])])
def test_rescued_tasks_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], check: bool, failing: str, failed: list[str]
) -> None:
    """The recap of Ansible names the failed hosts; secrets in its text are masked."""
    (tmp_path / "play.yml").write_text(RESCUE)
    (tmp_path / "secrets.json").write_text('{"key": "s3cret-key"}')
    hosts = {name: {**HOST, "ansible_connection": "local"} for name in ("one", "two", "three")}
    player.prepare(tmp_path, {"all": {"vars": {"failing": failing}, "hosts": hosts}}, list(hosts))
    player.run(tmp_path, tmp_path / "play.yml", ["Base"], check, 1, sys.stdout)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[-1] == {"event": "end", "hosts": 3, "changed": 0, "finished": not failed, "failed": failed}
    said = {event["message"] for event in events if event["event"] == "failure"}
    assert said == {"not here", *(["lost with [secret]"] if failed else [])}
    assert not [event for event in events if event["event"] == "broken"]


def test_a_secret_is_masked_before_a_message_is_cut() -> None:
    """The rest of a secret at the cut could not be recognised any more."""
    mask = masking(["first-line\nsecond-line", "a"])
    text = "x" * (player.SAID_MAX - 3) + "second-line"
    assert player.message({"msg": text}, mask).startswith("x" * (player.SAID_MAX - 3) + "[se ...")
    assert player.message({"msg": "a first-line"}, mask) == "a [secret]"


def test_only_a_change_stops_everybody(tmp_path: Path) -> None:
    """A host that fails in a look does not stop the look at others."""
    assert player.environment(tmp_path, tmp_path, check=True, tries=1)["ANSIBLE_ANY_ERRORS_FATAL"] == "False"
    assert player.environment(tmp_path, tmp_path, check=False, tries=3)["ANSIBLE_ANY_ERRORS_FATAL"] == "True"


def test_a_tunnel_is_given_time(tmp_path: Path) -> None:
    """A machine that has just booted is known before its tunnel works. A check does not wait."""
    direct = Roster(cluster="one", cloud="aws", reach=(), user="root", identity_file="/key", members=())
    tunnel = connection(replace(direct, proxy=("aws", "ssm")))
    assert [player.tries(*each) for each in ((tunnel, False), (connection(direct), False), (tunnel, True))] == [8, 3, 1]
    assert player.environment(tmp_path, tmp_path, False, 8)["ANSIBLE_SSH_RETRIES"] == "8"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "no"}, "no"),
        ({"msg": "no", "stderr": "why"}, "no\nwhy"),
        ({"msg": "same", "stderr": "same"}, "same"),
        ({"msg": "All items", "results": [{"failed": True, "msg": "one"}, {"msg": "fine"}]}, "one\nAll items"),
        ({}, "it gave no reason"),
    ],
)
def test_a_message_is_found_wherever_a_module_put_it(result: dict[str, Any], text: str) -> None:
    """Every failure has a message."""
    assert player.message(result) == text


STRAY = """
import os, subprocess, sys, time
from stampworks.configuration import player, playbooks_dir
import ctypes
ctypes.CDLL(None).prctl(player.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
# a child that leaves its session, as ssh's masters do, and whose parent is gone
stray = "import subprocess as s; print(s.Popen(['sleep', '60'], start_new_session=True, stdout=s.DEVNULL).pid)"
subprocess.run([sys.executable, "-c", stray])
print(player.descendants(), flush=True)
player.end_descendants()
print(player.descendants(), flush=True)
"""


def test_detached_processes_are_ended() -> None:
    """ssh's connection masters leave session and parent: no run leaves one behind."""
    done = subprocess.run([sys.executable, "-c", STRAY], capture_output=True, text=True, timeout=30, check=True)
    stray, found, left = done.stdout.split("\n")[:3]
    assert json.loads(found) == [int(stray)]
    assert json.loads(left) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(stray), 0)


def test_the_player_ends_when_nobody_listens(tmp_path: Path) -> None:
    """A killed provider cannot leave an Ansible that keeps changing hosts."""
    folder = tmp_path / "folder"
    folder.mkdir()
    playbook = tmp_path / "wait.yml"
    playbook.write_text(
        "- {name: Wait, hosts: all, gather_facts: false, tasks: [{ansible.builtin.pause: {seconds: 600}}]}\n"
    )
    work = {"playbook": str(playbook), "inventory": inventory(), "hosts": ["one"], "check": False, "roles": []}
    (folder / "work.json").write_text(json.dumps(work))
    (folder / "secrets.json").write_text("{}")
    command = [sys.executable, "-m", "stampworks.configuration.player", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert json.loads(process.stdout.readline())["event"] == "task"
    process.stdin.close()
    assert process.wait(timeout=50) == 128 + signal.SIGTERM
    process.stdout.close()
    assert not folder.exists()  # the folder holds secrets
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _text(path)]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
