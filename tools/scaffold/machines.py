"""A new machine: a row of the catalog in which all facts are still unknown."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from stampworks import catalog

from . import names
from .files import File, Scaffold, ScaffoldError

FOLDER = "components/stampworks/catalog/machines"
ROW = """
NAME:
  aliases: []
  simulated: false
  accelerator: ACCELERATOR
  accelerators: COUNT
  sockets: unknown
  cores: unknown
  threads: unknown
  memory_mib: unknown
  local_nvme: {count: unknown, gb: unknown}
  nic: unknown
  nics: unknown
  nic_rate_gbps: unknown
  nics_rate_gbps: unknown
  other_nics: unknown
  host_link: unknown
  nvlink_nodes: unknown
  fabric_reduces: unknown
  storage_client_gbs: unknown
  quota_family: unknown
  quota_units: unknown
  billing_unit: unknown
  power_kw: unknown
  source: not looked up yet
  read: "DATE"
"""
TEST = '''\
"""Facts of NAME."""

from __future__ import annotations

from dataclasses import fields

from stampworks import catalog

MACHINE, FILE = "NAME", "PATH"
NO_SOURCE_FOR: set[str] = set()
"""Facts that were looked for and that no source has."""


def test_the_row_has_a_source() -> None:
    """A fact without a source cannot be looked up again."""
    row = catalog.machines()[MACHINE]
    assert row.source != "not looked up yet", f"write source and read in {FILE}"


def test_facts_are_looked_up() -> None:
    """A plan that needs an unknown fact is refused."""
    row = catalog.machines()[MACHINE]
    unknown = {field.name for field in fields(row) if getattr(row, field.name) is catalog.UNKNOWN}
    missing = sorted(unknown - NO_SOURCE_FOR)
    assert not missing, f"look these up and write them in {FILE}, or in NO_SOURCE_FOR: {', '.join(missing)}"
'''
STEPS = (
    "Look up the facts of PATH, with their source and when it was read. The comments of Machine in\n"
    "components/stampworks/catalog/rows.py say what each means. A fact that no source has stays unknown: it goes into\n"
    "NO_SOURCE_FOR of the test.",
    "python -m tests.docs.machines and python -m tests.docs.prices write the pages.",
    "pytest tests/catalog tests/planning tests/physics tests/docs",
)


@dataclass(frozen=True)
class Machine:
    """The facts of a new machine that its author gives."""

    name: str
    cloud: str
    accelerator: str
    accelerators: int


def scaffold(machine: Machine, root: Path) -> Scaffold:
    """Return the row of a machine, and its test."""
    names.check("machine", machine.name, names.DOTTED, names.DOTTED_RULE)
    path = f"{FOLDER}/{machine.cloud}.yaml"
    if not re.fullmatch(names.DASHED, machine.cloud) or not (root / path).exists():
        raise ScaffoldError(f"no cloud is called {machine.cloud!r}: add it with python -m tools.scaffold cloud")
    if taken := _taken(machine.name, root):
        raise ScaffoldError(f"there is a machine {machine.name!r} already: {taken}")
    _check_accelerators(machine)
    module = names.module(machine.name)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    row = ROW.replace("NAME", machine.name).replace("ACCELERATOR", machine.accelerator or '""')
    row = row.replace("COUNT", str(machine.accelerators)).replace("DATE", today.isoformat())
    test = TEST.replace("NAME", machine.name).replace("PATH", path)
    files = [File(path, row, extends=True), File(f"tests/catalog/test_{module}.py", test)]
    return Scaffold(files, [step.replace("PATH", path) for step in STEPS])


def _taken(name: str, root: Path) -> str:
    """Return the file that has a machine of the name, or one with it as an alias."""
    own = re.compile(rf"^{re.escape(name)}:|^  aliases: \[(?:.*, )?{re.escape(name)}(?:,.*)?\]$", re.MULTILINE)
    return next((file.name for file in sorted((root / FOLDER).glob("*.yaml")) if own.search(file.read_text())), "")


def _check_accelerators(machine: Machine) -> None:
    known = catalog.accelerators()
    if machine.accelerator and machine.accelerator not in known:
        raise ScaffoldError(f"no accelerator is called {machine.accelerator!r}: it is one of {', '.join(known)}")
    if bool(machine.accelerator) != (machine.accelerators > 0) or machine.accelerators < 0:
        raise ScaffoldError("--accelerator and --accelerators go together: a name, and how many of it a machine has")
