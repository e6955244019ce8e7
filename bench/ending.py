"""The end of a benchmark, even an interrupted one: commands finish, and clusters are removed with their room."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

INTERRUPTED_S = 60.0
"""Seconds of an interrupted command: the engine waits for running operations of its plugin."""
SWEEP_S = 300
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_to_end(
    argv: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    stderr: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a command; an interrupt is passed on to it, and its end is waited for."""
    with started(argv, folder, environment, stderr) as process:
        out, err = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextlib.contextmanager
def started(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], stderr: int | None
) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a separate session, so that a terminal's Ctrl-C reaches it once, through this process."""
    process: subprocess.Popen[str] | None = None
    try:
        with undisturbed():  # an interrupt could otherwise come before the record of the start
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        yield process
    except BaseException:
        if process:
            with undisturbed():
                _interrupt(process)
        raise
    process.wait()


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Ask a command to end, and kill all of its session after a while."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=INTERRUPTED_S)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(entry.name)) == process.pid:
                os.kill(int(entry.name), signal.SIGKILL)
    process.communicate()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold interrupts back until the end. Commands that are started meanwhile do not inherit this."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            raise KeyboardInterrupt


@contextlib.contextmanager
def room_for_one() -> Iterator[Path]:
    """Make a folder for the state of a cluster, and remove both in any case.

    A complete benchmark has destroyed the cluster; after an error or an interrupt it is removed like the room of a lost
    stack. A folder whose room cannot be removed stays, because it is needed to find the room.
    """
    folder = Path(tempfile.mkdtemp(prefix="sw-bench-"))
    try:
        yield folder
    finally:
        with undisturbed():
            _sweep(folder / "state")
            shutil.rmtree(folder, ignore_errors=True)


def _sweep(state: Path) -> None:
    rooms = state / "rooms"
    for room in sorted(each for each in rooms.iterdir() if each.is_dir()) if rooms.is_dir() else ():
        words = [sys.executable, "-m", "stampworks.cli.main", "sweep", room.name, "--yes"]
        environment = {**os.environ, "STAMPWORKS_STATE": str(state)}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=SWEEP_S, check=False, start_new_session=True
        )
        if done.returncode:
            raise SystemExit(f"{room}: is still there\n{done.stdout}{done.stderr}")
