"""Rights that an `up` needs on AWS, of clusters that no example stack declares: they follow from what is registered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from stampworks.planning.clouds.aws_rights import TYPES, types_of

from tests.cluster.test_component import on_aws, stamp

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
    """Types of a plan are those that its program registers, whatever is declared."""
    monkeypatch.setattr("stampworks.cluster.component.check_programs", lambda _: None)
    fields = dict(VARIANTS[variant])
    made = on_aws(fields.pop("pool", {}), **fields)
    registered = {each.typ for each in stamp(made)[0].seen.values() if re.match(r"aws:[a-z]+/", each.typ)}
    renamed = {each.replace("V2", "").replace("bucketV2", "bucket") for each in registered}
    assert {*types_of(made)} == (registered if registered <= TYPES.keys() else renamed)
