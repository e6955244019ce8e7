"""Changes that move a whole cluster: other address ranges, another zone, another egress. Pulumi creates before it
deletes: parts that AWS allows only once are deleted first or get another name."""

from __future__ import annotations

import pytest

from .conftest import EKS, Rehearse, Rehearsed
from .test_stacks import lost

pytestmark = [pytest.mark.engine, pytest.mark.long]

MOVES = """\
changes:
  - {name: another range, path: network.cidr, value: 10.90.0.0/20}
  - {name: no way out, path: network.egress, value: none}
  - {name: a way out again, path: network.egress, value: nat}
  - {name: elastic nodes, path: pools.gpu.count_min, value: 1}
  - {name: their range, path: network.cidr, value: 10.91.0.0/20}
  - {name: another zone, path: pools.gpu.zone, value: us-east-1b}
"""
OF_EKS = """\
changes:
  - {name: unprotected, path: scheduler.protect, value: false}
  - {name: unprotected files, path: storage.data.protect, value: false}
  - {name: another range, path: network.cidr, value: 10.91.0.0/16}
"""


def steps(rehearsed: Rehearsed, change: str) -> list[tuple[str, str]]:
    """Return what a change did, in order: the operation and the end of the type."""
    phase = rehearsed.phase(f"change: {change}")
    assert phase["verdict"] == "pass", phase
    return [(each["op"], each["type"].rpartition(":")[2]) for each in phase["steps"]]


@pytest.mark.parametrize("change", ["another range", "no way out", "a way out again", "their range"])
def test_a_cluster_moves_without_its_data(rehearse: Rehearse, change: str) -> None:
    """The network and all nodes are recreated; files, the head's volume and the public address stay."""
    done = steps(rehearse("aws-dev-g6", MOVES), change)
    replaced = {kind for op, kind in done if op == "replace"}
    assert {"Vpc", "Subnet", "Group", "Instance", "MountTarget"} <= replaced
    assert not lost({*done})
    assert ("replace", "Eip") not in done


def test_another_zone_takes_the_volume_along(rehearse: Rehearse) -> None:
    """The file system of the whole region stays."""
    done = {*steps(rehearse("aws-dev-g6", MOVES), "another zone")}
    assert {("replace", "Vpc"), ("replace", "Group")} <= done
    assert lost(done) == {("replace", "Volume")}


def test_elastic_nodes_leave_a_subnet_before_it_goes(rehearse: Rehearse) -> None:
    """Elastic nodes are no resources: the replacement of their group ends them."""
    done = steps(rehearse("aws-dev-g6", MOVES), "their range")
    assert ("replace", "ElasticNodes") in done


def test_a_kubernetes_is_made_anew_in_another_network(rehearse: Rehearse) -> None:
    """EKS cannot move to another network, and a review reports the replacement."""
    rehearsed = rehearse(EKS, OF_EKS)
    done = steps(rehearsed, "another range")
    assert {("replace", "Vpc"), ("replace", "Cluster"), ("replace", "NodeGroup")} <= {*done}
    assert lost({*done}) == {("replace", "LustreFileSystem")}
