"""The contract of clouds: each registered part exists, and each cloud is registered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import stampworks.clouds
from stampworks import catalog, planning
from stampworks.clouds.contract import Cloud
from stampworks.clouds.registry import CLOUDS, needed, rehearsed, stamped, with_kubernetes

from tests.docs import clouds as page

PACKAGES = {path.parent.name for path in Path(stampworks.clouds.__path__[0]).glob("*/__init__.py")}


def parts(of: object) -> Iterator[Callable[[], object]]:
    """Return the functions that import parts of a cloud."""
    for field in fields(of) if is_dataclass(of) and not isinstance(of, type) else ():
        value = getattr(of, field.name)
        if callable(value):
            yield value
        elif value is not None:
            yield from parts(value)


def test_each_package_is_registered() -> None:
    """A cloud that is not registered could only be planned, without a warning."""
    assert set(CLOUDS) == PACKAGES
    assert set(CLOUDS) <= set(catalog.CLOUDS)
    assert set(stamped()) == {name for name, choices in planning.clouds.CLOUDS.items() if choices.stamped}
    assert set(with_kubernetes()) <= set(stamped()) <= set(rehearsed())


@pytest.mark.parametrize("cloud", CLOUDS)
def test_each_part_is_there(cloud: str) -> None:
    """mypy holds the modules against the protocols; here they are imported as the assembly imports them."""
    found = [part() for part in parts(CLOUDS[cloud])]
    assert len(found) >= 3
    assert all(each is not None for each in found)


def test_a_missing_part_is_named() -> None:
    with pytest.raises(LookupError, match=r"clouds\.local has no database: its __init__\.py has to name it"):
        needed(CLOUDS["local"].database, "database", "local")


def test_the_page_tells_of_each_part() -> None:
    """A new optional part gets a column of docs/reference/clouds.md."""
    assert {*page.NEEDED, *page.ABILITIES} == {field.name for field in fields(Cloud)}


def test_the_registry_imports_no_sdk() -> None:
    """A part is imported when it is asked for."""
    program = (
        "import stampworks.clouds.registry, sys; print(*sorted({'pulumi', 'pulumi_aws', 'boto3'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
