"""Parts of a plan for the machine room: rooms of an earlier version stay unchanged.

The files in `earlier` were written by commit c83051ef, whose rooms stored parts of the plan, for the plans below.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from stampworks import machine_room as room
from stampworks import planning
from stampworks.clouds.local.rooms import builder_roster, group_spec, image_spec, network_spec, rail_specs
from stampworks.declaration import load_value
from stampworks.machine_room import apt, disks, image, programs
from stampworks.machine_room.room import of_cluster
from stampworks.machine_room.specs import TrunkSpec, read_network
from stampworks.plan import Group, Member, Plan, Rail, Release, Roster, Trunk

EARLIER = Path(__file__).with_name("earlier")
DECLARATION = {
    "version": 1,
    "cloud": "local",
    "name": "earlier",
    "network": {"cidr": "10.98.0.0/16"},
    "storage": [{"name": "shared", "kind": "directory", "mount": "/shared"}],
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 3}],
    "proof": {"level": "none"},
}
BOOTED = room.NodeImage("node-0123456789abcdef", ("layer",), "repository")


def plan_of(**fields: Any) -> Plan:
    return planning.plan(load_value({**DECLARATION, **fields}, "test"))


def kept(plan: Plan, name: str) -> Group:
    """The group of a single node, with the disk of an earlier version."""
    group = next(group for group in plan.running for node in group.nodes if node.name == name)
    disk = disks.disk_of(of_cluster(plan.name), name)
    disk.folder.mkdir(parents=True)
    disk.commission_file.write_text((EARLIER / f"{name}.json").read_text())
    return dataclasses.replace(group, nodes=tuple(node for node in group.nodes if node.name == name))


@pytest.mark.parametrize("name", ["head", "gpu-001"])
def test_a_disk_of_an_earlier_version_is_up_to_date(name: str) -> None:
    """Its node keeps its disk unless image or machine have changed."""
    plan = plan_of()
    group = kept(plan, name)
    assert room.new_nodes(plan.name, group_spec(group), BOOTED) == []
    assert room.new_nodes(plan.name, group_spec(group), dataclasses.replace(BOOTED, digest="node-1")) == [name]
    other = dataclasses.replace(group, machine=dataclasses.replace(group.machine, name="another"))
    assert room.new_nodes(plan.name, group_spec(other), BOOTED) == [name]


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_a_network_of_an_earlier_version_is_the_same(scheduler: str) -> None:
    """Nodes that start in it get the addresses and the routes that the plan has."""
    network = network_spec(plan_of(scheduler={"kind": scheduler}).network)
    assert read_network((EARLIER / f"network-{scheduler}.json").read_text()) == network
    assert bool(network.pods_cidr) == (scheduler == "kubernetes")


@pytest.mark.parametrize(
    ("kubernetes", "digest"),
    [((), "node-70ffa9d77e2df558"), ((("kubernetes", "1.34"),), "node-fddc92fa9e124fba")],
    ids=["slurm", "kubernetes"],
)
def test_an_image_has_the_digest_of_an_earlier_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kubernetes: tuple[tuple[str, str], ...], digest: str
) -> None:
    """Another digest would roll every node. A change of image.py that must roll them changes this value on purpose."""
    monkeypatch.setattr(image, "TREE", tmp_path / "none")
    monkeypatch.setattr(image, "MAPPED_ROOT", ())
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(apt, "sources_of", lambda suite: (f"deb http://packages {suite} main",))
    monkeypatch.setattr(programs, "program", lambda name: f"/programs/{name}")
    packages = (("fabric", ("iperf3", "iproute2")), ("slurm", ("slurmd", "iperf3")))
    base = ("python3", "ca-certificates")
    release = Release("2026.11", "trixie", (("slurm", "24.11"),), base, packages, kubernetes=kubernetes)
    found = room.image_of(image_spec(release), "a-digest")
    assert (found.digest, found.containers) == (digest, bool(kubernetes))


def test_a_volume_has_the_name_under_which_its_resource_makes_it() -> None:
    """The node mounts the directory that LocalVolume has made."""
    plan = plan_of()
    [volume], [mounted] = plan.controller.volumes, group_spec(kept(plan, "head")).volumes
    assert mounted.of_node("head") == volume.of_node("head")


def test_trunks_of_spines_are_trunks_too() -> None:
    """The room creates trunks of leaves first."""
    rail = Rail(1, "rail1", "10.98.64.0/18", 200, (Trunk("leaf1", 400, "spine1"),), (Trunk("spine1", 800, "core"),))
    [spec] = rail_specs([rail])
    assert (spec.index, spec.interface, spec.cidr, spec.rate_mbps) == (1, "rail1", "10.98.64.0/18", 200)
    assert spec.trunks == (TrunkSpec("leaf1", 400, "spine1"), TrunkSpec("spine1", 800, "core"))


def test_playbooks_reach_a_builder() -> None:
    """The playbook logs in as root, with the builder's key, at its address."""
    builder = room.Builder("builder", "1-2", "198.51.100.2", "ssh-ed25519 key", ("enter", "--"), "/key", "Types: deb")
    member = Member("builder", "builder", "1-2", "198.51.100.2", (), "ssh-ed25519 key")
    assert builder_roster(builder) == Roster("image", "local", ("enter", "--"), "root", "/key", (member,))
