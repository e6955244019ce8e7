"""A Pulumi project away from everything of the user's, and the real engine on it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest


@dataclass
class Project:
    """A folder with a project; its engine has a separate home and backend."""

    folder: Path
    limit_s: ClassVar[float]
    """Time limit of a run of the engine, in seconds."""

    def init(self) -> None:
        """Create the stack `test`, once the files that the engine reads exist."""
        if shutil.which("pulumi") is None:
            pytest.fail("no pulumi on PATH: . tools/env.sh")
        for name in ("home", "backend"):
            (self.folder / name).mkdir(mode=0o700)
        self.passes("stack", "init", "test")

    def passes(self, *argv: str) -> str:
        """Return the output of a run that must pass."""
        done = self.run(*argv)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        with self.started(*argv) as process:
            try:
                said, _ = process.communicate(timeout=self.limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, said, "")

    def started(self, *argv: str, stderr: int = subprocess.STDOUT) -> subprocess.Popen[str]:
        """Return a running operation of the engine."""
        return subprocess.Popen(
            ["pulumi", *argv, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
        return {
            **kept,
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            # the SDKs of clouds are installed here, and the engine would fetch all of their plugins
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }

    def exported(self, *flags: str) -> list[dict[str, Any]]:
        """The resources as the backend holds them."""
        found: dict[str, Any] = json.loads(self.run("stack", "export", *flags).stdout)
        return list(found["deployment"].get("resources", []))


def wait_for(true: Callable[[], object], limit_s: float) -> None:
    """Wait until the function returns true. Slow checks are repeated less often, so that other work has two thirds of
    the machine."""
    deadline = time.monotonic() + limit_s
    while True:
        begun = time.monotonic()
        if true():
            return
        assert begun < deadline, "it did not happen"
        time.sleep(min(5.0, max(0.01, 2 * (time.monotonic() - begun))))


def listening() -> set[tuple[str, int]]:
    """Return the addresses and TCP ports on which processes of this machine listen. A socket of both families counts as
    IPv4."""
    found = set()
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                address, port = local.split(":")
                words = struct.pack(f"={len(address) // 8}I", *(int(word, 16) for word in re.findall("." * 8, address)))
                found.add((socket.inet_ntop(family, words).removeprefix("::ffff:"), int(port, 16)))
    return found
