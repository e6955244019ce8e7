"""Machines that are declared by their addresses: what is refused, where, and with what advice."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks.declaration import DeclarationError, Lock, LockedHost, LockedRail, load_file, lock_text, read_lock
from stampworks.declaration.fields import fields
from stampworks.plan import Plan, fingerprint, from_json, to_json
from stampworks.planning import plan

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
KEYS = [f"{KEY}{letter}" for letter in "ABCDEFGH"]
HOSTS: dict[str, Any] = {
    "provider": "lambda",
    "user": "ubuntu",
    "identity_file": "~/.ssh/id_ed25519",
    "via": {"address": "bastion.example.org", "port": 2222, "user": "jump", "host_key": KEYS[7]},
    "machines": [
        {"address": "203.0.113.4", "inside": "10.0.0.4", "group": "head"},
        {"address": "203.0.113.5", "inside": "10.0.0.5", "group": "gpu", "rack": "r1", "host_key": KEYS[1]},
        {"address": "203.0.113.6", "inside": "10.0.0.6", "group": "gpu", "rack": "r2"},
        {"address": "203.0.113.7", "inside": "10.0.0.7", "group": "gpu", "rack": "r2"},
    ],
}
DECLARATION: dict[str, Any] = {
    "version": 1,
    "name": "lab",
    "cloud": "hosts",
    "hosts": HOSTS,
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 2}],
    "storage": [{"name": "shared", "kind": "directory", "mount": "/shared", "existing": "/mnt/nfs"}],
}


def locked(machines: list[dict[str, Any]]) -> Lock:
    """Return the lock of these machines, as `stampworks hosts lock` writes it."""
    found = [
        LockedHost(
            address=each["address"],
            port=each.get("port", 22),
            inside=each.get("inside", ""),
            host_key=each.get("host_key") or KEYS[number],
            machine_id=f"{number:032x}",
            group=each["group"],
            rack=each.get("rack", ""),
            rails=()
            if each["group"] == "head"
            else tuple(LockedRail(f"rail{n}", f"10.1.{16 * n}.{number}/20") for n in range(2)),
        )
        for number, each in enumerate(machines)
    ]
    return Lock(hosts=tuple(found))


def written(folder: Path, lock: Lock | None = None, **fields_: Any) -> Path:
    file = folder / "lab.yaml"
    data = {**copy.deepcopy(DECLARATION), **fields_}
    file.write_text(yaml.safe_dump(data))
    (folder / "lab.lock.json").write_text(lock_text(lock or locked(HOSTS["machines"])))
    return file


def planned(folder: Path, lock: Lock | None = None, **fields_: Any) -> Plan:
    return plan(load_file(written(folder, lock, **fields_)))


def said(folder: Path, lock: Lock | None = None, **fields_: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        planned(folder, lock, **fields_)
    return str(caught.value)


def with_machine(number: int, **changes: Any) -> dict[str, Any]:
    hosts = copy.deepcopy(HOSTS)
    hosts["machines"][number] |= changes
    return hosts


def test_hosts_become_nodes(tmp_path: Path) -> None:
    """The plan names nodes, leaves addresses to the hosts, and has those in reserve."""
    found = planned(tmp_path)
    assert from_json(Plan, to_json(found)) == found
    assert found.hosts is not None
    assert [each.id for each in found.hosts.of_group("gpu")] == ["203.0.113.5", "203.0.113.6", "203.0.113.7"]
    [pool] = found.pools
    assert [(node.name, node.address) for node in pool.nodes] == [("gpu-001", ""), ("gpu-002", "")]
    assert [(rail.interface, rail.cidr) for rail in found.fabric.rails] == [
        ("rail0", "10.1.0.0/20"),
        ("rail1", "10.1.16.0/20"),
    ]
    assert found.controller.volumes == ()
    assert found.network.egress == "nat"
    [reserve] = [each.why for each in found.reasons if each.path == "hosts.gpu"]
    assert reserve.startswith("203.0.113.7 in reserve")


def test_siblings_have_other_hosts(tmp_path: Path) -> None:
    """The fingerprint leaves machines out."""
    others = {
        **HOSTS,
        "user": "root",
        "machines": [{**each, "address": f"198.51.100.{n}"} for n, each in enumerate(HOSTS["machines"])],
    }
    first = planned(tmp_path)
    second = planned(tmp_path, locked(others["machines"]), hosts=others)
    assert first.hosts != second.hosts
    assert fingerprint(first) == fingerprint(second)


def test_a_lock_keeps_hosts(tmp_path: Path) -> None:
    """It is written and read as it is."""
    lock = locked(HOSTS["machines"])
    assert read_lock(written(tmp_path, lock)) == lock


@pytest.mark.parametrize(
    ("changes", "problem", "hint"),
    [
        (
            {"hosts": with_machine(1, group="gpus")},
            "hosts.machines[1].group: no pool is called 'gpus'",
            "did you mean 'gpu'?",
        ),
        (
            {"hosts": with_machine(2, address="203.0.113.5")},
            "hosts.machines[2].address: machine 1 is reached at '203.0.113.5', too",
            "a machine is in the list once: correct one of the two",
        ),
        (
            {"hosts": with_machine(2, inside="10.0.0.5")},
            "hosts.machines[2].inside: machine 1 has the inside address '10.0.0.5', too",
            "a machine is in the list once: correct one of the two",
        ),
        (
            {"hosts": with_machine(2, host_key=f"{KEYS[1]} another@comment")},
            "hosts.machines[2].host_key: machine 1 has the host key",
            "a machine is in the list once: correct one of the two",
        ),
        (
            {"hosts": with_machine(1, host_key=KEYS[5])},
            "hosts.machines[1].host_key: 203.0.113.5 has another host key here than in the lock",
            "`stampworks hosts lock -s STACK` asks the machines, and shows their host keys",
        ),
        (
            {"hosts": {**HOSTS, "via": {"address": "bastion.example.org"}}},
            "hosts.via.host_key: the host key of bastion.example.org is not declared",
            "ask its administrator for the line of its /etc/ssh/ssh_host_ed25519_key.pub",
        ),
        (
            {"hosts": {**HOSTS, "machines": HOSTS["machines"][:2]}},
            "hosts.machines: gpu has 2 nodes, and 1 machine for them",
            "list more machines with group: gpu",
        ),
        (
            {"cloud": "local"},
            "hosts.machines: the cluster is on local, which makes its machines itself",
            "write cloud: hosts, or take it out",
        ),
        (
            {"storage": [{"name": "shared", "kind": "directory", "mount": "/shared"}]},
            "storage[0]: shared is a directory that all machines share, and its path on them is not written",
            "write it, like existing: /mnt/nfs",
        ),
        (
            {"fabric": {"leaf_nodes": 2}},
            "fabric.leaf_nodes: hosts builds the fabric, so that it cannot be chosen",
            "take it out",
        ),
        (
            {"pools": [{"name": "gpu", "machine": "dgx-h100", "count": 2}]},
            "hosts: dgx-h100 has 8 ports on the fabric, and 203.0.113.[5-7] fewer",
            "declare the machine that they are",
        ),
        (
            {"pools": [{"name": "gpu", "machine": "p5", "count": 2}]},
            "pools[0].machine: p5 is a machine of aws, and the cluster is on hosts",
            "",
        ),
    ],
)
def test_wrong_lists_are_refused(tmp_path: Path, changes: dict[str, Any], problem: str, hint: str) -> None:
    """Each problem is at its field, with advice."""
    refused = said(tmp_path, **changes)
    assert problem in refused
    assert hint in refused


def test_hosts_that_are_not_locked(tmp_path: Path) -> None:
    """A machine without a known host key becomes no node."""
    refused = said(tmp_path, locked(HOSTS["machines"][:3]))
    assert "hosts.machines: the lock has no 203.0.113.7" in refused
    assert "`stampworks hosts lock -s STACK` asks the machines" in refused


def test_hosts_of_a_command(tmp_path: Path) -> None:
    """The lock has what the command printed, with its groups."""
    hosts = {"list_command": ["./list-hosts"]}
    found = planned(tmp_path, hosts=hosts)
    assert found.hosts is not None
    assert len(found.hosts.machines) == 4
    assert "hosts.list_command: the lock has no machine that the command has printed" in said(
        tmp_path, Lock(), hosts=hosts
    )


def test_rails_of_other_names(tmp_path: Path) -> None:
    """A rail has one interface and one range on all hosts: roles write both."""
    lock = locked(HOSTS["machines"])
    wrong = dataclasses.replace(lock.hosts[2], rails=(LockedRail("ib0", "10.9.0.2/20"), lock.hosts[2].rails[1]))
    refused = said(tmp_path, dataclasses.replace(lock, hosts=(*lock.hosts[:2], wrong, lock.hosts[3])))
    assert "hosts: the port of rail 0 is called 'ib0' and 'rail0'" in refused
    assert "hosts: the ports of rail 0 have addresses of 10.1.0.0/20" in refused


HOSTILE = ("-oProxyCommand=id", "a b", "a;id", "$(id)", "a\nb", "'", '"', "a@b", "\u202ea", "{{ a }}", "ssh://a:1/")
TEXTS = [
    ("via", "address"),
    ("via", "user"),
    ("via", "host_key"),
    ("identity_file",),
    ("user",),
    ("provider",),
    ("list_group",),
    *(("machines", 1, name) for name in ("address", "inside", "host_key", "group", "rack")),
]


@pytest.mark.parametrize("path", TEXTS, ids=str)
@pytest.mark.parametrize("text", HOSTILE)
def test_texts_that_mean_something_to_a_shell(tmp_path: Path, path: tuple[Any, ...], text: str) -> None:
    """No such text gets to ssh."""
    hosts = copy.deepcopy(HOSTS)
    place: Any = hosts
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = text
    if path == ("identity_file",) and text in ("a b", "a@b"):
        return  # a file may be called so, and ssh gets it as one argument
    refused = said(tmp_path, hosts=hosts)
    spelled = "hosts" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    assert f"{spelled}:" in refused


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["address", "inside", "host_key", "machine_id", "group", "rack"])
def test_locks_with_such_texts(tmp_path: Path, name: str, text: str) -> None:
    """A lock that somebody edited is refused as a whole, or is data."""
    file = written(tmp_path)
    data = json.loads((tmp_path / "lab.lock.json").read_text())
    data["hosts"][1][name] = text
    (tmp_path / "lab.lock.json").write_text(json.dumps(data))
    if name in ("address", "inside", "machine_id", "group", "rack", "host_key") and text in (
        "a b",
        "a@b",
        "ssh://a:1/",
    ):
        return
    with pytest.raises(DeclarationError) as caught:
        load_file(file)
    assert "lab.lock.json: is not a lock file of stampworks" in str(caught.value)


def test_every_text_of_hosts_is_tried() -> None:
    """A new field of text has to be in the lists above."""
    known = {"hosts." + ".".join(str(step) for step in path).replace(".1.", "[].") for path in TEXTS}
    texts = {
        name
        for name, field in fields().items()
        if name.startswith("hosts.") and "str" in str(field.annotation) and "Host" not in str(field.annotation)
    }
    assert texts - known <= {"hosts.list_command"}
