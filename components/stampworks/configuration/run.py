"""Runs of playbooks in a process of their own, with progress while they run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stampworks.configuration.sources import playbooks_dir
from stampworks.text.amounts import counted
from stampworks.text.names import fold
from stampworks.text.printable import masking, printable, printable_lines

OnProgress = Callable[[str], None]
HELD_BACK_S = 0.5
"""Seconds until the line of a task is shown, unless all hosts have skipped the task by then."""
SOCKET_FOLDER_MAX = 40
"""Length limit of the folder: the path of a Unix socket has 107 characters, and ssh adds a name and a suffix."""
FAREWELL_S = 10
LAST_WORDS_MAX = 2000
EVENT_BYTES_MAX = 2**24
"""Maximum bytes of an event. Most of them are an answer of a node, of which bounded-ssh passes only a part."""


@dataclass(frozen=True)
class TaskFailure:
    """A task that failed on a host, or a host that was not reached."""

    host: str
    task: str
    """role : task, as Ansible shows it; empty when the host was never reached."""
    message: str


@dataclass(frozen=True)
class Recap:
    """The result of a run of a playbook."""

    hosts: int
    changed: int
    """Tasks that changed something, summed over the hosts."""
    failures: tuple[TaskFailure, ...]


@dataclass(frozen=True)
class CheckModeResult:
    """Results of a playbook in check mode, which changes nothing."""

    drift: tuple[tuple[str, str], ...] = ()
    """(host, difference from its task), in words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Reports of the hosts about themselves, by host, unchecked."""
    failures: tuple[TaskFailure, ...] = ()
    """Failed looks. The rest of the playbook on the same host was not checked either."""
    broken: str = ""
    """Reason why the look as a whole did not finish."""


class PlaybookFailed(Exception):  # noqa: N818 (reads as what happened)
    """A playbook did not reach its end. The text names every failed host, with its task and reason."""

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
    """Run a playbook of the toolkit to its end, on all hosts or some.

    Raise PlaybookFailed with all failures. `roles` are the user's own ({name, path, variables}), which run at their
    place in the playbook.
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
    """Run a playbook of the toolkit in check mode on some hosts of the inventory. It changes nothing, and never
    fails."""
    work = _Work(playbook, inventory, tuple(hosts), check=True, roles=tuple(roles))
    state = await _run(work, reach, secrets, on_progress, timeout_minutes)
    silent = not (state.finished or state.failures)
    broken = state.broken or ("it ended without a result" if silent else "")
    return CheckModeResult(tuple(state.drift), state.facts, tuple(state.failures), broken)


@dataclass(frozen=True)
class _Work:
    """Input of the player."""

    playbook: str
    inventory: Mapping[str, Any]
    hosts: tuple[str, ...]
    check: bool
    roles: tuple[Mapping[str, str], ...]


async def _run(
    work: _Work, reach: Sequence[str], secrets: Mapping[str, str], on_progress: OnProgress, timeout_minutes: float
) -> _State:
    """Run the player, and return its results when it has ended or its time is over."""
    with private_folder() as folder:
        _write_work(folder, work, secrets)
        command = [*reach, sys.executable, "-m", "stampworks.configuration.player", str(folder)]
        state, mask, lines = _State(), masking(secrets.values()), _Lines(on_progress)
        try:
            async with asyncio.timeout(timeout_minutes * 60), player(command, folder, mask) as events:
                async for event in events:
                    lines.take(event["event"], state.take(event))
        except TimeoutError:
            state.broken = f"stopped after {timeout_minutes:g} minutes, its limit, in {state.place or 'its first task'}"
        finally:
            lines.end()
    return state


class _Lines:
    """Lines of progress, without those of tasks that no host needs."""

    def __init__(self, tell: OnProgress) -> None:
        self._tell = tell
        self._held = ""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, kind: str, line: str) -> None:
        if kind == "skipped":
            self._held = ""
        self.end()
        if kind == "task":
            self._held = line
            self._timer = asyncio.get_running_loop().call_later(HELD_BACK_S, self.end)
        elif line:
            self._tell(line)

    def end(self) -> None:
        """Show the line that is held back, if any."""
        if self._timer:
            self._timer.cancel()
        held, self._held = self._held, ""
        if held:
            self._tell(held)


def _write_work(folder: Path, work: _Work, secrets: Mapping[str, str]) -> None:
    # the player runs in other namespaces, with another working directory
    roles = [{**role, "path": str(Path(role["path"]).absolute())} for role in work.roles]
    told = {**asdict(work), "playbook": str(playbooks_dir() / work.playbook), "roles": roles}
    (folder / "work.json").write_text(json.dumps(told))
    secret_file = os.open(folder / "secrets.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(secret_file, "w") as file:
        json.dump(dict(secrets), file)


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a private folder with a path that is short enough for sockets. It is removed at the end in any case."""
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
    """Yield the events of a player. When the block ends, the player and its processes have ended.

    The player ends when its standard input closes, so it never outlives this process, even if that is killed.
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
    except (ValueError, RecursionError):  # includes asyncio's error for a line that is too long
        said = f"the player sent a line that is not an event of at most {EVENT_BYTES_MAX} bytes"
        yield {"event": "broken", "text": said}
        return
    if code := await process.wait():
        said = last_words(errors, mask)
        yield {"event": "broken", "text": said or f"the player ended with exit code {code} and printed nothing"}


def last_words(errors: Path, mask: Callable[[str], str]) -> str:
    """Return the end of the player's output. Mask secrets before cutting, because a cut secret would not be found."""
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
    """Return our environment without variables that would change Ansible or ssh."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "SSH_", "PYTHON"))}
    return kept | {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class _State:
    """Results of a run so far."""

    place: str = ""
    hosts: int = 0
    changed: int = 0
    finished: bool = False
    broken: str = ""
    failures: list[TaskFailure] = field(default_factory=list)
    drift: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> str:
        """Process one event. Return the line to show for it, if any."""
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
            # failures that a role rescues are reported before that is known
            self.failures = [failure for failure in self.failures if failure.host in event["failed"]]
        elif kind == "broken":
            self.broken = event["text"]
        return ""

    def recap(self) -> Recap:
        return Recap(self.hosts, self.changed, tuple(self.failures))


def restarting(why: Mapping[str, str]) -> str:
    """Return a line with the nodes that restart now, grouped by reason."""
    together: dict[str, list[str]] = {}
    for host, words in why.items():
        together.setdefault(words, []).append(host)
    reasons = "; ".join(f"{fold(sorted(hosts))}: {printable(words)}" for words, hosts in together.items())
    return f"{counted(len(why), 'node')} will reboot: {reasons}"


def describe(playbook: str, recap: Recap, note: str = "") -> str:
    """Return the failures as text, grouped by hosts with the same failure."""
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
    parts.append("Finished tasks stay finished; the next run continues from there.")
    return "\n".join(parts)


def indented(text: str) -> str:
    """Return indented text that is safe for a terminal: another person may control the failed node."""
    return "\n".join(f"    {printable(line)}" for line in text.strip().splitlines())
