"""Facts about terms of an account's owners: keys, boundaries, profiles of machines, and tags of an organisation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from stampworks.clouds.aws.session import Api, AwsUnansweredError
from stampworks.plan import Plan

_ABSENT = ("NoSuchEntity", "NotFoundException")
_NO_POLICY = ("AWSOrganizationsNotInUseException", "EffectivePolicyNotFoundException", "TargetNotFoundException")
"""Error codes of an account outside of organisations, or without rules about tags."""


def keys(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return the declared KMS key with its state; empty if it does not exist."""
    if not (key := plan.account.key):
        return []
    found = _or_none(api, "kms:DescribeKey", _ABSENT, KeyId=key)
    if found is None:
        return []
    one = found["KeyMetadata"]
    return [{"id": key, "state": one["KeyState"], "encrypts": one["KeySpec"] == "SYMMETRIC_DEFAULT"}]


def profiles(api: Api, plan: Plan) -> list[str]:
    """Return the declared instance profiles that exist."""
    named = sorted({plan.account.head_profile, plan.account.nodes_profile} - {""})
    return [
        each for each in named if _or_none(api, "iam:GetInstanceProfile", _ABSENT, InstanceProfileName=each) is not None
    ]


def boundaries(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return the declared permissions boundary with its statements; empty if it does not exist."""
    if not (arn := plan.account.permissions_boundary):
        return []
    found = _or_none(api, "iam:GetPolicy", _ABSENT, PolicyArn=arn)
    if found is None:
        return []
    version = api.ask("iam:GetPolicyVersion", PolicyArn=arn, VersionId=found["Policy"]["DefaultVersionId"])
    document = version["PolicyVersion"]["Document"]
    if isinstance(document, str):
        document = json.loads(unquote(document))
    sorted_ = {kind: set[str]() for kind in ("allowed", "denied", "depends")}
    for kind, action in _statements(_listed(document["Statement"])):
        sorted_[kind].add(action)
    return [{"id": arn, **{kind: sorted(actions) for kind, actions in sorted_.items()}}]


def _statements(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each action of a policy with its effect. Conditions and exceptions depend on the call."""
    for one in found:
        whole = "*" in _listed(one.get("Resource", "*")) and not one.get("Condition") and "NotResource" not in one
        if "NotAction" in one:
            yield "depends", "*"
        for action in _listed(one.get("Action", [])):
            yield ("allowed" if one["Effect"] == "Allow" else "denied") if whole else "depends", action


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def tag_rules(api: Api, plan: Plan) -> list[dict[str, Any]]:
    """Return the rules of the organisation's tag policy for declared tags."""
    if not plan.tags:
        return []
    found = _or_none(api, "organizations:DescribeEffectivePolicy", _NO_POLICY, PolicyType="TAG_POLICY")
    if found is None:
        return []
    rules = json.loads(found["EffectivePolicy"]["PolicyContent"]).get("tags", {})
    named = {tag.name.lower() for tag in plan.tags}
    return [
        {
            "name": str(one.get("tag_key", name)),
            "values": [str(each) for each in one.get("tag_value", ())],
            "enforced": bool(one.get("enforced_for")),
        }
        for name, one in sorted(rules.items())
        if name.lower() in named
    ]


def _or_none(api: Api, action: str, absent: Sequence[str], **parameters: Any) -> dict[str, Any] | None:
    try:
        return api.ask(action, **parameters)
    except AwsUnansweredError as error:
        if error.code in absent:
            return None
        raise
