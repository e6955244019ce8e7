"""Existing storage and account policies: problems are errors at their fields, and unknown without facts."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning import Facts
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.cost import by_use, cost
from stampworks.planning.rules.reading import AGAIN

from tests.planning.accounts import TODAY, WHY, account, plan_of
from tests.planning.test_existing import NETWORK, OTHER_VPC, SOUND, VPC
from tests.tricks import TRICKS

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BOUNDARY = "arn:aws:iam::123456789012:policy/limits"
FSX, EFS = "fs-0000000000000001a", "fs-0000000000000001b"
STORAGE: list[dict[str, Any]] = [
    {
        "name": "data",
        "kind": "fsx-lustre",
        "existing": FSX,
        "tier": "PERSISTENT_2 SSD",
        "capacity": 9600,
        "mbps_per_tib": 500,
        "mount": "/data",
    },
    {"name": "shared", "kind": "efs", "existing": EFS, "tier": "regional", "mount": "/shared"},
    {"name": "raw", "kind": "s3", "existing": "our-data", "mount": "/raw"},
]
TERMS = {
    "key": KEY,
    "permissions_boundary": BOUNDARY,
    "role_path": "/teams/training/",
    "instance_profiles": {"nodes": "training-nodes"},
}
TAGS = [{"name": "owner", "value": "research"}]


def owned(id_: str, kind: str, **fields: Any) -> dict[str, Any]:
    one = {"id": id_, "kind": kind, "networks": [VPC], "zones": ["us-east-1a"], "tier": "", "capacity": 0}
    return {**one, "efa": False, "region": "us-east-1", **fields}


THERE: dict[str, Any] = {
    **SOUND,
    "owned_storage": [
        owned(FSX, "fsx-lustre", tier="PERSISTENT_2 SSD", capacity=9600),
        owned(EFS, "efs", tier="regional", zones=["us-east-1a", "us-east-1b"]),
        owned("our-data", "s3", networks=[], zones=[]),
    ],
    "owned_keys": [{"id": KEY, "state": "Enabled", "encrypts": True}],
    "owned_profiles": ["training-nodes"],
    "boundaries": [{"id": BOUNDARY, "allowed": ["*"], "denied": ["iam:*"], "depends": []}],
    "tag_rules": [{"name": "owner", "values": ["research", "product*"], "enforced": True}],
}
IDS = {f"existing.{each}" for each in ("storage", "key", "profile", "boundary")} | {"tags.policy"}


def plan(**fields: Any) -> Plan:
    return plan_of(**{"network": NETWORK, "storage": STORAGE, "account": TERMS, "tags": TAGS, **fields})


def findings(of: Plan, facts: Facts) -> list[tuple[str, str, str, str]]:
    found = planning.rules(of, facts, TODAY)
    return [(each.id, each.outcome, each.place, each.text) for each in found if each.id in IDS]


def judged(of: Plan, **facts: Any) -> list[tuple[str, str, str, str]]:
    return findings(of, Facts(account=account(**{**THERE, **facts})))


def other(key: str, index: int, **fields: Any) -> dict[str, Any]:
    facts = copy.deepcopy(THERE[key])
    facts[index] |= fields
    return {key: facts}


WRONG = {
    "FSx of another network": (
        other("owned_storage", 0, networks=[OTHER_VPC]),
        ("existing.storage", "storage[0].existing", f"{FSX} is in {OTHER_VPC}, and nodes are in {VPC}"),
    ),
    "FSx of another zone": (
        other("owned_storage", 0, zones=["us-east-1b"]),
        (
            "existing.storage",
            "storage[0].existing",
            f"{FSX} has an address in us-east-1b, and none in us-east-1a, where the nodes are",
        ),
    ),
    "FSx of another kind": (
        other("owned_storage", 0, tier="SCRATCH_2"),
        ("existing.storage", "storage[0].tier", f"{FSX} is SCRATCH_2, and not PERSISTENT_2 SSD"),
    ),
    "FSx of another size": (
        other("owned_storage", 0, capacity=1200),
        ("existing.storage", "storage[0].capacity", f"{FSX} has 1200 GiB, and not 9600"),
    ),
    "FSx that is not there": (
        {"owned_storage": THERE["owned_storage"][1:]},
        ("existing.storage", "storage[0].existing", f"the account has no fsx-lustre {FSX} in us-east-1"),
    ),
    "EFS without a mount target": (
        other("owned_storage", 1, networks=[], zones=[]),
        ("existing.storage", "storage[1].existing", f"{EFS} has an address in no network"),
    ),
    "a bucket of another region": (
        other("owned_storage", 2, region="eu-west-1"),
        ("existing.storage", "storage[2].existing", "our-data is in eu-west-1, and nodes are in us-east-1"),
    ),
    "a key that is not there": ({"owned_keys": []}, ("existing.key", "account.key", f"there is no {KEY}")),
    "a key that is to go": (
        other("owned_keys", 0, state="PendingDeletion"),
        ("existing.key", "account.key", f"{KEY} encrypts nothing: its state is PendingDeletion"),
    ),
    "a key for signatures": (
        other("owned_keys", 0, encrypts=False),
        (
            "existing.key",
            "account.key",
            f"{KEY} is not a symmetric key for encryption, which disks and file systems need",
        ),
    ),
    "a profile that is not there": (
        {"owned_profiles": []},
        (
            "existing.profile",
            "account.instance_profiles.nodes",
            "the account has no instance profile training-nodes",
        ),
    ),
    "a boundary without a right": (
        other("boundaries", 0, allowed=["ssm:*", "ssmmessages:*", "s3:*", "logs:Put*", "kms:*"]),
        (
            "existing.boundary",
            "account.permissions_boundary",
            f"{BOUNDARY} does not allow logs:CreateLogStream, which nodes need",
        ),
    ),
    "a boundary that denies": (
        other("boundaries", 0, denied=["KMS:Generate*"]),
        (
            "existing.boundary",
            "account.permissions_boundary",
            f"{BOUNDARY} does not allow kms:GenerateDataKey, which nodes need",
        ),
    ),
    "a tag with another spelling": (
        other("tag_rules", 0, name="Owner"),
        (
            "tags.policy",
            "tags[0].name",
            "the organisation spells the tag Owner, and not owner, and refuses others",
        ),
    ),
    "a tag with another value": (
        other("tag_rules", 0, values=["product*"]),
        ("tags.policy", "tags[0].value", "the organisation takes no owner: research, and refuses others"),
    ),
}


def test_sound_terms_pass() -> None:
    found = judged(plan())
    assert {outcome for _, outcome, *_ in found} == {"pass"}
    assert {id_ for id_, *_ in found} == IDS


@pytest.mark.parametrize("wrong", WRONG)
def test_errors_are_reported_at_their_field(wrong: str) -> None:
    facts, (id_, place, text) = WRONG[wrong]
    failed = [each for each in judged(plan(), **facts) if each[1] != "pass"]
    assert failed == [(id_, "fail", place, text)]


def test_nothing_is_known_without_facts() -> None:
    found = findings(plan(), Facts())
    assert {id_ for id_, *_ in found} == IDS
    assert {outcome for _, outcome, *_ in found} == {"unknown"}


OF_OWNERS = [
    ("owned_networks", "existing.network"),
    ("owned_subnets", "existing.subnets"),
    ("owned_subnets", "existing.room"),
    ("owned_subnets", "existing.egress"),
    ("owned_groups", "existing.groups"),
    ("owned_storage", "existing.storage"),
    ("owned_keys", "existing.key"),
    ("owned_profiles", "existing.profile"),
    ("boundaries", "existing.boundary"),
    ("tag_rules", "tags.policy"),
]


@pytest.mark.parametrize(("fact", "rule"), OF_OWNERS)
def test_missing_facts_are_unknown(fact: str, rule: str) -> None:
    """A missing fact makes its rules unknown, with the reason and a way to read it."""
    facts = Facts(account=account(**{**THERE, fact: None}, unknown={fact: WHY}))
    found = [each for each in planning.rules(plan(), facts, TODAY) if each.id == rule]
    assert found
    assert {each.outcome for each in found} == {"unknown"}
    assert all(WHY in each.text and each.hint == AGAIN for each in found)


def test_conditions_on_a_call_are_unknown() -> None:
    """A condition may or may not hold, so that the result is unknown."""
    [found] = [
        each
        for each in judged(plan(), **other("boundaries", 0, allowed=[], depends=["*"]))
        if each[0] == "existing.boundary"
    ]
    assert found[1] == "unknown"


def test_boundary_of_a_managed_kubernetes_is_unknown() -> None:
    of = plan(network={}, storage=[], scheduler={"kind": "kubernetes"}, account={"permissions_boundary": BOUNDARY})
    [found] = [each for each in judged(of) if each[0] == "existing.boundary"]
    assert found[1] == "unknown"


def test_unenforced_tag_policy_is_a_warning() -> None:
    found = judged(plan(), **other("tag_rules", 0, values=["x"], enforced=False))
    assert [each[1] for each in found if each[0] == "tags.policy"] == ["warn"]


def test_efa_takes_a_file_system_that_was_made_with_it() -> None:
    storage = copy.deepcopy(STORAGE)
    storage[0] |= {"efa": True, "capacity": 19200, "metadata_iops": 12000}
    found = judged(plan(storage=storage), **other("owned_storage", 0, capacity=19200))
    assert ("existing.storage", "fail", "storage[0].efa", f"{FSX} was made without EFA") in found


def test_it_costs_the_stack_nothing() -> None:
    """Its owners pay for it; only resources of the stack are counted."""
    own = {"name": "own", "kind": "efs", "tier": "regional", "mount": "/own"}
    of = plan(storage=[*STORAGE, own])
    assert by_use(of) == ["own"]
    assert not [each for each in cost(of).charges if each.what in ("data", "storage data")]


def test_taking_it_out_loses_nothing() -> None:
    """The stack never deletes it, so that it needs no protection."""
    found = review("one", ReviewedStack("a", plan()), ReviewedStack("b", plan(storage=STORAGE[1:])))
    [change] = [each for each in found.changes if each.difference.a is not None and each.difference.b is None]
    assert (change.policy, change.loses) == ("in place", ())
    assert change.why == f"nodes do not mount it any more; {FSX} itself stays as it is"
    assert ("removal", "the mount of storage data, which itself stays") in [
        (each.stage, each.text) for each in found.order
    ]
    gone = review("one", ReviewedStack("a", plan()), ReviewedStack("b", None))
    assert not {name for each in gone.changes for name in each.loses} & {"data", "shared", "raw"}
    assert ("storage data", FSX) in gone.existing


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({"network": {"cidr": "10.20.0.0/16"}, "storage": []}, {"storage": []}, "network.existing"),
        ({"account": {}}, {}, "account.key"),
        ({}, {"account": {**TERMS, "instance_profiles": {}}}, "account.instance_profiles.nodes"),
    ],
)
def test_moving_to_existing_parts_is_refused(before: dict[str, Any], after: dict[str, Any], field: str) -> None:
    """Storage in another network, or with another key, would be replaced by an empty one."""
    found = review("one", ReviewedStack("a", plan(**before)), ReviewedStack("b", plan(**after)))
    assert {each.policy for each in found.changes if each.field == field} == {"refuse"}
    assert found.verdict == "fail"


def refused(**fields: Any) -> list[tuple[str, str]]:
    data = {
        "version": 1,
        "name": "test",
        "cloud": "aws",
        "region": "us-east-1",
        "network": NETWORK,
        "pools": [{"name": "gpu", "machine": "p5", "count": 4, "zone": "us-east-1a"}],
        **fields,
    }
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value(data, "test"))
    return [(each.path, each.message) for each in error.value.problems]


ELASTIC = [{"name": "gpu", "machine": "p5", "count": 4, "count_min": 1, "zone": "us-east-1a"}]


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        (
            {"account": {"key": KEY.replace("east", "west")}},
            "account.key",
            "'arn:aws:kms:us-west-1:123456789012:key/1234abcd-12ab-34cd...' is not a key of us-east-1",
        ),
        ({"account": {"permissions_boundary": "limits"}}, "account.permissions_boundary", "'limits' is not a policy"),
        ({"account": {"role_path": "teams"}}, "account.role_path", "'teams' is not a path of roles"),
        (
            {"account": {"instance_profiles": {"nodes": "arn:aws:iam::123456789012:instance-profile/x"}}},
            "account.instance_profiles.nodes",
            "'arn:aws:iam::123456789012:instance-profile/x' is no name of an instance profile",
        ),
        (
            {"account": {"instance_profiles": {"head": "ours"}}, "pools": ELASTIC},
            "account.instance_profiles.head",
            "the head starts elastic nodes with rights that the cluster makes for them",
        ),
        (
            {
                "account": {"key": KEY},
                "storage": [{"name": "s", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/s"}],
            },
            "storage[0].tier",
            "SCRATCH_2 is encrypted with a key of the cloud, and takes no other",
        ),
        (
            {"network": {}, "storage": [STORAGE[0]]},
            "storage[0].existing",
            f"{FSX} is in a network that exists already, and the cluster makes one of its own",
        ),
        (
            {"storage": [STORAGE[2] | {"existing": "fs_1"}]},
            "storage[0].existing",
            "the cloud calls no s3 'fs_1'",
        ),
        (
            {"storage": [STORAGE[2] | {"expire_days": 3}]},
            "storage[0].expire_days",
            "our-data belongs to the account's owners, and nothing of it is changed",
        ),
        (
            {"storage": [{"name": "s", "kind": "fsx-openzfs", "existing": FSX, "mount": "/s"}]},
            "storage[0].existing",
            "clusters on aws use no fsx-openzfs that exists already",
        ),
        (
            {"cloud": "local", "network": {}, "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}]}
            | {"account": {"role_path": "/x/"}},
            "account",
            "nothing that is made on local has terms of an account",
        ),
    ],
)
def test_refused_terms(fields: dict[str, Any], path: str, message: str) -> None:
    assert (path, message) in refused(**fields)


OF_TEXT = {
    "network.existing.vpc",
    *(f"network.existing.subnets.0.{name}" for name in ("purpose", "zone", "id", "cidr")),
    *(f"network.existing.security_groups.{name}" for name in ("nodes", "storage")),
    *(f"account.{name}" for name in ("key", "permissions_boundary", "role_path")),
    *(f"account.instance_profiles.{name}" for name in ("head", "nodes")),
    *(f"storage.{index}.existing" for index in range(3)),
}


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(OF_TEXT))
def test_tricks(path: str) -> None:
    """No hostile text is a valid id; plain words may be names of a profile or bucket."""
    for trick in TRICKS:
        data: dict[str, Any] = {
            "version": 1,
            "name": "test",
            "cloud": "aws",
            "region": "us-east-1",
            "pools": [{"name": "gpu", "machine": "p5", "count": 4, "zone": "us-east-1a"}],
            **copy.deepcopy({"network": NETWORK, "storage": STORAGE, "account": TERMS}),
        }
        *way, last = path.split(".")
        inner: Any = data
        for step in way:
            inner = inner[int(step) if step.isdecimal() else step]
        inner[last] = trick
        if trick == "" or re.fullmatch(r"[A-Za-z0-9=_.-]+", trick):
            continue
        with pytest.raises(DeclarationError) as error:
            planning.plan(load_value(data, "test"))
        assert any(each.path.startswith(path.partition(".")[0]) for each in error.value.problems), trick
