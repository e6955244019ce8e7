"""Processes started for the engine. None of them outlives this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

GRACE_SECONDS = 1.0
"""Seconds in which a child has to end by itself; the engine waits five seconds for this process."""

Stream = Literal["stdout", "stderr"]
Write = Callable[[Stream, bytes], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    """A process to start: arguments, folder and environment."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]


class Children:
    """Commands, each the leader of a process group, and their end."""

    def __init__(self) -> None:
        self._running: set[Process] = set()

    async def run(self, command: Command) -> int:
        """Run it on this process's streams, which the engine shows, and return its exit status."""
        async with self._started(command, output=None) as process:
            return await process.wait()

    async def stream(self, command: Command, write: Write) -> int:
        """Run it, pass on its output piece by piece, and return its exit status."""
        one_at_a_time = asyncio.Lock()

        async def pump(name: Stream, reader: asyncio.StreamReader) -> None:
            while piece := await reader.read(65536):
                async with one_at_a_time:
                    await write(name, piece)

        async with self._started(command, output=PIPE) as process:
            assert process.stdout  # noqa: S101  (for the type checker: both are pipes)
            assert process.stderr  # noqa: S101
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(pump("stdout", process.stdout))
                pumps.create_task(pump("stderr", process.stderr))
            return await process.wait()

    async def end(self) -> None:
        """End everything that runs."""
        await asyncio.gather(*(_end(process) for process in self._running))

    @contextlib.asynccontextmanager
    async def _started(self, command: Command, output: int | None) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec(
            *_leash(),
            *command.argv,
            cwd=command.cwd,
            env=dict(command.env),
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self._running.add(process)
        try:
            yield process
        finally:
            # Shielded: a cancelled call must still wait for the end of its process.
            await asyncio.shield(_end(process))
            self._running.discard(process)


def _leash() -> tuple[str, ...]:
    """Prefix of a command that ends with this process, even if that is killed: the engine waits for all of its clients.

    (A function run in the child first would need no other program, but crashes in a process with gRPC's threads.)
    """
    return ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()


async def _end(process: Process) -> None:
    """End the process group gently, then by force. Children may outlive a leader that has ended."""
    if process.returncode is None:
        _signal_group(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    _signal_group(process, signal.SIGKILL)
    await process.wait()


def _signal_group(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
