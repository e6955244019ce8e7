"""A random kill during an operation: the next operation repairs its effects."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.stack import content

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = [pytest.mark.cluster, pytest.mark.long]

VICTIMS = ("engine", "language host", "program", "plugin", "node", "head")
OPERATIONS = ("up", "update", "destroy")
PROGRAMS = {"language host": "tools.language_host", "program": "--monitor", "plugin": "stampworks.provider"}
NODES = {"node": "gpu-001", "head": "head"}
LONGEST_S = 12.0
"""Later than this most operations have ended, and nothing would be killed."""


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    stack.up()
    return stack


@pytest.mark.parametrize("_", [pytest.param(number, marks=[pytest.mark.long] * (number >= 2)) for number in range(10)])
def test_a_kill_at_any_moment_is_put_right(stamped: Stack, _: int) -> None:
    """Nothing is left over or created twice, and no process outlives its engine."""
    stack = stamped
    operation, victim, moment_s = draw()
    said = f"{victim} killed {moment_s:.2f} s into {operation}:\n"
    said += interrupted(stack, operation, victim, moment_s)
    assert lingering(stack) == [], said
    if operation == "destroy" or random.random() < 0.5:  # noqa: S311 (no secret)
        said += unlocked(stack, "destroy")
        assert stack.resources() == {}, said
        assert stack.traces() == [], said
    said += unlocked(stack, "up")
    assert "12 unchanged" in stack.preview(), said
    found = stack.nodes()
    assert {name: node["state"] for name, node in found.items()} == dict.fromkeys(("head", *workers(stack)), "up"), said
    assert first_processes(stack) == sorted(node["pid"] for node in found.values()), said


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_an_up(stamped: Stack, times: int) -> None:
    """The first Ctrl-C ends running operations cleanly, with a correct state; the second ends them at once. `up`
    continues."""
    unlocked(stamped, "destroy")
    before = pending(stamped)  # an earlier kill may have left some, which a destroy keeps
    said = typed(stamped, "stampworks:local:LocalGroup", "\x03" * times)
    assert lingering(stamped) == [], said
    if times == 1:
        assert "the stack is currently locked" not in stamped.run("stack", "export").stdout
        assert f"LocalRoom {stamped.cluster}" in stamped.resources(), said
        assert pending(stamped) <= before, said
    unlocked(stamped, "up")
    assert "12 unchanged" in stamped.preview(), said


def pending(stack: Stack) -> set[str]:
    """Return the operations that the state has as begun and not ended."""
    deployment = json.loads(stack.run("stack", "export").stdout)["deployment"]
    return {each["resource"]["urn"] for each in deployment.get("pending_operations") or ()}


def typed(stack: Stack, cue: str, keys: str) -> str:
    """Run `pulumi up` on a terminal, type the keys after the cue, and return all output."""
    engine, terminal = pty.fork()
    if engine == 0:
        os.chdir(stack.folder)
        os.execvpe("pulumi", ["pulumi", "up", "--yes", "--skip-preview"], stack.environment())  # noqa: S606
    said = read(terminal, cue)
    for key in keys:
        os.write(terminal, key.encode())
        time.sleep(0.5)
    said += read(terminal, "")
    os.close(terminal)
    os.waitpid(engine, 0)
    return said


def read(terminal: int, cue: str) -> str:
    """Return the output until the cue; without a cue, until all processes have left the terminal."""
    said, deadline = "", time.monotonic() + 300
    while not cue or cue not in said:
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], said
        try:
            said += os.read(terminal, 1 << 16).decode(errors="replace")
        except OSError:
            break
    return said


def draw() -> tuple[str, str, float]:
    return random.choice(OPERATIONS), random.choice(VICTIMS), random.uniform(0, LONGEST_S)  # noqa: S311


def workers(stack: Stack) -> list[str]:
    (count,) = re.findall(r"count: (\d)", stack.file.read_text())
    return [f"gpu-{number:03}" for number in range(1, int(count) + 1)]


def interrupted(stack: Stack, operation: str, victim: str, moment_s: float) -> str:
    """Start the operation, kill the victim at its moment or when it appears, and return the output."""
    if operation == "up":
        unlocked(stack, "destroy")
    if operation == "update":
        count = len(workers(stack))
        stack.edit(f"count: {count}", f"count: {count % 2 + 1}")
    with stack.started("destroy" if operation == "destroy" else "up", "--yes", "--skip-preview") as engine:
        until = time.monotonic() + moment_s
        while time.monotonic() < until and engine.poll() is None:
            time.sleep(0.01)
        while engine.poll() is None:
            if (pid := find(stack, victim, engine.pid)) and kill(pid):
                break
            time.sleep(0.01)
        said, _ = engine.communicate(timeout=300)
    return said


def find(stack: Stack, victim: str, engine: int) -> int:
    """The number of the process, 0 while it is not there."""
    if victim == "engine":
        return engine
    if victim in NODES:
        record = content(stack.state / "rooms" / stack.cluster / "nodes" / NODES[victim] / "process")
        return int(record.partition(b"-")[0] or 0)
    program = PROGRAMS[victim].encode()
    ours = [pid for pid in ours_of(stack) if program in told(pid, "cmdline")]
    return ours[0] if ours else 0


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def ours_of(stack: Stack) -> Iterator[int]:
    """Return all processes of an operation on this stack, by their environment; the room's processes are not among
    them."""
    mark = f"STAMPWORKS_STATE={stack.state}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        if mark in told(int(entry.name), "environ"):
            yield int(entry.name)


def told(pid: int, file: str) -> bytes:
    """Return a file of /proc of a process; empty when it has ended."""
    return content(Path(f"/proc/{pid}/{file}"))


def lingering(stack: Stack) -> list[bytes]:
    """Return remaining processes of an ended operation, after a moment in which they could notice."""
    deadline = time.monotonic() + 20
    while found := [told(pid, "cmdline") for pid in ours_of(stack)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return found


def unlocked(stack: Stack, verb: str) -> str:
    """Run an operation that must pass, after the command that its message recommends if an earlier one was killed."""
    done = stack.run(verb, "--yes", "--skip-preview")
    said = done.stdout
    if "the stack is currently locked" in said:
        assert "pulumi cancel" in said
        stack.run("cancel", "--yes")
        done = stack.run(verb, "--yes", "--skip-preview")
        said += done.stdout
    assert done.returncode == 0, said
    return said


def first_processes(stack: Stack) -> list[int]:
    """Return the first processes of nodes, as the room and the host know them."""
    outer = int((stack.state / "rooms" / stack.cluster / "process").read_text().split("-")[0])
    children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return sorted(int(pid) for pid in children if told(int(pid), "comm") == b"runsvdir\n")
