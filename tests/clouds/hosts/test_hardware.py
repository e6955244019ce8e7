"""Machines that show the hardware of a DGX H100 in /sys, asked by ssh: which ports are chosen, and what is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stampworks.declaration import read_lock

from tests.clouds.hosts import sysfs
from tests.clouds.hosts.lab import GPUS, Lab

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture
def rack(lab: Lab) -> Iterator[Lab]:
    """The lab as a rack of DGX H100, locked."""
    shown = []
    try:
        for number, host in enumerate(GPUS, 1):
            sysfs.show(lab, host, number)
            shown.append(host)
        lab.declare(machine="dgx-h100")
        lab.locked()
        yield lab
    finally:
        for host in shown:
            sysfs.hide(lab, host)


def texts(rack: Lab) -> dict[str, list[str]]:
    """Return the findings that are no pass, without the one about containers."""
    found = {id_: [each.text for each in findings] for id_, findings in rack.wrong().items()}
    assert found.pop("hosts.container")
    return found


def test_a_rack(rack: Lab) -> None:
    """Its eight ports of 400 Gb/s are the rails, and containers are refused, for these machines are some."""
    machines = read_lock(rack.file).hosts
    assert [each.interface for each in machines[1].rails] == [f"mlx5_{index}" for index in range(8)]
    [one] = rack.wrong()["hosts.container"]
    assert one.text == (
        f"127.0.0.1:[{','.join(str(rack.lent.port(each)) for each in ('h0', *GPUS))}]: it is a container and not a "
        "machine (its processes have a namespace of their own): it has no kernel, sysctls and ports of its own"
    )
    assert texts(rack) == {}


def test_ports_and_fabrics(rack: Lab) -> None:
    """A port that is down, another subnet, another partition, another link layer."""
    first, others = rack.id("h1"), f"127.0.0.1:[{rack.lent.port('h2')},{rack.lent.port('h3')}]"

    def shown(index: int, name: str, text: str) -> dict[str, list[str]]:
        file = f"{sysfs.port(index)}/{name}"
        with rack.fault("h1", f"cp {file} /root/kept; echo '{text}' >{file}", f"cp /root/kept {file}"):
            return texts(rack)

    assert shown(3, "state", "1: DOWN") == {"hosts.ports": [f"{first}: mlx5_3/1 is DOWN, not ACTIVE"]}
    subnets = f"fe80:0000:0000:00aa on {first}; {sysfs.PREFIX} on {others}"
    assert shown(0, "gids/0", "fe80:0000:0000:00aa:248a:0703:0001:0000") == {
        "hosts.fabric": [f"rail 0 is on 2 InfiniBand fabrics, by subnet prefix: {subnets}"]
    }
    assert shown(7, "pkeys/1", "0x8002") == {
        "hosts.fabric": [f"rail 7 is in 2 partitions, by P_Key: 0x8002 on {first}; 0x8001 on {others}"]
    }
    assert shown(1, "link_layer", "Ethernet") == {
        "hosts.fabric": [f"rail 1 has ports of two kinds: Ethernet on {first}; InfiniBand on {others}"]
    }


def test_other_machines(rack: Lab) -> None:
    """A machine that has lost a GPU, one with another kind of GPU, one with slow ports, one with little memory."""
    gpu = f"{sysfs.FAKE}/bus/pci/devices/0000:1a:00.0"
    with rack.fault("h1", f"mv {gpu} /root/gpu", f"mv /root/gpu {gpu}"):
        found = texts(rack)
    assert found["hosts.machine"] == [f"{rack.id('h1')}: it has 7 x h100, and dgx-h100 has 8 x h100"]
    [kinds] = found["hosts.kinds"]
    assert kinds.startswith("gpu has machines of 2 kinds: ")
    with rack.fault("h1", f"echo 0x2335 >{gpu}/device", f"echo 0x2330 >{gpu}/device"):
        said = texts(rack)["hosts.machine"]
    assert said == [f"{rack.id('h1')}: it has 7 x h100 and 1 x h200, and dgx-h100 has 8 x h100"]
    slow, fast = (f"echo '{rate}' >{sysfs.port(2)}/rate" for rate in ("100 Gb/sec (2X HDR)", "400 Gb/sec (4X NDR)"))
    with rack.fault("h1", slow, fast):
        said = texts(rack)["hosts.machine"]
    assert said == [f"{rack.id('h1')}: it has 7 RDMA ports of 400 Gb/s, and dgx-h100 has 8"]
    small, large = (f"echo 'MemTotal: {kib} kB' >{sysfs.FAKE}/meminfo" for kib in (1056704512, 2113409024))
    with rack.fault("h1", small, large):
        said = texts(rack)["hosts.machine"]
    assert said == [f"{rack.id('h1')}: it has 1007 GiB of memory, and dgx-h100 has 2048 GiB"]
