"""The catalog's data files are whole, and a mistake in one is named."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from stampworks import catalog
from stampworks.catalog.rows import load, rows

PACKAGE = Path(catalog.__file__).parents[1]


def test_every_machine_names_an_accelerator_of_the_catalog_or_has_none() -> None:
    """A row that says how many accelerators it has also says which."""
    for machine in catalog.machines().values():
        assert bool(machine.accelerator) == (machine.accelerators > 0)
        assert not machine.accelerator or machine.accelerator in catalog.accelerators()


def test_the_machines_of_the_local_cloud() -> None:
    """Simulated nodes promise what their declarations rely on."""
    facts = {each.name: (each.accelerators, each.nics, each.cores) for each in catalog.machines().values()}
    assert facts == {"sim-h100": (8, 2, 16), "sim-a100-small": (2, 1, 16), "sim-cpu": (0, 0, 16)}
    assert all(machine.simulated for machine in catalog.machines().values())


def test_the_newest_release_is_the_latest_month() -> None:
    """Names of releases sort by age and not by spelling."""
    assert catalog.newest_release() == max(catalog.releases(), key=lambda name: [int(part) for part in name.split(".")])


def test_roles_of_a_release_refer_to_each_other() -> None:
    """Versions and switches of a release name roles that it has."""
    for release in catalog.releases().values():
        assert set(release.versions) <= set(release.packages)
        assert set(release.accounting_roles) <= set(release.packages)


def test_no_package_is_listed_twice() -> None:
    """A package belongs to one role or to the base, so that it is known who brings it."""
    for release in catalog.releases().values():
        everything = [*release.base_packages, *(each for packages in release.packages.values() for each in packages)]
        assert len(everything) == len(set(everything))


def test_an_unknown_fact_is_not_zero() -> None:
    """What nobody has looked up has no truth value and equals no number."""
    facts = load("machines.yaml")["machines"]["sim-cpu"] | {"memory_mib": "unknown"}
    machine = rows(catalog.Machine, {"new": facts}, "test")["new"]
    assert machine.memory_mib is catalog.UNKNOWN
    with pytest.raises(TypeError, match=r"^an unknown fact is neither true nor false: compare it with UNKNOWN$"):
        bool(machine.memory_mib)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"nics": None}, "test: new: lacks nics (a fact that nobody has looked up is written unknown)"),
        ({"nicks": 2}, "test: new: knows no nicks"),
        ({"nics": "two"}, "test: new: nics: 'two' does not fit"),
        ({"nics": "unknown"}, "test: new: nics: 'unknown' does not fit"),
        ({"nics": True}, "test: new: nics: True does not fit"),
        ({"simulated": "yes"}, "test: new: simulated: 'yes' does not fit"),
    ],
)
def test_a_mistake_in_a_data_file_is_named(change: dict[str, Any], text: str) -> None:
    """Whoever edits the catalog reads which row and which fact is wrong."""
    facts = load("machines.yaml")["machines"]["sim-cpu"] | change
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    with pytest.raises(catalog.CatalogError) as error:
        rows(catalog.Machine, {"new": facts}, "test")
    assert str(error.value) == text


def test_rows_cannot_be_changed() -> None:
    """A lookup gives everybody the same facts."""
    with pytest.raises(TypeError):
        catalog.machines()["mine"] = catalog.machines()["sim-cpu"]  # type: ignore[index]


def test_the_catalog_is_read_from_a_zip_file(tmp_path: Path) -> None:
    """Data files are found wherever Python finds the package, also where there are no files."""
    archive = tmp_path / "stampworks.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in [PACKAGE / "__init__.py", *sorted((PACKAGE / "catalog").iterdir())]:
            if file.is_file():
                out.write(file, file.relative_to(PACKAGE.parent))
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from stampworks import catalog\n"
        "print(catalog.__file__, catalog.newest_release())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [f"{archive}/stampworks/catalog/__init__.py", catalog.newest_release()]
