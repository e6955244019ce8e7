"""Renewal of outdated nodes of an AWS cluster: which nodes are outdated, and new disks or instances for them.

A rare instance is kept: if only its image is outdated, it gets a new disk. If its launch settings are outdated, it
ends, and its group starts another one. The head is in no group: the engine replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampworks.clouds.aws import tags
from stampworks.clouds.aws.errors import LOOK, AwsError
from stampworks.clouds.aws.machines import THERE, ClusterInstance, batched, end, machines, put_tags, shown_key
from stampworks.clouds.aws.members import PATIENCE_S, join, refusals
from stampworks.clouds.aws.session import Api, AwsUnansweredError
from stampworks.plan import Plan, remedies

Failure = AwsError
Progress = Callable[[str], None]
_POLL_S = 5.0
_TAG_MAX = 256
"""Characters of a tag's value."""
_ASKED_AT_ONCE = 50
_ON_ITS_WAY, _FAILED = ("pending", "in-progress"), ("failed", "failed-detached")
"""States of a disk replacement: under way, and failed (Amazon EC2 API, ReplaceRootVolumeTask). AWS gives no reason for
a failure."""


def outdated(plan: Plan, content: str) -> dict[str, str]:
    """Return the running nodes that need another disk or instance, and why.

    Elastic nodes are new at each start.
    """
    wanted_ = _wanted(Api(plan.region), plan, content)
    return {each.node: why for each, wanted in wanted_ if (why := _why(each, wanted))}


def renew(plan: Plan, content: str, names: Collection[str], progress: Progress) -> None:
    """Give nodes a new disk or instance, and wait until they can be logged in to again."""
    api = Api(plan.region)
    known = {each.node: (each, wanted) for each, wanted in _wanted(api, plan, content) if each.node in names}
    disks: dict[str, _Disk] = {}
    small = _small(api, plan, [known[name][0] for name in sorted(known) if _stays(*known[name])])
    for name in sorted(known):
        machine, wanted = known[name]
        if name not in small and _stays(machine, wanted):
            progress(f"{name}: a new disk for {machine.id}")
            disks[name] = _Disk(_new_disk(api, plan, machine), wanted)
        else:
            progress(": ".join(filter(None, (f"{name}: another machine for {machine.id}", small.get(name)))))
            end(api, [machine])
    _await(api, plan, {name: known[name][0] for name in sorted(known)}, disks, progress)


def condemn(plan: Plan, names: Collection[str], why: str, machine: bool = False) -> None:
    """Mark nodes as outdated; without a reason, remove the mark."""
    api = Api(plan.region)
    what = f"cannot mark {', '.join(sorted(names))} for renewal"
    found = [each for each in machines(api, plan.name) if each.node in names and each.state in THERE]
    if machine and (alone := ", ".join(each.node for each in found if not each.in_group)):
        hint = "`pulumi stack --show-urns` shows the URN of its aws:ec2/instance:Instance; run pulumi up --replace URN"
        raise AwsError(plan.region, what, f"{alone} is in no group that would start another machine", hint)
    if not (ids := [each.id for each in found]):
        return
    if why:
        put_tags(api, what, ids, {tags.CONDEMNED: f"{tags.MACHINE if machine else ''}{why}"[:_TAG_MAX]})
    else:
        api.need(what, "ec2:DeleteTags", Resources=ids, Tags=[{"Key": tags.CONDEMNED}])


def _wanted(api: Api, plan: Plan, content: str) -> list[tuple[ClusterInstance, str]]:
    """Return the permanent nodes, each with its present template."""
    templates = {group.name: tags.template(group, plan.release, content) for group in plan.stamped}
    static = {node.name for group in plan.stamped for node in group.nodes[: group.count_min]}
    found = machines(api, plan.name)
    return [
        (each, templates[each.group])
        for each in found
        if each.state == "running" and each.node in static and not each.elastic and each.group in templates
    ]


def _why(machine: ClusterInstance, wanted: str) -> str:
    if machine.condemned:
        return machine.condemned
    if machine.template == f"{tags.of_machine(machine.template)}-":
        return "its new disk is not attached yet"
    if machine.template == wanted or not machine.in_group:
        return ""
    same = tags.of_machine(machine.template) == tags.of_machine(wanted)
    return "its disk was made from another image" if same else "its machine was started from another template"


def _stays(machine: ClusterInstance, wanted: str) -> bool:
    """Whether a new disk is enough. The head always stays: no group starts another one."""
    if not machine.in_group:
        return True
    same = tags.of_machine(machine.template) == tags.of_machine(wanted)
    return same and not machine.condemned.startswith(tags.MACHINE)


def _small(api: Api, plan: Plan, kept: Sequence[ClusterInstance]) -> dict[str, str]:
    """Return the nodes that cannot get a new disk, by name, with the reason.

    AWS creates no root volume smaller than the old one (EC2 User Guide, "Replace the root volume for an Amazon EC2
    instance", read 2026-11-27). Nodes of pools without accelerators get another instance instead. For rare instances
    and the head, raise an error: a user has to decide.
    """
    launches = {group.name: group.launch for group in plan.stamped if group.launch}
    sizes = _sizes(api, {launches[each.group].image for each in kept})
    small: dict[str, str] = {}
    for each in kept:
        image, own = launches[each.group].image, launches[each.group].disk_gib
        if sizes.get(image, own) < own:
            small[each.node] = f"the disk of {image} has {sizes[image]} GiB, and its own {own}"
    rare = {group.name for group in plan.stamped if group.machine.accelerators}
    if stuck := [each for each in kept if each.node in small and (each.group in rare or not each.in_group)]:
        what = f"cannot give {', '.join(each.node for each in stuck)} a new disk"
        hint = "make the image anew, with a disk as large as stampworks image --packer says"
        if of_groups := " ".join(each.node for each in stuck if each.in_group):
            hint += f"; or let them have other machines: stampworks roll {of_groups} --machine --reason TEXT"
        raise AwsError(plan.region, what, "\n".join(f"{each.node}: {small[each.node]}" for each in stuck), hint)
    return small


def _sizes(api: Api, images: Collection[str]) -> dict[str, int]:
    """Return the disk size of each image in GiB.

    Return none without permission: the disk replacement fails then.
    """
    if not images:
        return {}
    try:  # use a filter: by their ids, AWS describes none when one is gone
        found = api.ask("ec2:DescribeImages", Filters=[{"Name": "image-id", "Values": sorted(images)}])["Images"]
    except AwsUnansweredError:
        return {}
    return {
        each["ImageId"]: disk["Ebs"]["VolumeSize"]
        for each in found
        for disk in each.get("BlockDeviceMappings", ())
        if disk["DeviceName"] == each.get("RootDeviceName") and "VolumeSize" in disk.get("Ebs", {})
    }


@dataclass(frozen=True)
class _Disk:
    task: str
    """Id of the replacement task in AWS."""
    made_from: str


def _new_disk(api: Api, plan: Plan, machine: ClusterInstance) -> str:
    """Start a disk replacement, or continue one under way, and return its task.

    When the process is killed before the disk is replaced, the next roll repeats this node: its disk is unknown until
    then.
    """
    image = next(group.launch.image for group in plan.groups if group.name == machine.group and group.launch)
    what, id_ = f"cannot give {machine.node} ({machine.id}) a new disk", machine.id
    old = {
        tags.HOST_KEY: tags.was(machine.host_key or shown_key(api, id_)),
        tags.TEMPLATE: f"{tags.of_machine(machine.template)}-",
    }
    put_tags(api, what, [id_], old)
    for task in _tasks(api, what, [id_]):
        if task["TaskState"] in _ON_ITS_WAY and task.get("ImageId") == image:
            return str(task["ReplaceRootVolumeTaskId"])
    disk = {"InstanceId": id_, "ImageId": image, "DeleteReplacedRootVolume": True}
    answer = api.need(what, "ec2:CreateReplaceRootVolumeTask", **disk)
    return str(answer["ReplaceRootVolumeTask"]["ReplaceRootVolumeTaskId"])


def _tasks(api: Api, what: str, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for some in batched(ids, _ASKED_AT_ONCE):
        of = [{"Name": "instance-id", "Values": list(some)}]
        yield from api.need(what, "ec2:DescribeReplaceRootVolumeTasks", Filters=of)["ReplaceRootVolumeTasks"]


def _await(
    api: Api, plan: Plan, before: Mapping[str, ClusterInstance], disks: Mapping[str, _Disk], progress: Progress
) -> None:
    """Wait for the nodes to come back. A node that gets no disk does not stop the wait for the others."""
    names = {group.name: [node.name for node in group.nodes[: group.count_min]] for group in plan.stamped}
    deadline, away, lost = time.monotonic() + PATIENCE_S, dict(before), dict[str, str]()
    while True:
        join(plan.name, plan.region, names)
        now = {each.node: each for each in machines(api, plan.name) if each.joined}
        for name in [each for each in away if each in now and _is_another(now[each], away[each])]:
            del away[name]
            if name in disks:
                _has_come(api, plan, now[name], disks[name])
        lost |= _lost(api, away, disks)
        if not away.keys() - lost.keys():
            break
        refused = refusals(plan.name, plan.region, sorted({each.group for each in away.values()}))
        if time.monotonic() > deadline:
            why = "\n".join([*lost.values(), *(each.words for each in refused)])
            why = why or f"their console has shown no host key for {PATIENCE_S / 60:.0f} min"
            raise AwsError(plan.region, f"{', '.join(away)} have not come back", why, remedies(refused) or LOOK)
        progress("; ".join([f"waiting for {', '.join(away)}", *lost.values(), *(each.words for each in refused)]))
        time.sleep(_POLL_S)
    if lost:
        hint = "check that the image exists and fits the machine, and run pulumi up, which tries again; for "
        hint += f"another machine first: stampworks roll {' '.join(lost)} --machine --reason TEXT"
        raise AwsError(plan.region, f"{', '.join(lost)} got no new disk", "\n".join(lost.values()), hint)


def _is_another(now: ClusterInstance, before: ClusterInstance) -> bool:
    """Whether the node has another disk. Each disk has its own host key."""
    return tags.was(now.host_key) != tags.was(before.host_key)


def _has_come(api: Api, plan: Plan, machine: ClusterInstance, disk: _Disk) -> None:
    """Tag a new disk for the bill, and clear the mark.

    AWS copies tags of the instance only to its first disk.
    """
    what = f"cannot write the image of the new disk into the tags of {machine.node} ({machine.id})"
    own = {tags.GROUP: machine.group, "Name": f"{plan.name}-{machine.group}"}
    put_tags(api, what, [machine.disk], tags.cost_tags(plan) | own)
    put_tags(api, what, [machine.id], {tags.TEMPLATE: disk.made_from})
    api.need(what, "ec2:DeleteTags", Resources=[machine.id], Tags=[{"Key": tags.CONDEMNED}])


def _lost(api: Api, away: Mapping[str, ClusterInstance], disks: Mapping[str, _Disk]) -> dict[str, str]:
    """Return the nodes whose disk replacement has failed, with the state that AWS reports."""
    waiting = {disks[name].task: name for name in away if name in disks}
    what = f"cannot read the state of the new disks of {', '.join(waiting.values())}"
    found = _tasks(api, what, [away[name].id for name in waiting.values()])
    return {
        waiting[task]: f"{waiting[task]}: AWS says of {task}, the replacement: {each['TaskState']}"
        for each in found
        if each["TaskState"] in _FAILED and (task := each["ReplaceRootVolumeTaskId"]) in waiting
    }
