"""Looks at a node once and says what it found and what of it is not as expected."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import resource
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run
from ansible_collections.stampworks.node.plugins.module_utils.packaging import INSTALLED, begins, packaging
from ansible_collections.stampworks.node.plugins.module_utils.services import supervisor

DOCUMENTATION = """
module: node_facts
short_description: Look at a node in one pass
description:
  - Returns the facts as C(node_facts) and fails, with all problems at once, when something expected is not so.
options:
  rails:
    description: NICs of the fabric that must be there, each with C(interface) and C(address).
    type: list
    elements: dict
    default: []
  system: {description: 'What must run, as in "debian 13": a beginning; empty for any.', type: str, default: ""}
  packages:
    description: Packages whose versions are wanted among the facts.
    type: list
    elements: str
    default: []
  software:
    description: By role the packages that it brings, each with the beginning of the version that the release says.
    type: dict
    default: {}
  roles: {description: The roles that this node gets., type: list, elements: str, default: []}
  kernel:
    description: The beginning of the version of the kernel that the modules of these packages are built for.
    type: str
    default: ""
  slurm: {description: Whether this node can say how Slurm sees all nodes., type: bool, default: false}
"""

KEPT = ("state", "reason", "cpus", "gres")
ROLL = "start the node from an image of the release (stampworks roll)"
IMAGE = Path("/etc/stampworks/image")
BUILT = Path("/var/lib/stampworks/built")
ANSWER_S = 10
"""Seconds that a program of the node has to answer."""


def work(
    check: bool,
    rails: Sequence[Mapping[str, Any]],
    system: str,
    packages: Sequence[str],
    software: Mapping[str, Mapping[str, str]],
    roles: Sequence[str],
    kernel: str,
    slurm: bool,
) -> dict[str, Any]:
    own = {name: version for role, each in software.items() if role in roles for name, version in each.items()}
    facts = look([*packages, *own]) | ({"slurm": scheduled()} if slurm else {})
    problems = unexpected(facts, rails, system) + strange_software(facts, own, kernel)
    if problems and not check:  # a check reports all facts
        raise Refused("; ".join(problems))
    return {"ansible_facts": {"node_facts": facts}}


def look(packages: Sequence[str]) -> dict[str, Any]:
    meminfo = Path("/proc/meminfo").read_text()
    mountinfo = Path("/proc/self/mountinfo").read_text()
    return {
        "hostname": platform.node(),
        "image": IMAGE.read_text() if IMAGE.exists() else "",
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "system": system_of(Path("/etc")),
        "python": platform.python_version(),
        "clock": time.time(),
        "cores": os.cpu_count(),
        "memory_mib": int(re.findall(r"MemTotal:\s+(\d+) kB", meminfo)[0]) // 1024,
        "limits": {
            "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
            "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        },
        "mounts": sorted({line.split()[4] for line in mountinfo.splitlines()}),
        "interfaces": interfaces(),
        "accelerators": accelerators(),
        "packages": versions(packages),
        "built": built(),
        "services": services(),
    }


def system_of(etc: Path) -> str:
    """Return the system and its version. Debian's own file also has the point release; on Ubuntu it has Debian's."""
    release = etc / "os-release"
    lines = release.read_text().splitlines() if release.exists() else []
    said = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    debian = etc / "debian_version"
    points = said.get("ID") == "debian" and debian.exists()
    version = debian.read_text().strip() if points else said.get("VERSION_ID", "")
    return f"{said.get('ID', '')} {version}".strip()


def services() -> dict[str, bool]:
    """Return which of our services run."""
    found = supervisor()
    return {name: bool(found.running(name)) for name in found.names()}


def scheduled() -> dict[str, dict[str, Any]] | None:
    """Return Slurm's view of each node; None when it does not answer."""
    try:
        done = run(["scontrol", "show", "nodes", "--json"], timeout=ANSWER_S, check=False)
        nodes = json.loads(done.stdout)["nodes"] if done.returncode == 0 else None
    except (Refused, ValueError, KeyError):
        return None
    return None if nodes is None else {node["name"]: {key: node.get(key) for key in KEPT} for node in nodes}


def interfaces() -> dict[str, dict[str, Any]]:
    addresses = json.loads(run(["ip", "-json", "address", "show"]).stdout)
    # Amazon Linux has it in a package of its own, and shapes nothing
    shapes = shutil.which("tc") and run(["tc", "-json", "qdisc", "show"], check=False).stdout
    shaped = rates(json.loads(shapes or "[]"))
    return {
        link["ifname"]: {
            "addresses": [entry["local"] for entry in link.get("addr_info", []) if entry["family"] == "inet"],
            "mtu_bytes": link["mtu"],
            "carrier": "LOWER_UP" in link["flags"],
            "rate_mbps": shaped.get(link["ifname"]) or speed(link["ifname"]),
        }
        for link in addresses
    }


def rates(disciplines: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Mb/s of the NICs that a token bucket holds to a rate; tc counts bytes."""
    return {
        found["dev"]: round(found["options"]["rate"] * 8 / 1e6)
        for found in disciplines
        if found.get("kind") == "tbf" and "rate" in found.get("options", {})
    }


def speed(interface: str) -> int | None:
    """Return the NIC's own speed in Mb/s; None when it does not know."""
    try:
        found = int(Path(f"/sys/class/net/{interface}/speed").read_text())
    except (OSError, ValueError):
        return None
    return found if found > 0 else None


def accelerators() -> list[dict[str, Any]] | None:
    """Return the accelerators that answer; None when no program on the node can list them."""
    query = ["nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]
    if shutil.which(query[0]) is None or (done := run(query, timeout=30, check=False)).returncode:
        return None
    rows = (re.split(r",\s*", line) for line in done.stdout.splitlines() if line.strip())
    return [{"index": int(index), "name": name, "memory_mib": int(memory)} for index, name, memory in rows]


def versions(packages: Sequence[str]) -> dict[str, str]:
    found = packaging().installed() if packages else {}
    return {name: found[name][1] for name in packages if found.get(name, ("",))[0] == INSTALLED}


def built() -> dict[str, str]:
    """Return the programs that were built here, and the tag of their source."""
    found = {}
    for path in BUILT.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found[path.stem] = str(json.loads(path.read_text())["tag"])
    return found


def unexpected(facts: Mapping[str, Any], rails: Sequence[Mapping[str, Any]], system: str) -> list[str]:
    problems = []
    if system and not str(facts["system"]).startswith(system):
        found = facts["system"] or "nobody knows what"
        problems.append(f"runs {found}, the release says {system}: rebuild the node's image")
    for rail in rails:
        problems += rail_problems(rail, facts["interfaces"].get(rail["interface"]))
    return problems


def strange_software(facts: Mapping[str, Any], own: Mapping[str, str], kernel: str) -> list[str]:
    """Yield differences that no role may correct on a running node: another kernel, or other versions of its programs.

    What is missing is no problem: its role installs it.
    """
    problems = []
    if own and not begins(facts["kernel"], kernel):
        problems.append(f"runs kernel {facts['kernel']}, the release builds its modules for {kernel}: {ROLL}")
    for name, version in own.items():
        if not begins(found := facts["packages"].get(name, version), version):
            problems.append(f"package {name} is {found}, the release says {version}: {ROLL}")
    return problems


def rail_problems(rail: Mapping[str, Any], found: Mapping[str, Any] | None) -> list[str]:
    name = rail["interface"]
    if found is None:
        return [f"{name}: the node has no such NIC"]
    if rail["address"] and rail["address"] not in found["addresses"]:
        has = " and ".join(found["addresses"]) or "no address"
        return [f"{name}: has {has}, the plan says {rail['address']}"]
    return []  # a slow rail or one without carrier is no reason to stop: the health program holds the node back


answer = answering(work)
