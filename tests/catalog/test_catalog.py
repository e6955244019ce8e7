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


LOCAL = {name: row for name, row in catalog.machines().items() if row.cloud == "local"}
REAL = {name: row for name, row in catalog.machines().items() if row.cloud != "local"}


def test_the_machines_of_the_local_cloud() -> None:
    """Simulated nodes promise what their declarations rely on, and nothing about speed."""
    facts = {each.name: (each.accelerators, each.nics, each.cores) for each in LOCAL.values()}
    assert facts == {"sim-h100": (8, 2, 16), "sim-a100-small": (2, 1, 16), "sim-cpu": (0, 0, 16)}
    assert all(machine.simulated and machine.nic_rate_gbps is catalog.UNKNOWN for machine in LOCAL.values())
    assert not any(machine.simulated for machine in REAL.values())


@pytest.mark.parametrize("name", REAL)
def test_nics_add_up_to_what_the_vendor_says_of_the_node(name: str) -> None:
    """A count, a rate or a total that was copied wrongly does not fit the other two."""
    machine = REAL[name]
    assert isinstance(machine.nic_rate_gbps, int)
    assert machine.nics_rate_gbps == machine.nics * machine.nic_rate_gbps
    assert machine.nic_rate_gbps in (100, 200, 400)  # ports that exist


@pytest.mark.parametrize(
    ("names", "nics_gbs"),
    [
        (["p4d", "p4de"], 50),
        (["BM.GPU4.8", "B4.8", "A100-v2.8", "GB200.4", "GB200-v2.4", "ND128isr_GB300_v6", "a3-megagpu-8g"], 200),
        (["p5", "p5e", "p5en", "p6-b200", "a3-ultragpu-8g", "a4-highgpu-8g", "ND96isr_H100_v5"], 400),
        (["BM.GPU.H100.8", "H200.8", "B200.8", "GB200-v3.4", "GB300.4"], 400),
        (["p6-b300", "B300.8"], 800),
    ],
)
def test_the_nics_of_a_node(names: list[str], nics_gbs: int) -> None:
    """The totals that everybody quotes, in GB/s of one direction."""
    totals = {name: catalog.machine_names()[name].nics_rate_gbps for name in names}
    assert totals == dict.fromkeys(names, nics_gbs * 8)


def test_the_cloud_of_a_machine_and_its_names() -> None:
    """Each machine of a cloud is found by the provider's full name of it, too."""
    found = {name: row.name for name, row in catalog.machine_names().items() if row.name != name}
    assert found["p5.48xlarge"] == "p5"
    assert found["H200.8"] == "BM.GPU.H200.8"
    assert found["Standard_ND96isr_H100_v5"] == "ND96isr_H100_v5"
    assert {row.cloud for row in catalog.machines().values()} == {"local", "aws", "google", "oracle", "azure"}


@pytest.mark.parametrize("name", REAL)
def test_a_rack_of_nvlink_holds_72_accelerators(name: str) -> None:
    """NVLink ends at the node of eight, or at the rack; only Grace reaches its host through NVLink."""
    machine = REAL[name]
    assert isinstance(machine.nvlink_nodes, int)
    assert machine.accelerators * machine.nvlink_nodes in (8, 72)
    assert (machine.host_link == "nvlink-c2c") == (machine.nvlink_nodes > 1)


def test_accelerators_are_faster_than_anybody_measured() -> None:
    """A peak below a measurement is a wrong peak, or one of another precision."""
    for row in catalog.accelerators().values():
        assert isinstance(row.bf16_dense_tflops, float)
        assert isinstance(row.bf16_measured_tflops, float)
        assert 0.7 < row.bf16_measured_tflops / row.bf16_dense_tflops < 0.9, row.name


@pytest.mark.parametrize(("links", "rate_gbs", "generation"), [(12, 25, "a100"), (18, 25, "h100"), (18, 50, "b200")])
def test_nvlink_is_the_sum_of_its_links(links: int, rate_gbs: int, generation: str) -> None:
    """Links of an accelerator times the rate of one, in one direction."""
    assert catalog.accelerators()[generation].nvlink_gbs == links * rate_gbs


def test_the_rate_of_pcie_is_lanes_times_transfers() -> None:
    """16 lanes, 128 of 130 bits, 8 bits a byte; a packet of 256 bytes has 24 more."""
    for name, gigatransfers in (("pcie4-x16", 16), ("pcie5-x16", 32)):
        link = catalog.host_links()[name]
        assert link.rate_gbs == pytest.approx(16 * gigatransfers * 128 / 130 / 8, rel=0.01)
        assert link.data_share == pytest.approx(256 / 280, rel=0.001)


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
