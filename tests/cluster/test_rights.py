"""Rights that an `up` needs on AWS, for clusters of no example stack: they follow from the registered resources."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from stampworks.planning.clouds.aws_actions import TYPES
from stampworks.planning.clouds.aws_rights import types_of

from tests.cluster.test_component import on_aws, stamp
from tests.docs.policies import policies

EFS = {"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}
ZFS = {"name": "homes", "kind": "fsx-openzfs", "tier": "SINGLE_AZ_2", "capacity": 1024, "throughput_mbps": 640}
EXISTING: dict[str, Any] = {
    "vpc": "vpc-0123456789abcdef0",
    "subnets": [
        {"purpose": "nodes", "zone": "us-east-1a", "id": "subnet-0123456789abcdef1", "cidr": "10.77.0.0/24"},
        {"purpose": "storage", "zone": "us-east-1a", "id": "subnet-0123456789abcdef3", "cidr": "10.77.1.0/24"},
        {"purpose": "database", "zone": "us-east-1b", "id": "subnet-0123456789abcdef4", "cidr": "10.77.2.0/28"},
    ],
    "security_groups": {"nodes": "sg-0123456789abcdef1", "storage": "sg-0123456789abcdef2"},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "alone": {"network": {"egress": "none"}, "pool": {"purchase": "reserved", "reservation": "cr-1"}},
    "elastic": {"pool": {"count": 4, "count_min": 1}, "storage": [EFS]},
    "without logs": {"logs": {"days": 0}, "budget": {"monthly_usd": 1}},
    "database": {"scheduler": {"accounting": True, "database": "managed"}},
    "zfs": {"storage": [{**ZFS, "mount": "/home/shared"}]},
    "existing": {"network": {"cidr": "10.77.0.0/16", "existing": EXISTING}, "storage": [EFS]},
    "existing, database": {
        "network": {"cidr": "10.77.0.0/16", "existing": EXISTING},
        "scheduler": {"accounting": True, "database": "managed"},
        "storage": [EFS],
    },
    "profiles": {"account": {"instance_profiles": {"head": "ours", "nodes": "ours"}}},
    "half the profiles": {"account": {"instance_profiles": {"nodes": "ours"}}},
    "login nodes": {"scheduler": {"login_nodes": 1}, "pool": {"purchase": "spot"}, "storage": [EFS]},
}


@pytest.mark.usefixtures("pulumi_loops")
@pytest.mark.parametrize("variant", VARIANTS)
def test_so_does_every_other_declaration(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types of a plan match those that its program registers, for any declaration."""
    monkeypatch.setattr("stampworks.cluster.component.check_programs", lambda _: None)
    fields = dict(VARIANTS[variant])
    made = on_aws(fields.pop("pool", {}), **fields)
    registered = {each.typ for each in stamp(made)[0].seen.values() if re.match(r"aws:[a-z0-9]+/", each.typ)}
    renamed = {each.replace("V2", "").replace("bucketV2", "bucket") for each in registered}
    assert {*types_of(made)} == (registered if registered <= TYPES.keys() else renamed)


@pytest.mark.usefixtures("pulumi_loops")
def test_the_policies_of_machines_on_the_page_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies for machines in docs/ allow the actions of the roles of a cluster, on the same terms, and no others."""
    monkeypatch.setattr("stampworks.cluster.component.check_programs", lambda _: None)
    bucket = {"name": "raw", "kind": "s3", "mount": "/raw"}
    made = on_aws({"count": 4, "count_min": 1}, storage=[EFS, bucket])
    given = [args for (kind, _), args in stamp(made)[0].seen.items() if kind == "RolePolicy"]
    pages = policies()
    for role, page in (("test-gpu", "aws-nodes-policy.json"), ("test-head", "aws-head-policy.json")):
        documents = [json.loads(args.inputs["policy"]) for args in given if args.inputs["role"] == role]
        assert terms(*documents) == terms(pages[page]), role


def terms(*documents: Mapping[str, Any]) -> set[tuple[str, tuple[str, ...]]]:
    """Return each action with the conditions on it."""
    found = set()
    for each in (statement for document in documents for statement in document["Statement"]):
        actions = [each["Action"]] if isinstance(each["Action"], str) else each["Action"]
        conditions = tuple(sorted(f"{kind} {name}" for kind, of in each.get("Condition", {}).items() for name in of))
        found |= {(action, conditions) for action in actions}
    return found
