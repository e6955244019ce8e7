"""Runs a playbook in a process of its own and reports what it did while it does it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stampworks.configuration.sources import playbooks_dir
from stampworks.text.amounts import counted
from stampworks.text.names import fold
from stampworks.text.printable import masking, printable, printable_lines

OnProgress = Callable[[str], Awaitable[None] | None]
SOCKET_FOLDER_MAX = 40
"""A unix socket's path holds 107 characters, and ssh adds a name and a suffix of its own."""
FAREWELL_S = 10
LAST_WORDS_MAX = 2000
EVENT_BYTES_MAX = 2**24
"""One event is one line, of which most is what one node said in one answer; bounded-ssh lets through a part of this."""


@dataclass(frozen=True)
class TaskFailure:
    host: str
    task: str
    """role : task, as Ansible shows it; empty when the host was never reached."""
    message: str


@dataclass(frozen=True)
class Recap:
    hosts: int
    changed: int
    """Tasks that changed something, summed over the hosts."""
    failures: tuple[TaskFailure, ...]


@dataclass(frozen=True)
class CheckModeResult:
    """What a playbook in check mode saw on its hosts: nothing of it was changed."""

    drift: tuple[tuple[str, str], ...] = ()
    """(host, what is not as its task says), in words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """By host, what it says of itself. Nobody has checked it."""
    failures: tuple[TaskFailure, ...] = ()
    """Where a look was not possible; what comes after on the same host was not looked at either."""
    broken: str = ""
    """Why the look as a whole did not come to its end."""


class PlaybookFailed(Exception):  # noqa: N818 (reads as what happened)
    """A playbook did not reach its end; the text names every host that failed, where and why."""

    def __init__(self, playbook: str, recap: Recap, note: str = "") -> None:
        self.recap = recap
        super().__init__(describe(playbook, recap, note))


async def play(
    playbook: str,
    inventory: Mapping[str, Any],
    reach: Sequence[str],
    secrets: Mapping[str, str],
    on_progress: OnProgress,
    timeout_minutes: float = 30,
    roles: Sequence[Mapping[str, str]] = (),
    hosts: Collection[str] | None = None,
) -> Recap:
    """Runs one of our playbooks to its end, on all hosts or some; raises PlaybookFailed with all that went wrong.

    The roles are the user's own ({name, path, variables}), which run where the playbook has a place for them.
    """
    everywhere = inventory["all"]["hosts"]
    work = _Work(playbook, inventory, tuple(everywhere if hosts is None else hosts), check=False, roles=tuple(roles))
    state = await _run(work, reach, secrets, on_progress, timeout_minutes)
    if state.failures or state.broken or not state.finished:
        raise PlaybookFailed(playbook, state.recap(), state.broken)
    return state.recap()


async def look(
    playbook: str,
    inventory: Mapping[str, Any],
    hosts: Collection[str],
    reach: Sequence[str],
    secrets: Mapping[str, str],
    on_progress: OnProgress,
    timeout_minutes: float = 30,
    roles: Sequence[Mapping[str, str]] = (),
) -> CheckModeResult:
    """Runs one of our playbooks in check mode on some of the inventory's hosts: changes nothing, and never fails."""
    work = _Work(playbook, inventory, tuple(hosts), check=True, roles=tuple(roles))
    state = await _run(work, reach, secrets, on_progress, timeout_minutes)
    silent = not (state.finished or state.failures)
    broken = state.broken or ("it ended without a result" if silent else "")
    return CheckModeResult(tuple(state.drift), state.facts, tuple(state.failures), broken)


@dataclass(frozen=True)
class _Work:
    """What the player is told."""

    playbook: str
    inventory: Mapping[str, Any]
    hosts: tuple[str, ...]
    check: bool
    roles: tuple[Mapping[str, str], ...]


async def _run(
    work: _Work, reach: Sequence[str], secrets: Mapping[str, str], on_progress: OnProgress, timeout_minutes: float
) -> _State:
    """Everything that is known of a run when it has ended or its time is over."""
    with private_folder() as folder:
        write_work(folder, work, secrets)
        command = [*reach, sys.executable, "-m", "stampworks.configuration.player", str(folder)]
        state, mask = _State(), masking(secrets.values())
        try:
            async with asyncio.timeout(timeout_minutes * 60), player(command, folder, mask) as events:
                async for event in events:
                    if line := state.take(event):
                        told = on_progress(line)
                        if inspect.isawaitable(told):
                            await told
        except TimeoutError:
            state.broken = f"stopped after {timeout_minutes:g} minutes, its limit, in {state.place or 'its first task'}"
    return state


def write_work(folder: Path, work: _Work, secrets: Mapping[str, str]) -> None:
    # the player stands in other namespaces, where the working directory is another one
    roles = [{**role, "path": str(Path(role["path"]).absolute())} for role in work.roles]
    told = {**asdict(work), "playbook": str(playbooks_dir() / work.playbook), "roles": roles}
    (folder / "work.json").write_text(json.dumps(told))
    secret_file = os.open(folder / "secrets.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(secret_file, "w") as file:
        json.dump(dict(secrets), file)


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that nobody else can read, gone afterwards whatever happens, with a path short enough for sockets."""
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="sw-", dir=base if len(base) <= SOCKET_FOLDER_MAX else "/tmp"))  # noqa: S108
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def player(
    command: Sequence[str], folder: Path, mask: Callable[[str], str]
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The player's events; whichever way this is left, the player and all that it started are gone.

    The player ends when its standard input does, so it cannot outlive this process, not even one that is killed.
    """
    errors = folder / "player.err"
    with errors.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            limit=EVENT_BYTES_MAX,
            env=player_environment(),
        )
    try:
        yield _events(process, errors, mask)
    finally:
        await asyncio.shield(_end(process))


async def _events(
    process: asyncio.subprocess.Process, errors: Path, mask: Callable[[str], str]
) -> AsyncIterator[dict[str, Any]]:
    if process.stdout is None:
        raise TypeError("the player's standard output is a pipe")
    try:
        async for line in process.stdout:
            yield json.loads(line)
    except (ValueError, RecursionError):  # also what asyncio says of a line that is too long
        said = f"the player said something that is no event of at most {EVENT_BYTES_MAX} bytes"
        yield {"event": "broken", "text": said}
        return
    if code := await process.wait():
        said = last_words(errors, mask)
        yield {"event": "broken", "text": said or f"the player ended with exit code {code} without a word"}


def last_words(errors: Path, mask: Callable[[str], str]) -> str:
    """The end of what it said; without secrets before it is cut, since half of one would be recognised by nobody."""
    return mask(errors.read_text(errors="replace").strip())[-LAST_WORDS_MAX:]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), FAREWELL_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def player_environment() -> dict[str, str]:
    """Ours without what would make Ansible or ssh behave otherwise than the same playbook does elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "SSH_", "PYTHON"))}
    return kept | {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class _State:
    """What is known of a run so far."""

    place: str = ""
    hosts: int = 0
    changed: int = 0
    finished: bool = False
    broken: str = ""
    failures: list[TaskFailure] = field(default_factory=list)
    drift: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> str:
        """Takes one event in; returns the line to show for it, if any."""
        kind = event["event"]
        if kind == "task":
            self.place = f"{event['role']} : {event['task']}"
            return f"{self.place} ({event['stage']} of {event['stages']})"
        if kind == "failure":
            self.failures.append(TaskFailure(event["host"], event["task"], event["message"]))
        elif kind == "restarts":
            return restarting(event["why"])
        elif kind == "drift":
            self.drift += [(event["host"], str(words)) for words in event["words"]]
        elif kind == "facts":
            self.facts[event["host"]] = event["facts"]
        elif kind == "end":
            self.hosts, self.changed, self.finished = event["hosts"], event["changed"], event["finished"]
            # what a role rescued was told of before anybody knew
            self.failures = [failure for failure in self.failures if failure.host in event["failed"]]
        elif kind == "broken":
            self.broken = event["text"]
        return ""

    def recap(self) -> Recap:
        return Recap(self.hosts, self.changed, tuple(self.failures))


def restarting(why: Mapping[str, str]) -> str:
    """Which nodes start anew now, and why: those with the same reason stand together."""
    together: dict[str, list[str]] = {}
    for host, words in why.items():
        together.setdefault(words, []).append(host)
    reasons = "; ".join(f"{fold(sorted(hosts))}: {printable(words)}" for words, hosts in together.items())
    return f"{counted(len(why), 'node')} will start anew: {reasons}"


def describe(playbook: str, recap: Recap, note: str = "") -> str:
    """The failure as a person reads it: hosts that failed alike stand together."""
    together: dict[tuple[str, str], list[str]] = {}
    for failure in recap.failures:
        together.setdefault((failure.task, failure.message), []).append(failure.host)
    count = len({failure.host for failure in recap.failures})
    title = f"{playbook} failed on {count} {'host' if count == 1 else 'hosts'}" if count else f"{playbook} failed"
    parts = [f"{title}: {printable_lines(note)}" if note else f"{title}."]
    for (task, message), hosts in together.items():
        parts.append(f"  {', '.join(sorted(hosts))}: {task or 'cannot be reached'}\n{indented(message)}")
        if not task:
            parts.append("    check: does the node run (stampworks status), and does it answer (stampworks ssh NODE)?")
    parts.append("What was done before stays; the next run goes on from there.")
    return "\n".join(parts)


def indented(text: str) -> str:
    """Also as a terminal may see it: what failed may be a node that somebody else commands."""
    return "\n".join(f"    {printable(line)}" for line in text.strip().splitlines())
