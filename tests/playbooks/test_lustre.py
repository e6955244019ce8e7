"""The kernel of a release and its Lustre client, on a node that cannot mount with it: real apt and dpkg, packages
without content, and a list of loaded modules that the test sets."""

from __future__ import annotations

import asyncio
import dataclasses
import platform
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks import configuration, planning
from stampworks.declaration import load_value
from stampworks.plan import Attached, Mount, Plan, Software
from stampworks.schedulers import slurm

from tests.playbooks.conftest import SECRETS, Cluster, booted, plan_of
from tests.playbooks.test_hardware import GOLDEN, NEWER, NODE, package

pytestmark = [pytest.mark.cluster, pytest.mark.long]

KERNEL = platform.release()
CLIENT = f"lustre-client-modules-{KERNEL}"
DATA = {"name": "data", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "mbps_per_tib": 1000, "mount": "/data"}
DATA |= {"capacity": 4800, "efa": True}
LNETCTL = r"""#!/bin/sh
# keeps what LNet uses as lnetctl shows it
nets=/tmp/lnet; touch $nets
case "$*" in
    "net show") cat $nets ;;
    "net add"*) printf '    - net type: %s\n          interfaces:\n              0: %s\n' "$4" "$6" >>$nets ;;
    "net del"*) grep -v ": $6\$" $nets >$nets.new; mv $nets.new $nets ;;
    "udsp add"*) grep -q "udsp add" /tmp/lnet.said && exit 114 ;;
esac
case "$*" in "net show") ;; *) echo "lnetctl $*" >>/tmp/lnet.said ;; esac
"""
CARDS = r"""mkdir -p /tmp/class /tmp/drivers/efa /tmp/drivers/mlx5_core
cp -a /sys/class/. /tmp/class
mkdir -p /tmp/class/infiniband
card() {  # NAME BUS DRIVER
    mkdir -p /tmp/class/infiniband/$1 /tmp/bus/$2
    ln -s /tmp/bus/$2 /tmp/class/infiniband/$1/device
    ln -s /tmp/drivers/$3 /tmp/bus/$2/driver
}
for i in $(seq 16); do card rdmap$((i + 20))s0 0000:$(printf %02x $((i + 20))):00.0 efa; done
card mlx5_0 0000:01:00.0 mlx5_core
mount --bind /tmp/class /sys/class
ip route add default dev "$(ip -brief link show up | sed -n '/^lo /d; s/[@ ].*//p' | head -1)"
printf '#!/bin/sh\necho "modprobe $*" >>/tmp/lnet.said\n' >/usr/local/sbin/modprobe
chmod 755 /usr/local/sbin/modprobe /usr/local/sbin/lnetctl
"""
"""Sixteen EFA cards in a row on the bus, and another card before them."""
MOUNTED = Mount("fs-1.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh", "/data", "lustre", "relatime,flock,_netdev")
RENTED = {
    "version": 1,
    "name": "rented",
    "cloud": "aws",
    "release": "2026.11-ubuntu",
    "region": "us-east-1",
    "pools": [{"name": "gpu", "machine": "p5", "count": 1, "zone": "us-east-1a"}],
    "storage": [DATA],
    "scheduler": {"accounting": True},
    "proof": {"level": "none"},
}


def rented() -> Plan:
    """A cluster whose release has this machine's kernel, and nothing else for nodes."""
    made = planning.plan(load_value(RENTED, "test"))
    release = made.release

    def here(software: Software) -> Software:
        return Software(software.name, tuple((n.replace(release.kernel, KERNEL), v) for n, v in software.packages))

    hardware = tuple(here(software) for software in release.hardware if software.name == "kernel")
    clients = tuple(here(software) for software in release.clients)
    own = dataclasses.replace(release, kernel=KERNEL, hardware=hardware, clients=clients)
    return dataclasses.replace(made, release=own)


@dataclasses.dataclass
class Mounting:
    """A node of the machine room that the playbooks treat as a node of the rented cluster."""

    cluster: Cluster
    plan: Plan

    def inventory(self) -> dict[str, Any]:
        roster = self.cluster.roster
        attached = Attached(mounts=(MOUNTED,))
        made = configuration.inventory(self.plan, roster, slurm.files(self.plan, roster), attached=attached)
        roles = ("kernel", "reboot", "lustre_efa", "storage")
        assert all(NODE in made["all"]["children"][role]["hosts"] for role in roles)
        made["all"]["children"] = {role: {"hosts": {NODE: {}}} for role in roles}
        # nodes of the machine room do not run Ubuntu, and have another image
        made["all"]["vars"] |= {"validate_system": "", "image_content": self.shell("cat /etc/stampworks/image")}
        return made

    def play(self) -> int:
        reach = self.cluster.roster.reach
        return asyncio.run(configuration.play("site.yml", self.inventory(), reach, SECRETS, print, 5)).changed

    def look(self) -> tuple[Any, ...]:
        reach = self.cluster.roster.reach
        look = configuration.look("site.yml", self.inventory(), [NODE, "head"], reach, SECRETS, print, 5)
        return asyncio.run(look).drift

    def shell(self, command: str) -> str:
        return self.cluster.shell(NODE, command)


def repository(folder: Path, plan: Plan) -> None:
    """The client in two versions, for this kernel and the next, and the kernels themselves."""
    folder.mkdir()
    for version in ("2.15.6-1fsx34", NEWER):
        for name in (CLIENT, "lustre-client-modules-99.0.0-1000-aws", "lustre-client-utils"):
            package(folder, name, version)
    for software in plan.release.hardware:
        for name, _ in software.packages:
            package(folder, name, "1")
    listed = subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=folder, capture_output=True, check=True)
    (folder / "Packages").write_bytes(listed.stdout)


@pytest.fixture(scope="module")
def mounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounting]:
    """Yield the node after the first run. Mount points exist already, because nothing can be mounted here."""
    folder, plan, local = tmp_path_factory.mktemp("lustre"), rented(), plan_of(f"t{uuid.uuid4().hex[:8]}", 1)
    with booted(local, folder) as cluster:
        repository(cluster.share / "repository", plan)
        made = Mounting(cluster, plan)
        source = "deb [trusted=yes] file:/exports/shared/repository ./"
        made.shell(f"echo '{source}' >/etc/apt/sources.list.d/tests.list; apt-get -qq update")
        made.shell("mkdir /data /tmp/modules; mount -t tmpfs none /data; mount --bind /tmp/modules /sys/module")
        made.shell("mkdir /sys/module/lustre; echo 2.15.6 >/sys/module/lustre/version")
        made.shell("printf '#!/bin/sh\\necho updated >>/tmp/grub\\n' >/usr/sbin/update-grub")
        made.shell("chmod 755 /usr/sbin/update-grub")
        (cluster.share / "lnetctl").write_text(LNETCTL)
        made.shell("cp /exports/shared/lnetctl /usr/local/sbin")
        made.shell(CARDS)
        made.play()
        yield made


def test_the_client_of_this_kernel_comes_in_the_releases_version(mounting: Mounting) -> None:
    """An upgrade changes neither the client nor the kernel."""
    assert mounting.shell(f"dpkg-query -W -f '${{Version}}' {CLIENT}") == "2.15.6-1fsx34"
    held = set(mounting.shell("apt-mark showhold").split())
    kernel = {f"linux-{each}-{KERNEL}" for each in ("image", "headers", "modules-extra")}
    assert held == {CLIENT, "lustre-client-utils", *kernel}
    assert "0 upgraded, 0 newly installed" in mounting.shell("apt-get -s --ignore-hold dist-upgrade")


def test_rendered_files(mounting: Mounting, golden: Callable[[Path, str], None]) -> None:
    """Mounts, kernels and pins are as reviewed; the boot loader has read them once."""
    paths = "/etc/fstab /etc/default/grub.d/60-stampworks.cfg /etc/apt/preferences.d/stampworks-storage"
    text = mounting.shell(f'for each in {paths}; do echo "== $each"; cat $each; done; cat /tmp/grub')
    golden(GOLDEN / "lustre.txt", text.replace(KERNEL, "KERNEL") + "\n")


def test_a_second_run_changes_nothing(mounting: Mounting) -> None:
    """A check finds nothing."""
    assert mounting.play() == 0
    assert mounting.look() == ()


def test_manual_changes_are_found(mounting: Mounting) -> None:
    """The check finds changes of the client, the boot settings and the mounts, and a run repairs them."""
    mounting.shell(f"apt-mark unhold {CLIENT}; rm /etc/default/grub.d/60-stampworks.cfg; sed -i /lustre/d /etc/fstab")
    said = {what for _, what in mounting.look()}
    assert {f"package {CLIENT} is not held", "/etc/fstab differs"} <= said
    assert any("60-stampworks.cfg" in what for what in said)
    assert mounting.play() == 3
    assert mounting.look() == ()


def test_another_version_of_the_module_needs_another_start(mounting: Mounting) -> None:
    """The loaded module stays while it is in use, and the reboot is noted."""
    mounting.shell("echo 2.12.8 >/sys/module/lustre/version")
    try:
        why = "module lustre 2.12.8 is loaded, the release says 2.15.6"
        assert (NODE, why) in mounting.look()
        assert mounting.play() == 1
        assert mounting.shell("cat /run/stampworks/reboot/storage") == why
    finally:
        notes = "/run/stampworks/reboot/storage /var/lib/stampworks/reboot/storage"
        mounting.shell(f"echo 2.15.6 >/sys/module/lustre/version; rm -f {notes}")


CHOSEN = [f"rdmap{number}s0" for number in range(21, 37, 2)]


def told(mounting: Mounting) -> list[str]:
    """Return the commands to LNet since the last time."""
    return mounting.shell("cat /tmp/lnet.said; rm /tmp/lnet.said").splitlines()


def test_lustre_uses_efa(mounting: Mounting) -> None:
    """The number of interfaces follows the plan, spread over the node's buses, before the first mount."""
    own = mounting.shell("ip route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/'")
    assert told(mounting) == [
        "modprobe lnet",
        f"modprobe kefalnd ipif_name={own}",
        "modprobe ksocklnd",
        "lnetctl lnet configure",
        f"lnetctl net add --net tcp --if {own}",
        *(f"lnetctl net add --net efa --if {each} --peer-credits 32" for each in CHOSEN),
        "lnetctl set discovery 1",
        "lnetctl udsp add --src efa --priority 0",
    ]


def test_lustre_that_uses_other_interfaces(mounting: Mounting) -> None:
    """Each difference is reported and repaired; a check changes nothing."""
    mounting.shell("/usr/local/sbin/lnetctl net del --net efa --if rdmap21s0")
    mounting.shell("/usr/local/sbin/lnetctl net add --net efa --if rdmap22s0 --peer-credits 32; rm /tmp/lnet.said")
    assert mounting.look() == ((NODE, "Lustre does not use rdmap21s0"), (NODE, "Lustre uses rdmap22s0"))
    assert mounting.shell("ls /tmp/lnet.said 2>&1 || true").endswith("No such file or directory")
    assert mounting.play() == 1
    lines = told(mounting)
    assert "lnetctl net add --net efa --if rdmap21s0 --peer-credits 32" in lines
    assert lines[-1] == "lnetctl net del --net efa --if rdmap22s0"
    assert not any("--net tcp" in line for line in lines)
    assert (mounting.play(), mounting.look()) == (0, ())


def test_it_is_so_at_every_boot(mounting: Mounting) -> None:
    """The same program runs at boot, with the same number."""
    run = mounting.shell("cat /etc/stampworks/services/lustre-efa/run")
    assert "/usr/local/libexec/stampworks/lustre-efa 8\n" in run
    assert mounting.shell("ls /etc/stampworks/services/lustre-efa") == "log\nrun\nsupervise"


def test_a_node_with_too_few_cards_is_said(mounting: Mounting) -> None:
    """LNet is then not configured."""
    said = mounting.cluster.module(NODE, "lustre_efa", {"interfaces": 17}, False)["msg"]
    assert said.endswith(
        "lustre-efa: 17 EFA interfaces of this node are to carry Lustre, and it shows 16: is the module efa loaded, "
        "and were they given to the machine at its start?"
    )
    assert mounting.shell("ls /tmp/lnet.said 2>&1 || true").endswith("No such file or directory")
