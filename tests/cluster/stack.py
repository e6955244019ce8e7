"""Stacks of their own, with the real engine and the real plugin, away from everything of the user's."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from stampworks import machine_room as room

from tests.project import Project, wait_for

ROOT = Path(__file__).parents[2]
SHELL_LIMIT_S, COMMAND_LIMIT_S = 60, 300
SETTLED_S = 60
PROJECT = """\
name: test
runtime: {{name: python, options: {{virtualenv: {environment}}}}}
main: stacks
stackConfigDir: stacks
plugins: {{providers: [{{name: stampworks, path: {plugin}}}]}}
"""
DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    network: {{cidr: 10.99.0.0/16}}
    pools:
      - {{name: gpu, machine: sim-h100, count: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    scheduler: {{drain_timeout_minutes: 1, protect: false}}
    proof: {{level: none}}
"""


@dataclass
class Stack(Project):
    """A project with a stack whose program is the repository's."""

    cluster: str
    limit_s: ClassVar[float] = 600  # the first up of a machine builds the node image
    warned: ClassVar[tuple[str, ...]] = ()
    """Expected warnings of the engine."""

    @classmethod
    def make(cls, folder: Path, cluster: str) -> Self:
        for name in ("stacks", "state"):
            (folder / name).mkdir(mode=0o700)
        plugin = Path(sys.prefix) / "share" / "stampworks"
        (folder / "Pulumi.yaml").write_text(PROJECT.format(environment=sys.prefix, plugin=plugin))
        shutil.copy(ROOT / "stacks" / "__main__.py", folder / "stacks")
        stack = cls(folder, cluster)
        stack.declare(DECLARATION.format(cluster=cluster))
        stack.init()
        stack.declare(DECLARATION.format(cluster=cluster))  # Pulumi has put its salt below the first one
        return stack

    @property
    def state(self) -> Path:
        """Return the folder of this stack's machine room."""
        return self.folder / "state"

    @property
    def file(self) -> Path:
        return self.folder / "stacks" / "Pulumi.test.yaml"

    def declare(self, text: str) -> None:
        salt = [line for line in self._lines() if line.startswith("encryptionsalt:")]
        self.file.write_text(text + "".join(salt))

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def up(self) -> str:
        return self.passes("up", "--yes", "--skip-preview")

    def preview(self) -> str:
        return self.passes("preview")

    def unchanged(self, *flags: str) -> None:
        """Check that the next `up` changes nothing; show its changes otherwise."""
        shown = self.run("preview", *flags, "--expect-no-changes")
        assert shown.returncode == 0, shown.stdout

    def destroy(self) -> str:
        return self.passes("destroy", "--yes", "--skip-preview")

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return the contents of the backend of our own types, by type and name."""
        return {
            f"{one['type'].split(':')[-1]} {one['urn'].split('::')[-1]}": one
            for one in self.exported()
            if one["type"].startswith("stampworks:")
        }

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return the room's own view of all nodes."""
        with self.entered():
            return {node.name: dataclasses.asdict(node) for node in room.read_nodes(self.cluster)}

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Let functions of the machine room use this stack's rooms within the context."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STAMPWORKS_STATE", str(self.state))
            yield

    def shell(self, node: str, command: str) -> str:
        """Return the output of a command on a node, run as root; it must pass."""
        with self.entered():
            done = room.run_in_node(self.cluster, node, ["sh", "-c", f"cd /tmp; {command}"], SHELL_LIMIT_S)
        assert done.returncode == 0, f"{node}: {command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def node_states(self) -> dict[str, str]:
        """Return Slurm's state of each node and its reason, once ended jobs have left them."""
        said: dict[str, str] = {}

        def settled() -> bool:
            lines = self.shell("head", "sinfo --noheader --Node --format '%N %T %E'").splitlines()
            said.clear()
            said.update(dict(line.split(" ", 1) for line in lines))
            # a star means that Slurm has not heard from it since it was resumed
            return not any(
                words.startswith(("completing", "draining")) or "*" in words.split()[0] for words in said.values()
            )

        wait_for(settled, SETTLED_S)
        return said

    def stampworks(self, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """The command line, as its user runs it in this project."""
        return subprocess.run(
            [sys.executable, "-m", "stampworks.cli.main", *argv],
            cwd=self.folder,
            env=self.environment(),
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
        )

    def kill(self, node: str) -> None:
        os.kill(self.nodes()[node]["pid"], signal.SIGKILL)

    def end_room(self) -> None:
        """Ends every process of the machine room, as a reboot would."""
        outer = (self.state / "rooms" / self.cluster / "process").read_text()
        os.kill(int(outer.split("-")[0]), signal.SIGKILL)

    def traces(self) -> list[str]:
        """Return everything on this machine that still belongs to the stack's room."""
        marks = str(self.state).encode()
        left = [str(path) for path in self.state.rglob("rooms/*") if not path.name.startswith(".")]
        for file in ("mountinfo", "cmdline"):
            left += [str(path) for path in Path("/proc").glob(f"[0-9]*/{file}") if marks in content(path)]
        return left

    def environment(self) -> dict[str, str]:
        # the cache is the user's: an image takes a minute
        return {**super().environment(), "STAMPWORKS_STATE": str(self.state), "STAMPWORKS_USER": "root"}

    def passes(self, *argv: str) -> str:
        """Return the output without the engine's own warnings; fail on any other warning."""
        lines = super().passes(*argv).splitlines(keepends=True)
        said = "".join(line for line in lines if not any(each in line for each in self.warned))
        assert "warning:" not in said, said
        return said

    def _lines(self) -> list[str]:
        return self.file.read_text().splitlines(keepends=True) if self.file.exists() else []


def content(path: Path) -> bytes:
    """Return the content of a file that may be missing or unreadable."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def host() -> str:
    """Return the traces that a machine room could leave on this machine: interfaces, addresses, mounts."""
    commands = (["ip", "-o", "link"], ["ip", "-o", "address"], ["findmnt", "--raw", "-o", "TARGET,SOURCE"])
    return "\n".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands)
