"""`stampworks facts -s STACK`: rights of the user or role that runs an `up`, and launches that are only tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.cli.main import main
from stampworks.clouds.aws.facts import account as reading
from stampworks.clouds.aws.session import AwsUnansweredError
from stampworks.declaration import Lock, LockedImage, load_file, lock_file, lock_text
from stampworks.plan import Plan
from stampworks.planning.clouds.aws_rights import policy, rights_of
from stampworks.planning.rules.account import Account
from stampworks.state.facts import known_facts

from tests.clouds.aws.simulated import Simulated

pytestmark = pytest.mark.usefixtures("environment")
DECLARED = """\
version: 1
name: test
cloud: aws
region: us-east-1
pools: [{name: gpu, machine: p5, count: 2, zone: us-east-1a}]
"""
PARAMETER = "/aws/service/debian/release/13/latest/amd64"
SIMULATE, RUN = "iam:SimulatePrincipalPolicy", "ec2:RunInstances"
USER = "arn:aws:iam::123456789012:user/deployer"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def declared(tmp_path: Path, aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stack with a locked image, in an account that answers all other requests."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "test.yaml"
    file.write_text(DECLARED)
    lock = Lock("us-east-1", {PARAMETER: LockedImage(aws.publish(PARAMETER), "debian", "2026-11-02")})
    lock_file(file).write_text(lock_text(lock))
    return file


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other facts, which take most of the time, are not read."""

    def unread(_: reading.AccountQuestion) -> None:
        raise AwsUnansweredError("nothing", "not read in this test", "")

    kept = ("rights", "launches")
    facts = tuple(each if each.name in kept else replace(each, read=unread) for each in reading.FACTS)
    monkeypatch.setattr(reading, "FACTS", facts)


@pytest.fixture
def facts(declared: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the verb: exit code, stdout, stderr."""

    def call(*options: str) -> tuple[int, str, str]:
        return main(["facts", "test.yaml", *options]), *capsys.readouterr()

    return call


def account(declared: Path) -> Account:
    found = known_facts(declared).account
    assert found is not None
    return found


def planned(declared: Path) -> Plan:
    return planning.plan(load_file(declared))


def denied(declared: Path) -> list[tuple[str, str, str]]:
    return [(one.action, one.decision, one.why) for one in account(declared).rights or () if one.decision != "allowed"]


def signed_in(aws: Simulated, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any]) -> None:
    """The caller is a user with this policy and no other."""
    iam = aws.client("iam")
    iam.create_user(UserName="deployer")
    iam.put_user_policy(UserName="deployer", PolicyName="up", PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName="deployer")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])


def without(document: dict[str, Any], action: str) -> dict[str, Any]:
    changed = json.loads(json.dumps(document))
    for each in changed["Statement"]:
        each["Action"] = [one for one in each["Action"] if one != action]
    return {**changed, "Statement": [each for each in changed["Statement"] if each["Action"]]}


def test_the_smallest_policy_is_enough(
    aws: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(aws, monkeypatch, policy(rights_of(planned(declared))))
    facts()
    found = account(declared)
    assert found.deployer == USER
    assert len(found.rights or ()) == len(rights_of(planned(declared))) > 150
    assert denied(declared) == []


@pytest.mark.parametrize("action", ["ec2:CreateVpc", "iam:PassRole", "elasticfilesystem:CreateFileSystem"])
def test_nothing_in_it_can_be_left_out(
    aws: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """An action that the policy lacks is denied, and `facts` prints the statement to add."""
    shared = "storage: [{name: shared, kind: efs, tier: regional, mount: /shared}]\n"
    declared.write_text(f"{DECLARED}{shared}")
    signed_in(aws, monkeypatch, without(policy(rights_of(planned(declared))), action))
    _, said, _ = facts()
    assert {*denied(declared)} == {(action, "denied", "")}
    line = " ".join(said.split())
    assert f"FAIL rights.up {USER} may not {action} on " in line
    assert f'hint: add to its policies: {{"Effect": "Allow", "Action": ["{action}"], "Resource": ' in line


def test_plan_fails_at_a_missing_right(
    aws: Simulated,
    declared: Path,
    facts: Call,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    signed_in(aws, monkeypatch, without(policy(rights_of(planned(declared))), "ec2:CreateVpc"))
    facts()
    assert main(["plan", "test.yaml"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"FAIL rights.up {USER} may not ec2:CreateVpc on arn:aws:ec2:us-east-1:123456789012:vpc/*: none of" in said


def test_a_session_has_the_rights_of_its_role(
    aws: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session does not name the path of its role, so IAM is asked for the role."""
    iam, trust = aws.client("iam"), '{"Version": "2012-10-17", "Statement": []}'
    role = iam.create_role(RoleName="ops", Path="/teams/", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    document = without(policy(rights_of(planned(declared))), "ec2:CreateVpc")
    iam.put_role_policy(RoleName="ops", PolicyName="up", PolicyDocument=json.dumps(document))
    key = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", key["SessionToken"])
    facts()
    assert account(declared).deployer == "arn:aws:sts::123456789012:assumed-role/ops/me"
    assert denied(declared) == [("ec2:CreateVpc", "denied", "")]


def test_another_deployer(aws: Simulated, declared: Path, facts: Call) -> None:
    """The caller reads, and another user runs `up`: that user's rights are judged, and launches cannot be tried."""
    iam = aws.client("iam")
    iam.create_user(UserName="deployer")
    facts("--deployer", USER)
    assert account(declared).deployer == USER
    assert {decision for _, decision, _ in denied(declared)} == {"denied"}
    assert {(one.outcome, one.why) for one in account(declared).launches or ()} == {
        ("not tried", f"the caller is not {USER}")
    }


def test_root_is_limited_by_no_policy(aws: Simulated, declared: Path, facts: Call) -> None:
    aws.calls.clear()
    _, said, _ = facts("--deployer", "arn:aws:iam::123456789012:root")
    assert SIMULATE not in aws.calls
    assert account(declared).rights == ()
    assert "has all rights, and no policy limits a mistake" in " ".join(said.split())


def test_denied_simulation_of_rights_is_unknown(
    aws: Simulated, declared: Path, facts: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """A caller may lack the simulator, or the role behind a session; `plan` goes on."""
    aws.fail(SIMULATE, "AccessDenied", "not you", status=403)
    facts()
    assert account(declared).why("rights") == f"{SIMULATE}: not permitted (AccessDenied: not you)"
    main(["plan", "test.yaml"])
    assert "UNKNOWN rights.up whether arn:" in " ".join(capsys.readouterr().out.split())
    aws.fail("iam:GetRole", "AccessDenied", "not you", status=403)
    facts("--deployer", "arn:aws:sts::123456789012:assumed-role/ops/me")
    assert account(declared).why("rights") == "iam:GetRole: not permitted (AccessDenied: not you)"
    facts("--deployer", "arn:aws:sts::123456789012:federated-user/me")
    assert "neither a user nor a role, and IAM simulates no others" in account(declared).why("rights")


@pytest.mark.parametrize(
    ("said", "decision", "why"),
    [
        ({"EvalDecision": "explicitDeny"}, "denied", "statement"),
        ({"OrganizationsDecisionDetail": {"AllowedByOrganizations": False}}, "denied", "organisation"),
        (
            {"PermissionsBoundaryDecisionDetail": {"AllowedByPermissionsBoundary": False}},
            "denied",
            "boundary",
        ),
        ({"MissingContextValues": ["aws:PrincipalTag/team"]}, "depends", "a condition on aws:PrincipalTag/team"),
    ],
)
def test_decisions(aws: Simulated, declared: Path, facts: Call, said: dict[str, Any], decision: str, why: str) -> None:
    aws.simulated_decision("ec2:CreateVpc", **{"EvalDecision": "implicitDeny", **said})
    facts()
    assert denied(declared) == [("ec2:CreateVpc", decision, why)]


def test_a_condition_on_the_call_has_its_value(
    aws: Simulated, declared: Path, facts: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conditions have values: policies limited to a region, the cluster's tag and a service of a role allow the calls
    of an `up`."""
    of_region: dict[str, Any] = {"StringEquals": {"aws:RequestedRegion": ["us-east-1"]}}
    of_tags: dict[str, Any] = {"StringEquals": {"aws:RequestTag/stampworks:cluster": "test"}}
    whole = policy(rights_of(planned(declared)))
    for each in whole["Statement"]:
        if each["Resource"] == "*":
            each["Condition"] = of_region
        elif "ec2:CreateVpc" in each["Action"]:
            each["Condition"] = of_tags
    signed_in(aws, monkeypatch, whole)
    facts()
    assert denied(declared) == []


def test_launches_are_tried_and_nothing_starts(aws: Simulated, declared: Path, facts: Call) -> None:
    """A dry run covers each group, in the default subnet of the zone."""
    facts()
    assert [(one.group, one.outcome) for one in account(declared).launches or ()] == [
        ("head", "accepted"),
        ("gpu", "accepted"),
    ]
    assert aws.calls.count(RUN) == 2
    assert aws.client("ec2").describe_instances()["Reservations"] == []


def test_a_launch_that_is_refused(aws: Simulated, declared: Path, facts: Call) -> None:
    """The finding includes the missing right, if the caller may decode it."""
    told = {"explicitDeny": False, "context": {"action": RUN, "resource": "arn:aws:ec2:us-east-1:1:instance/*"}}
    message = f"You are not authorized. Encoded authorization failure message: {json.dumps(told)}"
    aws.fail(RUN, "UnauthorizedOperation", message, status=403, where="p5.48xlarge")
    _, said, _ = facts()
    launches = {one.group: (one.outcome, one.why) for one in account(declared).launches or ()}
    assert launches["head"] == ("accepted", "")
    assert launches["gpu"] == ("refused", f"{RUN} on arn:aws:ec2:us-east-1:1:instance/*: no statement allows it")
    assert "FAIL rights.launch a launch of gpu would be refused: ec2:RunInstances on" in " ".join(said.split())
    aws.fail("sts:DecodeAuthorizationMessage", "AccessDenied", "not you", status=403)
    facts()
    assert account(declared).launches[1].why == (  # type: ignore[index]
        f"{RUN}: not permitted (UnauthorizedOperation: You are not authorized.)"
    )


def test_a_launch_that_aws_does_not_take(aws: Simulated, declared: Path, facts: Call) -> None:
    """A wrong parameter is a refusal; a busy AWS gives no answer."""
    aws.fail(RUN, "InvalidAMIID.NotFound", "no such image", times=1)
    facts()
    assert account(declared).launches[0].why == f"{RUN}: InvalidAMIID.NotFound: no such image"  # type: ignore[index]
    aws.fail(RUN, "InternalError", "later", status=500)
    facts()
    assert account(declared).launches is None
    assert account(declared).why("launches") == f"{RUN}: not available: HTTP 500"


def test_a_launch_that_cannot_be_tried(aws: Simulated, declared: Path, facts: Call) -> None:
    """Without a subnet or an image, no call is made."""
    ec2 = aws.client("ec2")
    for each in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=each["SubnetId"])
    facts()
    why = "neither its own subnet nor a default subnet in us-east-1a exists"
    assert {(one.outcome, one.why) for one in account(declared).launches or ()} == {("not tried", why)}
    lock_file(declared).unlink()
    facts()
    assert {one.why for one in account(declared).launches or ()} == {"its image is not locked"}
    assert RUN not in aws.calls


def test_the_policy_of_a_stack(aws: Simulated, declared: Path, facts: Call) -> None:
    """The policy is printed without requests to AWS, and needs a stack."""
    aws.calls.clear()
    code, said, _ = facts("--policy")
    assert (code, json.loads(said)) == (0, policy(rights_of(planned(declared))))
    assert aws.calls == []


def test_rights_are_those_of_a_stack(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", "--policy"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "--policy needs a stack, whose rights it prints",
        "  hint: name it: `stampworks facts -s STACK`",
    ]
