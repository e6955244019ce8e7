"""Placement of gangs by a real Kueue on 64 and 512 simulated nodes, and its messages about those that wait."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.kubernetes import SEEN_S, SPINE, KubernetesStack, gang
from tests.cluster.shared import LEAF_NODES
from tests.project import wait_for

pytestmark = pytest.mark.cluster

SPINE_LEAVES = 4
OWN, OTHER = "research", "product"
"""Teams with 48 and 16 of each 64 nodes of their own."""
CHANGES_ITS_CLUSTER = pytest.mark.parametrize(
    "times", [pytest.param(8, marks=pytest.mark.long)], ids=["512 nodes"], indirect=True
)


@pytest.fixture(scope="module", params=[1, pytest.param(8, marks=pytest.mark.long)], ids=["64 nodes", "512 nodes"])
def times(request: pytest.FixtureRequest) -> int:
    """Return the factor on 64 nodes, by which gangs that fill a team's share are larger, too."""
    return int(request.param)


@pytest.fixture(scope="module")
def up(times: int, request: pytest.FixtureRequest) -> Iterator[KubernetesStack]:
    """Use the shared cluster of 64 nodes, or stamp one of 512."""
    if times == 1:
        yield request.getfixturevalue("kubernetes_cluster")
        return
    folder = request.getfixturevalue("tmp_path_factory").mktemp("gangs")
    stack = KubernetesStack.of(folder, f"g{os.getpid()}", 64 * times, LEAF_NODES)
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    up.clear()


def test_a_gang_is_in_one_rack_and_the_next_one_in_the_next(stack: KubernetesStack) -> None:
    """Each gang has a whole rack."""
    for name in ("first", "second"):
        stack.submit(gang(name, OWN, LEAF_NODES, required=True))
    found = [stack.seen(name, "running") for name in ("first", "second")]
    assert [len(one["domains"]) for one in found] == [1, 1]
    assert found[0]["domains"] != found[1]["domains"]
    assert [len(set(one["nodes"])) for one in found] == [LEAF_NODES, LEAF_NODES]


def test_gang_larger_than_a_rack_waits_or_spreads(stack: KubernetesStack) -> None:
    """The same nine nodes are required below a leaf, or preferred."""
    stack.submit(gang("must", OWN, LEAF_NODES + 1, required=True), gang("may", OWN, LEAF_NODES + 1))
    assert len(stack.seen("may", "running")["domains"]) == 2
    why = stack.seen("must", "waiting")["why"]
    assert re.search(rf'topology "{stack.cluster}-\w+" allows to fit only 8 out of 9 pod\(s\)', why), why


@pytest.mark.long
def test_gang_larger_than_a_rack_stays_in_a_block(stack: KubernetesStack) -> None:
    """A gang gets free racks of a block, required or preferred; a gang larger than the block does not."""
    whole = LEAF_NODES * SPINE_LEAVES
    stack.submit(gang("wide", OWN, whole + 1, required=True, level=SPINE))
    why = stack.seen("wide", "waiting")["why"]
    assert re.search(rf"allows to fit only {whole} out of {whole + 1} pod\(s\)", why), why
    stack.submit(gang("small", OWN, LEAF_NODES, required=True))
    stack.seen("small", "running")
    stack.submit(gang("block", OWN, whole - LEAF_NODES, required=True, level=SPINE))
    found = stack.seen("block", "running")
    assert len(found["domains"]) == SPINE_LEAVES - 1
    assert len({block(node) for node in found["nodes"]}) == 1


@pytest.mark.long
def test_a_level_that_does_not_exist_is_named(stack: KubernetesStack) -> None:
    stack.submit(gang("lost", OWN, 2, required=True, level="topology.stampworks/rack"))
    why = stack.seen("lost", "waiting")["why"]
    assert re.search(rf'Flavor "{stack.cluster}-gpu-\w+" does not contain the requested level', why), why


def test_a_queue_that_does_not_exist_is_named(stack: KubernetesStack) -> None:
    stack.submit(gang("nowhere", OWN, 2, queue="fast"))
    assert stack.seen("nowhere", "waiting")["why"] == "LocalQueue fast doesn't exist"


@pytest.mark.long
def test_a_job_that_names_no_queue_waits_in_the_default_one(stack: KubernetesStack) -> None:
    """A missing label does not bypass the quota."""
    nameless = gang("nameless", OWN, 2)
    del nameless["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    stack.submit(nameless)
    assert stack.seen("nameless", "running")["queue"] == "default"
    assert team_rows(stack)[OWN]["used"] == 16


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ({"nodeName": "gpu-001"}, "pods of teams must not name a node"),
        ({"tolerations": [{"operator": "Exists"}]}, "pods of teams must not tolerate cordons"),
        (
            {"tolerations": [{"key": "stampworks/unproven", "operator": "Exists"}]},
            "pods of teams must not tolerate cordons",
        ),
        ({"priorityClassName": "system-node-critical"}, "pods of teams must not have a priority class"),
    ],
)
def test_pods_cannot_bypass_queues(stack: KubernetesStack, asked: dict[str, Any], refused: str) -> None:
    """Node names, tolerations and priorities do not bypass a queue, in a job or in a gang."""
    made = gang("pushy", OWN, 1)
    job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["template"]["spec"] |= asked
    alone = {"apiVersion": "batch/v1", "kind": "Job", "metadata": made["metadata"], "spec": job}
    for each in (made, alone):
        done = stack.stampworks("kubectl", "--", "create", "-f", "-", text=json.dumps(each))
        assert done.returncode != 0
        assert refused in done.stderr


@pytest.mark.long
def test_users_cannot_create_parts_of_running_gangs(stack: KubernetesStack) -> None:
    """Kueue ignores parts of admitted jobs: only controllers may create them."""
    made = gang("holder", OWN, 1)
    stack.submit(made)
    stack.seen("holder", "running")
    holder = json.loads(stack.kubectl("get", "jobset", "holder", f"--namespace={OWN}", "--output=json"))
    owner = {
        **{name: holder[name] for name in ("apiVersion", "kind")},
        **{name: holder["metadata"][name] for name in ("name", "uid")},
        "controller": True,
    }
    part = gang("part", OWN, 64)
    as_alice = {"runAsUser": 2001, "runAsGroup": 2001}
    pod = part["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["securityContext"] = as_alice
    pod["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False}
    part["metadata"]["ownerReferences"] = [owner]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": part["metadata"]}
    job["spec"] = part["spec"]["replicatedJobs"][0]["template"]["spec"]
    for each in (part, job):
        done = stack.stampworks("kubectl", "--", "create", "-f", "-", "--as=alice", text=json.dumps(each))
        assert "objects of teams must not name an owner" in done.stderr
        del each["metadata"]["ownerReferences"]
        done = stack.stampworks("kubectl", "--", "create", "-f", "-", "--as=alice", text=json.dumps(each))
        assert done.returncode == 0, done.stderr
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        words = ("patch", each["kind"], "part", f"--namespace={OWN}", "--type=merge", f"--patch={patch}", "--as=alice")
        done = stack.stampworks("kubectl", "--", *words)
        assert "objects of teams must not name an owner" in done.stderr
        stack.kubectl("delete", each["kind"], "part", f"--namespace={OWN}")
        each["metadata"]["ownerReferences"] = [owner]


@pytest.mark.long
def test_resources_beside_accelerators_need_no_quota(stack: KubernetesStack) -> None:
    """Fabric devices, huge pages and scratch: a gang is placed only on nodes that have them. No queue has any other
    resource."""
    uncounted = {"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5Gi", "rdma/shared": "1", "ephemeral-storage": "1Ti"}
    for name, more in (("fast", uncounted), ("odd", {"example.com/dongle": "1"})):
        made = gang(name, OWN, 2)
        [container] = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        container["resources"]["limits"] |= more
        stack.submit(made)
    why = stack.seen("fast", "waiting")["why"]
    assert "doesn't allow to fit any of 2 pod(s)" in why
    assert all(name in why for name in uncounted), why
    nodes = ("gpu-001", "gpu-002")  # exist for the scheduler alone, with declared resources
    told = {name.replace("/", "~1"): value for name, value in uncounted.items()}
    has = [{"op": "add", "path": f"/status/capacity/{name}", "value": value} for name, value in told.items()]
    has += [{**each, "path": each["path"].replace("capacity", "allocatable")} for each in has]
    for node in nodes:
        stack.kubectl("patch", "node", node, "--subresource=status", "--type=json", f"--patch={json.dumps(has)}")
    assert stack.seen("fast", "running")["nodes"] == [*nodes]
    assert "example.com/dongle" in stack.seen("odd", "waiting")["why"]


def test_idle_nodes_are_borrowed_and_given_back(stack: KubernetesStack, times: int) -> None:
    """Borrowers are preempted for the owner at the same priority, and learn the reason."""
    stack.submit(gang("borrower", OTHER, 40 * times))
    stack.seen("borrower", "running")
    teams = team_rows(stack)
    assert teams[OTHER] == {"own": 128 * times, "used": 320 * times}
    stack.submit(gang("owner", OWN, 48 * times))
    assert len(stack.seen("owner", "running")["nodes"]) == 48 * times
    why = stack.seen("borrower", "waiting")["why"]
    assert f"Preempted to accommodate {OWN}/owner" in why
    assert "due to Fair Sharing within the cohort" in why
    stack.kubectl("delete", "jobset", "owner", f"--namespace={OWN}")
    assert len(stack.seen("borrower", "running")["nodes"]) == 40 * times


@pytest.mark.long
def test_quota_of_a_team_is_not_preempted(stack: KubernetesStack, times: int) -> None:
    """This holds for any priority of the other team's work."""
    stack.submit(gang("own", OTHER, 16 * times))
    stack.seen("own", "running")
    stack.submit(gang("urgent", OWN, 56 * times, priority="high"))
    why = stack.seen("urgent", "waiting")["why"]
    lacks = rf"insufficient unused quota for nvidia.com/gpu in flavor {stack.cluster}-gpu-\w+, {64 * times} more needed"
    assert re.search(lacks, why), why
    assert stack.gangs()["own"]["state"] == "running"


def test_a_more_urgent_gang_goes_first_within_its_team(stack: KubernetesStack, times: int) -> None:
    """The less urgent one waits, and starts again when there is room."""
    stack.submit(gang("usual", OWN, 60 * times))
    stack.seen("usual", "running")
    stack.submit(gang("urgent", OWN, 8 * times, priority="high"))
    assert stack.seen("urgent", "running")["priority"] == "high"
    assert "Preempted to accommodate" in stack.seen("usual", "waiting")["why"]
    stack.kubectl("delete", "jobset", "urgent", f"--namespace={OWN}")
    stack.seen("usual", "running")


@CHANGES_ITS_CLUSTER
@pytest.mark.long
def test_a_gang_whose_node_is_lost_runs_again_elsewhere(stack: KubernetesStack, times: int) -> None:
    """The next `up` restarts the node."""
    stack.submit(gang("survivor", OWN, LEAF_NODES // 2, required=True))
    lost = stack.seen("survivor", "running")["nodes"][0]
    stack.kubectl("delete", "node", lost)
    wait_for(lambda: moved(stack, lost), 240)
    stack.up()
    assert stack.stampworks("status").returncode == 0


@CHANGES_ITS_CLUSTER
@pytest.mark.long
def test_unused_quota_is_shared_by_weight(stack: KubernetesStack, times: int) -> None:
    """Two teams use the quota of a third at three to one, in any order, without a second preemption."""
    stack.edit("- {name: product, share: 1}", "- {name: product, share: 1}\n        - {name: away, share: 4}")
    stack.up()
    stack.submit(*(gang(f"first-{index}", OWN, 4 * times) for index in range(14)))
    wait_for(lambda: team_rows(stack)[OWN] == {"own": 192 * times, "used": 448 * times}, SEEN_S)
    stack.submit(*(gang(f"second-{index}", OTHER, 4 * times) for index in range(6)))
    shared = {
        OWN: {"own": 192 * times, "used": 384 * times},
        OTHER: {"own": 64 * times, "used": 128 * times},
        "away": {"own": 256 * times, "used": 0},
    }
    wait_for(lambda: team_rows(stack) == shared, SEEN_S)
    waiting = [gang["why"] for gang in stack.gangs().values() if gang["team"] == OWN and gang["state"] == "waiting"]
    assert len(waiting) == 2
    assert any("Fair Sharing within the cohort" in why for why in waiting)


def block(node: str) -> int:
    return (int(node.rpartition("-")[2]) - 1) // (LEAF_NODES * SPINE_LEAVES)


def moved(stack: KubernetesStack, lost: str) -> bool:
    """Whether all pods run, on nodes that are there."""
    pods = [one for one in stack.listed("pods", "-A") if "deletionTimestamp" not in one["metadata"]]
    placed = {one["spec"].get("nodeName") for one in pods if one["status"]["phase"] == "Running"}
    return len(placed) == LEAF_NODES // 2 and lost not in placed


def team_rows(stack: KubernetesStack) -> dict[str, dict[str, int]]:
    found = json.loads(stack.stampworks("status", "--json").stdout)
    assert "teams" in found, found
    return {row["name"]: {"own": row["own"], "used": row["used"]} for row in found["teams"]}
