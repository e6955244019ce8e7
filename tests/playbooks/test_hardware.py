"""Roles of a GPU node on a node without such hardware: real apt and dpkg, and packages without content.

Packages have the names and versions of the release; each has a newer version, which must not be installed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import platform
import shlex
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks import catalog, configuration, planning
from stampworks.configuration import CheckModeResult, PlaybookFailed, Recap
from stampworks.declaration import load_value
from stampworks.plan import Plan, Software
from stampworks.schedulers import slurm

from tests.playbooks.conftest import SECRETS, Cluster, Edit, booted, plan_of
from tests.playbooks.sources import PLUGIN, TOOL, source
from tests.playbooks.test_wheels import wheel

pytestmark = [pytest.mark.cluster, pytest.mark.long]

GOLDEN = Path(__file__).parent / "golden"
ROLES = Path(__file__).parents[2] / "playbooks/roles"
NODE = "gpu-001"
KERNEL = platform.release()
NEWER = "999.1-1"
SERVICES = {
    "nvidia-persistenced": "nvidia-persistenced",
    "nvidia-fabricmanager": "nvidia-fabricmanager",
    "datacenter-gpu-manager-4-core": "nvidia-dcgm",
    "datacenter-gpu-manager-exporter": "nvidia-dcgm-exporter",
}
"""Services by the package that contains them."""
BESIDE = Software("pci", tuple(catalog.releases()["2026.11"].hardware["pci"].packages.items()))
"""Software that the machine's cloud decides."""
TORCH = {"torch": "2.11.0"}
ROOT, SWITCH, GPU, NIC = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
DEVICES = {
    ROOT: ("0x060400", 0x1D),
    SWITCH: ("0x060400", 0x5D),
    GPU: ("0x030200", None),
    NIC: ("0x020700", 0x00),
}
"""Devices by their place on the bus: class and enabled Access Control Services; None without such services."""
BUILT_WITH = ("build-essential", "git")
RENTED = {
    "version": 1,
    "name": "rented",
    "cloud": "aws",
    "region": "us-east-1",
    "pools": [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}],
    "users": [{"name": "alice", "uid": 2001}],
    "proof": {"level": "none"},
}


def rented() -> Plan:
    """A machine with all hardware of a release, without local disks (test_scratch.py) and torch."""
    made = planning.plan(load_value(RENTED, "test"))
    brought = tuple(each for each in made.release.hardware if each.name not in ("scratch", "torch"))
    brought += (BESIDE,)
    roles = tuple(software.name for software in brought)
    groups = (made.groups[0], *(dataclasses.replace(group, hardware=roles) for group in made.groups[1:]))
    return dataclasses.replace(made, groups=groups, release=dataclasses.replace(made.release, hardware=brought))


@dataclasses.dataclass
class Equipped:
    """A node of the machine room that the playbooks treat as the rented machine."""

    cluster: Cluster
    plan: Plan
    lock: Path
    """Lock of the role torch."""

    def __post_init__(self) -> None:
        perf = ["build/all_reduce_perf", "build/sendrecv_perf"]
        self.sources = {
            "pyxis_source": source("pyxis", self.cluster.share, PLUGIN, ["make"], ["spank_pyxis.so"]),
            "nccl_source": source("nccl-tests", self.cluster.share, TOOL, ["make", *perf], perf),
        }

    def inventory(self, edit: Edit = lambda _: None) -> dict[str, Any]:
        """The rented cluster's, with the roles of the hardware and no others."""
        roster = self.cluster.roster
        inventory = configuration.inventory(self.plan, roster, slurm.files(self.plan, roster))
        mine = {*(software.name for software in self.plan.release.hardware), "reboot"}
        children = inventory["all"]["children"]
        inventory["all"]["children"] = {role: group for role, group in children.items() if role in mine}
        inventory["all"]["vars"] |= dict.fromkeys(("driver_kernel", "efa_kernel", "validate_kernel"), KERNEL)
        # kernel settings of which each network namespace has its own
        inventory["all"]["vars"]["efa_settings"] = {"net.ipv4.tcp_syn_retries": 4}
        inventory["all"]["children"]["torch"] = {"hosts": {NODE: {}}}
        inventory["all"]["vars"] |= {"torch_packages": TORCH, "torch_lock": str(self.lock), **self.sources}
        edit(inventory["all"])
        return inventory

    def play(self, edit: Edit = lambda _: None) -> Recap:
        reach = self.cluster.roster.reach
        return asyncio.run(configuration.play("site.yml", self.inventory(edit), reach, SECRETS, print, 5))

    def look(self) -> CheckModeResult:
        reach = self.cluster.roster.reach
        look = configuration.look("site.yml", self.inventory(), [NODE, "head"], reach, SECRETS, print, 5)
        return asyncio.run(look)

    def refused(self, edit: Edit = lambda _: None) -> str:
        with pytest.raises(PlaybookFailed) as refusal:
            self.play(edit)
        return str(refusal.value)

    def module(self, name: str, arguments: dict[str, Any], check: bool = False) -> dict[str, Any]:
        return self.cluster.module(NODE, name, arguments, check)

    def pinned(self, role: str, check: bool = False, **other: Any) -> dict[str, Any]:
        """Run the task of a role whose packages have no dependencies."""
        variables = self.inventory()["all"]["vars"]
        call = {"name": role, "packages": variables[f"{role}_packages"], "along": []}
        return self.module("pinned", {**call, "kernel": variables.get(f"{role}_kernel", ""), **other}, check)

    def built(self, check: bool = False, packages: tuple[str, ...] = BUILT_WITH, **other: Any) -> dict[str, Any]:
        """Run the last task of the role nccl, with a source that may be changed."""
        call = {"source": self.sources["nccl_source"] | other, "packages": dict.fromkeys(packages, "")}
        return self.module("built", call | {"directory": "/usr/local/bin", "build": True}, check)

    def shell(self, command: str) -> str:
        return self.cluster.shell(NODE, command)

    def installed(self) -> dict[str, str]:
        rows = self.shell("dpkg-query -W -f '${Package} ${Version}\\n'").splitlines()
        return dict(row.split() for row in rows)


def package(folder: Path, name: str, version: str, needs: str = "") -> None:
    """Build a package without content; it has a service if the real one does."""
    tree = folder / f"{name}_{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    control = [f"Package: {name}", f"Version: {version}", "Architecture: all", "Maintainer: tests", "Description: none"]
    (tree / "DEBIAN/control").write_text("\n".join([*control, *([f"Depends: {needs}"] if needs else []), ""]))
    if name in SERVICES:
        run = tree / f"etc/stampworks/services/{SERVICES[name]}/run"
        run.parent.mkdir(parents=True)
        run.write_text("#!/bin/sh\nexec sleep 100000\n")
        run.chmod(0o755)
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, folder], check=True, timeout=30)


def repository(folder: Path, plan: Plan) -> None:
    """Build all packages of the release's hardware and the driver's dependencies, each in two versions."""
    folder.mkdir()
    brought = {name: version for each in plan.release.hardware for name, version in each.packages if version}
    driver = brought["nvidia-driver-cuda"]
    for name, version in {**brought, "libcuda1": driver}.items():
        epoch = version[: version.find(":") + 1]
        for has in (f"{version}-1", epoch + NEWER):
            package(folder, name, has, f"libcuda1 (>= {driver})" if name == "nvidia-driver-cuda" else "")
    for name in (f"linux-headers-{KERNEL}", "efa-profile", "nvlsm"):
        package(folder, name, "1")
    package(folder, "linux-image-cloud-amd64", "1")
    listed = subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=folder, capture_output=True, check=True)
    (folder / "Packages").write_bytes(listed.stdout)


def pci_device(folder: Path, kind: str, control: int | None) -> None:
    """Make a device as the kernel shows it: its configuration space, with or without Access Control Services."""
    space = bytearray(4096)
    space[0x06] = 0x10  # the device has capabilities,
    space[0x34] = 0x40  # the first of them here:
    space[0x40] = 0x10  # it is PCI Express, so that extended capabilities begin at 0x100
    if control is not None:
        space[0x100:0x108] = bytes([0x0D, 0, 1, 0, 0x5F, 0, *control.to_bytes(2, "little")])
    folder.mkdir(parents=True)
    (folder / "config").write_bytes(space)
    (folder / "class").write_text(f"{kind}\n")


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    """Yield a node with a repository, on which the test sets the kernel's loaded modules."""
    folder, plan, local = tmp_path_factory.mktemp("hardware"), rented(), plan_of(f"t{uuid.uuid4().hex[:8]}", 1)
    suite = (*BUILT_WITH, "libslurm-dev", "pciutils", "infiniband-diags", "libibumad3")
    with booted(local, folder, (*plan.release.boot, *suite)) as cluster:
        share = cluster.share
        repository(share / "repository", plan)
        lock = folder / "lock.txt"
        lock.write_text("".join(wheel(share / "wheels", *each) for each in TORCH.items()))
        made = Equipped(cluster, plan, lock)
        for node in ("head", NODE):  # the repositories belong to the user who runs the tests
            cluster.shell(node, "git config --system safe.directory '*'")
        made.shell("printf '[global]\nno-index = true\nfind-links = /exports/shared/wheels\n' >/etc/pip.conf")
        made.shell("echo 'deb [trusted=yes] file:/exports/shared/repository ./' >/etc/apt/sources.list.d/tests.list")
        made.shell("useradd alice; mkdir /tmp/modules; mount --bind /tmp/modules /sys/module")
        loaded = {"nvidia": dict(plan.release.hardware[0].packages)["nvidia-driver-cuda"], "efa": "3.3.1g"}
        for module, version in loaded.items():
            made.shell(f"mkdir /sys/module/{module}; echo {version} >/sys/module/{module}/version")
        made.shell("apt-get -qq update; apt-get -qq install linux-image-cloud-amd64")
        for device, (kind, control) in DEVICES.items():
            pci_device(share / "pci/devices" / device, kind, control)
        made.shell("cp -r /exports/shared/pci /tmp/pci; mount --bind /tmp/pci /sys/bus/pci")
        made.shell("mkdir /tmp/groups; mount --bind /tmp/groups /sys/kernel/iommu_groups")
        made.shell("echo quiet >/tmp/cmdline; mount --bind /tmp/cmdline /proc/cmdline")
        made.shell("printf '#!/bin/sh\necho updated >>/tmp/grub\n' >/usr/sbin/update-grub")
        made.shell("chmod 755 /usr/sbin/update-grub")
        made.play()
        yield made


def test_packages_come_in_the_versions_of_the_release(equipped: Equipped) -> None:
    """Newer versions exist, and dependencies have the driver's version."""
    found = equipped.installed()
    for software in equipped.plan.release.hardware:
        wanted = {name: f"{version}-1" for name, version in software.packages if version}
        assert {name: found[name] for name in wanted} == wanted
    assert found["libcuda1"] == found["nvidia-driver-cuda"]
    assert f"linux-headers-{KERNEL}" in found


def test_no_upgrade_brings_another_version(equipped: Equipped) -> None:
    """Neither packages of the role nor the kernel of its modules are upgraded."""
    assert "0 upgraded, 0 newly installed" in equipped.shell("apt-get -s --ignore-hold dist-upgrade")
    holds = set(equipped.shell("apt-mark showhold").split())
    named = {name for each in equipped.plan.release.hardware for name, _ in each.packages}
    assert holds == named | {"linux-image-cloud-amd64", f"linux-headers-{KERNEL}", "python3-venv"}


def test_torch_is_in_an_environment_by_itself(equipped: Equipped) -> None:
    """Wheels have the digests of the lock; the program that starts workloads finds them."""
    program = shlex.quote((ROLES / "workloads/files/python").read_text())
    asked = "import importlib.metadata as of; print(of.version('torch'))"
    assert equipped.shell(f'printf %s {program} >/tmp/python; sh /tmp/python -c "{asked}"') == TORCH["torch"]
    directory = "/usr/local/lib/stampworks/torch"
    equipped.shell(f"rm -r {directory}/lib/python3.*/site-packages/torch-2.11.0.dist-info")
    call = {"directory": directory, "lock": f"{directory}.txt", "python": "/usr/bin/python3"}
    assert equipped.module("wheels", call, check=True)["drift"] == [f"{directory}: torch 2.11.0 is not there"]
    assert equipped.play().changed == 1


def test_rendered_files(equipped: Equipped, golden: Callable[[Path, str], None]) -> None:
    """Files on the node equal the reviewed ones."""
    paths = "/etc/apt/preferences.d/stampworks-* /etc/enroot/enroot.conf /etc/sysctl.d/60-stampworks-efa.conf"
    paths += " /etc/systemd/system/nvidia-persistenced.service.d/60-stampworks.conf"
    paths += " /etc/modules-load.d/60-stampworks-fabric-manager.conf"
    paths += " /etc/default/grub.d/61-stampworks-pci.cfg /etc/stampworks/services/pci-direct/run"
    golden(GOLDEN / "hardware.txt", equipped.shell(f'for each in {paths}; do echo "== $each"; cat $each; done') + "\n")
    assert equipped.shell("stat -c '%U %a' /var/lib/enroot/alice") == "alice 700"
    assert equipped.shell("cat /proc/sys/net/ipv4/tcp_syn_retries") == "4"


def test_a_second_run_changes_nothing(equipped: Equipped) -> None:
    """A check finds nothing."""
    assert equipped.play().changed == 0
    assert equipped.look().drift == ()


def test_services_run(equipped: Equipped) -> None:
    """The driver's daemon, the fabric manager, since the machine has switches, DCGM and its exporter."""
    for service in SERVICES.values():
        assert equipped.shell(f"sv status /etc/stampworks/services/{service}").startswith("run:")


def test_unpackaged_software_is_built(equipped: Equipped) -> None:
    """A user without rights builds it; the head has Slurm's plugin, too, because jobs are submitted there."""
    assert equipped.shell("all_reduce_perf") == "first, built by nobody"
    for node in ("head", NODE):
        assert equipped.cluster.shell(node, f"stat -c '%U %a' {slurm.PYXIS}") == "root 755"
    assert equipped.shell("ls /var/tmp") == ""
    [nccl] = [each for each in equipped.plan.release.hardware if each.name == "nccl"]
    assert equipped.built(packages=tuple(dict(nccl.packages))) == {"changed": False, "drift": []}


def test_another_commit_is_built_and_what_it_no_longer_makes_goes(equipped: Equipped) -> None:
    """Replaced programs, and those built with another version of a package, are built again."""
    second = TOOL | {"tool.c": TOOL["tool.c"].replace("first", "second")}
    perf = ["build/all_reduce_perf"]
    made = source("nccl-tests", equipped.cluster.share, second, ["make", *perf], perf)
    first = equipped.sources["nccl_source"]["commit"]
    said = equipped.built(check=True, **made)["drift"]
    assert said[0] == f"nccl-tests was built with commit {first}, it must be {made['commit']}"
    assert said[-1] == "/usr/local/bin/sendrecv_perf is left over"
    assert equipped.built(**made)["drift"] == said
    assert equipped.shell("all_reduce_perf; ls /usr/local/bin/*_perf") == (
        "second, built by nobody\n/usr/local/bin/all_reduce_perf"
    )
    equipped.shell("echo >>/usr/local/bin/all_reduce_perf")
    assert equipped.built(**made)["drift"] == ["/usr/local/bin/all_reduce_perf is not what was built"]
    [words] = equipped.built(**made, packages=(*BUILT_WITH, "make"))["drift"]
    assert words.startswith("nccl-tests was built with make none, it must be 4.")
    assert equipped.built(**made, packages=(*BUILT_WITH, "make"))["drift"] == []


def test_failed_build_changes_nothing(equipped: Equipped) -> None:
    """Causes are the compiler, a missing file, commit or repository, or a moving name; each has its text."""
    wrong = TOOL | {"tool.c": "int main(void) { return nothing; }\n"}
    made = source(
        "nccl-tests", equipped.cluster.share, wrong, ["make", "build/all_reduce_perf"], ["build/all_reduce_perf"]
    )
    look = "cat /usr/local/bin/*_perf /var/lib/stampworks/built/nccl-tests.json | sha256sum; ls /var/tmp"
    before = equipped.shell(look)
    called = f"nccl-tests v1 ({made['commit'][:12]}): "
    hint = "a mirror can be named in /etc/gitconfig (url.MIRROR.insteadOf), and an image of the release has it built"
    said = equipped.built(**made)["msg"]
    assert said.startswith(f"{called}make build/all_reduce_perf: exit code 2: ")
    assert "tool.c:1:25: error: 'nothing' undeclared" in said
    said = equipped.built(**made | {"command": ["true"]})["msg"]
    assert said == f"{called}true ended well and made no build/all_reduce_perf"
    said = equipped.built(**made | {"commit": "0" * 40})["msg"]
    assert said.startswith("nccl-tests v1 (000000000000): git fetch --quiet --depth=1 -- file:///exports/shared/")
    assert "not our ref" in said
    assert said.endswith(hint)
    said = equipped.built(**made | {"repository": "file:///nowhere"})["msg"]
    assert "'/nowhere' does not appear to be a git repository" in said
    said = equipped.built(**made | {"commit": "main"})["msg"]
    assert said == (
        f"nccl-tests v1 (main): {made['repository']} has {made['commit']} under that name, the release has main"
    )
    assert equipped.shell(look) == before


def test_a_failed_build_stops_the_play(equipped: Equipped) -> None:
    """The error has the compiler's output."""
    wrong = source(
        "pyxis", equipped.cluster.share, PLUGIN | {"plugin.c": "nothing here;\n"}, ["make"], ["spank_pyxis.so"]
    )
    refused = equipped.refused(lambda inventory: inventory["vars"].update(pyxis_source=wrong))
    assert "pyxis : Build pyxis for the node's Slurm" in refused
    assert f"pyxis v1 ({wrong['commit'][:12]}): make: exit code 2: " in refused
    assert "plugin.c:1:1: error: unknown type name 'nothing'" in refused


def test_manual_changes_are_found_and_repaired(equipped: Equipped) -> None:
    """Check mode only reports it. Packages of a role need no other role's."""
    equipped.shell("apt-mark unhold efa; echo >>/etc/apt/preferences.d/stampworks-efa; dpkg --purge libnccl-ofi")
    words = [
        "/etc/apt/preferences.d/stampworks-efa differs",
        "package libnccl-ofi is missing",
        "package efa is not held",
    ]
    assert equipped.pinned("efa", check=True) == {"changed": True, "drift": words}
    assert "libnccl-ofi" not in equipped.installed()
    assert equipped.pinned("efa")["changed"]
    assert equipped.pinned("efa") == {"changed": False, "drift": []}


def test_another_version_is_refused_on_a_node(equipped: Equipped) -> None:
    """Another kernel is refused, too, before anything is changed. A build of an image downgrades it."""
    equipped.shell("apt-get -qq install --allow-change-held-packages enroot=999.1-1")
    words = "package enroot is 999.1-1, the release says 4.2.1"
    refused = equipped.refused(lambda inventory: inventory["vars"].update(validate_kernel="2.4"))
    roll = "start the node from an image of the release (stampworks roll)"
    assert f"runs kernel {KERNEL}, the release builds its modules for 2.4: {roll}; {words}: {roll}" in refused
    assert "validate : Look at the node" in refused
    assert words in equipped.pinned("containers", check=True)["drift"]
    assert equipped.pinned("containers")["changed"]
    assert equipped.installed()["enroot"] == "4.2.1-1"


def test_a_version_that_no_repository_has(equipped: Equipped) -> None:
    """The error lists the available versions, and nothing is installed."""
    before = equipped.installed()
    said = equipped.pinned("efa", packages={"efa": "4.0", "libnccl-ofi": "1.22.0", "libother": "1"})["msg"]
    assert said == (
        f"efa 4.0 of the release is in no repository of this node: they have {NEWER}, 3.3.1-1: "
        "add the one that has it; libother 1 of the release is in no repository of this node: they have none of it: "
        "add the one that has it"
    )
    assert equipped.installed() == before
    equipped.pinned("efa")


def test_another_kernel_is_refused(equipped: Equipped) -> None:
    """The refusal comes before modules are built for an unknown kernel."""
    assert equipped.pinned("driver", kernel="2.4")["msg"] == (
        f"driver: kernel {KERNEL} runs, the release builds its modules for 2.4: start the node from an image of the "
        "release"
    )


def test_a_node_that_runs_a_job_is_not_started_anew(equipped: Equipped) -> None:
    """The loaded driver differs from the installed one: the node is marked, and its job is not disturbed. The control
    groups' keeper is no job."""
    equipped.shell("cp /sys/module/nvidia/version /tmp/right; echo 570.1 >/sys/module/nvidia/version")
    equipped.shell("cp /usr/bin/sleep /tmp/slurmstepd; nohup /tmp/slurmstepd 1000 >/dev/null 2>&1 & echo $! >/tmp/step")
    equipped.shell("nohup /tmp/slurmstepd infinity >/dev/null 2>&1 & echo $! >/tmp/keeper")
    why = "driver: module nvidia 570.1 is loaded, the release says 580.159.04"
    said = equipped.refused()
    assert f"must be started anew ({why}), and runs 1 step of jobs, which that would end: drain it" in said
    found = equipped.module("pending_reboot", {}, check=True)
    assert found["drift"] == [f"must be started anew: {why}"]
    equipped.shell("kill $(cat /tmp/step)")
    equipped.cluster.until(NODE, "cat /proc/[0-9]*/comm | grep -c slurmstepd; true", "1")
    found = equipped.module("pending_reboot", {})
    equipped.shell("kill $(cat /tmp/keeper)")
    assert found["ansible_facts"]["pending_reboot"] == {"needed": True, "why": why}
    equipped.shell("cp /tmp/right /sys/module/nvidia/version")
    assert equipped.play().changed == 1  # only the note is removed


PROGRAM = {"program": "/usr/local/libexec/stampworks/pci-direct"}


def control(equipped: Equipped, device: str) -> str:
    return equipped.shell(f"setpci -s {device} ECAP_ACS+0x6.w")


def test_devices_reach_each_other(equipped: Equipped) -> None:
    """Access Control Services are off on all devices; one that is enabled is noticed, and off at the next boot."""
    assert [control(equipped, device) for device in (ROOT, SWITCH, NIC)] == ["0000"] * 3
    assert equipped.shell("cat /tmp/grub") == "updated"
    equipped.shell(f"setpci -s {SWITCH} ECAP_ACS+0x6.w=005d")
    assert equipped.module("pci_direct", PROGRAM, check=True) == {
        "changed": True,
        "drift": [f"{SWITCH} has Access Control Services on (005d)"],
    }
    assert control(equipped, SWITCH) == "005d"
    equipped.shell("sv up /etc/stampworks/services/pci-direct")
    equipped.cluster.until(NODE, f"setpci -s {SWITCH} ECAP_ACS+0x6.w", "0000")
    assert equipped.module("pci_direct", PROGRAM) == {"changed": False, "drift": []}


def test_locked_access_control_services_are_reported(equipped: Equipped) -> None:
    """A device that keeps them on, or cannot be read, does not count as off."""
    equipped.shell(f"setpci -s {SWITCH} ECAP_ACS+0x6.w=005d")
    equipped.shell("cp /usr/bin/setpci /tmp/setpci; mount --bind /tmp/setpci /usr/bin/setpci")
    equipped.shell("printf '#!/bin/sh\ncase $3 in *=*) exit;; esac; exec /tmp/real \"$@\"\n' >/tmp/keeps")
    equipped.shell("cp /tmp/setpci /tmp/real; cat /tmp/keeps >/tmp/setpci")
    said = equipped.module("pci_direct", PROGRAM)["msg"]
    assert f"Access Control Services stay on at {SWITCH}: turn them off in the firmware's settings" in said
    equipped.shell("printf '#!/bin/sh\necho locked down >&2; exit 1\n' >/tmp/setpci")
    assert f"{ROOT}: locked down" in equipped.module("pci_direct", PROGRAM)["msg"]
    equipped.shell("umount /usr/bin/setpci")
    assert equipped.module("pci_direct", PROGRAM)["changed"]


def test_translated_addresses_want_a_reboot(equipped: Equipped) -> None:
    """Only GPUs and NICs count; a kernel that translates despite its option is an error."""
    for number, device in enumerate((SWITCH, GPU)):
        equipped.shell(f"mkdir -p /tmp/groups/{number}/devices; echo DMA-FQ >/tmp/groups/{number}/type")
        equipped.shell(f"ln -s /sys/bus/pci/devices/{device} /tmp/groups/{number}/devices/{device}")
    why = f"addresses of {GPU} are translated: the kernel was not started with iommu=pt"
    assert equipped.module("pci_direct", PROGRAM, check=True) == {"changed": True, "drift": [why]}
    assert equipped.module("pci_direct", PROGRAM) == {"changed": True, "drift": [why]}
    assert equipped.module("pci_direct", PROGRAM) == {"changed": False, "drift": [why]}
    noted = equipped.module("pending_reboot", {})["ansible_facts"]["pending_reboot"]
    assert noted == {"needed": True, "why": f"pci: {why}"}
    equipped.shell("echo quiet iommu=pt >/tmp/cmdline")
    said = equipped.module("pci_direct", PROGRAM)["msg"]
    assert said.startswith(f"the kernel was started with iommu=pt and translates addresses of {GPU} still: ")
    equipped.shell("echo identity >/tmp/groups/1/type")
    assert equipped.module("pci_direct", PROGRAM)["changed"]
    assert not equipped.module("pending_reboot", {})["ansible_facts"]["pending_reboot"]["needed"]


def test_a_module_that_is_not_loaded(equipped: Equipped) -> None:
    """A look reports it and loads nothing; a module that cannot be loaded is an error."""
    call = {"name": "driver", "module": "absent", "version": "1"}
    assert equipped.module("kernel_module", call, check=True)["drift"] == ["module absent is not loaded"]
    assert "modprobe" in equipped.module("kernel_module", call)["msg"]


def test_boot_software_has_its_own_environment(equipped: Equipped, tmp_path: Path) -> None:
    """The role boot, as it is played on the builder of an image: from wheels with the digests of the lock."""
    lock, share = tmp_path / "boot.txt", equipped.cluster.share
    lock.write_text(
        "".join(wheel(share / "wheels", *each) for each in (("ansible_core", "2.19.14"), ("boto3", "1.44.5")))
    )
    role = {"name": "boot", "tasks_from": "install", "rolespec_validate": False}
    task = {"name": "Bring it", "ansible.builtin.import_role": role}
    playbook = tmp_path / "boot.yml"
    playbook.write_text(json.dumps([{"name": "Boot", "hosts": "boot", "gather_facts": False, "tasks": [task]}]))

    def alone(all_: dict[str, Any]) -> None:
        all_["children"] = {"boot": {"hosts": {NODE: {}}}}
        all_["vars"] |= {"boot_packages": {"ansible-core": "2.19.14"}, "boot_lock": str(lock)}

    def play() -> int:
        reach = equipped.cluster.roster.reach
        run = configuration.play(str(playbook), equipped.inventory(alone), reach, SECRETS, print, 5)
        return asyncio.run(run).changed

    assert play() == 3
    asked = "import importlib.metadata as of; print(of.version('ansible-core'), of.version('boto3'))"
    assert equipped.shell(f'/usr/local/lib/stampworks/boot/bin/python3 -c "{asked}"') == "2.19.14 1.44.5"
    assert "python3-venv" in equipped.shell("apt-mark showhold")
    assert play() == 0
