"""A new cloud: choices of planning and a file of machines. Its components follow once it can be planned."""

from __future__ import annotations

from pathlib import Path

from . import names
from .files import File, Scaffold, ScaffoldError

CHOICES = '''\
"""Choices on NAME: so far the same as wherever machines are rented one by one."""

from dataclasses import replace

from stampworks.planning.clouds import rented

CHOICES = replace(rented.CHOICES)
'''
MACHINES = """\
# NAME. Say how it names its machines, and where their facts come from.
"""
TEST = '''\
"""NAME is a cloud: it can be planned, then stamped."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from stampworks import catalog
from stampworks.catalog.hardware import names
from stampworks.planning.clouds import CLOUDS

COMPONENTS = Path(__file__).parents[2] / "components/stampworks"
CLOUD, PACKAGE = "NAME", "MODULE"
PARTS = ("place", "network", "nodes", "storage", "members", "renewal", "facts")


def test_the_catalog_has_the_cloud() -> None:
    """A declaration can name the clouds of one list."""
    assert CLOUD in catalog.CLOUDS, f"add {CLOUD!r} to Cloud in components/stampworks/catalog/hardware.py"


def test_the_cloud_has_machines() -> None:
    """A cloud without machines can have no pool."""
    assert names(CLOUD), f"add a machine: python -m tools.scaffold machine MACHINE --cloud {CLOUD}"


def test_planning_has_its_choices() -> None:
    """Without its line in the table a cloud is planned as if machines were rented one by one."""
    choices = importlib.import_module(f"stampworks.planning.clouds.{PACKAGE}").CHOICES
    assert CLOUDS.get(CLOUD) is choices, f"add {CLOUD!r} to _OWN in components/stampworks/planning/clouds/__init__.py"


@pytest.mark.parametrize("part", PARTS)
def test_components_make_the_cloud(part: str) -> None:
    """A cloud that can be stamped has what its siblings have."""
    file, example = f"clouds/{PACKAGE}/{part}.py", f"clouds/local/{part}.py"
    there = (COMPONENTS / file).exists() or (COMPONENTS / f"clouds/{PACKAGE}/{part}").is_dir()
    assert there, f"write components/stampworks/{file}, as docs/contributing/adding-a-cloud.md and {example} show"
'''
STEPS = (
    "Add 'NAME' to Cloud in components/stampworks/catalog/hardware.py.",
    "Add its machines: python -m tools.scaffold machine MACHINE --cloud NAME",
    "Say what it decides about a plan, with source and date, in components/stampworks/planning/clouds/MODULE.py, and\n"
    "add its line to components/stampworks/planning/clouds/__init__.py.",
    "python -m tests.docs.settings, and the same with machines, clouds and one_cluster, write the pages.",
    "pytest tests/clouds/test_MODULE.py: the cloud can be planned when only the tests of its components fail. Go on\n"
    "with step 3 of docs/contributing/adding-a-cloud.md, or remove these tests until then.",
)


def scaffold(name: str, root: Path) -> Scaffold:
    """Return the files of a cloud."""
    names.check("cloud", name, names.DASHED, names.DASHED_RULE)
    module = names.module(name)
    texts = {
        f"components/stampworks/planning/clouds/{module}.py": CHOICES,
        f"components/stampworks/catalog/machines/{name}.yaml": MACHINES,
        f"tests/clouds/test_{module}.py": TEST,
    }
    if taken := [path for path in (*texts, f"components/stampworks/clouds/{module}") if (root / path).exists()]:
        raise ScaffoldError(f"there is something of the name {name!r} already: {', '.join(taken)}")
    files = [File(path, _named(text, name, module)) for path, text in texts.items()]
    return Scaffold(files, [_named(step, name, module) for step in STEPS])


def _named(text: str, name: str, module: str) -> str:
    return text.replace("NAME", name).replace("MODULE", module)
