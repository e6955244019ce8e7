"""An account with room for everything, and plans for it: tests then remove a part."""

from __future__ import annotations

from typing import Any

from stampworks import planning
from stampworks.declaration import DeclarationSource, Lock, LockedImage, load_value
from stampworks.plan import Plan
from stampworks.planning import Facts
from stampworks.planning.clouds.aws_rights import rights_of
from stampworks.planning.rules.account import FACTS, VERSION, Account, account_of

TODAY = "2026-11-22"
P = "Running On-Demand P instances"
STANDARD = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
ROOM = 1_000_000.0
LUSTRE = {
    "name": "data",
    "kind": "fsx-lustre",
    "tier": "PERSISTENT_2 SSD",
    "capacity": 9600,
    "mbps_per_tib": 500,
    "mount": "/d",
}
UNSAID = "unsaid"
IMAGE = "/aws/service/debian/release/13/latest/amd64"
RESERVED = {"purchase": "reserved", "reservation": "cr-1"}
BLOCK = {"purchase": "block", "reservation": "cr-1"}
DEPLOYER = "arn:aws:iam::123456789012:user/deployer"
ARN = "arn:aws:resource-groups:us-east-1:123456789012:group/ours"
WHY = "ec2:Something: not permitted (UnauthorizedOperation)"


def limits(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": ROOM} for name in names]


def described(type_: str, vcpus: int, cards: int = 1, fabric: int = 0) -> dict[str, Any]:
    return {"instance_type": type_, "vcpus": vcpus, "cards": cards, "fabric_interfaces": fabric}


def offered(type_: str, *zones: str) -> dict[str, Any]:
    return {"instance_type": type_, "zones": list(zones)}


SERVICES = ("ec2", "ec2messages", "ecr.api", "ecr.dkr", "fsx", "logs", "s3", "ssm", "ssmmessages", "sts")
KNOWN: dict[str, Any] = {
    "offers": [
        offered("m7i.2xlarge", "us-east-1a", "us-east-1b"),
        offered("p5.48xlarge", "us-east-1a"),
        offered("p5en.48xlarge", "us-east-1a"),
    ],
    "reservations": [],
    "reservation_groups": [],
    "running": [],
    "node_addresses": 0,
    "described": [
        described("m7i.2xlarge", 8),
        described("p5.48xlarge", 192, 32, 32),
        described("p5en.48xlarge", 192, 16, 16),
    ],
    "machine_limits": limits(P, STANDARD, "All P5 Spot Instance Requests", "EC2-VPC Elastic IPs"),
    "network_limits": limits("VPCs per Region", "NAT gateways per Availability Zone", "Network interfaces per Region"),
    "storage_limits": limits("Lustre Persistent_2 storage capacity"),
    "networks": 0,
    "gateways": 0,
    "addresses": 0,
    "interfaces": 0,
    "placement_groups": 0,
    "file_systems": [],
    "images": [],
    "newest": [],
    "services": [{"name": name, "zones": ["us-east-1a", "us-east-1b"]} for name in SERVICES],
    "subnets": [],
    "endpoints": [],
    "ways_out": [],
    "spreads": [],
    "owned_networks": [],
    "owned_subnets": [],
    "owned_groups": [],
    "owned_storage": [],
    "owned_keys": [],
    "owned_profiles": [],
    "boundaries": [],
    "tag_rules": [],
    "rights": [],
    "launches": [],
}


def written(unknown: dict[str, str] | None = None, at: str = TODAY, **facts: Any) -> dict[str, Any]:
    """Return the content of its file; facts in `unknown` are unknown for the given reason."""
    why = unknown or {}
    readings = [{"fact": name, "at": f"{at}T12:00Z", "why": why.get(name, "")} for name in FACTS]
    of = {"version": VERSION, "cloud": "aws", "account": "123456789012", "region": "us-east-1", "cluster": "test"}
    of |= {"elsewhere": "", "deployer": DEPLOYER}
    return {**of, "readings": readings, **KNOWN, **facts, **dict.fromkeys(why)}


def account(unknown: dict[str, str] | None = None, at: str = TODAY, **facts: Any) -> Account:
    return account_of(written(unknown, at, **facts))


def reservation(id_: str = "cr-1", **fields: Any) -> dict[str, Any]:
    count = fields.get("total", 16)
    return {
        "id": id_,
        "instance_type": "p5.48xlarge",
        "zone": "us-east-1a",
        "state": "active",
        "block": False,
        "total": count,
        "available": count,
        "ours": 0,
        "begins": "",
        "ends": "",
        "placement_group": "",
        "own": True,
        **fields,
    }


def plan_of(**fields: Any) -> Plan:
    return planning.plan(declared(**fields))


def declared(*, lock: bool = False, made_with: str = "", **fields: Any) -> DeclarationSource:
    pool = {"name": "gpu", "machine": "p5", "count": 16, "zone": "us-east-1a", **fields.pop("pool", {})}
    pool = {name: value for name, value in pool.items() if value != UNSAID}
    data = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": [pool], **fields}
    found = Lock("us-east-1", {IMAGE: LockedImage("ami-1", "debian", "2026-11-02")}, made_with) if lock else Lock()
    return load_value(data, "test", lock=found)


def said(
    rule: str, plan: Plan, unknown: dict[str, str] | None = None, at: str = TODAY, **facts: Any
) -> list[tuple[Any, ...]]:
    """Return the findings of a rule that do not pass: subject, outcome, place, text, hint."""
    found = planning.rules(plan, Facts(account=account(unknown, at, **facts)), TODAY)
    return [
        (each.subject, each.outcome, each.place, each.text, each.hint)
        for each in found
        if each.id == rule and each.outcome != "pass"
    ]


def judged(plan: Plan, **decisions: tuple[str, str]) -> list[dict[str, Any]]:
    """Return all rights of a plan as allowed, apart from some actions; `ec2_CreateVpc` is ec2:CreateVpc."""
    others = {name.replace("_", ":", 1): decision for name, decision in decisions.items()}
    found = []
    for right in rights_of(plan):
        decision, why = others.get(right.action, ("allowed", ""))
        given = [list(each) for each in right.given]
        found.append(
            {"action": right.action, "resource": right.resource, "given": given, "decision": decision, "why": why}
        )
    return found
