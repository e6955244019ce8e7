"""A job has exactly the requested devices, and a login to its node shares them: with real control groups.

Simulated nodes have none, so that one node gets those of this machine. Its Slurm has the settings of machines with the
plugin of cgroup v1, because that of v2 needs systemd. Accelerators are consoles.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stampworks import planning
from stampworks.declaration import load_file
from stampworks.plan import Plan
from stampworks.schedulers import slurm

from tests.cluster.test_login import DECLARATION, WAIT_S, as_alice, to_node
from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = [
    pytest.mark.engine,
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's to divide"),
    pytest.mark.skipif(
        "devices" not in Path("/proc/self/cgroup").read_text(), reason="no control groups of the first version here"
    ),
    pytest.mark.long,
]

GROUPS = ("devices", "freezer", "memory", "cpuset", "cpuacct")
OPENED = "for i in 0 1 2 3 4 5 6 7; do (exec 3</accelerators/$i) 2>/dev/null && printf $i; done; echo"


@pytest.fixture(scope="module")
def confined(stack: Stack) -> Iterator[Stack]:
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    plan = on_a_machine(planning.plan(load_file(stack.file)))
    stack.shell("head", f"cat >/etc/slurm/cgroup.conf <<'END'\n{slurm.cgroup_conf(plan).replace('/v2', '/v1')}\nEND")
    for name, value in slurm.confinement(plan):
        stack.shell("head", f"sed -i '/^{name}=/d' /etc/slurm/slurm.conf; echo {name}={value} >>/etc/slurm/slurm.conf")
    stack.shell("gpu-001", f"mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup; mkdir {' '.join(GROUPS)}")
    for name in GROUPS:
        stack.shell("gpu-001", f"mount -t cgroup -o {name} none /sys/fs/cgroup/{name}")
    stack.shell(
        "gpu-001", "mkdir /accelerators; for i in 0 1 2 3 4 5 6 7; do mknod -m 666 /accelerators/$i c 4 $i; done"
    )
    stack.shell("login-001", "install -d -o alice -g alice /shared/alice")
    stack.shell("head", "sv restart /etc/stampworks/services/slurmctld")
    stack.shell("gpu-001", "sv restart /etc/stampworks/services/slurmd")
    yield stack
    stack.shell("head", "scancel --user=alice")
    wait_for(lambda: not stack.shell("head", "squeue --noheader"), WAIT_S)
    stack.shell("gpu-001", "sv stop /etc/stampworks/services/slurmd")
    stack.shell("gpu-001", "find /sys/fs/cgroup/*/slurm* -depth -type d -exec rmdir {} +")


def on_a_machine(plan: Plan) -> Plan:
    """Replace the numbers of cores, which are unknown: simulated machines declare more than their host has."""
    groups = [
        dataclasses.replace(each, machine=dataclasses.replace(each.machine, simulated=False, cores=0))
        for each in plan.groups
    ]
    return dataclasses.replace(plan, groups=tuple(groups))


def test_a_job_opens_the_accelerators_that_it_got(confined: Stack) -> None:
    """The job opens the accelerators that it requested of the eight, and none without a request."""
    found = [as_alice(confined, f"srun {asked} sh -c '{OPENED}'") for asked in ("--gres=gpu:2", "--gres=gpu:8", "")]
    assert [len(each) for each in found] == [2, 8, 0]


def test_login_joins_the_job(confined: Stack) -> None:
    """The login opens the devices of the job, is one of its processes, and ends with it."""
    job = as_alice(confined, "sbatch --parsable --gres=gpu:1 --output=/dev/null --wrap='sleep 300'")
    wait_for(lambda: to_node(confined, "alice", "true") == ["rc 0"], WAIT_S)
    opened, ended = to_node(confined, "alice", OPENED)
    assert (len(opened), ended) == (1, "rc 0")
    confined.shell("login-001", "(setsid runuser -u alice -- ssh -o BatchMode=yes gpu-001 sleep 299 >/dev/null 2>&1 &)")
    wait_for(lambda: confined.shell("gpu-001", "pgrep -fx 'sleep 299' || true"), WAIT_S)
    pid = confined.shell("gpu-001", "pgrep -fx 'sleep 299'")
    assert f"/job_{job}/step_extern" in confined.shell("gpu-001", f"grep devices /proc/{pid}/cgroup")
    as_alice(confined, f"scancel {job}")
    wait_for(lambda: confined.shell("gpu-001", "pgrep -fx 'sleep 299' || echo none") == "none", WAIT_S)
    assert to_node(confined, "alice", "true")[-1] == "rc 255"
