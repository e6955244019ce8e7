"""Processes that cannot be confused, files that are whole, locks that hold, commands that say why they failed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.machine_room import RoomError, commands, files
from stampworks.machine_room.commands import run, watch
from stampworks.machine_room.processes import Process, from_instance, identify

from tests.project import wait_for

HEADLESS = """
import os, socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
threading.Thread(target=time.sleep, args=(60,)).start()
import ctypes
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_number_and_start(sleeper: subprocess.Popen[bytes]) -> None:
    """The same number with another start time is another process: it counts as dead, and is not killed."""
    process = identify(sleeper.pid)
    assert process is not None
    assert process.alive
    assert from_instance(process.instance) == process
    other = Process(process.pid, process.start + 1)
    assert not other.alive
    other.end("here")
    assert sleeper.poll() is None


def test_a_zombie_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    """A killed process that was not reaped still has a number, but does nothing."""
    process = identify(sleeper.pid)
    assert process is not None
    process.end("here")
    assert not process.alive
    assert sleeper.returncode is None, "not waited for: it is a zombie now"


def test_remaining_threads_are_awaited() -> None:
    """A multi-threaded program looks dead when its first thread is, and holds its port until the last thread ends."""
    with subprocess.Popen([sys.executable, "-c", HEADLESS], stdout=subprocess.PIPE, text=True) as headless:
        assert headless.stdout
        port = int(headless.stdout.readline())
        process = identify(headless.pid)
        assert process is not None
        wait_for(lambda: not process.alive, 10)
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port)).close()
        process.end("here")
        socket.create_server(("127.0.0.1", port)).close()


def test_a_stopped_process_is_frozen(sleeper: subprocess.Popen[bytes]) -> None:
    """A frozen process is alive."""
    process = identify(sleeper.pid)
    assert process is not None
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    assert process.alive
    assert process.frozen


@pytest.mark.parametrize("text", ["", "12", "-", "a-b", "12-"])
def test_invalid_instances_have_no_process(text: str) -> None:
    """A record cut short means nothing."""
    assert from_instance(text) is None


def test_free_pid_has_no_identity() -> None:
    """A free number has no identity."""
    assert identify(2**22 + 1) is None


def test_a_file_has_the_mode_asked_for(tmp_path: Path) -> None:
    """The umask of the caller does not matter, and no temporary file is left."""
    before = os.umask(0o077)
    try:
        files.write(tmp_path / "open", "text", 0o644)
        files.write(tmp_path / "open", "other text", 0o644)
    finally:
        os.umask(before)
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["open"]
    assert (tmp_path / "open").read_text() == "other text"


def test_a_lock_keeps_others_out_even_when_its_file_is_removed(tmp_path: Path) -> None:
    """Threads take turns. A holder that removes the file does not admit two others."""
    lock, inside, most = tmp_path / "lock", 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with files.locked(lock, "here", timeout=30):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1
                lock.unlink()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert most == 1


def test_a_lock_that_does_not_come_free_says_who_to_ask(tmp_path: Path) -> None:
    """Bounded, announced once, and with the command that finds the holder."""
    lock, said = tmp_path / "lock", []
    with (
        files.locked(lock, "here", timeout=1),
        pytest.raises(RoomError) as refused,
        files.locked(lock, "here", timeout=0.1, busy=lambda: said.append("busy")),
    ):
        pass
    assert said == ["busy"]
    assert str(refused.value) == (
        f"here: another command is at work here: it did not finish within 0.1 s\n  hint: see: fuser -v {lock}"
    )


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    """This holds for any end of the holder."""
    program = (
        "import sys, time; from pathlib import Path; from stampworks.machine_room.files import locked\n"
        "with locked(Path(sys.argv[1]), 'there', 5): print('locked', flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        holder.kill()
    with files.locked(tmp_path / "lock", "here", timeout=5):
        pass


def test_a_command_that_fails_says_what_it_said() -> None:
    """The error has place, step, and the program's last output."""
    with pytest.raises(RoomError) as failed:
        run(["sh", "-c", "echo no such thing >&2; exit 3"], "here", "cannot do it", timeout=60)
    assert str(failed.value) == "here: cannot do it: no such thing"


def test_a_command_that_fails_silently_says_its_code() -> None:
    """Better than nothing at all."""
    with pytest.raises(RoomError, match=r"^here: cannot do it: sh ended with 3$"):
        run(["sh", "-c", "exit 3"], "here", "cannot do it", timeout=60)


def test_a_command_that_hangs_is_ended() -> None:
    """The error has the time limit."""
    with pytest.raises(
        RoomError, match=r"^here: cannot wait: sleep did not finish within 0\.1 s\n  hint: run the same"
    ):
        run(["sleep", "60"], "here", "cannot wait", timeout=0.1)


def test_a_missing_program_comes_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names Debian's package and the command that installs it."""
    monkeypatch.setattr(commands, "ENVIRONMENT", {"PATH": "/nowhere"})
    with pytest.raises(RoomError) as missing:
        run(["mmdebstrap"], "node image", "cannot install Debian", timeout=60)
    assert str(missing.value) == (
        "node image: cannot install Debian: the program mmdebstrap is missing\n"
        "  hint: as root: apt-get install mmdebstrap"
    )


@pytest.mark.cluster
def test_a_watched_command_is_heard_line_by_line() -> None:
    """Output is delivered line by line while the program runs; its exit status decides."""
    said: list[str] = []
    watch(["sh", "-c", "echo one; echo two >&2"], "here", "cannot", said.append, timeout=60)
    assert sorted(said) == ["one", "two"]
    with pytest.raises(RoomError, match=r"^here: cannot: one$"):
        watch(["sh", "-c", "echo one; exit 1"], "here", "cannot", said.append, timeout=60)
    with pytest.raises(RoomError, match=r"^here: cannot: sh did not finish within 0\.2 s\n  hint: run the same"):
        watch(["sh", "-c", "sleep 60 & wait"], "here", "cannot", said.append, timeout=0.2)


@pytest.mark.cluster
def test_a_watched_command_ends_with_its_caller(tmp_path: Path) -> None:
    """A killed caller leaves no process, not even one that its command left."""
    mark = f"60.{time.monotonic_ns()}"
    program = (
        "import sys; from stampworks.machine_room.commands import watch\n"
        "watch(['sh', '-c', sys.argv[1]], 'there', 'cannot', lambda line: print(line, flush=True), timeout=60)"
    )
    argv = [sys.executable, "-c", program, f"sleep {mark} & echo started; wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "started\n"
        wait_for(lambda: _running(mark), 10)  # the shell prints it before its child's exec
        caller.kill()
    wait_for(lambda: not _running(mark), 10)


def _running(mark: str) -> bool:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if process.read_bytes().startswith(b"sleep\0" + mark.encode()):
                return True
        except OSError:
            continue
    return False
