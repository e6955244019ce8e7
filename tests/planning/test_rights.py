"""Rights that an `up` needs: a missing one is an error that names action, resource and statement."""

from __future__ import annotations

import json
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.plan import Plan
from stampworks.planning import Facts
from stampworks.planning.clouds.aws_rights import rights_of
from stampworks.planning.rules.account import account_of
from stampworks.planning.rules.reading import AGAIN, READ

from tests.planning.accounts import DEPLOYER, TODAY, WHY, account, judged, plan_of, said, written

VPCS = "arn:aws:ec2:us-east-1:{account}:vpc/*"
UP, LAUNCH = "rights.up", "rights.launch"


def test_a_deployer_with_all_rights() -> None:
    made = plan_of()
    [one] = [each for each in findings(made, rights=judged(made)) if each.id == UP]
    assert (one.outcome, one.text) == (
        "pass",
        f"{DEPLOYER} has all {len(rights_of(made))} rights that an `up` needs",
    )


def findings(plan: Plan, **facts: Any) -> tuple[planning.Finding, ...]:
    return planning.rules(plan, Facts(account=account(**facts)), TODAY)


@pytest.mark.parametrize(
    ("why", "because", "hint"),
    [
        ("", "none of its policies allows that", "add to its policies: {}"),
        ("statement", "a statement of its policies denies that", "remove that from the statement that denies it"),
        ("boundary", "its permissions boundary does not allow that", "ask its owners to add to the boundary: {}"),
        (
            "organisation",
            "a policy of the account's organisation denies that",
            "ask the administrators of the organisation",
        ),
    ],
)
def test_a_missing_right(why: str, because: str, hint: str) -> None:
    """The error names action, resource and the missing statement, with the account's number."""
    made = plan_of()
    vpcs = VPCS.replace("{account}", "123456789012")
    statement = json.dumps({"Effect": "Allow", "Action": ["ec2:DeleteVpc"], "Resource": vpcs})
    assert said(UP, made, rights=judged(made, ec2_DeleteVpc=("denied", why))) == [
        (VPCS, "fail", "", f"{DEPLOYER} may not ec2:DeleteVpc on {vpcs}: {because}", hint.format(statement))
    ]


def test_rights_of_one_statement_are_one_finding() -> None:
    """The text names the first of many actions, and the statement all; another resource is another finding."""
    made = plan_of()
    denied = {f"ec2_{name}": ("denied", "") for name in ("CreateVpc", "DeleteVpc", "ModifyVpcAttribute")}
    denied |= {"ec2_AttachInternetGateway": ("denied", "")}
    ways, vpcs = sorted(said(UP, made, rights=judged(made, **denied)))
    assert "may not ec2:AttachInternetGateway on" in ways[3]
    assert "may not ec2:AttachInternetGateway, ec2:CreateVpc, ec2:DeleteVpc and 1 other action on" in vpcs[3]
    statement = json.loads(vpcs[4].removeprefix("add to its policies: "))
    assert statement["Action"] == [
        "ec2:AttachInternetGateway",
        "ec2:CreateVpc",
        "ec2:DeleteVpc",
        "ec2:ModifyVpcAttribute",
    ]


def test_a_role_that_is_passed_has_its_condition() -> None:
    made = plan_of()
    found = said(UP, made, rights=judged(made, iam_PassRole=("denied", "")))
    statements = [json.loads(each[4].removeprefix("add to its policies: ")) for each in found]
    services = [each["Condition"]["StringEquals"]["iam:PassedToService"] for each in statements]
    assert sorted(services) == ["ec2.amazonaws.com", "vpc-flow-logs.amazonaws.com"]
    assert {each["Resource"] for each in statements} == {"arn:aws:iam::123456789012:role/test-*"}


def test_missing_right_for_a_service_role_is_a_warning() -> None:
    """The service role may already exist."""
    made = plan_of()
    found = said(UP, made, rights=judged(made, iam_CreateServiceLinkedRole=("denied", "")))
    assert {outcome for _, outcome, *_ in found} == {"warn"}
    assert all(each[3].endswith("only the first cluster in an account needs that") for each in found)


def test_a_condition_that_nobody_can_judge() -> None:
    made = plan_of()
    [one] = said(UP, made, rights=judged(made, ec2_CreateVpc=("depends", "a condition on aws:PrincipalTag/team")))
    assert one[1:] == (
        "unknown",
        "",
        f"whether {DEPLOYER} may ec2:CreateVpc: that depends on a condition on aws:PrincipalTag/team",
        "ask the owner of its policies",
    )


def test_root_has_no_limits() -> None:
    made = plan_of()
    root = account_of({**written(), "deployer": "arn:aws:iam::123456789012:root"})
    [one] = [each for each in planning.rules(made, Facts(account=root), TODAY) if each.id == UP]
    assert (one.outcome, one.hint) == ("warn", "read the account as the user or role that runs `up`")


def test_unread_rights_are_unknown() -> None:
    """Rights are unknown without facts or an answer, and for later changes of the declaration."""
    made = plan_of()
    [one] = [each for each in planning.rules(made, None, TODAY) if each.id == UP]
    assert (one.outcome, one.text, one.hint) == (
        "unknown",
        "whether the caller of an `up` has the rights that the stack needs: it was never read",
        READ,
    )
    assert said(UP, made, {"rights": WHY}) == [
        ("", "unknown", "", f"whether {DEPLOYER} has the rights that the stack needs: {WHY}", AGAIN)
    ]
    later = plan_of(storage=[{"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}])
    [one] = [each for each in findings(later, rights=judged(made)) if each.id == UP]
    assert one.outcome == "unknown"
    assert "elasticfilesystem:CreateFileSystem" in one.text
    assert one.text.endswith("the stack did not need that when the account was read")


def test_launches_that_were_tried() -> None:
    """Each group has its own answer; an untried launch is no pass."""
    launches = [
        {"group": "head", "outcome": "accepted", "why": ""},
        {"group": "gpu", "outcome": "refused", "why": "ec2:RunInstances on a subnet: no statement allows it"},
    ]
    made = plan_of()
    found = {each.subject: each for each in findings(made, launches=launches) if each.id == LAUNCH}
    assert (found["head"].outcome, found["gpu"].outcome) == ("pass", "fail")
    assert found["gpu"].text == (
        "a launch of gpu would be refused: ec2:RunInstances on a subnet: no statement allows it"
    )
    assert {each[1] for each in said(LAUNCH, made)} == {"unknown"}  # groups that were declared later
    not_tried = [{"group": each, "outcome": "not tried", "why": "its image is not locked"} for each in ("head", "gpu")]
    assert [each[3] for each in said(LAUNCH, made, launches=not_tried)] == [
        f"whether a launch of {each} would be accepted was not tried: its image is not locked"
        for each in ("head", "gpu")
    ]
    assert [each[1:4] for each in said(LAUNCH, made, {"launches": WHY})] == [
        ("unknown", "", f"whether launches would be accepted: {WHY}")
    ]


def test_other_clouds_have_no_such_rights() -> None:
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}]
    local = planning.plan(load_value({"version": 1, "name": "test", "cloud": "local", "pools": pools}, "test"))
    assert not [each for each in planning.rules(local, None, TODAY) if each.id in (UP, LAUNCH)]
