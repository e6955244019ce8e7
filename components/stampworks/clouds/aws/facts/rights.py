"""Rights of the identity that runs an `up`, as judged by IAM's simulator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stampworks.clouds.aws.session import Api
from stampworks.clouds.aws.tags import cost_tags
from stampworks.plan import Plan
from stampworks.plan.rights import Right

SIMULATE, ROLE = "iam:SimulatePrincipalPolicy", "iam:GetRole"
_CALLER = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):(?:iam|sts)::(?P<account>[0-9]{12}):"
    r"(?:(?P<root>root)|(?P<kind>user|assumed-role)/(?P<name>.+))"
)
_GLOBAL = ("iam", "budgets", "route53", "sts")
"""Services with a single endpoint for all regions, in the first one (AWS global condition context keys,
"aws:RequestedRegion")."""


def principal(api: Api, caller: str) -> str:
    """Return the user or role whose policies apply to a caller; empty for root, which IAM policies do not limit.

    A session names its role without the role's path.
    """
    found = _CALLER.fullmatch(caller)
    if found is None:
        raise ValueError(f"{caller} is neither a user nor a role, and IAM simulates no others")
    if found["root"]:
        return ""
    if found["kind"] == "user":
        return caller
    return str(api.ask(ROLE, RoleName=found["name"].partition("/")[0])["Role"]["Arn"])


def judged(api: Api, plan: Plan, caller: str, rights: Sequence[Right]) -> list[dict[str, Any]]:
    """Return IAM's decision about each right; nothing for root."""
    if not (source := principal(api, caller)):
        return []
    account = caller.split(":")[4]
    grouped: dict[tuple[str, tuple[tuple[str, str], ...], bool], list[Right]] = {}
    for right in rights:
        everywhere = right.action.partition(":")[0] in _GLOBAL
        grouped.setdefault((right.resource, right.given, everywhere), []).append(right)
    found = []
    for (resource, given, everywhere), asked in grouped.items():
        context = {**dict(given), "aws:RequestedRegion": "us-east-1" if everywhere else plan.region}
        context |= {f"aws:RequestTag/{name}": value for name, value in cost_tags(plan).items()}
        answer = api.ask(
            SIMULATE,
            PolicySourceArn=source,
            ActionNames=sorted({right.action for right in asked}),
            ResourceArns=[_example(resource, account)],
            ContextEntries=[
                {"ContextKeyName": name, "ContextKeyValues": [value], "ContextKeyType": "string"}
                for name, value in context.items()
            ],
        )
        decisions = {one["EvalActionName"]: one for one in answer["EvaluationResults"]}
        found += [
            {"action": right.action, "resource": resource, "given": [*given], **_decision(decisions[right.action])}
            for right in asked
        ]
    return found


def _example(resource: str, account: str) -> str:
    """Return a resource that the pattern means: a policy need not allow more than these."""
    return resource if resource == "*" else resource.replace("{account}", account).replace("*", "0")


def _decision(one: Mapping[str, Any]) -> dict[str, str]:
    if one["EvalDecision"] == "allowed":
        return {"decision": "allowed", "why": ""}
    if missing := one.get("MissingContextValues"):
        return {"decision": "depends", "why": f"a condition on {', '.join(sorted(missing))}"}
    if not one.get("OrganizationsDecisionDetail", {}).get("AllowedByOrganizations", True):
        return {"decision": "denied", "why": "organisation"}
    if not one.get("PermissionsBoundaryDecisionDetail", {}).get("AllowedByPermissionsBoundary", True):
        return {"decision": "denied", "why": "boundary"}
    return {"decision": "denied", "why": "statement" if one["EvalDecision"] == "explicitDeny" else ""}
