"""Commands of an interrupted benchmark end themselves, or are ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import ending
from tests.project import wait_for

POLITE = "trap 'echo asked > said; exit 3' INT; echo begun > begun; while :; do sleep 0.05; done"
STUBBORN = "trap '' INT; setsid -w true; sleep 600 & echo $! > begun.part; mv begun.part begun; wait; sleep 600"


def state(pid: int) -> str:
    """Return the letter of a process's state; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A process that runs tests beside others ignores the interrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(folder: Path, command: str) -> None:
    """Run a command that this process is interrupted in."""

    def interrupt() -> None:
        while not (folder / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ending.run_to_end(["sh", "-c", command], folder, os.environ, 60)
    thread.join()


def test_an_interrupt_is_passed_on_and_the_end_waited_for(tmp_path: Path) -> None:
    interrupted(tmp_path, POLITE)
    assert (tmp_path / "said").read_text() == "asked\n"


def test_a_command_that_does_not_end_is_killed_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "INTERRUPTED_S", 0.2)
    interrupted(tmp_path, STUBBORN)
    pid = int((tmp_path / "begun").read_text())
    wait_for(lambda: state(pid) in ("", "Z"), 30)  # the signal has been sent, and takes its moment


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        ending.run_to_end(["sh", "-c", POLITE], tmp_path, os.environ, 1)
    assert (tmp_path / "said").exists()


def test_nothing_is_interrupted_while_a_cluster_is_taken_down() -> None:
    """A second Ctrl-C is delivered only after the cluster is down."""
    done = []

    def take_down() -> None:
        with ending.undisturbed():
            for number in ending.SIGNALS:
                os.kill(os.getpid(), number)
            time.sleep(0.05)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        take_down()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_folder_goes_whatever_happens() -> None:
    place = ending.room_for_one()
    folder = place.__enter__()
    (folder / "state").mkdir()
    assert not place.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not folder.exists()


def test_a_folder_stays_where_its_room_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is needed to find the room again."""
    refused = subprocess.CompletedProcess([], 1, "", "the room does not end")
    place = ending.room_for_one()
    folder = place.__enter__()
    (folder / "state" / "rooms" / "bench").mkdir(parents=True)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(SystemExit, match="the room does not end"):
        place.__exit__(None, None, None)
    assert folder.exists()
    shutil.rmtree(folder)
