"""Which images a region has, and which one a publisher names as its newest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stampworks.clouds.aws.session import Api, AwsUnansweredError

_GONE = ("InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable")


@dataclass(frozen=True)
class CloudImage:
    id: str
    name: str
    created: str
    """The day, as 2026-11-02."""
    architecture: str
    state: str
    deprecated: str
    """From when on its publisher says to take another one; empty where that was not said."""


def published(api: Api, parameter: str) -> str | None:
    """The image that a public parameter names now; None when the region has no such parameter."""
    try:
        return str(api.ask("ssm:GetParameter", Name=parameter)["Parameter"]["Value"])
    except AwsUnansweredError as error:
        if error.code == "ParameterNotFound":
            return None
        raise


def described(api: Api, ids: Iterable[str]) -> dict[str, CloudImage]:
    """Those of them that there are; one by one, for AWS describes none when one is gone."""
    found: dict[str, CloudImage] = {}
    for each in sorted(set(ids)):
        try:
            images = api.ask("ec2:DescribeImages", ImageIds=[each])["Images"]
        except AwsUnansweredError as error:
            if error.code not in _GONE:
                raise
            continue
        found |= {one["ImageId"]: _image(one) for one in images}
    return found


def _image(one: dict[str, Any]) -> CloudImage:
    return CloudImage(
        id=one["ImageId"],
        name=one.get("Name", ""),
        created=one.get("CreationDate", "")[:10],
        architecture=one.get("Architecture", ""),
        state=one.get("State", ""),
        deprecated=one.get("DeprecationTime", "")[:10],
    )
