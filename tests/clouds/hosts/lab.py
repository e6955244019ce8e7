"""A lab: a head and three other machines, known by address and host key alone, for a cluster of two nodes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import machine_room as room
from stampworks.cli.main import main
from stampworks.declaration import load_file
from stampworks.planning import Finding, plan, rules
from stampworks.state.facts import known_facts, today

from tests.cluster.lent import LentHosts

SERVICE = "/etc/stampworks/services/sshd"
ANSWERS = """
for _ in $(seq 150); do
    ssh-keyscan -T 1 127.0.0.1 2>/dev/null | grep -q ed25519 && exit
    sleep 0.1
done
exit 1
"""
"""Script that waits until sshd answers: a supervisor that was told to start it has not done so yet."""
GPUS = ("h1", "h2", "h3")


@dataclass
class Lab:
    """The machines, and the declaration of a cluster on them in a folder."""

    lent: LentHosts
    folder: Path
    capsys: pytest.CaptureFixture[str] | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "lab.yaml"

    @property
    def lock_file(self) -> Path:
        return self.folder / "lab.lock.json"

    def machines(self) -> list[dict[str, Any]]:
        return [self.lent.listed("h0", "head"), *(self.lent.listed(each, "gpu") for each in GPUS)]

    def declare(self, machine: str = "sim-h100", **hosts: Any) -> None:
        """Write the declaration; fields of `hosts` take the place of the usual ones."""
        declared = {
            "version": 1,
            "name": "lab",
            "cloud": "hosts",
            "pools": [{"name": "gpu", "machine": machine, "count": 2}],
            "storage": [
                {"name": "shared", "kind": "directory", "mount": "/shared", "existing": "/exports/shared"},
            ],
            "hosts": {"identity_file": str(self.lent.identity_file), "machines": self.machines(), **hosts},
        }
        self.file.write_text(yaml.safe_dump(declared, sort_keys=False))

    def id(self, host: str) -> str:
        return f"127.0.0.1:{self.lent.port(host)}"

    def call(self, *argv: str) -> tuple[int, str, str]:
        """Return exit code, output and errors of a command."""
        assert self.capsys
        self.capsys.readouterr()
        code = main([*argv])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def lock(self, *more: str) -> tuple[int, str, str]:
        return self.call("hosts", "lock", str(self.file), *more)

    def fingerprint(self, host: str) -> str:
        said = self.lent.run(host, "ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub")
        return said.split()[1]

    def locked(self) -> None:
        """Write the lock from nothing, with the keys that the machines have."""
        self.lock_file.unlink(missing_ok=True)
        code, _, errors = self.lock("--accept", *(self.fingerprint(each) for each in ("h0", *GPUS)))
        assert code == 0, errors

    def judged(self) -> list[Finding]:
        """Ask the machines, and return what rules say about them."""
        code, _, errors = self.call("facts", str(self.file))
        assert code in (0, 3), errors
        planned = plan(load_file(self.file))
        return [each for each in rules(planned, known_facts(self.file), today()) if each.id.startswith("hosts.")]

    def wrong(self) -> dict[str, list[Finding]]:
        """Return the findings that are no pass, by their id."""
        found: dict[str, list[Finding]] = {}
        for each in self.judged():
            if each.outcome != "pass":
                found.setdefault(each.id, []).append(each)
        return found

    def sh(self, host: str, script: str) -> str:
        return self.lent.run(host, "sh", "-euc", script)

    @contextlib.contextmanager
    def fault(self, host: str, begin: str, end: str) -> Iterator[None]:
        """Run a script on a host, and another one that undoes it, after which the host answers."""
        self.sh(host, begin)
        try:
            yield
        finally:
            self.sh(host, f"{end}; {ANSWERS}")

    def new_host_key(self, host: str) -> contextlib.AbstractContextManager[None]:
        """Give a host another host key for a while, as an installation does."""
        key = "/etc/ssh/ssh_host_ed25519_key"
        begin = f"mv {key} {key}.old; mv {key}.pub {key}.pub.old; ssh-keygen -q -t ed25519 -N '' -f {key}"
        end = f"mv {key}.old {key}; mv {key}.pub.old {key}.pub"
        restart = f"sv restart {SERVICE} >/dev/null"
        return self.fault(host, f"{begin}; {restart}; {ANSWERS}", f"{end}; {restart}")


def stop(lent: LentHosts) -> None:
    lent.remove()
    assert lent.name not in {each.cluster for each in room.rooms()}


def mark(cluster: str) -> str:
    """Return the mark that a cluster leaves on a host."""
    keys = ("cluster", "claim", "group", "node", "commission", "made_with", "condemned")
    return json.dumps({**dict.fromkeys(keys, ""), "cluster": cluster}, sort_keys=True)
