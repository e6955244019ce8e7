"""The release for Amazon Linux on a Debian node that claims to be Amazon Linux: real dnf and rpm with a separate
database, and packages without content.

Each package has a newer version, which must not be installed. The built software is small, and is not Slurm.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shlex
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks import configuration, planning
from stampworks.configuration import CheckModeResult, PlaybookFailed, Recap
from stampworks.declaration import load_value
from stampworks.plan import Attached, Plan
from stampworks.schedulers import slurm

from tests.playbooks.conftest import SECRETS, Cluster, Edit, booted, plan_of
from tests.playbooks.sources import PLUGIN, TOOL, source

pytestmark = [pytest.mark.cluster, pytest.mark.long]

GOLDEN = Path(__file__).parent / "golden"
NODE = "gpu-001"
KERNEL = "6.12.77-99.140.amzn2023"
RUNS = f"{KERNEL}.x86_64"
NEWER = "999.1-1"
SERVICES = {
    "nvidia-persistenced": "nvidia-persistenced",
    "nvidia-fabricmanager": "nvidia-fabricmanager",
    "datacenter-gpu-manager-4-core": "nvidia-dcgm",
}
"""Services by the package that contains them."""
NEEDS = {
    "nvidia-driver-cuda": ("libnvidia-ml", "3:580.126.20"),
    "libnvidia-container-tools": ("libnvidia-container1", "1.19.1"),
    "cuda-nvcc-13-0": ("libnvvm-13-0", "13.0.88"),
}
"""Packages installed along with the driver in the same version, and others with similar names."""
DATA = {"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}
RENTED = {
    "version": 1,
    "name": "rented",
    "cloud": "aws",
    "release": "2026.11-amazon",
    "region": "us-east-1",
    "pools": [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}],
    "storage": [DATA],
    "users": [{"name": "alice", "uid": 2001}],
    "proof": {"level": "none"},
}
PYTHON = f"""#!/bin/sh
# what stands for the kernel of Amazon Linux: no namespace has another one than the machine
[ "$1 $2" = "-IS -c" ] || exec /usr/bin/python3 "$@"
exec /usr/bin/python3 -IS -c "import platform; platform.release, platform.machine = lambda: '{RUNS}', lambda: 'x86_64'
$3"
"""
LIBRARY = {
    "Makefile": "install:\n\tinstall -D jwt.h made/usr/include/jwt.h\n",
    "jwt.h": "#define JWT 1\n",
}
DAEMONS = {
    "Makefile": (
        "install:\n\tmkdir -p made/usr/include/slurm made/usr/lib64 made/usr/sbin\n"
        '\tprintf "#define SPANK_PLUGIN(name, version) int name\\n" >made/usr/include/slurm/spank.h\n'
        "\t$(CC) -shared -fpic -o made/usr/lib64/libslurm.so.42.0.0 daemon.c\n"
        "\tln -s libslurm.so.42.0.0 made/usr/lib64/libslurm.so\n"
        '\tprintf "#!/bin/sh\\nid -un\\n" >made/usr/sbin/a-daemon; chmod 755 made/usr/sbin/a-daemon\n'
    ),
    "daemon.c": "#include <jwt.h>\nint slurm = JWT;\n",
}
"""Sources in the place of Slurm's: they need the earlier library, and provide the headers for pyxis."""
EXPORTER = {
    "Makefile": (
        "install:\n\tinstall -D exporter made/usr/bin/dcgm-exporter\n"
        "\tinstall -D exporter made/etc/stampworks/services/nvidia-dcgm-exporter/run\n"
    ),
    "exporter": "#!/bin/sh\nexec sleep 100000\n",
}
"""Sources in the place of DCGM's exporter, with its service unit."""
PERF = ["build/all_reduce_perf"]


@dataclasses.dataclass
class Amazon:
    """A node of the machine room that the playbooks treat as the rented machine."""

    cluster: Cluster
    plan: Plan

    def __post_init__(self) -> None:
        self.sources = {
            "libjwt_source": source("libjwt", self.cluster.share, LIBRARY, ["make", "install"], ["made/"]),
            "slurm_build_source": source("slurm", self.cluster.share, DAEMONS, ["make", "install"], ["made/"]),
            "dcgm_source": source("dcgm-exporter", self.cluster.share, EXPORTER, ["make", "install"], ["made/"]),
            "nccl_source": source("nccl-tests", self.cluster.share, TOOL, ["make", *PERF], PERF),
            "pyxis_source": source("pyxis", self.cluster.share, PLUGIN, ["make"], ["spank_pyxis.so"]),
        }

    def inventory(self, edit: Edit = lambda _: None) -> dict[str, Any]:
        """The rented machine's inventory, with the roles that install something, and no others."""
        roster = self.cluster.roster
        files = slurm.files(self.plan, roster)
        inventory = configuration.inventory(self.plan, roster, files, content="amazon", attached=Attached())["all"]
        hardware = {software.name for software in self.plan.release.hardware}
        roles = [role for role in inventory["children"] if role in hardware or role in ("base", "reboot")]
        inventory["hosts"] = {NODE: inventory["hosts"][NODE]}
        inventory["children"] = {role: {"hosts": {NODE: {}}} for role in (*roles, "storage")}
        inventory["vars"] |= {"ansible_python_interpreter": "/usr/local/bin/python-of-amazon", **self.sources}
        # kernel settings of which each network namespace has its own
        inventory["vars"]["efa_settings"] = {"net.ipv4.tcp_fin_timeout": 50}
        edit(inventory)
        return {"all": inventory}

    def play(self, edit: Edit = lambda _: None) -> Recap:
        reach = self.cluster.roster.reach
        return asyncio.run(configuration.play("site.yml", self.inventory(edit), reach, SECRETS, print, 5))

    def look(self) -> CheckModeResult:
        reach = self.cluster.roster.reach
        return asyncio.run(configuration.look("site.yml", self.inventory(), [NODE], reach, SECRETS, print, 5))

    def refused(self, edit: Edit = lambda _: None) -> str:
        with pytest.raises(PlaybookFailed) as refusal:
            self.play(edit)
        return str(refusal.value)

    def module(self, name: str, arguments: dict[str, Any], check: bool = False) -> dict[str, Any]:
        return self.cluster.module(NODE, name, arguments, check)

    def pinned(self, role: str, packages: dict[str, str], check: bool = False) -> dict[str, Any]:
        return self.module("pinned", {"name": role, "packages": packages, "along": [], "kernel": ""}, check)

    def shell(self, command: str, timeout: float = 60) -> str:
        return self.cluster.shell(NODE, command, timeout)

    def installed(self) -> dict[str, str]:
        rows = self.shell("rpm -qa --queryformat '%{NAME} %{VERSION}-%{RELEASE}\\n'").splitlines()
        return dict(row.split() for row in rows)


def spec(name: str, version: str, epoch: int = 0, needs: str = "") -> str:
    """Return the spec of a package without content; it has a service if the real one does."""
    version, _, release = version.partition("-")
    lines = [f"Name: {name}", f"Version: {version}", f"Release: {release or 1}", "Summary: none", "License: none"]
    lines += [
        "BuildArch: noarch",
        "AutoReqProv: no",
        f"Epoch: {epoch}",
        *([f"Requires: {needs}"] if needs else []),
        "%description",
    ]
    if name not in SERVICES:
        return "\n".join([*lines, "none", "%files", ""])
    run = f"/etc/stampworks/services/{SERVICES[name]}/run"
    put = f"install -d %{{buildroot}}{Path(run).parent}; printf '#!/bin/sh\\nexec sleep 100000\\n' >%{{buildroot}}{run}"
    return "\n".join([*lines, "none", "%install", put, f"chmod 755 %{{buildroot}}{run}", "%files", run, ""])


def repository(node: Callable[[str, float], str], share: Path, plan: Plan) -> None:
    """Build all packages of the release, each in two versions unless the suite decides the version."""
    folder = share / "specs"
    folder.mkdir()
    brought = [*plan.release.hardware, *plan.release.clients]
    wanted = {name: version for each in brought for name, version in each.packages}
    wanted |= {name: "" for _, names in plan.release.packages for name in names}
    wanted |= {name: version.rpartition(":")[2] for name, version in NEEDS.values()}
    wanted |= {f"kernel6.12{each}": KERNEL for each in ("", "-devel", "-modules-extra")}
    for name, version in wanted.items():
        needs = " = ".join(NEEDS.get(name, ()))
        epoch = 3 if "nvidia" in name and version.startswith("580.") else 0
        for has in (version or "1", NEWER) if version else ("1",):
            (folder / f"{name}-{has}.spec").write_text(spec(name, has, epoch, needs))
    build = "rpmbuild --quiet -bb --define '_rpmdir /exports/shared/rpms' --define '_topdir /tmp/rpmbuild'"
    node(f"cd /exports/shared; {build} specs/*.spec; createrepo_c --quiet rpms", 300)


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amazon]:
    """Yield the node after the first run, which installs everything because its image differs from the plan's."""
    folder, local = tmp_path_factory.mktemp("amazon"), plan_of(f"t{uuid.uuid4().hex[:8]}", 1)
    plan = planning.plan(load_value(RENTED, "test"))
    without = tuple(each for each in plan.release.hardware if each.name not in ("scratch", "torch"))
    plan = dataclasses.replace(plan, release=dataclasses.replace(plan.release, hardware=without))
    tools = ("build-essential", "git", "dnf", "dnf-plugins-core", "rpm", "createrepo-c")
    with booted(local, folder, tools) as cluster:
        made = Amazon(cluster, plan)
        repository(made.shell, cluster.share, plan)
        made.shell("git config --system safe.directory '*'")  # the repositories belong to the user who runs the tests
        made.shell('rm /etc/os-release; printf \'ID="amzn"\\nVERSION_ID="2023"\\n\' >/etc/os-release')
        made.shell(f"printf %s {shlex.quote(PYTHON)} >/usr/local/bin/python-of-amazon")
        made.shell("chmod 755 /usr/local/bin/python-of-amazon; mkdir -p /etc/yum.repos.d")
        made.shell("printf '[main]\\ngpgcheck=False\\nreleasever=2023\\nbest=True\\n' >/etc/dnf/dnf.conf")
        made.shell("printf '[main]\\nenabled = false\\n' >/etc/dnf/plugins/local.conf")
        tests = "[tests]\\nname=tests\\nbaseurl=file:///exports/shared/rpms\\ngpgcheck=0\\n"
        made.shell(f"printf '{tests}' >/etc/yum.repos.d/tests.repo; dnf -q -y install kernel6.12-{KERNEL}")
        made.shell("mkdir /tmp/modules; mount --bind /tmp/modules /sys/module")
        for module, version in {"nvidia": "580.126.20", "efa": "3.3.1g"}.items():
            made.shell(f"mkdir /sys/module/{module}; echo {version} >/sys/module/{module}/version")
        made.play()
        yield made


def test_packages_come_in_the_versions_of_the_release(amazon: Amazon) -> None:
    """Newer versions exist. Dependencies have the driver's version, and modules the kernel's."""
    found = amazon.installed()
    for software in (*amazon.plan.release.hardware, *amazon.plan.release.clients):
        wanted = {name: v if "-" in v else f"{v}-1" for name, v in software.packages if v}
        assert {name: found[name] for name in wanted} == wanted
    assert all(found[along] == found[name] for name, (along, _) in NEEDS.items())
    assert found["kernel6.12-devel"] == found["kernel6.12-modules-extra"] == KERNEL
    for _, names in amazon.plan.release.packages:
        assert set(names) <= set(found)


def test_no_upgrade_brings_another_version(amazon: Amazon, golden: Callable[[Path, str], None]) -> None:
    """Neither packages of the release nor the kernel of its modules are upgraded. Newer dependencies do not fit, and
    stay away, too."""
    assert "Nothing to do." in amazon.shell("dnf -y upgrade --nobest")
    assert "Unable to find a match" in amazon.shell("dnf -y install nvidia-driver-cuda-999.1 2>&1 || true")
    golden(GOLDEN / "amazon.txt", amazon.shell("cat /etc/dnf/plugins/versionlock.list") + "\n")


def test_a_second_run_changes_nothing(amazon: Amazon) -> None:
    """A check finds nothing; programs that were built see their dependencies."""
    assert amazon.play().changed == 0
    assert amazon.look().drift == ()
    assert amazon.shell("/usr/sbin/a-daemon; readlink /usr/lib64/libslurm.so") == "root\nlibslurm.so.42.0.0"
    assert amazon.shell(f"stat -c %U {slurm.PYXIS}; id -u slurm") == "root\n64030"


def test_unpackaged_software_is_built_and_runs(amazon: Amazon) -> None:
    """DCGM's exporter and its service are built, and nccl-tests."""
    for service in (*SERVICES.values(), "nvidia-dcgm-exporter"):
        assert amazon.shell(f"sv status /etc/stampworks/services/{service}").startswith("run:")
    assert amazon.shell("all_reduce_perf") == "first, built by nobody"


def test_another_driver_is_refused_before_anything_is_changed(amazon: Amazon) -> None:
    """Another kernel is refused, too; the role itself would reinstall and hold its packages."""
    amazon.shell("dnf -q -y --disableplugin=versionlock install nvidia-driver-cuda; echo moved >/etc/motd")
    said = amazon.refused()
    assert "gpu-001" in said
    assert "package nvidia-driver-cuda is 3:999.1-1, the release says 580.126.20: start the node from an image" in said
    assert amazon.shell("cat /etc/motd") == "moved"
    packages = {"kmod-nvidia-open-dkms": "580.126.20", "nvidia-driver-cuda": "580.126.20"}
    words = ["package nvidia-driver-cuda is 3:999.1-1, the release says 580.126.20"]
    assert amazon.pinned("other", packages, check=True)["drift"][1:] == words
    assert amazon.pinned("other", packages)["changed"]
    assert amazon.installed()["nvidia-driver-cuda"] == "580.126.20-1"
    assert amazon.pinned("other", packages) == {"changed": False, "drift": []}
    runs = "runs kernel 6.12.77-99.140.amzn2023.x86_64, the release builds its modules for 6.18"
    assert runs in amazon.refused(lambda inventory: inventory["vars"].update(validate_kernel="6.18"))
    assert amazon.play().changed == 1, "what was written into /etc/motd"


def test_a_version_that_no_repository_has_is_said(amazon: Amazon) -> None:
    """The error lists the available versions, and nothing is installed."""
    before = amazon.installed()
    said = amazon.pinned("another", {"efa": "4.0", "nowhere": ""})["msg"]
    assert said == (
        "efa 4.0 of the release is in no repository of this node: they have 999.1-1, 3.3.1-1: add the one that has it; "
        "nowhere of the release is in no repository of this node: they have none of it: add the one that has it"
    )
    assert amazon.installed() == before
    words = "/etc/dnf/plugins/versionlock.list has no pins of another"
    assert amazon.pinned("another", {"efa": "3.3.1"})["drift"] == [words]


def test_removed_hold_is_restored(amazon: Amazon) -> None:
    """A removed hold on a package is drift."""
    amazon.shell("sed -i '/^!kernel6.12-devel$/d' /etc/dnf/plugins/versionlock.list")
    # both roles that build modules need it, and the first one holds it
    assert {*amazon.look().drift} == {(NODE, f"package kernel6.12-devel-{KERNEL} is not held")}
    assert amazon.play().changed == 1
    assert amazon.look().drift == ()


def test_a_package_that_is_gone_comes_back(amazon: Amazon) -> None:
    """Its version is that of the image, from the record."""
    amazon.shell("rpm -e iperf3")
    assert amazon.play().changed == 1
    assert "iperf3" in amazon.installed()


def test_another_module_that_is_loaded_wants_a_reboot(amazon: Amazon) -> None:
    """The reboot is noted, and does not happen during a job."""
    amazon.shell("echo 570.1 >/sys/module/nvidia/version")
    call = {"name": "driver", "module": "nvidia", "version": "580.126.20"}
    assert amazon.module("kernel_module", call)["changed"]
    noted = amazon.module("pending_reboot", {})["ansible_facts"]["pending_reboot"]
    assert noted == {"needed": True, "why": "driver: module nvidia 570.1 is loaded, the release says 580.126.20"}
    amazon.shell("echo 580.126.20 >/sys/module/nvidia/version")
    assert amazon.module("kernel_module", call)["changed"]


def test_slurm_is_built_with_an_image_and_never_on_a_node(amazon: Amazon) -> None:
    """The error names the difference, and the image to boot."""
    amazon.shell("rm /usr/lib64/libslurm.so; echo >>/usr/sbin/a-daemon")
    said = amazon.refused()
    assert (
        "/usr/lib64/libslurm.so is missing; /usr/sbin/a-daemon is not what was built: it is built into images" in said
    )
    call = {"source": amazon.sources["slurm_build_source"], "packages": {}, "directory": "/", "build": True}
    assert amazon.module("built", call)["changed"]
    assert amazon.shell("readlink /usr/lib64/libslurm.so; cat /usr/sbin/a-daemon | tail -1") == (
        "libslurm.so.42.0.0\nid -un"
    )
