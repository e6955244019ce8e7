"""Consistency of the catalog's data files. A mistake in a file is reported with its place."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import catalog
from stampworks.catalog import hardware
from stampworks.catalog.hardware import machines_of
from stampworks.catalog.hardware import names as names_of
from stampworks.catalog.roles import ROLES
from stampworks.catalog.rows import load, rows, text

PACKAGE = Path(catalog.__file__).parents[1]


LOCAL = {name: row for name, row in catalog.machines().items() if row.cloud == "local"}
REAL = {name: row for name, row in catalog.machines().items() if row.cloud != "local"}
RATED = [name for name, row in REAL.items() if isinstance(row.nic_rate_gbps, int)]


def test_the_machines_of_the_local_cloud() -> None:
    """Simulated nodes promise what their declarations rely on, and nothing about speed."""
    facts = {each.name: (each.accelerators, each.nics, each.cores) for each in LOCAL.values()}
    assert facts == {"sim-h100": (8, 2, 16), "sim-a100-small": (2, 1, 16), "sim-cpu": (0, 0, 16)}
    assert all(machine.simulated and machine.nic_rate_gbps is catalog.UNKNOWN for machine in LOCAL.values())
    assert not any(machine.simulated for machine in REAL.values())


@pytest.mark.parametrize("name", RATED)
def test_nics_add_up_to_what_the_vendor_says_of_the_node(name: str) -> None:
    """A count, a rate or a total that was copied wrongly does not fit the other two."""
    machine = REAL[name]
    assert isinstance(machine.nic_rate_gbps, int)
    assert isinstance(machine.nics, int)
    assert machine.nics_rate_gbps == machine.nics * machine.nic_rate_gbps
    assert machine.nic_rate_gbps in (25, 100, 200, 400, 800)  # ports that exist


@pytest.mark.parametrize("name", REAL)
def test_nics_are_shared_out_evenly(name: str) -> None:
    """All accelerators of a machine have the same number of NICs, or all NICs the same number of accelerators."""
    machine = REAL[name]
    if machine.accelerators and isinstance(machine.nics, int) and machine.nics:
        assert machine.accelerators % machine.nics == 0 or machine.nics % machine.accelerators == 0


@pytest.mark.parametrize("name", catalog.machines())
def test_cores_and_disks_are_whole(name: str) -> None:
    """All sockets have the same number of cores. Disks have a count and a size, or both are unknown."""
    machine = catalog.machines()[name]
    if isinstance(machine.sockets, int) and isinstance(machine.cores, int):
        assert machine.cores % machine.sockets == 0
    assert machine.local_nvme.count != 0 or machine.local_nvme.gb == 0
    if isinstance(machine.cores, int) and isinstance(machine.memory_mib, int) and not machine.simulated:
        assert 2 <= machine.memory_mib / 1024 / machine.cores <= 64  # GiB a core


@pytest.mark.parametrize(
    ("names", "gib"),
    [  # vendors' figures for the accelerators of a node together, in GiB or in GB that are GiB
        (["p4d", "ND96asr_v4", "BM.GPU4.8"], 320),
        (["p4de", "p5", "ND96isr_H100_v5", "BM.GPU.A100-v2.8", "BM.GPU.H100.8", "dgx-h100"], 640),
        (["p5e", "p5en", "ND96isr_H200_v5", "BM.GPU.H200.8", "dgx-h200"], 1128),
        (["p6-b200"], 1432),
        (["p6-b300"], 2144),
        (["p6e-gb200"], 740),
        (["ND96isr_MI300X_v5"], 1535),
        (["mi325x"], 2047),
        (["p5-4xlarge"], 80),
        (["trn1"], 512),
        (["trn2"], 1536),
    ],
)
def test_the_memory_of_accelerators_adds_up(names: list[str], gib: int) -> None:
    """The rounded value for each accelerator, times their number, is at most 1 GiB for each below the published sum."""
    for name in names:
        machine = catalog.machines()[name]
        memory_gib = catalog.accelerators()[machine.accelerator].memory_gib
        assert isinstance(memory_gib, int)
        assert gib - machine.accelerators < machine.accelerators * memory_gib <= gib


@pytest.mark.parametrize(
    ("names", "nics_gbs"),
    [
        (["p4d", "p4de"], 50),
        (["BM.GPU4.8", "B4.8", "A100-v2.8", "GB200.4", "GB200-v2.4", "a3-megagpu-8g"], 200),
        (["nd-a100-v4", "nd-gb200-v6", "p6e-gb200", "a4x", "trn1n", "dgx-a100", "dgx-gb200"], 200),
        (["p5", "p5e", "p5en", "p6-b200", "trn2", "a3-ultragpu-8g", "a4-highgpu-8g", "ND96isr_H100_v5"], 400),
        (["BM.GPU.H100.8", "H200.8", "B200.8", "GB200-v3.4", "GB300.4", "MI300X.8", "nd-mi300x-v5"], 400),
        (["dgx-h100", "dgx-h200", "dgx-b200", "hgx", "coreweave-h100", "nebius-h200", "nd-gb300-v6"], 400),
        (["p6-b300", "B300.8", "dgx-b300", "nebius-b300"], 800),
        (["a3-high", "trn1"], 100),
    ],
)
def test_the_nics_of_a_node(names: list[str], nics_gbs: int) -> None:
    """The totals are the published ones, in GB/s of one direction."""
    totals = {name: catalog.machine_names()[name].nics_rate_gbps for name in names}
    assert totals == dict.fromkeys(names, nics_gbs * 8)


def test_the_addresses_of_a_node() -> None:
    """Addresses come from the cloud's networks. EFA-only, InfiniBand and Oracle's RoCE NICs need none on the fabric."""
    taken = {
        name: (machine.other_nics, machine.nics * nic.addresses)
        for name in ("p5", "nd-h100-v5", "BM.GPU.H100.8", "a3-high", "a3-mega", "a3-ultra", "a4", "a2-ultra")
        if isinstance((machine := catalog.machine_names()[name]).nics, int) and (nic := catalog.nic_of(machine))
    }
    assert taken == {
        **dict.fromkeys(("p5", "nd-h100-v5", "BM.GPU.H100.8"), (1, 0)),
        "a3-high": (1, 4),
        "a3-mega": (1, 8),
        "a3-ultra": (2, 8),
        "a4": (2, 8),
        "a2-ultra": (0, 1),
    }


def test_a_nic_for_the_fabric_alone_needs_another_one() -> None:
    """A node that only has RDMA could not be reached."""
    for machine in REAL.values():
        if (nic := catalog.nic_of(machine)) and nic.rdma_only and machine.cloud != "hosts":
            assert isinstance(machine.other_nics, int)
            assert machine.other_nics >= 1


def test_every_machine_that_is_asked_for_is_there() -> None:
    """Machines are found by their common names, on the cloud that has them."""
    asked = {
        "aws": "p4d p4de p5 p5-4xlarge p5e p5en p6-b200 p6-b300 p6e-gb200 g6 g6e trn1 trn2 m7i",
        "azure": "nd-a100-v4 nd-h100-v5 nd-h200-v5 nd-gb200-v6 nd-gb300-v6 nd-mi300x-v5 d8s-v5",
        "google": "a2 a3-high a3-mega a3-ultra a4 a4x tpu-v5e tpu-v5p v6e n2-standard-8",
        "oracle": "BM.GPU4.8 A100-v2.8 H100.8 H200.8 B200.8 B300.8 GB200.4 MI300X.8 E5.Flex",
        "hosts": "dgx-a100 dgx-h100 dgx-h200 dgx-b200 dgx-b300 hgx mi300x mi325x",
    }
    for cloud, names in asked.items():
        assert {catalog.machine_names()[name].cloud for name in names.split()} == {cloud}
    assert {row.cloud for row in catalog.machines().values()} == set(catalog.CLOUDS)


def test_every_full_name_of_a_provider_is_an_alias() -> None:
    found = {name: row.name for name, row in catalog.machine_names().items() if row.name != name}
    assert found["p5.48xlarge"] == "p5"
    assert found["H200.8"] == "BM.GPU.H200.8"
    assert found["Standard_ND96isr_H100_v5"] == "ND96isr_H100_v5"


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_a_file_says_nothing_twice(cloud: str) -> None:
    """Otherwise the last of two rows, or of two facts, would win silently. Names are found during parsing."""
    document = yaml.compose(text(f"machines/{cloud}.yaml"))
    assert isinstance(document, yaml.MappingNode)
    tables = [document, *(row for _, row in document.value)]
    for table in tables:
        keys = [key.value for key, _ in table.value]
        assert len(keys) == len(set(keys))
    assert names_of(cloud) == tuple(key.value for key, _ in document.value)


def test_a_lookup_reads_only_the_cloud_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup spends most of its time on parsing."""
    read: list[str] = []

    def noted(file: str) -> Any:
        read.append(file)
        return load(file)

    monkeypatch.setattr(hardware, "load", noted)
    machines_of.cache_clear()
    assert catalog.machines()["p5"].cloud == "aws"
    assert "p5" in catalog.machines()
    assert "nothing" not in catalog.machines()
    assert [file for file in read if file != hardware.PARTS] == ["machines/aws.yaml"]


@pytest.mark.parametrize("name", [name for name, row in REAL.items() if row.nvlink_nodes is not catalog.UNKNOWN])
def test_a_rack_of_nvlink_holds_72_accelerators(name: str) -> None:
    """NVLink ends at the node, or at the rack; only Grace reaches its host through NVLink."""
    machine = REAL[name]
    assert isinstance(machine.nvlink_nodes, int)
    if catalog.accelerators()[machine.accelerator].links == "torus":
        assert machine.nvlink_nodes == 1 or machine.accelerators * machine.nvlink_nodes in (256, 6144)
        return
    assert machine.nvlink_nodes == 1 or machine.accelerators * machine.nvlink_nodes == 72
    assert (machine.host_link == "nvlink-c2c") == (machine.nvlink_nodes > 1)


def test_accelerators_are_faster_than_anybody_measured() -> None:
    """A peak below a published measurement is wrong, or is of another precision."""
    for row in catalog.accelerators().values():
        if isinstance(row.bf16_dense_tflops, float) and isinstance(row.bf16_measured_tflops, float):
            assert 0.5 < row.bf16_measured_tflops / row.bf16_dense_tflops < 0.9, row.name


def test_fp8_is_twice_bf16_where_there_is_any() -> None:
    """Peaks of another precision, or with sparsity, are four times as high; chips older than fp8 have none."""
    for row in catalog.accelerators().values():
        if isinstance(row.bf16_dense_tflops, float) and isinstance(row.fp8_dense_tflops, float):
            share = row.fp8_dense_tflops / row.bf16_dense_tflops
            assert share == pytest.approx(2, rel=0.03) or share in (0, 1), row.name


def test_only_a_switch_adds_up_and_only_links_have_a_rate() -> None:
    for row in catalog.accelerators().values():
        assert row.links == "switched" or row.switch_reduces is False
        assert (row.nvlink_gbs == 0) == (row.links == "none")


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


BRING_ALL = [row for row in catalog.releases().values() if not row.vendor_images and not row.takes_found]
"""Releases whose nodes use no image of a vendor, and keep nothing that they have."""


def test_an_image_of_a_vendor_is_of_a_day_and_has_what_roles_would_bring() -> None:
    """The name ends with its date, which is not after the date of its notes. Parts belong to roles and have
    versions."""
    rows = [(release, image) for release in catalog.releases().values() for image in release.vendor_images.items()]
    assert len(rows) == 2
    for release, (cloud, image) in rows:
        day = image.image[-8:]
        assert re.fullmatch(r"20[0-9]{6}", day)
        assert day <= image.read.replace("-", "")
        assert day in image.source
        assert set(image.parts) <= {role.name for role in ROLES}
        assert all(version for parts in image.parts.values() for version in parts.values())
        machine = catalog.machines()["p5"]
        assert cloud == machine.cloud
        assert catalog.published_image(machine, f"{release.suite} {image.kind}").x86_64.startswith("/aws/service/")


def test_the_fabric_manager_is_of_the_drivers_version() -> None:
    """The driver refuses another version."""
    for release in BRING_ALL:
        versions = {
            version
            for role in ("driver", "persistence", "fabric_manager")
            for version in release.hardware[role].packages.values()
            if version  # parts with versions of their own, such as the manager of subnets
        }
        assert len(versions) == 1


def test_accelerators_with_a_driver_are_in_the_catalog() -> None:
    """A release names them as parts.yaml does."""
    for release in catalog.releases().values():
        assert set(release.accelerators) <= set(catalog.accelerators())


def test_the_newest_release_is_the_latest_month() -> None:
    """Names of releases sort by age and not by spelling; a release for some clouds is never the default."""
    everywhere = [name for name, row in catalog.releases().items() if not row.clouds]
    assert catalog.newest_release() == max(everywhere, key=lambda name: [int(part) for part in name.split(".")])


def test_a_release_runs_one_system() -> None:
    """A release for some clouds lists them, and every release names the system of its nodes."""
    for release in catalog.releases().values():
        assert set(release.clouds) <= set(catalog.CLOUDS)
        assert len({"debian", "ubuntu", "amzn"} & set(release.versions["base"])) == 1


def test_a_lustre_client_is_of_the_releases_kernel() -> None:
    """The package is for a single kernel, which the release installs; another kernel would not load it. Amazon Linux
    has a package for each of its kernels."""
    found = [release for release in catalog.releases().values() if release.clients["lustre"].packages]
    brought = [release for release in found if release.suite != "al2023" and release in BRING_ALL]
    for release in brought:
        modules = f"lustre-client-modules-{release.kernel}"
        assert [*release.clients["lustre"].packages] == [modules, "lustre-client-utils"]
        assert f"linux-image-{release.kernel}" in release.hardware["kernel"].packages
    assert brought


def test_sources_have_digests() -> None:
    """Sources name a full commit and no tag, and their role has the dependencies of the build."""
    assert all("pyxis" in release.sources for release in BRING_ALL)
    for release in catalog.releases().values():
        for role, source in release.sources.items():
            assert re.fullmatch("[0-9a-f]{40}", source.commit)
            packages = set(release.hardware[role].packages)
            assert {"build-essential", "git"} <= packages or {"gcc", "make", "git"} <= packages


def test_roles_of_a_release_refer_to_each_other() -> None:
    """Versions and switches of a release name roles that it has."""
    for release in catalog.releases().values():
        assert set(release.versions) <= set(release.packages)
        assert set(release.accounting_roles) <= set(release.packages)


def test_no_package_is_listed_twice() -> None:
    """A package belongs to a role or to the base, so that its origin is known."""
    for release in catalog.releases().values():
        everything = [*release.base_packages, *(each for packages in release.packages.values() for each in packages)]
        assert len(everything) == len(set(everything))


def test_an_unknown_fact_is_not_zero() -> None:
    """An unknown fact has no truth value and equals no number."""
    facts = load("machines/local.yaml")["sim-cpu"] | {"memory_mib": "unknown"}
    machine = rows(catalog.Machine, {"new": facts}, "test", cloud="local")["new"]
    assert machine.memory_mib is catalog.UNKNOWN
    with pytest.raises(TypeError, match=r"^an unknown fact is neither true nor false: compare it with UNKNOWN$"):
        bool(machine.memory_mib)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nics": None}, "test: new: lacks nics (write unknown for a fact that was not looked up)"),
        ({"nicks": 2}, "test: new: no fact is called nicks"),
        ({3: 2}, "test: new: no fact is called 3"),
        ({"nics": "two"}, "test: new: nics: 'two' does not fit: it is a whole number or unknown"),
        ({"accelerators": "unknown"}, "test: new: accelerators: 'unknown' does not fit: it is a whole number"),
        ({"nics": True}, "test: new: nics: True does not fit: it is a whole number or unknown"),
        ({"nics": -1}, "test: new: nics: -1 does not fit: it is a whole number or unknown"),
        ({"power_kw": math.inf}, "test: new: power_kw: inf does not fit: it is a number with a point or unknown"),
        ({"power_kw": math.nan}, "test: new: power_kw: nan does not fit: it is a number with a point or unknown"),
        ({"simulated": "yes"}, "test: new: simulated: 'yes' does not fit: it is true or false"),
        ({"aliases": "p"}, "test: new: aliases: 'p' does not fit: it is a list"),
        ({"billing_unit": "day"}, "test: new: billing_unit: 'day' does not fit: it is node-hour or accelerator-hour "
         "or none or unknown"),
        ({"local_nvme": 8}, "test: new: local_nvme: 8 does not fit: it is a table"),
        ({"local_nvme": {"count": 8}}, "test: new: local_nvme: lacks gb (write unknown for a fact that was "
"not looked up)"),
        ({"read": "yesterday"}, "test: new: needs a source, and when it was read, like '2026-11' or '2026-11-22', in "
         "quotes"),
        ({"source": ""}, "test: new: needs a source, and when it was read, like '2026-11' or '2026-11-22', in quotes"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_data_file_is_named(change: dict[Any, Any], message: str) -> None:
    """The error names row and fact of the data file."""
    facts = load("machines/local.yaml")["sim-cpu"] | change
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    with pytest.raises(catalog.CatalogError) as error:
        rows(catalog.Machine, {"new": facts}, "test", cloud="local")
    assert str(error.value) == message


@pytest.mark.parametrize("data", [None, [], "p5", {"p5": None}, {"p5": []}])
def test_invalid_tables_are_refused(data: Any) -> None:
    with pytest.raises(catalog.CatalogError, match=r"^test: (p5: )?is not a mapping of "):
        rows(catalog.Machine, data, "test", cloud="aws")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accelerator": "h900"}, "machines/local.yaml: sim-h100: accelerator: machines/parts.yaml has no 'h900'"),
        ({"host_link": "isa"}, "machines/local.yaml: sim-h100: host_link: machines/parts.yaml has no 'isa'"),
        ({"nic": "token-ring"}, "machines/local.yaml: sim-h100: nic: machines/parts.yaml has no 'token-ring'"),
        ({"accelerators": 0}, "machines/local.yaml: sim-h100: accelerators: 0 does not fit 'h100'"),
        ({"nic": ""}, "machines/local.yaml: sim-h100: nics: 2 does not fit ''"),
        ({"nic": "unknown"}, "machines/local.yaml: sim-h100: nics: 2 does not fit 'unknown'"),
        ({"nics": "unknown"}, "machines/local.yaml: sim-h100: nics: unknown does not fit 'simulated'"),
    ],
)
def test_facts_that_do_not_fit_together_are_named(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = load("machines/local.yaml")["sim-h100"] | change
    monkeypatch.setattr(hardware, "load", lambda file: load(file) if file == hardware.PARTS else {"sim-h100": facts})
    with pytest.raises(catalog.CatalogError) as error:
        machines_of.__wrapped__("local")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("name", "near", "accelerator"),
    [
        ("p55", "p5", "h100"),
        ("P5_48xlarge", "p5", "h100"),
        ("P5_4xlarge", "p5-4xlarge", "h100"),
        ("p6-b20.48xlarge", "p6-b200", "b200"),
        ("g5.xlarge", "", ""),
        ("p3.16xlarge", "", ""),
        ("Standard_ND96isr_H100_v6", "ND96isr_H100_v5", "h100"),
        ("a3-ultragpu", "a3-ultragpu-8g", "h200"),
        ("gb200", "BM.GPU.GB200.4", "gb200"),
        ("a100-80gb", "", "a100-80gb"),
        ("quantum", "", ""),
        ("", "", ""),
        ("x" * 100_000, "", ""),
    ],
)
def test_suggestions(name: str, near: str, accelerator: str) -> None:
    """Suggestions are near spellings, and machines with the same accelerator."""
    found = catalog.suggestions(name)
    assert (found.near.name if found.near else "") == near
    assert found.accelerator == accelerator
    assert {row.accelerator for row in found.having_it} <= {accelerator}
    clouds = [row.cloud for row in found.having_it]
    assert len(clouds) == len(set(clouds))
    assert bool(clouds) == bool(accelerator)
    assert "local" not in clouds


@pytest.mark.parametrize("name", [name for name in catalog.machine_names() if "." in name])
@pytest.mark.parametrize("dash", ["-", "_"])
def test_a_dash_for_a_dot_is_no_other_machine(name: str, dash: str) -> None:
    """Sizes of a family differ by less than that: g6-48xlarge is more like g6-8xlarge than like g6.48xlarge."""
    machine = catalog.machine_names()[name]
    assert catalog.suggestions(name.replace(".", dash), machine.cloud).near is machine


def test_rows_cannot_be_changed() -> None:
    """All callers get the same facts."""
    with pytest.raises(TypeError):
        catalog.machines()["mine"] = catalog.machines()["sim-cpu"]  # type: ignore[index]


def test_the_catalog_is_read_from_a_zip_file(tmp_path: Path) -> None:
    """Data files are found wherever Python finds the package, also in a zip file."""
    archive = tmp_path / "stampworks.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in [PACKAGE / "__init__.py", *sorted((PACKAGE / "catalog").rglob("*"))]:
            if file.is_file():
                out.write(file, file.relative_to(PACKAGE.parent))
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from stampworks import catalog\n"
        "print(catalog.__file__, catalog.newest_release(), catalog.machines()['p5'].cloud)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [f"{archive}/stampworks/catalog/__init__.py", catalog.newest_release(), "aws"]
