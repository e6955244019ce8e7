"""Nodes of an AWS cluster that run on what is no longer theirs: which they are, and new disks or machines for them.

A machine that is rare is kept: where only what is on its disk is another, it gets a new disk and stays where it is.
What the machine itself was made from cannot be changed, so that it goes, and its group starts another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from stampworks.clouds.aws import tags
from stampworks.clouds.aws.errors import LOOK, AwsError
from stampworks.clouds.aws.members import PATIENCE_S, Machine, end, join, machines, refusals
from stampworks.clouds.aws.session import Api
from stampworks.plan import Plan

Progress = Callable[[str], None]
_POLL_S = 5.0
_TAG_MAX = 256
"""Characters of a tag's value."""


def outdated(plan: Plan, content: str) -> dict[str, str]:
    """The running nodes that need another disk or machine, and why. What starts with its work is new each time."""
    wanted_ = _wanted(Api(plan.region), plan, content)
    return {each.node: why for each, wanted in wanted_ if (why := _why(each, wanted))}


def renew(plan: Plan, content: str, names: Collection[str], progress: Progress) -> None:
    """Gives these nodes what they are to be made from, and waits until they can be logged in to again."""
    api = Api(plan.region)
    known = {each.node: (each, wanted) for each, wanted in _wanted(api, plan, content) if each.node in names}
    for name in sorted(known):
        machine, wanted = known[name]
        if machine.template.partition("-")[0] == wanted.partition("-")[0]:
            progress(f"{name}: a new disk for {machine.id}")
            _new_disk(api, plan, machine, wanted)
        else:
            progress(f"{name}: another machine for {machine.id}")
            end(api, [machine])
    _await(api, plan, {name: known[name][0] for name in sorted(known)}, progress)


def condemn(plan: Plan, names: Collection[str], why: str) -> None:
    """Has nodes count as outdated; without a reason, no longer."""
    api = Api(plan.region)
    what = f"cannot write on {', '.join(sorted(names))} that they are to be made anew"
    if ids := [each.id for each in machines(api, plan.name) if each.node in names]:
        if why:
            api.need(what, "ec2:CreateTags", Resources=ids, Tags=[{"Key": tags.CONDEMNED, "Value": why[:_TAG_MAX]}])
        else:
            api.need(what, "ec2:DeleteTags", Resources=ids, Tags=[{"Key": tags.CONDEMNED}])


def _wanted(api: Api, plan: Plan, content: str) -> list[tuple[Machine, str]]:
    """The nodes that always run, and what each should be made from."""
    groups = (*plan.pools, *plan.login)
    templates = {group.name: tags.template(group, plan.release, content) for group in groups}
    static = {node.name for group in groups for node in group.nodes[: group.count_min]}
    found = machines(api, plan.name)
    return [
        (each, templates[each.group])
        for each in found
        if each.state == "running" and each.node in static and each.group in templates
    ]


def _why(machine: Machine, wanted: str) -> str:
    if machine.condemned:
        return machine.condemned
    if machine.template == wanted:
        return ""
    same = machine.template.partition("-")[0] == wanted.partition("-")[0]
    return "its disk was made from another image" if same else "its machine was started from another template"


def _new_disk(api: Api, plan: Plan, machine: Machine, wanted: str) -> None:
    """Killed anywhere in here, the next roll begins with this node again, or finds it done."""
    image = next(group.launch.image for group in plan.groups if group.name == machine.group and group.launch)
    what, id_ = f"cannot give {machine.node} ({machine.id}) a new disk", machine.id
    old = {"Key": tags.HOST_KEY, "Value": tags.was(machine.host_key)}
    token = f"{wanted}-{machine.disk}"
    api.need(what, "ec2:CreateTags", Resources=[id_], Tags=[old])
    disk = {"InstanceId": id_, "ImageId": image, "DeleteReplacedRootVolume": True, "ClientToken": token}
    api.need(what, "ec2:CreateReplaceRootVolumeTask", **disk)
    api.need(what, "ec2:CreateTags", Resources=[id_], Tags=[{"Key": tags.TEMPLATE, "Value": wanted}])
    api.need(what, "ec2:DeleteTags", Resources=[id_], Tags=[{"Key": tags.CONDEMNED}])


def _await(api: Api, plan: Plan, before: Mapping[str, Machine], progress: Progress) -> None:
    groups = (*plan.pools, *plan.login)
    names = {group.name: [node.name for node in group.nodes[: group.count_min]] for group in groups}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        join(plan.name, plan.region, names)
        now = {each.node: each for each in machines(api, plan.name) if each.joined}
        away = [name for name in before if name not in now or now[name].instance == before[name].instance]
        if not away:
            return
        refused = refusals(plan.name, plan.region, sorted({before[name].group for name in away}))
        if time.monotonic() > deadline:
            why = "\n".join(each.words for each in refused)
            why = why or f"their console has not shown a host key for {PATIENCE_S / 60:.0f} min"
            hint = "; ".join(dict.fromkeys(each.hint for each in refused if each.hint)) or LOOK
            raise AwsError(plan.region, f"{', '.join(away)} have not come back", why, hint)
        progress("; ".join([f"waiting for {', '.join(away)}", *(each.words for each in refused)]))
        time.sleep(_POLL_S)
