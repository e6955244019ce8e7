"""Instances of an AWS cluster as EC2 lists them, and the calls that tag, end and read one."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from stampworks.clouds.aws import tags
from stampworks.clouds.aws.session import Api

T = TypeVar("T")

THERE = ("pending", "running")
_GROUP_NAME = "aws:autoscaling:groupName"
"""Tag that AWS puts on the instances of an Auto Scaling group."""
_KEYS = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
KEY = re.compile(r"^(ssh-ed25519 [A-Za-z0-9+/]{20,200}={0,2})(?:\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class ClusterInstance:
    """An instance of a cluster, before or after it has joined."""

    id: str
    group: str
    node: str
    """Name of the node; empty until the instance has one."""
    host_key: str
    """Public ssh host key; empty until the console has shown it, or marked as the key of an earlier disk."""
    template: str
    condemned: str
    state: str
    started: str
    places: str
    disk: str
    """Id of the root volume."""
    address: str
    rail_addresses: tuple[str, ...]
    reservation: str
    """Id of the capacity reservation that it runs in; empty if it runs in none."""
    elastic: bool
    """Whether the instance starts and stops with the work."""
    in_group: bool
    """Whether an Auto Scaling group started the instance and replaces it."""
    tags: frozenset[tuple[str, str]]
    volumes: tuple[str, ...]
    """Ids of its volumes, which have tags of their own, as NICs do."""
    nics: tuple[str, ...]

    @property
    def joined(self) -> bool:
        """Whether it is a node that can be reached."""
        named = bool(self.node and self.address and self.state == "running")
        return named and KEY.fullmatch(self.host_key) is not None

    @property
    def instance(self) -> str:
        """Return an identity that changes with the instance and with its disk."""
        return f"{self.id}/{self.disk}"


def machines(api: Api, cluster: str) -> list[ClusterInstance]:
    """Return all instances with the cluster's tags that EC2 still lists, including dead ones of a group."""
    filters = [
        {"Name": f"tag:{tags.CLUSTER}", "Values": [cluster]},
        {"Name": "tag-key", "Values": [tags.GROUP]},
    ]
    listed = api.need(f"cannot list the members of cluster {cluster}", "ec2:DescribeInstances", Filters=filters)
    return [_machine(each) for part in listed["Reservations"] for each in part["Instances"]]


def _machine(instance: Mapping[str, Any]) -> ClusterInstance:
    of = tags_of(instance)
    root = instance.get("RootDeviceName")
    disks = {each["DeviceName"]: each["Ebs"]["VolumeId"] for each in instance.get("BlockDeviceMappings", ())}
    return ClusterInstance(
        id=instance["InstanceId"],
        group=of[tags.GROUP],
        node=of.get(tags.NODE, ""),
        host_key=of.get(tags.HOST_KEY, ""),
        template=of.get(tags.TEMPLATE, ""),
        condemned=of.get(tags.CONDEMNED, ""),
        state=instance["State"]["Name"],
        started=instance["LaunchTime"].isoformat(),
        places=of.get(tags.PLACES, ""),
        disk=disks.get(root, ""),
        address=instance.get("PrivateIpAddress", ""),
        rail_addresses=tuple(each.get("PrivateIpAddress", "") for each in _fabric(instance)),
        reservation=instance.get("CapacityReservationId", ""),
        elastic=tags.ELASTIC in of,
        in_group=_GROUP_NAME in of,
        tags=frozenset(of.items()),
        volumes=tuple(disks.values()),
        nics=tuple(each["NetworkInterfaceId"] for each in instance.get("NetworkInterfaces", ())),
    )


def tags_of(of: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a described resource."""
    return {each["Key"]: each["Value"] for each in of.get("Tags", ())}


def _fabric(instance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the EFA NICs, in the order of their network cards."""
    found = [each for each in instance.get("NetworkInterfaces", ()) if each.get("InterfaceType", "").startswith("efa")]
    return sorted(found, key=lambda each: each.get("Attachment", {}).get("NetworkCardIndex", 0))


def end(api: Api, gone: Sequence[ClusterInstance]) -> None:
    """End instances.

    The group starts a replacement if it wants as many as before. Elastic instances have no group.
    """
    if alone := [each for each in gone if each.elastic]:
        what = f"cannot end {', '.join(sorted(each.node or each.id for each in alone))}"
        api.need(what, "ec2:TerminateInstances", InstanceIds=[each.id for each in alone])
    for each in (each for each in gone if not each.elastic):
        end_of_group(api, each.id, each.node or each.id, each.group)


def end_of_group(api: Api, id_: str, called: str, group: str) -> None:
    """Terminate an instance; its group then starts another one."""
    action = "autoscaling:TerminateInstanceInAutoScalingGroup"
    api.need(f"cannot end {called} of {group}", action, InstanceId=id_, ShouldDecrementDesiredCapacity=False)


def shown_key(api: Api, instance: str) -> str:
    """Return the host key that the console of an instance shows last.

    The console shows the key when the first boot has ended. Return an empty string before that.
    """
    answer = api.need(
        f"cannot read the console of {instance}", "ec2:GetConsoleOutput", InstanceId=instance, Latest=True
    )
    said = answer.get("Output", "")
    with contextlib.suppress(binascii.Error, ValueError):  # some versions of boto3 decode the output
        said = base64.b64decode(said, validate=True).decode(errors="replace")
    blocks = _KEYS.findall(said.replace("\r", ""))
    found = KEY.search(blocks[-1]) if blocks else None
    return found[1] if found else ""


def put_tags(api: Api, what: str, ids: Sequence[str], of: Mapping[str, str]) -> None:
    """Tag resources. `what` names the step in errors."""
    pairs = [{"Key": key, "Value": value} for key, value in of.items()]
    api.need(what, "ec2:CreateTags", Resources=ids, Tags=pairs)


def batched(all_: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in batches of a call's maximum size."""
    yield from (all_[start : start + size] for start in range(0, len(all_), size))
