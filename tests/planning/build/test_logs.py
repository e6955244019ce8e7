"""Storage of the nodes' logs, and its duration."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan

AWS = {"cloud": "aws", "region": "us-east-1", "pools": [{"name": "gpu", "machine": "p5", "count": 2}]}
HOSTS = {"cloud": "hosts", "pools": [{"name": "gpu", "machine": "dgx-h100", "count": 2}]}


def planned(of: dict[str, Any], **fields: Any) -> Plan:
    return planning.plan(load_value({"version": 1, "name": "test", **of, **fields}, "test"))


@pytest.mark.parametrize(
    ("of", "fields", "days"),
    [
        (AWS, {}, 30),
        (AWS, {"logs": {"days": 365}}, 365),
        (AWS, {"logs": {"days": 0}}, 0),
        (AWS, {"scheduler": {"kind": "kubernetes"}}, 0),
        (HOSTS, {}, 0),
    ],
)
def test_they_are_kept_where_the_cloud_can(of: dict[str, Any], fields: dict[str, Any], days: int) -> None:
    """Nodes have the agent that ships logs only there."""
    plan = planned(of, **fields)
    assert plan.logs.days == days
    assert ("logs" in dict(plan.release.packages)) == bool(days)


@pytest.mark.parametrize(
    ("of", "fields", "what", "hint"),
    [
        (AWS, {"logs": {"days": 10}}, "aws keeps logs for 1, 3, 5, 7, 14, 30, 60, ", "write 14"),
        (HOSTS, {"logs": {"days": 30}}, "logs of nodes on hosts cannot be kept yet", "leave it out"),
        (
            AWS,
            {"logs": {"days": 30}, "scheduler": {"kind": "kubernetes"}},
            "logs of nodes of a Kubernetes cannot be kept yet",
            "leave it out",
        ),
    ],
)
def test_invalid_days_are_refused(of: dict[str, Any], fields: dict[str, Any], what: str, hint: str) -> None:
    """The error is at the number of days."""
    with pytest.raises(DeclarationError) as error:
        planned(of, **fields)
    assert f"test: logs.days: {what}" in str(error.value)
    assert f"hint: {hint}\n" in str(error.value)
