"""The bundle with which a node configures itself at its start: the playbooks, and the inventory of its pool.

It contains no secrets. The node gets those from its cloud.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from stampworks.configuration.inventory import host, inventory
from stampworks.configuration.own import own_roles
from stampworks.configuration.player import as_yaml, with_own_plays
from stampworks.configuration.sources import PROGRAMS, playbooks_dir
from stampworks.plan import Attached, Ending, Group, Interface, Member, Plan, Roster
from stampworks.state import paths

CONFIGURE = Path(__file__).with_name("configure-node")
_OWN = frozenset(
    {
        *("node_address", "node_instance", "node_host_key", "node_rails", "cluster_members"),
        *("ansible_host", "ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args"),
    }
)
"""Variables that a host sets itself, and variables for a connection that it does not use."""
_AFTER = ("slurm_worker", "interruptions")
"""Roles with which a node takes jobs, and those that need its scheduler. The node's health is checked before them."""


def bundle(
    plan: Plan,
    roster: Roster,
    scheduler_files: Mapping[str, str],
    check_texts: Mapping[str, str],
    content: str,
    attached: Attached,
    directory: Path,
    endings: Sequence[Ending] = (),
) -> bytes:
    """Return a compressed archive. The same inputs give the same bytes."""
    files = {"configure": CONFIGURE.read_bytes(), **dict(_own_files())}

    def said(of: Roster) -> dict[str, Any]:
        made = inventory(plan, of, scheduler_files, check_texts, content, attached, True, endings)
        return dict(made["all"])

    for pool in plan.pools:
        if pool.elastic_nodes:
            variables, told = _pool_variables(plan, pool, roster, said)
            files[f"pools/{pool.name}.yml"] = as_yaml({"all": {"vars": variables}}).encode()
            files[f"pools/{pool.name}.json"] = json.dumps(told, sort_keys=True).encode()
    if plan.extras.roles:
        plays = yaml.safe_load(files["playbooks/site.yml"])
        files["playbooks/site.yml"] = as_yaml(with_own_plays(plays, own_roles(plan.extras))).encode()
        for role in plan.extras.roles:
            files |= dict(_tree(directory / role.path, f"playbooks/roles/{role.name}"))
    return _archive(files)


def bundle_file(*of: Any) -> Path:
    """Write the bundle to a file for an upload, and return its path. The file name is the digest of the content."""
    content = bundle(*of)
    folder = paths.cache_dir() / "bundles"
    folder.mkdir(exist_ok=True)
    file = folder / f"{hashlib.sha256(content).hexdigest()}.tar.gz"
    if not file.exists():
        beside = file.with_suffix(f".{os.getpid()}")
        beside.write_bytes(content)
        beside.replace(file)
    return file


def _pool_variables(
    plan: Plan, pool: Group, roster: Roster, inventory_of: Callable[[Roster], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of a node of the pool without its identity, and the data with which it finds its
    identity."""
    elastic = {node.name for each in plan.pools for node in each.elastic_nodes}
    ports = _ports(pool)
    addresses = tuple("unknown" if each.address else "" for each in ports)
    some = Member(pool.elastic_nodes[0].name, pool.name, "", "", addresses, "")
    members = tuple(each for each in roster.members if each.name not in elastic)
    with_it = replace(roster, members=(*members, some), reach=(), proxy=(), identity_file="")
    said = inventory_of(with_it)
    roles = [role for role, of in said["children"].items() if some.name in of["hosts"]]
    variables = said["vars"] | said["hosts"][some.name] | {"ansible_connection": "local"}
    known = [each for each in variables["cluster_members"] if each["name"] != some.name]
    on_all = replace(some, rail_addresses=("unknown",) * len(ports))
    rails = host(plan, pool, with_it, on_all)["node_rails"]
    return {name: value for name, value in variables.items() if name not in _OWN}, {
        "members": known,
        "nics": len(ports),
        "rails": [rail | {"port": [port.card, port.device]} for rail, port in zip(rails, ports, strict=False)],
        "before": [role for role in roles if role not in _AFTER],
        "after": [role for role in roles if role in _AFTER],
    }


def _ports(pool: Group) -> Sequence[Interface]:
    """Return the fabric NICs of the pool, in the order of a roster."""
    found = [each for each in (pool.launch.interfaces if pool.launch else ()) if each.fabric]
    return sorted(found, key=lambda each: each.card)


def _own_files() -> Iterator[tuple[str, bytes]]:
    root = playbooks_dir()
    yield from _tree(root, "playbooks")
    for name in PROGRAMS:
        yield from _tree(root.parent / "workloads" / name, f"workloads/{name}")


def _tree(folder: Path, below: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".md" and not {"__pycache__", ".git"}.intersection(path.parts):
            yield f"{below}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _archive(files: Mapping[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o755
            archive.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(plain.getvalue(), mtime=0)
