"""The roles on nodes that run Debian's systemd, like machines of a cloud.

Nodes of the local cloud have a small init. This test uses a copy of the toolkit whose machine room starts systemd with
control groups, without runit. Everything else is the toolkit's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.stack import ROOT, Stack, host
from tests.cluster.test_drift import lines, refresh
from tests.project import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.long]

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    network: {{cidr: 10.98.0.0/16}}
    pools:
      - {{name: gpu, machine: sim-h100, count: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    users:
      - {{name: alice, uid: 2001, accounts: [research]}}
    scheduler:
      login_nodes: 1
      accounting: true
      accounts: [{{name: research}}]
      drain_timeout_minutes: 1
      protect: false
    proof: {{level: none}}
"""
WORKER = {"boot-settings", "metrics", "slurmd"}
SERVICES = {
    "gpu-001": WORKER,
    "gpu-002": WORKER,
    "head": {"boot-settings", "database", "metrics", "packages", "slurmctld", "slurmdbd"},
    "login-001": {"boot-settings", "metrics", "sackd"},
}
"""Services of the roles that run on every node."""
ROOM = "machine_room"
CHANGES = (
    ("catalog/releases.yaml", "    - runit\n", "    - dbus\n    - systemd-sysv\n"),
    (f"{ROOM}/image.py", '"openssh-server", "runit")', '"openssh-server")'),
    # a builder's machine id must not be that of all nodes
    (f"{ROOM}/image.py", 'STRIP = """\n', 'STRIP = """\n: >/etc/machine-id\nrm -rf /var/log/journal/*\n'),
    # every node has control groups, of version 2, and divides them itself
    (f"{ROOM}/nodes.py", "if image.containers\n", "if image.layers\n"),
    (f"{ROOM}/cgroups.py", "return divided or [", "return ["),
    (f"{ROOM}/cgroups.py", "if hierarchy.kind == _UNIFIED:\n", "if hierarchy.kind == _UNIFIED:\n        return\n"),
    (f"{ROOM}/inside.py", '        settle_in_cgroups(boot["cgroups"])\n', ""),
)
"""Changes of the copy: a file of the toolkit, its text, and the replacement."""
FIRST_PROGRAM = """\
#!/bin/sh
# It asks whether it has a machine for itself: devices and the kernel's settings are others' here.
exec env container=stampworks /sbin/init
"""
OFF_AND_ON = """\
import sys
from stampworks.machine_room import disks, nodes
from stampworks.machine_room.room import of_cluster

room, name = of_cluster(sys.argv[1]), sys.argv[2]
with room.locked():
    disks.disk_of(room, name).process.end(name)
    nodes.power_on(room, name)
"""
OURS = "cd /etc/systemd/system && grep --files-with-matches '^# Written by Stampworks' *.service"
STEP = "touch {0}.$SLURM_PROCID; until test -e {0}.go; do sleep 0.2; done; touch {0}.ended.$SLURM_PROCID"
RESTARTED = "for _ in 1 2 3 4 5 6 7; do systemctl restart slurmd || exit 1; done"
KILLED = """\
main() { systemctl show --value --property=MainPID slurmd; }
for _ in 1 2 3 4 5 6 7; do
    before=$(main)
    kill -KILL "$before" || exit 1
    until now=$(main); test "$now" != 0 -a "$now" != "$before"; do sleep 0.05; done
done
"""
"""Seven times: systemd gives up a service that was started five times within ten seconds."""
WAIT_S = 60


class Machines(Stack):
    """A stack of the copy, whose nodes run systemd."""

    @property
    def copy(self) -> Path:
        return self.folder / "toolkit"

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self.copy / "components")}

    def lose_power(self, node: str) -> None:
        """Kill everything that runs on a node, and start it with its disk."""
        command = [sys.executable, "-c", OFF_AND_ON, self.cluster, node]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr


def copy_toolkit(to: Path) -> None:
    for name in ("components", "playbooks", "workloads"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    package = to / "components" / "stampworks"
    for name, old, new in CHANGES:
        text = (package / name).read_text()
        assert text.count(old) == 1, f"{name}: {old}"
        (package / name).write_text(text.replace(old, new))
    tree = package / ROOM / "tree"
    (tree / "usr/sbin/stampworks-init").write_text(FIRST_PROGRAM)
    (tree / "etc/systemd/system").mkdir(parents=True)
    for nobodys in ("autovt@.service", "getty@.service"):  # simulated accelerators are consoles of this machine
        (tree / "etc/systemd/system" / nobodys).touch()


def lacking() -> str:
    """Return why systemd cannot run in namespaces of this machine; empty if it can."""
    if os.geteuid() != 0:
        return "control groups are made by root alone"
    if not groups_of(""):
        return "no cgroup2 is mounted here, below which those of nodes could be made"
    command = ["unshare", "--mount", "--cgroup", "mount", "-t", "cgroup2", "none", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return f"no cgroup2 can be mounted: {done.stderr.strip()}" if done.returncode else ""


def groups_of(cluster: str) -> list[str]:
    """Return the control groups whose name contains a cluster's; all of them without one."""
    mounted = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = [before.split()[4] for before, _, after in mounted if after.startswith("cgroup2 ")]
    folders = [folder for point in points for folder, _, _ in os.walk(point)]
    return [folder for folder in folders if cluster in folder]


@pytest.fixture(scope="module")
def before() -> str:
    return host()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    if why := lacking():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("systemd")
    copy_toolkit(folder / "toolkit")
    stack = Machines.make(folder, f"d{os.getpid()}")
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture(scope="module")
def stamped(stack: Machines, before: str) -> Machines:
    """Stamp the cluster, and build its image if the cache has none."""
    stack.up()
    assert host() == before, "nothing of it is in the host's own network or mounts"
    stack.shell("login-001", "install -d -o alice -g alice /shared/alice")
    return stack


def runs(stack: Machines, node: str) -> dict[str, str]:
    """Return the services of the roles that run on a node, each with an id of its start."""
    said = stack.shell(node, f"systemctl show --property=Id,ActiveState,InvocationID $({OURS})")
    found = [dict(line.split("=", 1) for line in block.splitlines()) for block in said.split("\n\n")]
    up = (each for each in found if each["ActiveState"] == "active")
    return {each["Id"].removesuffix(".service"): each["InvocationID"] for each in up}


def as_alice(stack: Machines, command: str) -> str:
    return stack.shell("login-001", f"cd /shared/alice; runuser -u alice -- {command}")


def hosts(stack: Machines) -> list[str]:
    """Return the nodes of a job of two nodes."""
    return sorted(as_alice(stack, "srun --nodes=2 hostname").split())


def begun(stack: Machines) -> str:
    """Start a job on both workers that runs until it is asked to end."""
    step = shlex.quote(STEP.format("/shared/alice/$SLURM_JOB_ID"))
    job = as_alice(stack, f"sbatch --parsable --nodes=2 --output=/dev/null --wrap={shlex.quote(f'srun sh -c {step}')}")
    wait_for(lambda: len(marks(stack, f"{job}.[01]")) == 2, WAIT_S)
    return job


def marks(stack: Machines, pattern: str) -> list[str]:
    """Return the marks of steps in the folder of their user."""
    return stack.shell("gpu-001", f"find /shared/alice -name '{pattern}'").splitlines()


def logged_in(stack: Machines) -> str:
    """Return the user of a login to a node, or the last lines of ssh."""
    return as_alice(stack, "ssh -o BatchMode=yes gpu-001 id --user --name 2>&1 || true").splitlines()[-1]


def ended_well(stack: Machines, job: str) -> None:
    """Check that both processes of its step ended normally, and that it was never restarted."""
    assert "Restarts=0" in as_alice(stack, f"scontrol show job {job}")
    as_alice(stack, f"touch {job}.go")
    wait_for(lambda: (job, "COMPLETED") in accounted(stack), WAIT_S)
    assert len(marks(stack, f"{job}.ended.[01]")) == 2


def accounted(stack: Machines) -> list[tuple[str, ...]]:
    """Number and state of all jobs, as the database has them."""
    said = stack.shell("head", "sacct --noheader --parsable2 --allusers --allocations --format=jobid,state")
    return [tuple(line.split("|")) for line in said.splitlines()]


def test_one_up_makes_machines_with_systemd_a_cluster(stamped: Machines) -> None:
    """The small init is unused, the services of the roles run, and a user's job is accounted for."""
    for node, services in SERVICES.items():
        assert stamped.shell(node, "readlink /proc/1/exe; command -v runsvdir || echo none").split() == [
            "/usr/lib/systemd/systemd",
            "none",
        ]
        assert set(runs(stamped, node)) == services
    assert hosts(stamped) == ["gpu-001", "gpu-002"]
    wait_for(lambda: [state for _, state in accounted(stamped)] == ["COMPLETED"], WAIT_S)


def test_a_second_up_changes_nothing(stamped: Machines) -> None:
    """A refresh finds no difference either."""
    assert lines(refresh(stamped)) == []
    said = stamped.up()
    assert "unchanged" in said
    assert not any(word in said for word in ("created", "updated", "replaced", "deleted"))


def test_jobs_outlive_slurmd(stamped: Machines) -> None:
    """Jobs survive any number of restarts and kills."""
    job = begun(stamped)
    assert logged_in(stamped) == "alice"
    for how in (RESTARTED, KILLED):
        stamped.shell("gpu-001", how)
        assert "slurmd" in runs(stamped, "gpu-001")
    assert logged_in(stamped) == "alice"
    ended_well(stamped, job)
    wait_for(lambda: logged_in(stamped).startswith("Connection closed by"), WAIT_S)


def test_jobs_outlive_slurmctld(stamped: Machines) -> None:
    """The new slurmctld finds them in its state, and takes new jobs."""
    job = begun(stamped)
    stamped.shell("head", "systemctl restart slurmctld")
    wait_for(lambda: "is UP" in stamped.shell("head", "scontrol ping || true"), WAIT_S)
    assert hosts(stamped) == ["gpu-001", "gpu-002"]
    ended_well(stamped, job)


def test_an_up_applies_a_changed_unit(stamped: Machines) -> None:
    """slurmd runs with it on every worker; no other service was restarted, and its job continues."""
    nodes, job = stamped.nodes(), begun(stamped)
    before = {node: runs(stamped, node) for node in SERVICES}
    tasks = stamped.copy / "playbooks/roles/slurm_worker/tasks"
    # Change only the configuration: a change of the image would mean new disks.
    service, configure = (tasks / "service.yml").read_text(), (tasks / "configure.yml").read_text()
    assert "/slurmd, -D," in service
    (tasks / "changed.yml").write_text(service.replace("/slurmd, -D,", "/slurmd, -D, -v,"))
    (tasks / "configure.yml").write_text(configure.replace("import_tasks: service.yml", "import_tasks: changed.yml"))
    stamped.up()
    assert stamped.nodes() == nodes
    for node in SERVICES:
        after = runs(stamped, node)
        assert {name for name in after if after[name] != before[node][name]} == ({"slurmd"} if "gpu" in node else set())
    for node in ("gpu-001", "gpu-002"):
        assert "/usr/sbin/slurmd -D -v " in stamped.shell(node, "pgrep --exact --list-full slurmd")
    ended_well(stamped, job)


def test_a_worker_that_lost_power_comes_back_by_itself(stamped: Machines) -> None:
    """After power-on it mounts everything and takes jobs without help."""
    before, heard = runs(stamped, "gpu-002"), begun_at(stamped, "gpu-002")
    comes_back(stamped, "gpu-002", before)
    stamped.shell("gpu-002", "mountpoint --quiet /shared")
    wait_for(lambda: begun_at(stamped, "gpu-002") != heard, WAIT_S)
    assert hosts(stamped) == ["gpu-001", "gpu-002"]
    wait_for(lambda: as_alice(stamped, "sinfo --noheader --format=%T") == "idle", WAIT_S)


def test_a_head_that_lost_power_comes_back_by_itself(stamped: Machines) -> None:
    """Queue and accounts are kept, and a running job continues."""
    assert hosts(stamped) == ["gpu-001", "gpu-002"]
    job = begun(stamped)
    saved = f"find /var/lib/stampworks/state/slurmctld/job_state -newer /shared/alice/{job}.1"
    wait_for(lambda: stamped.shell("head", saved), WAIT_S)  # slurmctld does not know new jobs yet
    known = accounted(stamped)
    assert {"COMPLETED", "RUNNING"} <= {state for _, state in known}
    comes_back(stamped, "head", runs(stamped, "head"))
    wait_for(lambda: "is UP" in stamped.shell("head", "scontrol ping || true"), WAIT_S)
    assert accounted(stamped) == known
    ended_well(stamped, job)
    assert hosts(stamped) == ["gpu-001", "gpu-002"]


def comes_back(stack: Machines, node: str, before: dict[str, str]) -> None:
    stack.lose_power(node)
    wait_for(lambda: set(runs(stack, node)) == SERVICES[node], WAIT_S)
    assert not set(runs(stack, node).values()) & set(before.values()), "each of them was started anew"


def begun_at(stack: Machines, node: str) -> str:
    """Return the start of a node's slurmd, as slurmctld knows it."""
    return next(
        word for word in as_alice(stack, f"scontrol show node {node}").split() if word.startswith("SlurmdStartTime=")
    )


def test_destroy_leaves_the_machine_as_it_was(stamped: Machines, before: str) -> None:
    """No process, mount, interface, address, control group or file of the room is left."""
    assert len([each for each in groups_of(stamped.cluster) if each.endswith("/init.scope")]) == len(SERVICES)
    stamped.destroy()
    assert stamped.resources() == {}
    assert stamped.traces() == []
    assert groups_of(stamped.cluster) == []
    assert host() == before
