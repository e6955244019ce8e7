"""Images of a region, and the newest image that a publisher names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stampworks.clouds.aws.session import Api, AwsUnansweredError

_GONE = ("InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable")


@dataclass(frozen=True)
class CloudImage:
    """An image as EC2 describes it."""

    id: str
    name: str
    created: str
    """Day, as 2026-11-02."""
    architecture: str
    state: str
    deprecated: str
    """Day from which the publisher advises another image; empty if the publisher does not say."""


def published(api: Api, parameter: str) -> str | None:
    """Return the image that a public parameter names now. Return None when the region has no such parameter."""
    try:
        return str(api.ask("ssm:GetParameter", Name=parameter)["Parameter"]["Value"])
    except AwsUnansweredError as error:
        if error.code == "ParameterNotFound":
            return None
        raise


def named(api: Api, owner: str, name: str) -> CloudImage | None:
    """Return the newest image of an owner with this name; the name may be a pattern with * and ?."""
    found = api.ask("ec2:DescribeImages", Owners=[owner], Filters=[{"Name": "name", "Values": [name]}])["Images"]
    return max(map(_image, found), key=lambda each: (each.created, each.id), default=None)


def described(api: Api, ids: Iterable[str]) -> dict[str, CloudImage]:
    """Return the images that exist.

    Ask for one image at a time: when one is gone, AWS describes none of them.
    """
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
