"""site.yml on a real cluster: its results, idempotence and persistence."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from stampworks import configuration
from stampworks import machine_room as room
from stampworks.configuration import PlaybookFailed, drift

from tests.playbooks.conftest import CLAIM, SECRETS, Cluster, Edit, plan_of

pytestmark = pytest.mark.cluster

GPUS = ("gpu-001", "gpu-002", "gpu-003")
STATES = "sinfo -h -N -p main -o %T | sort -u"


def test_progress_says_how_far_it_is(cluster: Cluster) -> None:
    """Each line has role, task and stage; the last line names the last stage."""
    lines = [line for line in cluster.said if " : " in line]
    assert re.fullmatch(r"validate : .* \(1 of (\d+)\)", lines[0])
    assert re.fullmatch(r"slurm_controller : Wait until every node answers \((\d+) of \1\)", lines[-1])


def test_all_nodes_are_idle_when_it_is_done(cluster: Cluster) -> None:
    """A cluster is ready when it takes jobs."""
    assert cluster.shell("head", STATES) == "idle"


def test_a_second_run_changes_nothing(cluster: Cluster) -> None:
    """This holds in check mode, too."""
    assert cluster.drift() == []
    assert cluster.play().changed == 0


@pytest.mark.long
def test_a_machine_that_booted_another_image_is_made_like_ours_first(cluster: Cluster) -> None:
    """It happens once, on that machine only: a marker on the node decides, and no task asks for it."""
    bare = "rm -r /etc/stampworks/image /var/lib/stampworks/packages.json /usr/local/sbin/stampworks-metrics"
    cluster.shell("gpu-001", f"{bare}; apt-get purge --yes iperf3 >/dev/null")
    installing = "base : Install the release"
    cluster.said.clear()
    cluster.play()
    assert [line for line in cluster.said if line.startswith(installing)]
    assert cluster.shell("gpu-001", "command -v iperf3") == "/usr/bin/iperf3"
    notes = {cluster.shell(node, "cat /etc/stampworks/image") for node in (*GPUS, "head")}
    assert notes == {cluster.inventory()["all"]["vars"]["image_content"]}
    cluster.said.clear()
    assert cluster.play().changed == 0
    assert not [line for line in cluster.said if line.startswith(installing)]


def test_check_mode_says_what_would_change(cluster: Cluster) -> None:
    """A single pass reports everything, and changes nothing."""

    def edit(inventory: dict[str, Any]) -> None:
        inventory["vars"]["base_users"] = [{"name": "bob", "uid": 2002}]
        inventory["vars"]["storage_mounts"] = []
        inventory["vars"]["slurm_controller_files"]["slurm.conf"] += "SlurmdTimeout=31\n"

    before = cluster.shell("head", "cat /etc/passwd /proc/mounts /etc/slurm/slurm.conf")
    found = drift.lines("system", cluster.look(edit).drift)
    assert found == [
        "system: gpu-[001-003], head: user bob is missing",
        "system: gpu-[001-003], head: user alice is left over",
        "system: gpu-[001-003], head: /etc/fstab differs",
        "system: gpu-[001-003], head: /shared is mounted",
        "system: head: /etc/slurm/slurm.conf differs",
        "system: gpu-[001-003]: /run/slurm/conf/slurm.conf differs",
    ]
    assert cluster.shell("head", "cat /etc/passwd /proc/mounts /etc/slurm/slurm.conf") == before


def test_a_job_spans_the_nodes_and_sees_its_accelerators(cluster: Cluster) -> None:
    """The job runs as an ordinary user, with its accelerators, NICs and a private folder, whatever is in /tmp."""
    cluster.shell("gpu-001", "su alice -c 'seq -f /tmp/job-%g 999 | xargs touch'")
    assert cluster.shell("head", "srun -N3 hostname | sort").split() == list(GPUS)
    job = (
        "echo \\$CUDA_VISIBLE_DEVICES \\$GLOO_SOCKET_IFNAME \\$NCCL_SOCKET_IFNAME \\$(stat -c %U \\$TMPDIR) \\$(id -un)"
    )
    said = cluster.shell("head", f"su alice -c \"srun -N1 --gres=gpu:2 sh -c '{job}'\"")
    assert said == "0,1 rail0,rail1 rail0,rail1 alice alice"
    cluster.until("gpu-001", "ls -d /tmp/job-*-* 2>/dev/null || true", "")  # the epilog runs after srun has ended


def test_users_go_from_node_to_node(cluster: Cluster) -> None:
    """Within a job, users need neither a key nor a confirmation."""
    step = "test $SLURM_PROCID = 1 || ssh -o BatchMode=yes gpu-002 hostname"
    within = f"srun --nodelist=gpu-[001-002] sh -c '{step}'"
    cluster.until("gpu-001", f"su alice -c {shlex.quote(within)} 2>&1 || true", "gpu-002")


def test_nodes_get_packages_from_the_head(cluster: Cluster) -> None:
    """Nodes have no other egress."""
    command = "apt-get clean && apt-get update && apt-get install --reinstall --download-only -y iperf3 2>&1"
    said = cluster.shell("gpu-001", command)
    assert "http://" in said
    assert "iperf3" in said


def test_the_rails_answer_for_themselves_only(cluster: Cluster) -> None:
    """Traffic of a broken rail must not arrive on another."""
    assert (
        cluster.shell("gpu-001", "sysctl -n net.ipv4.conf.rail0.arp_ignore net.ipv4.conf.rail1.arp_announce") == "1\n2"
    )


def test_shared_directory_is_on_every_node(cluster: Cluster) -> None:
    """All nodes mount the same directory from fstab."""
    cluster.shell("gpu-001", "echo here >/shared/proof")
    assert {cluster.shell(node, "cat /shared/proof") for node in (*GPUS, "head")} == {"here"}


def test_a_higher_priority_takes_the_nodes(cluster: Cluster) -> None:
    """The job with the lower priority is requeued and runs again."""
    submit = "sbatch --parsable --requeue -N3 --exclusive --output=/dev/null"
    low = cluster.shell("head", f"{submit} -p main --wrap 'sleep 600'")
    cluster.until("head", f"squeue -h -j {low} -o %T", "RUNNING")
    high = cluster.shell("head", f"{submit} -p urgent --wrap 'sleep 1'")
    cluster.until("head", f"squeue -h -j {high} -o %T", "RUNNING")
    assert "Restarts=1" in cluster.shell("head", f"scontrol show job {low}")
    cluster.shell("head", f"scancel {low} {high}")
    cluster.until("head", STATES, "idle")


def test_a_configuration_that_slurmctld_refuses_never_reaches_it(cluster: Cluster) -> None:
    """The run fails with slurmctld's own message; the running controller is unaffected."""
    before = cluster.shell("head", "cat /etc/stampworks/services/slurmctld/supervise/pid; md5sum /etc/slurm/*.conf")

    def spoil(inventory: dict[str, Any]) -> None:
        inventory["vars"]["slurm_controller_files"]["slurm.conf"] += "PartitionName=ghosts Nodes=nobody-[1-3]\n"

    with pytest.raises(PlaybookFailed) as caught:
        cluster.play(edit=spoil)
    assert "head: slurm_controller : Give slurmctld its configuration" in str(caught.value)
    assert "slurmctld refuses this configuration, so it was not put in place: " in str(caught.value)
    assert "nobody-" in str(caught.value)
    assert "is UP" in cluster.shell("head", "scontrol ping")
    after = cluster.shell("head", "cat /etc/stampworks/services/slurmctld/supervise/pid; md5sum /etc/slurm/*.conf")
    assert after == before


@pytest.mark.long
def test_a_changed_configuration_disturbs_no_job(cluster: Cluster) -> None:
    """slurmctld reads it while a job runs on."""
    job = cluster.shell("head", "sbatch --parsable -N1 --output=/dev/null --wrap 'sleep 600'")
    cluster.until("head", f"squeue -h -j {job} -o %T", "RUNNING")

    def edit(inventory: dict[str, Any]) -> None:
        files = inventory["vars"]["slurm_controller_files"]
        files["slurm.conf"] = files["slurm.conf"].replace("SlurmdTimeout=30", "SlurmdTimeout=33")

    assert cluster.play(edit=edit).changed == 1
    assert "33 sec" in cluster.shell("head", "scontrol show config | grep SlurmdTimeout")
    assert cluster.shell("head", f"squeue -h -j {job} -o '%T %r'") == "RUNNING None"
    assert cluster.play().changed == 1
    cluster.shell("head", f"scancel {job}")


def test_a_node_comes_back_by_itself(cluster: Cluster) -> None:
    """After a power loss services, mounts and kernel settings return without a playbook."""
    cluster.power_cycle("gpu-002")
    cluster.until("gpu-002", "sysctl -n net.ipv4.conf.rail1.arp_ignore", "1")
    assert "/shared" in cluster.shell("gpu-002", "cat /proc/mounts")
    cluster.until("head", "srun -w gpu-002 --immediate=5 hostname 2>&1 || true", "gpu-002")
    cluster.until(
        "gpu-002", "python3 -c 'import socket; socket.create_connection((\"localhost\", 9100))' && echo up", "up"
    )


@pytest.mark.long
def test_the_head_comes_back_by_itself(cluster: Cluster) -> None:
    """Jobs survive, because slurmctld keeps its state on disk; no other node needs a playbook."""
    job = cluster.shell("head", "sbatch --parsable -N1 --output=/dev/null --wrap 'sleep 600'")
    cluster.until("head", f"squeue -h -j {job} -o %T", "RUNNING")
    # slurmctld writes all jobs at once, with a delay: when a later job is written, this one is, too
    after = cluster.shell("head", "sbatch --parsable --hold --job-name=came-after --output=/dev/null --wrap true")
    state = "/var/lib/stampworks/state/slurmctld/job_state"
    cluster.until("head", f"if grep --quiet came-after {state}; then echo saved; fi", "saved")
    cluster.power_cycle("head")
    cluster.until("head", f"squeue -h -j {job} -o %T 2>/dev/null || true", "RUNNING")
    cluster.shell("head", f"scancel {job} {after}")
    assert cluster.play().changed == 0


def test_a_node_that_is_not_well_is_drained_and_given_back(cluster: Cluster) -> None:
    """The node's own check drains it with a reason, never against a user's drain."""
    reason = "sinfo -h -n gpu-003 -N -o '%T %E' | sort -u"
    cluster.shell("gpu-003", "ip link set rail1 down; stampworks-health || true")
    cluster.until("head", reason, "drained health: rail1 has no carrier")
    cluster.shell("gpu-003", "ip link set rail1 up; sleep 1; stampworks-health")
    cluster.until("head", STATES, "idle")
    cluster.shell("head", "scontrol update nodename=gpu-003 state=drain reason='new fans'")
    cluster.shell("gpu-003", "umount /shared; ! stampworks-health; mount /shared; stampworks-health")
    cluster.until("head", reason, "drained new fans")
    cluster.shell("head", "scontrol update nodename=gpu-003 state=resume")
    cluster.until("head", STATES, "idle")


def test_a_job_goes_around_a_node_that_has_just_become_unwell(cluster: Cluster) -> None:
    """The prolog checks again: the job is requeued instead of failing, and starts elsewhere."""
    lost = "import json,sys; p='/var/lib/stampworks/accelerators.json'; d=json.load(open(p)); "
    lost += "d['accelerators'][3]['lost']=%s; json.dump(d,open(p,'w'))"
    cluster.shell("gpu-001", f'python3 -c "{lost % True}"')
    job = cluster.shell("head", "sbatch --parsable -w gpu-001 --requeue --output=/dev/null --wrap true")
    cluster.until("head", "sinfo -h -n gpu-001 -p main -o '%T %E'", "drained health: 7 of 8 accelerators")
    assert cluster.shell("head", f"squeue -h -j {job} -o %T") == "PENDING"
    cluster.shell("gpu-001", f'python3 -c "{lost % False}"; stampworks-health')
    cluster.until("head", STATES, "idle")
    cluster.shell("head", f"scancel {job}")


@pytest.mark.long
def test_all_hosts_that_fail_are_named_at_once(cluster: Cluster) -> None:
    """Unreachable and failed hosts are in the same message."""
    conflict = "useradd --uid 3001 carol"
    cluster.shell("gpu-001", conflict)
    cluster.shell("gpu-003", conflict)

    def edit(inventory: dict[str, Any]) -> None:
        inventory["vars"]["base_users"] = [{"name": "dora", "uid": 3001}]

    with pytest.raises(PlaybookFailed) as caught:
        cluster.play(edit=edit)
    assert str(caught.value) == (
        "site.yml failed on 2 hosts.\n"
        "  gpu-001, gpu-003: base : Make the users\n"
        "    user dora: uid 3001 is taken by carol on this node\n"
        "Finished tasks stay finished; the next run continues from there."
    )
    for node in ("gpu-001", "gpu-003"):
        cluster.shell(node, "userdel -r carol 2>/dev/null")
    cluster.play()


def test_a_host_that_is_another_one_is_refused(cluster: Cluster) -> None:
    """ssh compares the host's key with the one its cloud reported, and never asks."""

    def edit(inventory: dict[str, Any]) -> None:
        inventory["hosts"]["gpu-002"]["node_host_key"] = inventory["hosts"]["gpu-001"]["node_host_key"]

    with pytest.raises(PlaybookFailed) as caught:
        cluster.play(edit=edit)
    assert "gpu-002: cannot be reached" in str(caught.value)
    assert "Host key verification failed" in str(caught.value)


def test_a_vendors_image_is_compared_and_nothing_installed(cluster: Cluster) -> None:
    """A node with the parts continues, and its driver role does nothing; a node without them is refused before any
    change. A package of the node stands for one of the vendor."""

    def vendors(parts: dict[str, str]) -> Edit:
        def edit(inventory: dict[str, Any]) -> None:
            inventory["children"]["driver"] = {"hosts": {"gpu-001": {}}}
            inventory["vars"] |= {"driver_packages": {}, "driver_kernel": "", "validate_image_parts": {"driver": parts}}

        return edit

    packages = cluster.shell("gpu-001", "dpkg-query --show")
    assert cluster.play(vendors({"slurmd": "24.11"})).changed == 0
    cluster.said.clear()
    with pytest.raises(PlaybookFailed) as caught:
        cluster.play(vendors({"slurmd": "23.11", "nvidia": "595.91.07"}))
    release = cluster.plan.release.name
    said, slurmd = str(caught.value), cluster.shell("gpu-001", "dpkg-query --show --showformat '${Version}' slurmd")
    assert "gpu-001: validate : Compare the image of the vendor with the release\n" in said
    assert f"driver: slurmd is {slurmd}, release {release} says 23.11;" in " ".join(said.split())
    assert f"driver: it has no nvidia, release {release} says 595.91.07: lock the image" in " ".join(said.split())
    assert not [line for line in cluster.said if line.startswith("base : ")]
    assert cluster.shell("gpu-001", "dpkg-query --show") == packages


def test_a_wrong_inventory_reaches_no_node(cluster: Cluster) -> None:
    """All its mistakes at once, before the first node is asked anything."""

    def edit(inventory: dict[str, Any]) -> None:
        inventory["vars"] |= {"base_open_files": "many", "base_opne_files": 1, "health_mounts": {"no": "list"}}

    with pytest.raises(PlaybookFailed) as caught:
        cluster.play(edit=edit)
    text = str(caught.value)
    assert "base on gpu-001, gpu-002, gpu-003, head: argument 'base_open_files'" in text
    assert "the role has no variable base_opne_files" in text
    assert "argument 'health_mounts'" in text


def test_a_clock_that_is_wrong_is_drift(cluster: Cluster) -> None:
    """All clocks here are the same, so that a node's Python reports another time."""
    later = "import time; now = time.time; time.time = lambda: now() + 600; $3"
    wrapper = f'#!/bin/sh\nexec python3 -IS -c "{later}"\n'
    cluster.shell("gpu-002", f"printf %s {shlex.quote(wrapper)} >/tmp/later; chmod +x /tmp/later")

    def edit(inventory: dict[str, Any]) -> None:
        inventory["hosts"]["gpu-002"]["ansible_python_interpreter"] = "/tmp/later"

    hosts = [member.name for member in cluster.roster.members]
    found = drift.of_look(cluster.inventory(), hosts, cluster.look(edit))
    assert [line for line in found if "clock" in line] == [
        "runtime: gpu-002: its clock is 10 minutes ahead of head's, "
        "and Slurm's daemons reject messages of a clock so far off"
    ]


def test_sshd_reads_its_settings_again_whatever_the_clock_says(cluster: Cluster) -> None:
    """Its last start seems to be in the future, and its settings are repaired."""
    settings, both = "/etc/ssh/sshd_config.d/60-stampworks.conf", "printf 'Port 22\\nPort 2222\\n'"
    listens = "ss -4Hltn 'sport = :2222' | wc -l"
    cluster.shell("gpu-001", f"{both} >>{settings}; kill -HUP $(cat /run/sshd.pid)")
    cluster.until("gpu-001", listens, "1")
    cluster.shell("gpu-001", "touch -d '+1 hour' /run/sshd.pid")
    assert cluster.play().changed == 1
    cluster.until("gpu-001", listens, "0")


def test_nothing_of_a_run_stays_behind(cluster: Cluster) -> None:
    """No process, socket or folder is left, even after a cancel."""

    async def cancel_in_the_middle() -> None:
        roster = cluster.roster
        inventory = cluster.inventory()
        begun = asyncio.Event()

        def tell(line: str) -> None:
            if "Make the users" in line:
                begun.set()

        task = asyncio.create_task(configuration.play("site.yml", inventory, roster.reach, SECRETS, tell))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    folders = set(Path("/tmp").glob("sw-*"))  # other runs of this machine have theirs
    asyncio.run(asyncio.wait_for(cancel_in_the_middle(), 180))
    new = set(Path("/tmp").glob("sw-*")) - folders
    assert not [path for path in new if (path / "work.json").exists() and _uses(cluster.plan.name, path)]
    keys = [command for command in _commands() if str(cluster.key.parent) in command and "ansible" in command]
    assert keys == []


def _uses(cluster: str, folder: Path) -> bool:
    return f'"{cluster}"' in (folder / "work.json").read_text()


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.long
def test_a_cluster_grows_and_shrinks_around_its_jobs(cluster: Cluster) -> None:
    """A new node takes jobs at once; running jobs are unaffected by its arrival and departure."""
    before = cluster.plan
    job = cluster.shell("head", "sbatch --parsable -N3 --output=/dev/null --wrap 'sleep 600'")
    cluster.until("head", f"squeue -h -j {job} -o %T", "RUNNING")
    cluster.plan = plan_of(before.name, 4)
    cluster.boot()
    cluster.play()
    assert cluster.shell("head", "srun -w gpu-004 --gres=gpu:8 nvidia-smi -L | wc -l") == "8"
    cluster.plan = before
    room.end_nodes(before.name, CLAIM, ["gpu-004"], cluster.said.append)
    cluster.play()
    assert cluster.shell("head", "sinfo -h -N -p main -o %N").split() == list(GPUS)
    assert cluster.shell("head", f"squeue -h -j {job} -o '%T %D'") == "RUNNING 3"
    assert "Restarts=0" in cluster.shell("head", f"scontrol show job {job}")
    cluster.shell("head", f"scancel {job}")
    cluster.until("head", STATES, "idle")


@pytest.mark.long
def test_a_real_service_under_runit(cluster: Cluster) -> None:
    """It is defined, started, left alone, restarted after a change, and stopped; its log is limited."""
    unused: dict[str, Any] = {
        "awaits": [],
        "limits": {},
        "directories": {},
        "once": False,
        "answers": "",
        "before_mounts": False,
    }
    command = ["sh", "-c", "yes 0123456789 | head -c 6000000; exec sleep 1000"]
    call = {**unused, "name": "proof", "command": command, "configuration": ["/tmp/conf"], "enabled": True}
    call["settle_s"] = 0.2
    cluster.shell("head", "touch /tmp/conf")

    def unit(check: bool = False, **more: Any) -> Any:
        answer = cluster.module("head", "service_unit", {**call, **more}, check)
        assert "did" in answer, answer
        return answer["did"]

    assert unit(state="started") == ["defined", "enabled", "start"]
    assert unit(state="started") == []
    cluster.until("head", "ls /var/log/stampworks/proof/@* | wc -l", "4")
    assert int(cluster.shell("head", "du -s /var/log/stampworks/proof | cut -f1")) < 6_000
    cluster.shell("head", "echo edited >/tmp/conf; touch -d 1999-01-01 /tmp/conf")
    assert unit(True, state="started") == ["restart"]
    assert unit(state="started") == ["restart"]
    assert unit(state="started") == []
    # Another process restarts it with an edited file, and restores the file.
    proof = "/etc/stampworks/services/proof"
    cluster.shell("head", f"cp /tmp/conf /tmp/kept; echo wrong >/tmp/conf; sv restart {proof}")
    # runsv waits a second before it starts a young service again
    cluster.until("head", "sha256sum --check --status /var/lib/stampworks/services/proof; echo $?", "0")
    cluster.shell("head", "mv /tmp/kept /tmp/conf")
    assert unit(state="started") == ["restart"]
    assert unit(state="started") == []
    assert unit(state="stopped", enabled=False) == ["disabled", "stop"]
    assert unit(state="stopped", enabled=False) == []
    dying = {**call, "name": "dying", "command": ["sh", "-c", "echo no teapot; exit 1"], "state": "started"}
    dying["settle_s"] = 5  # on a busy machine a shell needs time to end
    said = cluster.module("head", "service_unit", dying)
    assert said["failed"]
    assert said["msg"].startswith("service dying does not stay up: its last words are:\n")
    assert "no teapot" in said["msg"]
    cluster.module("head", "service_unit", {**dying, "command": [], "state": "stopped", "enabled": False})
    cluster.shell("head", "rm -rf /etc/stampworks/services/proof /etc/stampworks/services/dying")
