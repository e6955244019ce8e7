"""Faults on real machines, made of namespaces and asked by ssh, and the findings that they give."""

from __future__ import annotations

import re

import pytest
from stampworks.planning import Finding

from tests.clouds.hosts.lab import SERVICE, Lab, mark

pytestmark = pytest.mark.cluster


def only(found: dict[str, list[Finding]], id_: str, outcome: str = "fail") -> Finding:
    """Return the only finding, which has this id."""
    assert found.keys() == {id_}, found
    [one] = found[id_]
    assert one.outcome == outcome, one
    return one


def test_machines_in_order(lab: Lab) -> None:
    """All rules judge them, and each of them passes."""
    lab.locked()
    assert {each.id: each.outcome for each in lab.judged()} == dict.fromkeys(
        [
            *("hosts.asked", "hosts.reached", "hosts.identity", "hosts.sudo", "hosts.system", "hosts.claimed"),
            *("hosts.kinds", "hosts.ports", "hosts.inside", "hosts.mtu", "hosts.clock", "hosts.storage"),
        ],
        "pass",
    )


def test_links(lab: Lab) -> None:
    """A rail that is down, another MTU, and a neighbour that is not reached."""
    lab.locked()
    with lab.fault("h1", "ip link set rail1 down", "ip link set rail1 up"):
        one = only(lab.wrong(), "hosts.ports")
    assert one.text == f"{lab.id('h1')}: rail1 has no carrier"
    assert one.place == "hosts.machines[1]"
    with lab.fault("h2", "ip link set rail0 mtu 1400", "ip link set rail0 mtu 1500"):
        one = only(lab.wrong(), "hosts.mtu", "warn")
    said = f"MTU of rail 0: 1500 on 127.0.0.1:[{lab.lent.port('h1')},{lab.lent.port('h3')}]; 1400 on {lab.id('h2')}"
    assert one.text.startswith(said)
    with lab.fault("h1", "ip route add blackhole 10.98.1.2", "ip route del blackhole 10.98.1.2"):
        one = only(lab.wrong(), "hosts.inside")
    assert one.text == f"{lab.id('h1')}: it does not reach 10.98.1.2 of {lab.id('h2')} by TCP"


def test_inside_address_of_nobody(lab: Lab) -> None:
    """The machine does not have it, and its neighbour cannot reach it."""
    lab.locked()
    machines = lab.machines()
    machines[2]["inside"] = "10.98.9.9"
    lab.declare(machines=machines)
    lab.locked()
    texts = [each.text for each in lab.wrong()["hosts.inside"]]
    assert texts == [
        f"{lab.id('h1')}: it does not reach 10.98.9.9 of {lab.id('h2')} by TCP",
        f"{lab.id('h2')}: 10.98.9.9 is not an address of it: it has 10.98.1.2, 10.98.17.2, 10.98.33.2",
    ]


def test_identity(lab: Lab) -> None:
    """Another host key than the lock has, and a machine id of another machine."""
    lab.locked()
    with lab.new_host_key("h1"):
        one = only(lab.wrong(), "hosts.reached")
    assert one.text == f"{lab.id('h1')}: it showed another host key than the lock has, and was not asked"
    assert one.severity == "error"
    first, second = (lab.sh(each, "cat /etc/machine-id").strip() for each in ("h1", "h2"))
    with lab.fault("h2", f"echo {first} >/etc/machine-id", f"echo {second} >/etc/machine-id"):
        found = lab.wrong()["hosts.identity"]
    both = f"127.0.0.1:[{lab.lent.port('h1')},{lab.lent.port('h2')}]"
    assert [each.text for each in found] == [
        f"{both}: they have one machine id, {first}: they are one machine, or copies of one disk",
        f"{lab.id('h2')}: its machine id is {first}, and the lock has {second}",
    ]


def test_machines_of_others(lab: Lab) -> None:
    """A mark of another cluster, and a scheduler of a cluster without a mark; our own mark is none."""
    lab.locked()
    with lab.fault("h1", f"echo '{mark('prod')}' >/etc/stampworks/cluster", "rm /etc/stampworks/cluster"):
        one = only(lab.wrong(), "hosts.claimed")
    assert one.text == f"{lab.id('h1')}: it is marked for cluster prod"
    with lab.fault("h1", f"echo '{mark('lab')}' >/etc/stampworks/cluster", "rm /etc/stampworks/cluster"):
        assert lab.wrong() == {}
    with lab.fault("h1", "echo garbage >/etc/stampworks/cluster", "rm /etc/stampworks/cluster"):
        one = only(lab.wrong(), "hosts.claimed")
    assert one.text == f"{lab.id('h1')}: its mark of a cluster in /etc/stampworks/cluster cannot be read"
    begin = "cp /bin/sleep /root/slurmd; setsid /root/slurmd 300 </dev/null >/dev/null 2>&1 & echo $! >/root/pid"
    with lab.fault("h2", begin, "kill $(cat /root/pid); rm /root/pid /root/slurmd"):
        one = only(lab.wrong(), "hosts.claimed")
    assert one.text == f"{lab.id('h2')}: slurmd runs there, and the machine is not marked for lab"


def test_systems(lab: Lab) -> None:
    """Another suite, no python3, and a clock that is late."""
    lab.locked()
    file = "/usr/lib/os-release"
    other = f"sed 's/trixie/bookworm/; s/13/12/' {file} >/root/os-release; mount --bind /root/os-release {file}"
    with lab.fault("h1", other, f"umount {file}"):
        one = only(lab.wrong(), "hosts.system")
    says = "it runs Debian GNU/Linux 12 (bookworm), and release 2026.12 is for trixie"
    assert one.text == f"{lab.id('h1')}: {says}"
    with lab.fault("h1", "mv /usr/bin/python3 /usr/bin/python3.away", "mv /usr/bin/python3.away /usr/bin/python3"):
        one = only(lab.wrong(), "hosts.system")
    assert one.text == f"{lab.id('h1')}: it has no python3, which Ansible needs"
    late = '#!/bin/sh\\nexec /bin/date -d "@$(($(/bin/date +%s) - 60))" "$@"\\n'
    begin = f"printf %b '{late}' >/usr/local/bin/date; chmod +x /usr/local/bin/date"
    with lab.fault("h3", begin, "rm /usr/local/bin/date"):
        one = only(lab.wrong(), "hosts.clock", "warn")
    assert re.fullmatch(rf"{lab.id('h3')}: its clock is at least (5[5-9]|60)\.\d s behind the clock here", one.text)


def test_rights(lab: Lab) -> None:
    """An ordinary user is asked, too; sudo without a password makes him good enough, and no key refuses him."""
    lab.locked()
    add = (
        "useradd -m -p '*' ops; mkdir -p /home/ops/.ssh; cp /root/.ssh/authorized_keys /home/ops/.ssh; "
        "chown -R ops /home/ops/.ssh"
    )
    lab.declare(user="ops")
    hosts = ("h0", "h1", "h2", "h3")
    for host in hosts:
        lab.sh(host, add)
    try:
        one = only(lab.wrong(), "hosts.sudo")
        assert one.text.endswith(": ops is not root there, and has no sudo without a password")
        assert one.hint == "as root there: echo 'ops ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/ops"
        for host in hosts:
            lab.sh(host, "echo 'ops ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/ops")
        assert lab.wrong() == {}
    finally:
        for host in hosts:
            lab.sh(host, "rm -f /etc/sudoers.d/ops; userdel -r ops 2>/dev/null")
    found = lab.wrong()["hosts.reached"]
    assert "the login as ops was refused" in found[0].text
    assert {each.outcome for each in found} == {"fail"}


def test_machines_that_are_away(lab: Lab) -> None:
    """A reserve that is away is worth a warning; nodes that are away stop an `up`."""
    lab.locked()
    off, on = f"sv stop {SERVICE} >/dev/null", f"sv start {SERVICE} >/dev/null"
    with lab.fault("h3", off, on):
        one = only(lab.wrong(), "hosts.reached", "warn")
        assert one.text.startswith(f"{lab.id('h3')}: no answer: ")
        with lab.fault("h2", off, on):
            both = lab.wrong()["hosts.reached"]
    assert {each.outcome for each in both} == {"fail"}


def test_a_shared_directory(lab: Lab) -> None:
    """Nothing is mounted there, or another file system."""
    lab.locked()
    with lab.fault("h2", "mkdir /root/kept; mount --move /exports /root/kept", "mount --move /root/kept /exports"):
        one = only(lab.wrong(), "hosts.storage")
        assert one.text == f"{lab.id('h2')}: /exports/shared is not a directory there"
        with lab.fault("h2", "mount -t tmpfs mine /exports; mkdir /exports/shared", "umount /exports"):
            one = only(lab.wrong(), "hosts.storage")
    assert one.text.startswith("/exports/shared is 2 file systems: ")
    assert re.search(rf"; tmpfs mine \(\d+:\d+ /\) of kernel [0-9a-f]{{8}} on {lab.id('h2')}$", one.text)
    assert one.place == "storage[0].existing"
