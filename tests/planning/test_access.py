"""Access to the server of a cloud's Kubernetes, and its origins: declared, refused, planned and shown."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, fingerprint
from stampworks.planning import Facts
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.views.review import review_markdown

OPS = "arn:aws:iam::123456789012:role/ops"
SSO = "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Ops_0123456789abcdef"
RANGES = ["203.0.113.0/24", "198.51.100.7/32"]


def declared(region: str = "us-east-1", **scheduler: Any) -> Plan:
    data = {
        "version": 1,
        "name": "test",
        "cloud": "aws",
        "region": region,
        "pools": [{"name": "gpu", "machine": "p5", "count": 2, "zone": f"{region}a"}],
        "users": [{"name": "alice", "uid": 2001}],
    }
    return planning.plan(load_value({**data, "scheduler": {"kind": "kubernetes", **scheduler}}, "test"))


def problems(error: DeclarationError) -> list[tuple[str, str, str]]:
    return [(each.path, each.message, each.hint) for each in error.problems]


def said(plan: Plan) -> list[tuple[str, str, str]]:
    found = [each for each in planning.rules(plan, Facts(), "2026-11-24") if each.id == "kubernetes.api"]
    return [(each.outcome, each.place, each.text) for each in found]


@pytest.mark.parametrize("arn", [OPS, SSO, "arn:aws:iam::123456789012:user/team/c.i+1=a,b@x_y-z"])
def test_roles_and_users_are_administrators_with_their_path(arn: str) -> None:
    assert declared(admins=[arn]).scheduler.admins == (arn,)


@pytest.mark.parametrize(
    ("arn", "words", "hint"),
    [
        (
            "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Ops_0123456789abcdef/alice@example.com",
            "is a session of role AWSReservedSSO_Ops_0123456789abcdef, which ends",
            "`aws iam get-role --role-name AWSReservedSSO_Ops_0123456789abcdef --query Role.Arn` says it",
        ),
        (
            "arn:aws:iam::123456789012:role/AWSReservedSSO_Ops_0123456789abcdef",
            "is a role of IAM Identity Center, whose ARN needs its path",
            "`aws iam get-role --role-name AWSReservedSSO_Ops_0123456789abcdef --query Role.Arn` says it",
        ),
        ("arn:aws:iam::123456789012:root", "is not the ARN of a role or user", "arn:aws:iam::123456789012:role/ops"),
        ("arn:aws:iam::123456789012:group/ops", "is not the ARN of a role or user", "write it like"),
        ("arn:aws:iam::12345:role/ops", "is not the ARN of a role or user", "write it like"),
        ("arn:aws:iam::123456789012:role/", "is not the ARN of a role or user", "write it like"),
        ("ops", "is not the ARN of a role or user", "write it like"),
        (
            "arn:aws-us-gov:iam::123456789012:role/ops",
            "is of another partition of AWS than us-east-1",
            "begin with arn:aws:",
        ),
        (
            "arn:aws:iam::123456789012:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS",
            "is a service role of AWS",
            "name another role",
        ),
        (
            "arn:aws:iam::123456789012:role/test-alice-0a1b2c3",
            "test-alice-0a1b2c3 is the role of a declared user, who has access already",
            "name another role that this person uses",
        ),
    ],
)
def test_refuses_malformed_administrators(arn: str, words: str, hint: str) -> None:
    with pytest.raises(DeclarationError) as error:
        declared(admins=[OPS, arn])
    [(path, message, advice)] = problems(error.value)
    assert path == "scheduler.admins[1]"
    assert words in message
    assert hint in advice


def test_in_govcloud_they_are_of_there() -> None:
    there = OPS.replace("arn:aws:", "arn:aws-us-gov:")
    assert declared("us-gov-west-1", admins=[there]).scheduler.admins == (there,)
    with pytest.raises(DeclarationError, match="is of another partition of AWS than us-gov-west-1"):
        declared("us-gov-west-1", admins=[OPS])


@pytest.mark.parametrize("name", ["api_from", "admins"])
@pytest.mark.parametrize(("cloud", "kind"), [("aws", "slurm"), ("local", "kubernetes"), ("local", "slurm")])
def test_where_no_cloud_runs_a_kubernetes_both_are_refused(name: str, cloud: str, kind: str) -> None:
    machine = {"aws": {"machine": "p5", "zone": "us-east-1a"}, "local": {"machine": "sim-h100"}}[cloud]
    data = {"version": 1, "name": "test", "cloud": cloud, "pools": [{"name": "gpu", "count": 2, **machine}]}
    if cloud == "aws":
        data["region"] = "us-east-1"
    value = {"api_from": RANGES, "admins": [OPS]}[name]
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value({**data, "scheduler": {"kind": kind, name: value}}, "test"))
    assert problems(error.value) == [
        (
            f"scheduler.{name}",
            "it is for a Kubernetes that the cloud runs, and this cluster does not use one",
            "take it out",
        )
    ]


def test_siblings_may_have_others() -> None:
    """Address ranges and accounts belong to a single sibling."""
    plain = declared()
    assert fingerprint(plain) == fingerprint(declared(api_from=RANGES, admins=[OPS]))


def test_whether_an_up_reaches_the_server_is_said() -> None:
    [(outcome, place, text)] = said(declared())
    assert (outcome, place) == ("unknown", "scheduler.api_from")
    assert "the first `up` makes the network that reaches it" in text
    public = "its server has a public address, which answers 203.0.113.0/24 and 198.51.100.7/32 only"
    assert said(declared(api_from=RANGES)) == [("pass", "scheduler.api_from", public)]


def test_a_review_says_to_whom_a_server_becomes_public() -> None:
    """Reviewers learn of public access here. New stacks are no exception."""
    private, public = ReviewedStack("base", declared()), ReviewedStack("head", declared(api_from=RANGES))
    answers = "its server has a public address, which answers 203.0.113.0/24 and 198.51.100.7/32 only"
    for base, policy in ((private, "in place"), (ReviewedStack("base", None), "create")):
        found = review("test", base, public)
        [change] = [each for each in found.changes if each.field == "scheduler.api_from"]
        assert (change.policy, change.why, change.restarts) == (policy, answers, 0)
        row = f"| `scheduler.api_from` | `none` | `{', '.join(RANGES)}` | {policy} | its server has a public address, "
        assert row in review_markdown(found)
    [closed] = review("test", public, private).changes
    assert (closed.policy, closed.why) == (
        "in place",
        "its server has no public address, and only the cluster's network reaches it",
    )
    assert not [
        each
        for each in review("test", ReviewedStack("base", None), private).changes
        if each.field == "scheduler.api_from"
    ]


def test_a_review_says_who_becomes_an_administrator() -> None:
    [change] = review("test", ReviewedStack("base", declared()), ReviewedStack("head", declared(admins=[OPS]))).changes
    assert (change.field, change.policy, change.restarts) == ("scheduler.admins", "in place", 0)
