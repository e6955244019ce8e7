"""Running a playbook: progress, errors, and no remains."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stampworks.configuration import (
    CheckModeResult,
    PlaybookFailed,
    Recap,
    TaskFailure,
    look,
    play,
    playbooks_digest,
    playbooks_dir,
    run,
    sources,
)

INVENTORY: dict[str, Any] = {"all": {"vars": {}, "hosts": {}, "children": {}}}


def stand_in(tmp_path: Path, code: str) -> tuple[str, ...]:
    """A reach that runs this code in the player's place; it sees the player's folder as sys.argv[-1]."""
    script = tmp_path / "player.py"
    script.write_text(f"import json, os, sys, time\ndef say(**event): print(json.dumps(event), flush=True)\n{code}")
    return (sys.executable, str(script))


def run_play(reach: Sequence[str], **more: Any) -> tuple[Recap, list[str]]:
    lines: list[str] = []
    return asyncio.run(play("site.yml", INVENTORY, reach, {"key": "s3cret"}, lines.append, **more)), lines


END = "say(event='end', hosts=2, changed=3, finished=True, failed=[])\n"
TASK = "say(event='task', role='base', task='Make users', stage=3, stages=9)\n"


def test_progress_and_recap(tmp_path: Path) -> None:
    """Each task prints a line with the progress."""
    recap, lines = run_play(stand_in(tmp_path, TASK + END))
    assert (recap, lines) == (Recap(2, 3, ()), ["base : Make users (3 of 9)"])


def test_nodes_that_start_anew_are_counted(tmp_path: Path) -> None:
    """They are counted before their restart, with a reason of the node, whose control characters are removed."""
    why = {"gpu-001": "driver: 570.1 is loaded", "gpu-003": "efa: \x1b[2Jnone", "gpu-002": "driver: 570.1 is loaded"}
    _, lines = run_play(stand_in(tmp_path, f"say(event='restarts', why={why!r})\n" + TASK + END))
    assert lines == [
        "3 nodes will reboot: gpu-[001-002]: driver: 570.1 is loaded; gpu-003: efa: \\x1b[2Jnone",
        "base : Make users (3 of 9)",
    ]


def test_a_task_that_no_host_needs_has_no_line(tmp_path: Path) -> None:
    """It is skipped at once. A slow task has its line while it runs."""
    lustre = TASK.replace("Make users", "See Lustre")
    _, lines = run_play(stand_in(tmp_path, lustre + "say(event='skipped')\n" + TASK + END))
    assert lines == ["base : Make users (3 of 9)"]
    with pytest.raises(PlaybookFailed, match="in base : Make users"):
        asyncio.run(
            play(
                "site.yml",
                INVENTORY,
                stand_in(tmp_path, TASK + "time.sleep(60)"),
                {},
                lines.append,
                timeout_minutes=0.03,
            )
        )
    assert lines[1:] == ["base : Make users (3 of 9)"]


def test_secrets_are_in_a_file_that_is_gone_afterwards(tmp_path: Path) -> None:
    """Neither a file nor a command line shows the secrets afterwards."""
    seen = tmp_path / "seen"
    code = (
        "folder = sys.argv[-1]\n"
        "import stat; mode = stat.S_IMODE(os.stat(folder + '/secrets.json').st_mode)\n"
        f"open({str(seen)!r}, 'w').write(f'{{folder}} {{mode:o}} {{\"s3cret\" in str(sys.argv)}}')\n"
    )
    run_play(stand_in(tmp_path, code + END))
    folder, mode, on_command_line = seen.read_text().split()
    assert (mode, on_command_line) == ("600", "False")
    assert not Path(folder).exists()


def test_all_failures_are_in_one_message() -> None:
    """Hosts with the same failure share a line; an unreachable host has hints."""
    failures = (
        TaskFailure("gpu-001", "base : Make users", "user alice: uid 2001 is taken\nby bob"),
        TaskFailure("gpu-002", "base : Make users", "user alice: uid 2001 is taken\nby bob"),
        TaskFailure("gpu-003", "", "No route to host"),
    )
    assert str(PlaybookFailed("site.yml", Recap(4, 1, failures))) == (
        "site.yml failed on 3 hosts.\n"
        "  gpu-001, gpu-002: base : Make users\n"
        "    user alice: uid 2001 is taken\n"
        "    by bob\n"
        "  gpu-003: cannot be reached\n"
        "    No route to host\n"
        "    check: does the node run (stampworks status), and does it answer (stampworks ssh NODE)?\n"
        "Finished tasks stay finished; the next run continues from there."
    )


def test_a_failure_fails_the_run(tmp_path: Path) -> None:
    """The error contains the recap of finished work."""
    code = (
        "say(event='failure', host='one', task='base : Do', message='no')\n"
        "say(event='end', hosts=1, changed=2, finished=False, failed=['one'])"
    )
    with pytest.raises(PlaybookFailed, match=r"site\.yml failed on 1 host\.\n  one: base : Do\n    no") as caught:
        run_play(stand_in(tmp_path, code))
    assert caught.value.recap == Recap(1, 2, (TaskFailure("one", "base : Do", "no"),))


def test_rescued_hosts_are_no_failure(tmp_path: Path) -> None:
    """The player reports at the end which hosts failed for good; rescued hosts do not count."""
    rescued = "say(event='failure', host='one', task='mine : Try', message='no')\n" + END
    assert run_play(stand_in(tmp_path, rescued))[0] == Recap(2, 3, ())
    assert run_look(stand_in(tmp_path, rescued)) == CheckModeResult()


def test_a_player_that_breaks_says_why(tmp_path: Path) -> None:
    """The message contains its last output."""
    with pytest.raises(PlaybookFailed, match=r"site\.yml failed: .*no such interpreter"):
        run_play(stand_in(tmp_path, "sys.exit('no such interpreter')"))


def test_last_words_are_cut_after_secrets_are_taken_out(tmp_path: Path) -> None:
    """The rest of a secret at the cut could not be recognised any more."""
    code = f"sys.exit('s3cret' + 'x' * {run.LAST_WORDS_MAX - 3})"
    with pytest.raises(PlaybookFailed, match=r"failed: et\]xxx"):
        run_play(stand_in(tmp_path, code))


def run_look(reach: Sequence[str], **more: Any) -> CheckModeResult:
    return asyncio.run(look("site.yml", INVENTORY, ["one"], reach, {}, lambda _: None, **more))


def test_a_look_brings_what_it_saw_and_what_it_could_not_see(tmp_path: Path) -> None:
    """A failing host is an additional finding, and not the end."""
    code = (
        "work = json.load(open(sys.argv[-1] + '/work.json'))\n"
        "say(event='drift', host='one', words=['/etc/hosts differs', str(work['check']), *work['hosts']])\n"
        "say(event='facts', host='one', facts={'cores': 4})\n"
        "say(event='failure', host='two', task='', message='gone')\n"
        "say(event='end', hosts=2, changed=1, finished=False, failed=['two'])"
    )
    assert run_look(stand_in(tmp_path, code)) == CheckModeResult(
        drift=(("one", "/etc/hosts differs"), ("one", "True"), ("one", "one")),
        facts={"one": {"cores": 4}},
        failures=(TaskFailure("two", "", "gone"),),
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (TASK, "it ended without a result"),
        ("sys.exit('no such interpreter')", "no such interpreter"),
        (TASK + "sys.stdin.read()", "stopped after 0.01 minutes, its limit, in base : Make users"),
    ],
)
def test_a_look_that_breaks_says_why(tmp_path: Path, code: str, why: str) -> None:
    """A failed check raises no error: the result is unknown, and the caller decides."""
    assert run_look(stand_in(tmp_path, code), timeout_minutes=0.01) == CheckModeResult(broken=why)


@pytest.mark.parametrize("code", ["print('x' * 40_000_000)", "print('no event')", "print('[' * 100_000)"])
def test_invalid_events_end_the_run(tmp_path: Path, code: str) -> None:
    """A line that is too long, or is not JSON, is reported as an error."""
    with pytest.raises(PlaybookFailed, match="the player sent a line that is not an event of at most 16777216 bytes"):
        run_play(stand_in(tmp_path, code))


def test_a_message_obeys_nobody(tmp_path: Path) -> None:
    """Messages of nodes and of Ansible reach a terminal as text only."""
    code = "say(event='failure', host='one', task='a : b', message='x\\x1b[2J\\ny')\nsay(event='broken', text='\\x07')"
    with pytest.raises(PlaybookFailed) as caught:
        run_play(stand_in(tmp_path, code))
    assert str(caught.value).splitlines()[:4] == [
        r"site.yml failed on 1 host: \x07",
        "  one: a : b",
        r"    x\x1b[2J",
        "    y",
    ]


def test_silence_is_not_success(tmp_path: Path) -> None:
    """A player that ends without its recap has not done its work."""
    with pytest.raises(PlaybookFailed):
        run_play(stand_in(tmp_path, TASK))


def test_a_run_is_bounded(tmp_path: Path) -> None:
    """A slow run is ended and reports its last task."""
    text = r"site\.yml failed: stopped after 0\.01 minutes, its limit, in base : Make users"
    with pytest.raises(PlaybookFailed, match=text):
        run_play(stand_in(tmp_path, TASK + "sys.stdin.read()"), timeout_minutes=0.01)


def test_cancelling_ends_the_player(tmp_path: Path) -> None:
    """No process survives a cancel, not even a player that ignores signals."""
    pid_file = tmp_path / "pid"
    code = f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n{TASK}time.sleep(600)"
    reach = stand_in(tmp_path, code)

    async def cancel_in_the_middle() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(play("site.yml", INVENTORY, reach, {}, lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "FAREWELL_S", 0.2)
        asyncio.run(asyncio.wait_for(cancel_in_the_middle(), 120))
    assert not Path(f"/proc/{pid_file.read_text()}").exists()


def test_the_folder_of_sockets_has_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unix socket's path may have 107 characters, wherever TMPDIR points."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with run.private_folder() as folder:
        assert len(str(folder)) < run.SOCKET_FOLDER_MAX
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_the_users_ansible_and_ssh_settings_do_not_reach_the_player(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same playbook does the same for all users."""
    for name in ("ANSIBLE_FORKS", "SSH_AUTH_SOCK", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    assert not {"ANSIBLE_FORKS", "SSH_AUTH_SOCK", "PYTHONPATH"} & set(run.player_environment())


def test_the_playbooks_are_there_and_have_a_digest() -> None:
    """An edited playbook changes the digest; the same files give the same digest."""
    assert (playbooks_dir() / "site.yml").is_file()
    assert playbooks_digest() == playbooks_digest()


def test_the_digest_sees_every_file_but_prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a run does not read do not make it run again."""
    monkeypatch.setattr(sources, "playbooks_dir", lambda: tmp_path)
    (tmp_path / "site.yml").write_text("a")
    before = playbooks_digest()
    (tmp_path / "README.md").write_text("prose")
    assert playbooks_digest() == before
    (tmp_path / "other.yml").write_text("b")
    assert playbooks_digest() != before


@pytest.mark.parametrize("program", ["validation/pairs.py", "training/settings.py"])
def test_the_digest_sees_the_programs_that_nodes_run(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed program reaches the nodes by the next `up`, and needs no new image."""
    for folder in ("playbooks", "workloads"):
        shutil.copytree(playbooks_dir().parent / folder, tmp_path / folder)
    monkeypatch.setattr(sources, "playbooks_dir", lambda: tmp_path / "playbooks")
    before = playbooks_digest(), sources.install_digest()
    append(tmp_path / "workloads" / program)
    assert playbooks_digest() != before[0]
    assert sources.install_digest() == before[1]


def test_only_what_installs_decides_on_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new image means new nodes: edits of the configure part, or of a module that only it uses, must not change the
    image."""
    shutil.copytree(playbooks_dir(), tmp_path / "playbooks")
    monkeypatch.setattr(sources, "playbooks_dir", lambda: tmp_path / "playbooks")
    modules = tmp_path / "playbooks/collections/ansible_collections/stampworks/node/plugins/modules"
    before = sources.install_digest()
    for configures in ("roles/base/tasks/configure.yml", "roles/base/README.md", "site.yml"):
        append(tmp_path / "playbooks" / configures)
    append(modules / "slurm_controller.py")
    assert sources.install_digest() == before
    for installs in (
        tmp_path / "playbooks/roles/base/tasks/install.yml",
        tmp_path / "playbooks/roles/metrics/tasks/service.yml",
        tmp_path / "playbooks/roles/health/files/stampworks-health",
        modules / "files.py",
        modules / "service_unit.py",
    ):
        append(installs)
        assert sources.install_digest() != before
        before = sources.install_digest()


def append(file: Path) -> None:
    file.write_text(file.read_text() + "# edited\n")
