"""site.yml with accounting: database, accounts, priorities."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.playbooks.conftest import Cluster, plan_of, stamped

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SCHEDULER = {
    "accounting": True,
    "topology": "block",
    "preemption": "requeue",
    "accounts": [{"name": "research", "accelerators_max": 8}, {"name": "product"}],
    "priorities": [{"name": "low", "weight": 1}, {"name": "high", "weight": 2, "preempts": ["low"]}],
    "queues": [
        {"name": "main", "pools": ["gpu"], "default": True, "priority": "low"},
        {"name": "urgent", "pools": ["gpu"], "priority": "high"},
    ],
}
USERS = [
    {"name": "alice", "uid": 2001, "accounts": ["research"]},
    {"name": "bob", "uid": 2002, "accounts": ["product"]},
]
SUBMIT = "sbatch --parsable --requeue --output=/dev/null"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    plan = plan_of(f"t{uuid.uuid4().hex[:8]}", 2, scheduler=SCHEDULER, users=USERS)
    with stamped(plan, tmp_path_factory.mktemp("accounting")) as made:
        yield made


def submit(cluster: Cluster, user: str, options: str, command: str = "sleep 600") -> str:
    return cluster.shell("head", f"su {user} -c \"{SUBMIT} {options} --wrap '{command}'\"")


def end(cluster: Cluster, *jobs: str) -> None:
    cluster.shell("head", f"scancel {' '.join(jobs)}")
    cluster.until("head", "squeue -h", "")


def test_a_second_run_changes_nothing(cluster: Cluster) -> None:
    """The database and everything else stay unchanged."""
    assert cluster.drift() == []
    assert cluster.play().changed == 0


def test_records_are_not_lost_to_two_that_write_at_once(cluster: Cluster) -> None:
    """MariaDB itself fails one of two concurrent transactions, and slurmdbd does not retry."""
    asked = "SELECT @@global.innodb_snapshot_isolation, VERSION() >= '11.6'"
    said = cluster.shell("head", f'mariadb --socket=/run/stampworks-database/socket -Ne "{asked}"')
    assert said.split() == ["0", "1"]


def test_a_job_gets_the_priority_of_its_queue(cluster: Cluster) -> None:
    """A job may request another priority."""
    jobs = [submit(cluster, "alice", options) for options in ("-p main", "-p urgent", "-p main --qos high")]
    found = [cluster.shell("head", f"squeue -h -j {job} -o %q") for job in jobs]
    end(cluster, *jobs)
    assert found == ["low", "high", "high"]


def test_an_account_holds_no_more_accelerators_than_it_may(cluster: Cluster) -> None:
    """Other jobs wait, with the reason."""
    jobs = [submit(cluster, "alice", "-N1 --gres=gpu:8") for _ in range(2)]
    cluster.until("head", f"squeue -h -j {jobs[0]} -o %T", "RUNNING")
    cluster.until("head", f"squeue -h -j {jobs[1]} -o %r", "AssocGrpGRES")
    end(cluster, *jobs)


def test_job_needs_an_account(cluster: Cluster) -> None:
    """An account is the permission to use the cluster."""
    said = cluster.shell("head", 'useradd --uid 2099 eve; su eve -c "srun true" 2>&1 || true; userdel eve')
    assert "Invalid account" in said


def test_root_runs_jobs_in_every_queue(cluster: Cluster) -> None:
    """A proof does so, whatever the priority of the queue."""
    for queue in ("main", "urgent"):
        assert cluster.shell("head", f"srun -p {queue} --nodelist=gpu-001 hostname") == "gpu-001"


def test_accelerators_are_charged_for(cluster: Cluster) -> None:
    """Otherwise fair share would count a job with eight accelerators like one with a core. All users can query usage on
    every node."""
    job = submit(cluster, "bob", "-N1 --gres=gpu:8", "true")
    asked = f"su bob -c 'sacct -X -n -P -j {job} --format=alloctres,state'"
    cluster.until("gpu-001", asked, "billing=8,cpu=1,gres/gpu=8,node=1|COMPLETED")


def test_a_higher_priority_takes_the_nodes(cluster: Cluster) -> None:
    """The job's priority counts, in any queue."""
    low = submit(cluster, "alice", "-N2 -n2 -c16 -p main")
    cluster.until("head", f"squeue -h -j {low} -o %T", "RUNNING")
    high = submit(cluster, "bob", "-N2 -n2 -c16 -p urgent", "sleep 5")
    cluster.until("head", f"squeue -h -j {high} -o %T", "RUNNING")
    assert "Restarts=1" in cluster.shell("head", f"scontrol show job {low}")
    end(cluster, low, high)


def test_usage_survives_a_power_cut(cluster: Cluster) -> None:
    """Database, slurmdbd and slurmctld come up in their order by themselves."""
    job = submit(cluster, "bob", "-N1", "true")
    used = f"sacct -X -n -P -j {job} --format=account,qos,state"
    cluster.until("head", used, "product|low|COMPLETED")
    cluster.shell("head", "touch /tmp/used; scontrol update nodename=gpu-001 comment=changed")
    # slurmctld writes its state every few seconds
    cluster.until("head", "find /var/lib/stampworks/state/slurmctld/job_state -newer /tmp/used -printf saved", "saved")
    cluster.power_cycle("head")
    cluster.until("head", "sinfo -h -p main -o %T 2>/dev/null || true", "idle", 60)
    assert cluster.shell("head", used) == "product|low|COMPLETED"
    assert cluster.play().changed == 0


def test_people_and_accounts_come_and_go(cluster: Cluster) -> None:
    """Slurmdbd knows the declared users and accounts."""
    before = cluster.plan
    accounts = [{"name": "research", "accelerators_max": 0}, {"name": "free"}]
    users = [{"name": "bob", "uid": 2002, "accounts": ["research"]}]
    cluster.plan = plan_of(before.name, 2, scheduler={**SCHEDULER, "accounts": accounts}, users=users)
    cluster.play()
    shown = "sacctmgr -n -P show assoc format=account,user,grptres | grep -v ^root | sort"
    assert sorted(cluster.shell("head", shown).split()) == ["free||", "research|bob|", "research||"]
    assert cluster.play().changed == 0
    cluster.plan = before
    cluster.play()
    assert "research|alice|" in cluster.shell("head", shown)
