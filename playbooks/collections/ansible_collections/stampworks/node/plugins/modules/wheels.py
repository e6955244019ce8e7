"""Keeps an environment of Python with what a lock says, each wheel known by its digest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run

DOCUMENTATION = """
module: wheels
short_description: Keep an environment of Python with what a lock says
description:
  - Makes the environment, and installs what is missing in it or there in another version. Wheels come from wherever pip
    of this node gets them (/etc/pip.conf); one whose digest is not in the lock is refused.
options:
  directory: {description: Where the environment is., type: str, required: true}
  lock:
    description: A file of this node with all distributions, as name==version with digests.
    type: str
    required: true
  python: {description: With what it is made., type: str, default: /usr/bin/python3}
"""

INSTALL_S = 840
"""Some gigabytes, and less than a task may take."""
LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_LIST = """
import importlib.metadata as of, json
print(json.dumps([[each.name, each.version] for each in of.distributions()]))
"""


def work(check: bool, directory: str, lock: str, python: str) -> dict[str, Any]:
    own = Path(directory) / "bin/python3"
    wanted = {plain(name): version for name, version in LOCKED.findall(Path(lock).read_text(encoding="utf-8"))}
    if not wanted:
        raise Refused(f"{lock}: names no distribution: it is to have lines like name==version")
    drift = differences(wanted, there(own))
    if drift and not check:
        if not own.exists() or run([str(own), "-I", "-m", "pip", "--version"], check=False).returncode:
            run([python, "-m", "venv", "--clear", directory], timeout=120)
        pip = ["--no-input", "--disable-pip-version-check", "--no-cache-dir", "--quiet"]
        exactly = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", lock]
        run([str(own), "-I", "-m", "pip", *pip, "install", *exactly], timeout=INSTALL_S)
        if left := differences(wanted, there(own)):
            raise Refused(f"{directory}: pip has installed what {lock} says, and still {'; '.join(left)}")
    return {"changed": bool(drift), "drift": [f"{directory}: {each}" for each in drift]}


def there(own: Path) -> Mapping[str, str]:
    """What the environment has; nothing where there is none, or none that works."""
    if not own.exists():
        return {}
    done = run([str(own), "-I", "-c", _LIST], check=False)
    if done.returncode:
        return {}
    return {plain(name): version for name, version in json.loads(done.stdout)}


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    said = []
    for name, version in wanted.items():
        if name not in found:
            said.append(f"{name} {version} is not there")
        elif found[name] != version:
            said.append(f"{name} is {found[name]}, the release has {version}")
    return said


def plain(name: str) -> str:
    """How every spelling of the name of a distribution is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


answer = answering(work)
