"""A real cluster: nodes of the machine room, configured over real ssh."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.plugin_utils import on_node
from stampworks import configuration, planning
from stampworks import machine_room as room
from stampworks.clouds.local import members
from stampworks.clouds.local.rooms import group_spec, network_spec, rail_specs
from stampworks.configuration import CheckModeResult, Recap, drift
from stampworks.declaration import load_value
from stampworks.plan import Plan, Roster
from stampworks.provider.node_image import ensure_node_image
from stampworks.schedulers import slurm

from tests.attached import attached
from tests.schedulers.conftest import golden

__all__ = ["golden"]

DECLARATION = {
    "version": 1,
    "cloud": "local",
    "network": {"cidr": "10.98.0.0/16"},
    "storage": [{"name": "shared", "kind": "directory", "mount": "/shared"}],
    "users": [{"name": "alice", "uid": 2001}],
    "scheduler": {
        "topology": "tree",
        "preemption": "requeue",
        "priorities": [{"name": "low", "weight": 1}, {"name": "high", "weight": 2, "preempts": ["low"]}],
        "queues": [
            {"name": "main", "pools": ["gpu"], "default": True, "priority": "low"},
            {"name": "urgent", "pools": ["gpu"], "priority": "high"},
        ],
    },
    "proof": {"level": "none"},  # playbooks prove nothing, and unproven nodes take no jobs
}
CLAIM = "stack test of project test"
Edit = Callable[[dict[str, Any]], None]
SECRETS = {"slurm_key": "a-key-of-the-tests" * 20, "database_password": "pass0word"}


@dataclass
class Cluster:
    """Nodes, and operations on them."""

    plan: Plan
    key: Path
    image: room.NodeImage
    said: list[str] = field(default_factory=list)

    def boot(self) -> None:
        """Start missing or dead nodes; leave the rest alone."""
        plan, public = self.plan, self.key.with_suffix(".pub").read_text()
        rails, keys = rail_specs(plan.fabric.rails), (self.key.read_text(), public)
        room.ensure_room(plan.name, CLAIM, network_spec(plan.network), rails, *keys, self.said.append)
        for storage in plan.storage:
            room.ensure_folder(plan.name, CLAIM, "exports", storage.name)
        for volume in plan.controller.volumes:
            room.ensure_folder(plan.name, CLAIM, "volumes", volume.of_node(plan.controller.name))
        for group in plan.running:
            room.ensure_nodes(plan.name, group_spec(group), rails, self.image, self.said.append)

    @property
    def roster(self) -> Roster:
        return members.members(self.plan.name, "")

    @property
    def share(self) -> Path:
        """Return the folder that nodes have as /exports/shared."""
        folder = room.read_folder(self.plan.name, "exports", "shared")
        assert folder is not None
        return Path(folder)

    def play(self, edit: Edit = lambda _: None) -> Recap:
        """Runs site.yml; edit may spoil the inventory before."""
        inventory = self.inventory(edit)
        run = configuration.play("site.yml", inventory, self.roster.reach, SECRETS, self.said.append, 5)
        return asyncio.run(run)

    def look(self, edit: Edit = lambda _: None) -> CheckModeResult:
        """Runs site.yml in check mode on the nodes that are up."""
        roster, inventory = self.roster, self.inventory(edit)
        hosts = [member.name for member in roster.members]
        return asyncio.run(configuration.look("site.yml", inventory, hosts, roster.reach, SECRETS, self.said.append, 5))

    def drift(self) -> list[str]:
        """Return the differences that a look finds, in words."""
        roster = self.roster
        return drift.of_look(self.inventory(), [member.name for member in roster.members], self.look())

    def inventory(self, edit: Edit = lambda _: None) -> dict[str, Any]:
        roster = self.roster
        inventory = configuration.inventory(
            self.plan,
            roster,
            slurm.files(self.plan, roster),
            content=configuration.install_digest(),
            attached=attached(self.plan),
        )
        edit(inventory["all"])
        return inventory

    def shell(self, node: str, command: str, timeout: float = 60) -> str:
        """Return the output of a command on a node; fail the test when it fails."""
        done = room.run_in_node(self.plan.name, node, ["sh", "-c", f"cd /tmp; {command}"], timeout)
        assert done.returncode == 0, f"{node}: {command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def until(self, node: str, command: str, expected: str, limit_s: float = 120) -> None:
        """Wait until a command prints the expected text."""
        end = time.monotonic() + limit_s
        while (said := self.shell(node, command)) != expected:
            assert time.monotonic() < end, f"{command} said {said!r} and not {expected!r} for {limit_s} s"
            time.sleep(0.2)

    def power_cycle(self, node: str) -> None:
        """Pulls the plug and puts it back."""
        pid = next(state.pid for state in room.read_nodes(self.plan.name) if state.name == node)
        assert pid
        os.kill(pid, 9)
        self.boot()

    def module(self, node: str, name: str, arguments: dict[str, Any], check: bool = False) -> dict[str, Any]:
        """Run a module of the toolkit on a node as its action would, without Ansible."""
        member = next(each for each in self.roster.members if each.name == node)
        work = {"sources": on_node.sources(name), "arguments": arguments, "check": check}
        script = Path(f"/exports/shared/{uuid.uuid4().hex}.json")
        (self.share / script.name).write_text(json.dumps(work))
        (self.share / "bootstrap.py").write_text(on_node.BOOTSTRAP)
        said = self.shell(member.name, f"python3 -IS /exports/shared/bootstrap.py <{script}")
        answer: dict[str, Any] = json.loads(said)
        return answer


def plan_of(name: str, count: int = 3, **fields: Any) -> Plan:
    pools = [{"name": "gpu", "machine": "sim-h100", "count": count}]
    return planning.plan(load_value({**DECLARATION, "pools": pools, "name": name, **fields}, "test"))


@contextlib.contextmanager
def booted(plan: Plan, folder: Path, more: Sequence[str] = ()) -> Iterator[Cluster]:
    """Yield nodes without a playbook run, and remove them afterwards.

    Machines of a cloud install packages from repositories; these nodes have none, and contain the packages from the
    beginning.
    """
    key = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    beside = (("more", (*more, "python3-venv")),) if more else ()
    release = replace(plan.release, packages=(*plan.release.packages, *beside))
    image = ensure_node_image(release, configuration.install_digest(), print)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAMPWORKS_STATE", str(folder / "state"))
        made = Cluster(plan, key, image)
        try:
            made.boot()
            yield made
        finally:
            room.remove_room(plan.name, CLAIM)


@contextlib.contextmanager
def stamped(plan: Plan, folder: Path) -> Iterator[Cluster]:
    """Yield a configured cluster, and remove it afterwards."""
    with booted(plan, folder) as made:
        made.play()
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three workers and a head, configured once for all tests of a module."""
    with stamped(plan_of(f"t{uuid.uuid4().hex[:8]}"), tmp_path_factory.mktemp("cluster")) as made:
        yield made
