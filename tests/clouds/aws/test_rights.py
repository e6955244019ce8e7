"""Rights that an `up` needs on AWS: each follows from the resources of the stack, and none is left out."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from botocore.session import get_session
from stampworks import planning
from stampworks.clouds.aws.existing import _partition
from stampworks.declaration import load_stack
from stampworks.plan import Plan
from stampworks.planning.clouds.aws_actions import TYPES
from stampworks.planning.clouds.aws_rights import policy, rights_of, types_of

from tests.clouds.aws.conftest import EKS, ROOT, STACKS

GOLDEN = Path(__file__).parent / "golden"
SOURCES = ROOT / "components" / "stampworks" / "clouds" / "aws"
EITHER = {"Bucket", "BucketLifecycleConfiguration", "BucketServerSideEncryptionConfiguration", "BucketVersioning"}
"""Classes that bucket.py asks for by name, for their names differ between versions of the SDK."""


def made_in_code() -> set[str]:
    """Return the class of every AWS resource that the cloud's code creates."""
    found = set(EITHER)
    for file in SOURCES.glob("*.py"):
        tree = ast.parse(file.read_text())
        modules = {
            name.asname or name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "pulumi_aws"
            for name in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                found.add(f"{node.value.id}.{node.attr}")
    classes = {each.rpartition(".")[2]: each for each in found}
    return {name for name in classes if name[0].isupper() and not name.endswith(("Args", "ArgsDict"))}


def test_each_type_that_the_code_makes_has_its_actions() -> None:
    """A new resource type in the cloud's code needs actions, and a removed type must have none."""
    assert made_in_code() == {type_.rpartition(":")[2] for type_ in TYPES}


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_needs_what_it_makes_and_nothing_else(stack: str) -> None:
    """Types of a plan match those that its rehearsal created."""
    made = {each["type"] for each in json.loads((GOLDEN / f"{stack}.json").read_text())}
    assert {*types_of(planning.plan(load_stack(stack, ROOT / "stacks")))} == made


def test_actions_are_those_of_aws() -> None:
    """Each action is an operation in the service's description, apart from renamed ones."""
    others = {
        *("iam:PassRole", "route53:AssociateVPCWithHostedZone", "budgets:ModifyBudget", "budgets:ViewBudget"),
        *("s3:ListBucket", "s3:DeleteObjectVersion", "s3:GetBucketCORS", "s3:GetBucketObjectLockConfiguration"),
        *(f"s3:{verb}{what}Configuration" for verb in ("Get", "Put") for what in ("Encryption", "Lifecycle")),
        *("s3:GetAccelerateConfiguration", "s3:GetReplicationConfiguration", "s3:ListBucketVersions"),
        *("s3:GetBucketPublicAccessBlock", "s3:PutBucketPublicAccessBlock"),
    }
    named = {"elasticfilesystem": "efs"}
    asked = {
        f"{where.partition(':')[0]}:{name}"
        for actions in TYPES.values()
        for where, names in actions.items()
        for name in names.split()
    }
    asked |= {right.action for stack in ("aws-dev-g6", EKS) for right in rights_of(planned(stack))}
    session = get_session()
    services = {each.partition(":")[0] for each in asked}
    operations = {
        f"{service}:{name}"
        for service in services
        for name in session.get_service_model(named.get(service, service)).operation_names
    }
    assert sorted(asked - operations - others) == []
    assert sorted(others - asked) == []


def planned(stack: str) -> Plan:
    return planning.plan(load_stack(stack, ROOT / "stacks"))


def test_calls_of_the_toolkit_are_among_them() -> None:
    """Each call in the steps of an `up` has its right; facts and locks have their own policies."""
    written = {
        str(node.value)
        for file in SOURCES.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("ask", "need")
        for node in ast.walk(node)
        if isinstance(node, ast.Constant) and re.fullmatch(r"[a-z0-9-]+:[A-Z]\w+", str(node.value))
    }
    assert len(written) > 10
    known = {right.action for stack in ("aws-dev-g6", EKS) for right in rights_of(planned(stack))}
    assert sorted(written - known) == []


def test_a_policy_allows_what_is_needed_and_fits() -> None:
    """Each statement is of one service; a role takes 10,240 characters of inline policies (IAM User Guide, "IAM and AWS
    STS quotas")."""
    for stack in STACKS:
        rights = rights_of(planned(stack))
        document = policy(rights)
        assert len(json.dumps(document, separators=(",", ":"))) < 10240, stack
        allowed = {
            (action, resource)
            for each in document["Statement"]
            for action in each["Action"]
            for resource in ([each["Resource"]] if isinstance(each["Resource"], str) else each["Resource"])
        }
        assert {(right.action, right.resource.replace("{account}", "*")) for right in rights} <= allowed
        passed = [each for each in document["Statement"] if "iam:PassRole" in each["Action"]]
        assert {each["Resource"] for each in passed} == {f"arn:aws:iam::*:role/{stack}-*"}
        assert all(each["Condition"]["StringEquals"]["iam:PassedToService"] for each in passed)


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-east-1", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn"), ("cn-northwest-1", "aws-cn")],
)
def test_the_partition_of_an_existing_bucket(region: str, partition: str) -> None:
    assert _partition(region) == partition


RENAMED = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:GetBucketCors": "s3:GetBucketCORS",
    "s3:GetBucketAccelerateConfiguration": "s3:GetAccelerateConfiguration",
    "s3:GetBucketReplication": "s3:GetReplicationConfiguration",
    "s3:GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    **{f"s3:{verb}PublicAccessBlock": f"s3:{verb}BucketPublicAccessBlock" for verb in ("Get", "Put")},
    **{f"s3:{verb}BucketEncryption": f"s3:{verb}EncryptionConfiguration" for verb in ("Get", "Put")},
    **{f"s3:{verb}BucketLifecycleConfiguration": f"s3:{verb}LifecycleConfiguration" for verb in ("Get", "Put")},
    **{f"budgets:Create{what}": "budgets:ModifyBudget" for what in ("Budget", "Notification")},
    "budgets:DescribeBudget": "budgets:ViewBudget",
    "budgets:DescribeNotificationsForBudget": "budgets:ViewBudget",
    "budgets:DescribeSubscribersForNotification": "budgets:ViewBudget",
}
"""Actions in policies whose names differ from those of their calls."""


def test_rights_include_calls_of_the_provider() -> None:
    """Calls of the provider for each type were recorded with a simulated AWS."""
    recorded = json.loads((Path(__file__).parent / "provider_calls.json").read_text())["calls"]
    assert TYPES.keys() - recorded.keys() == {"aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"}
    for type_, calls in recorded.items():
        known = {f"{where.partition(':')[0]}:{name}" for where, names in TYPES[type_].items() for name in names.split()}
        assert sorted({RENAMED.get(call, call) for call in calls} - known) == [], type_
