"""Members of an AWS cluster: the instances that carry its tags."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stampworks.clouds.aws import tags
from stampworks.clouds.aws.errors import AwsError
from stampworks.clouds.aws.machines import (
    KEY,
    THERE,
    ClusterInstance,
    batched,
    end,
    end_of_group,
    machines,
    put_tags,
    shown_key,
    tags_of,
)
from stampworks.clouds.aws.session import NOT_PERMITTED, Api, AwsUnansweredError, shortened
from stampworks.plan import CONTROLLER, Ending, Member, Refusal, Roster
from stampworks.state import paths

PATIENCE_S, POLL_S = 1200.0, 10.0
"""Seconds to wait for a member, and between polls. The console of an instance with many NICs and much memory stays
empty for minutes."""
USER = "root"
_DEAD = ("stopped", "terminated")
_EVERYWHERE = (tags.CLUSTER, tags.GROUP)
_NOT_STARTED = ("Failed", "Cancelled")
_NOT_LAUNCHED = "AsgInstanceLaunchFailures"
"""Error code of EKS for a failed launch."""
_NEVER_MADE = "CREATE_FAILED"
_LATE = re.compile(r"Invalid(?:InstanceID|Volume|NetworkInterfaceID)\.NotFound|Instance Id not found")
"""Pattern of the errors with which EC2 and Auto Scaling refuse an instance that another part of AWS lists. It is not
known yet, or no longer known."""
_NOT_OFFERED = {"InvalidAction", "UnsupportedOperation"}
"""Error codes for a call that a region lacks."""
_ASKED_AT_ONCE = 50
"""Instances in one call, a limit of AWS."""
_GROUPS = "autoscaling:DescribeAutoScalingGroups"
_GOING = "Terminat"
"""Start of the lifecycle states of an instance that ends or has ended. Ending it again is an error."""
_ACTIVITIES_MAX, _WHY_CHARACTERS_MAX = 100, 400
_AT_ONCE = timedelta(minutes=1)
"""Launches that begin within this time are one attempt of a group. Some of its instances may have started."""
_AGAIN = "run pulumi up again: it continues from here"
# Auto Scaling explains failures in text for people: EC2 error codes, or sentences. The patterns match texts that users
# have published (kubernetes/autoscaler 1263, 1402 and 3241, kubernetes/kops 15778, hashicorp/terraform-provider-aws
# 35745, read 2026-11-25). The first match counts. A text without a match may be transient.
_PASSING = {
    # instances leave a reservation only minutes after they end
    re.compile(r"ReservationCapacityExceeded|requested reservation does not have sufficient"): (
        f"aws ec2 describe-capacity-reservations shows its free capacity, zone and machine; {_AGAIN}"
    ),
    re.compile(r"Insufficient\w*Capacity|not have sufficient|no (?:\w+ )?capacity available"): (
        f"{_AGAIN}, when there are some; sooner may do another zone, capacity that was bought before (purchase, "
        "reservation), or a count_min with fallbacks, whose nodes start when a job wants them"
    ),
}
_LASTING = {
    re.compile(
        r"(?<!Request)LimitExceeded|(?:vCPU|instance) limit|\bquota\b|[Cc]ount ?[Ee]xceeded|\bare already running"
    ): f"have the limit raised in the console of Service Quotas, or declare fewer nodes; {_AGAIN}",
    re.compile(r"UnauthorizedOperation|AccessDenied|not authorized"): (
        "Auto Scaling asks in its own name, AWSServiceRoleForAutoScaling: see which policy of the organization or of "
        f"a key forbids it; {_AGAIN}"
    ),
    # Amazon EC2 Auto Scaling User Guide, "Required AWS KMS key policy for use with encrypted volumes", read 2026-11-26
    re.compile(r"Client\.InternalError|Client\.InvalidKMSKey|\bKMS\b"): (
        "let AWSServiceRoleForAutoScaling use the key that the account encrypts disks with by default (aws ec2 "
        f"get-ebs-default-kms-key-id), as the key's own policy has to say; {_AGAIN}"
    ),
    re.compile(r"(?i)reservation.*(?:not match|not exist|not ?found|not active|expired|cancel|invalid)"): (
        "declare a reservation that is active and of this zone and machine: stampworks facts reads what the account "
        "has, and stampworks plan says what does not fit"
    ),
    re.compile(r"\bInvalid[A-Z]|\bis (?:invalid|not valid)|does not exist|not supported|\bUnsupported"): (
        "correct the named setting in the declaration or the account, then run pulumi up again"
    ),
}


def members(cluster: str, region: str) -> Roster:
    """Return the nodes that run and have joined.

    Instances that have just started are not members yet.
    """
    joined = [each for each in machines(Api(region), cluster) if each.joined]
    # when two instances have one name, prefer the group's to the elastic one: it got the name when the node became
    # static
    found = {each.node: each for each in sorted(joined, key=lambda each: (not each.in_group, _age(each)), reverse=True)}
    identity = _identity_file(cluster, region) if found else ""
    return Roster(
        cluster=cluster,
        cloud="aws",
        reach=(),
        user=USER,
        identity_file=identity,
        members=tuple(_member(found[name]) for name in sorted(found)),
        region=region,
        proxy=_session(region),
    )


def endings(cluster: str, region: str) -> tuple[Ending, ...]:
    """Return the end of each reservation that nodes run in.

    Leave out reservations without an end. Report a call that is not permitted.
    """
    api = Api(region)
    running = [each for each in machines(api, cluster) if each.reservation and each.state in THERE]
    held = sorted({(each.group, each.reservation) for each in running})
    if not held:
        return ()
    ids = sorted({reservation for _, reservation in held})
    try:
        answer = api.ask("ec2:DescribeCapacityReservations", CapacityReservationIds=ids)["CapacityReservations"]
    except AwsUnansweredError as error:
        return tuple(Ending(group, reservation, "", str(error)) for group, reservation in held)
    ends = {each["CapacityReservationId"]: each.get("EndDate") for each in answer}
    return tuple(
        Ending(
            group, reservation, _minute(ends.get(reservation)), "" if reservation in ends else "AWS does not list it"
        )
        for group, reservation in held
        if reservation not in ends or ends[reservation]
    )


def refusals(cluster: str, region: str, groups: Sequence[str]) -> tuple[Refusal, ...]:
    """Return the reasons that AWS gives when groups have fewer instances than they want.

    Report a call that is not permitted.
    """
    api = Api(region)
    try:
        all_ = api.ask(_GROUPS, **_of_cluster(cluster))["AutoScalingGroups"]
        known = [(group, each) for each in all_ if (group := tags_of(each).get(tags.GROUP, "")) in groups]
        lasts = [(group, _last_refused(api, each["AutoScalingGroupName"])) for group, each in known]
    except AwsUnansweredError as error:
        return tuple(Refusal(group, "", str(error), lasting=False, hint="") for group in groups)
    return (
        *(_refused(group, _minute(_begun(last)), last["StatusMessage"]) for group, last in lasts if last),
        *(found for group, each in known for found in _suspended(group, each, region)),
        *(_without_head(machines(api, cluster), region) if CONTROLLER in groups else ()),
    )


def _suspended(group: str, known: Mapping[str, Any], region: str) -> Iterator[Refusal]:
    """Report a group whose launches AWS has suspended.

    AWS does so after a day of failed launches (Amazon EC2 Auto Scaling User Guide, "Suspend and resume a process", on
    administrative suspension, read 2026-11-26).
    """
    for each in known.get("SuspendedProcesses", ()):
        if each["ProcessName"] == "Launch":
            said = ": ".join(filter(None, ("it does not start machines any more", each.get("SuspensionReason"))))
            of = f"--auto-scaling-group-name {known['AutoScalingGroupName']} --scaling-processes Launch"
            hint = f"aws autoscaling resume-processes --region {region} {of}; {_AGAIN}"
            yield Refusal(group, "", shortened(said, _WHY_CHARACTERS_MAX), lasting=False, hint=hint)


def _without_head(found: Sequence[ClusterInstance], region: str) -> Iterator[Refusal]:
    """Report a terminated head.

    The head belongs to the engine, which uses its last known state. No Auto Scaling group starts another one.
    """
    own = [each for each in found if each.group == CONTROLLER]
    if any(each.state in THERE for each in own):
        return
    hint = "pulumi up --refresh makes another one; the state of the head is on its volume"
    if stopped := [each.id for each in own if each.state.startswith("stop")]:
        hint = f"aws ec2 start-instances --region {region} --instance-ids {' '.join(stopped)}; {_AGAIN}"
    why = ", ".join(f"{each.id} is {each.state}" for each in own) or "AWS lists no machine of it"
    yield Refusal(CONTROLLER, "", why, lasting=False, hint=hint)


def _of_cluster(cluster: str) -> dict[str, Any]:
    return {"Filters": [{"Name": f"tag:{tags.CLUSTER}", "Values": [cluster]}]}


def node_refusals(cluster: str, region: str, groups: Sequence[str]) -> tuple[Refusal, ...]:
    """Return the refusals for groups whose nodes EKS starts, from the health issues of their node groups."""
    api, of = Api(region), {"clusterName": cluster}
    try:
        names = api.ask("eks:ListNodegroups", **of)["nodegroups"]
        known = [api.ask("eks:DescribeNodegroup", **of, nodegroupName=name)["nodegroup"] for name in names]
    except AwsUnansweredError as error:
        return tuple(Refusal(group, "", str(error), lasting=False, hint="") for group in groups)
    return tuple(
        refusal
        for each in known
        if (group := each.get("tags", {}).get(tags.GROUP, "")) in groups
        for refusal in (
            *(_of_health(group, issue) for issue in each.get("health", {}).get("issues", ())),
            *([_never_made(group, each["nodegroupName"])] if each.get("status") == _NEVER_MADE else []),
        )
    )


def _never_made(group: str, name: str) -> Refusal:
    """Report a node group that EKS could not create.

    It keeps this state, and the engine takes it for created (terraform-provider-aws 39904, read 2026-11-27).
    """
    hint = "repair that, then replace it: `pulumi stack --show-urns` shows the URN of its "
    hint += "aws:eks/nodeGroup:NodeGroup, and pulumi up --replace URN makes it"
    return Refusal(group, "", f"EKS could not make {name}, and does not try again", lasting=True, hint=hint)


def _of_health(group: str, issue: Mapping[str, Any]) -> Refusal:
    """Return the refusal for one health issue.

    For a failed launch the message is EC2's reason. Issues have no time, and may be old.
    """
    said, code = issue.get("message", ""), issue.get("code", "")
    hint = _refused(group, "", said).hint if code == _NOT_LAUNCHED else _AGAIN
    return Refusal(group, "", shortened(f"{code}: {said}", _WHY_CHARACTERS_MAX), lasting=False, hint=hint)


def _last_refused(api: Api, name: str) -> Mapping[str, Any] | None:
    """Return the last launch that failed, unless a launch has succeeded since."""
    most = {"MaxItems": _ACTIVITIES_MAX}
    asked = api.ask("autoscaling:DescribeScalingActivities", AutoScalingGroupName=name, PaginationConfig=most)
    launches = [each for each in asked["Activities"] if not each.get("Description", "").startswith("Terminating")]
    failed = [each for each in launches if each["StatusCode"] in _NOT_STARTED and each.get("StatusMessage")]
    last = max(failed, key=_begun, default=None)
    went = [each for each in launches if each["StatusCode"] == "Successful"]
    return None if not last or any(_begun(each) - _begun(last) > _AT_ONCE for each in went) else last


def _begun(activity: Mapping[str, Any]) -> datetime:
    at: datetime = activity["StartTime"]
    return at


def _refused(group: str, at: str, said: str) -> Refusal:
    why = shortened(said, _WHY_CHARACTERS_MAX)
    found = next((each for each in (*_PASSING, *_LASTING) if each.search(why)), None)
    hint = {**_PASSING, **_LASTING}[found] if found else _AGAIN
    return Refusal(group, at, why, found in _LASTING, hint)


def _minute(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}" if at else ""


def join(cluster: str, region: str, names: Mapping[str, Sequence[str]]) -> None:
    """Name the instances that a group has started, and let groups replace dead ones.

    If two instances have the same name, because they joined at once, the older one keeps it. Callers that wait for an
    instance call this again, so that instances unknown to AWS are left to the next call.
    """
    api = Api(region)
    found = machines(api, cluster)
    with _later():
        _start_anew(api, cluster, found)
    there = sorted((each for each in found if each.state in THERE), key=_age)
    with _later():
        for group, wanted in names.items():
            for machine, name in _unnamed([each for each in there if each.group == group], wanted):
                _tag(api, machine, {tags.NODE: name, "Name": f"{cluster}-{name}"})
    with _later():
        _show_keys(api, there)


def retag(cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
    """Write the cost tags on running instances, too. Groups and launch templates tag only instances that start.

    Tag volumes and NICs together with their instance: the tags of the instance then say what is left to do.
    """
    api = Api(region)
    for each in (each for each in machines(api, cluster) if each.state in THERE):
        what, all_ = f"cannot write the billing tags of {each.id} of {each.group}", [*each.volumes, *each.nics, each.id]
        with _later():  # ignore an instance that has just ended
            if left := [{"Key": name} for name, _ in each.tags if name in gone]:
                api.need(what, "ec2:DeleteTags", Resources=all_, Tags=left)
            if not wanted.items() <= each.tags:
                put_tags(api, what, all_, wanted)


def _show_keys(api: Api, there: Sequence[ClusterInstance]) -> None:
    """Write the host key on the console as a tag of its instance, which makes it a node."""
    booting = [each for each in there if each.state == "running" and not KEY.fullmatch(each.host_key)]
    shown = [(each, shown_key(api, each.id)) for each in booting]
    booted = [(each, key) for each, key in shown if key and tags.was(key) != each.host_key]
    places = _places(api, [each.id for each, _ in booted])
    for machine, key in booted:
        # The template of the others tags their NICs; the Instance resource does not. Volumes have their own tags.
        if machine.nics and not (machine.in_group or machine.elastic):
            put_tags(api, f"cannot write the tags of the NICs of {machine.id}", machine.nics, _lasting(machine))
        _tag(api, machine, {tags.PLACES: places.get(machine.id, ""), tags.HOST_KEY: key})


def _lasting(machine: ClusterInstance) -> dict[str, str]:
    """Return the tags of an instance that all resources of its cluster have."""
    foreign = ("aws:", "stampworks:")
    return {key: value for key, value in machine.tags if key in _EVERYWHERE or not key.startswith(foreign)}


@contextlib.contextmanager
def _later() -> Iterator[None]:
    """AWS is eventually consistent: ignore errors about an instance that is not known yet, or no longer."""
    try:
        yield
    except (AwsError, AwsUnansweredError) as error:
        if not _is_late(error):
            raise


def _is_late(error: AwsError | AwsUnansweredError) -> bool:
    return bool(_LATE.search(f"{error.code} {error}"))


def misplaced(cluster: str, region: str, always: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the nodes whose instance has to end: static ones that need not run, and elastic ones that are now
    static."""
    return sorted({each.node for each in _misplaced(Api(region), cluster, always)})


def dismiss(cluster: str, region: str, always: Mapping[str, Sequence[str]], names: Iterable[str]) -> None:
    """End the instances of these nodes if they are misplaced.

    Their group wants fewer by now, and replaces none.
    """
    leaving, api = set(names), Api(region)
    with _later():  # ignore an instance that has just ended
        end(api, [each for each in _misplaced(api, cluster, always) if each.node in leaving])


def _misplaced(api: Api, cluster: str, always: Mapping[str, Sequence[str]]) -> list[ClusterInstance]:
    """Return the misplaced instances of the groups in `always`.

    An unwanted elastic instance ends when Slurm has forgotten it.
    """
    there = [each for each in machines(api, cluster) if each.node and each.state in THERE and each.group in always]
    return [each for each in there if each.elastic == (each.node in always[each.group])]


def end_elastic(cluster: str, region: str, group: str) -> list[str]:
    """End the elastic instances of a group, and return those that are not gone yet.

    The resources that an instance uses stay until it is gone.
    """
    api = Api(region)
    left = [each for each in machines(api, cluster) if each.group == group and each.elastic]
    left = [each for each in left if each.state != "terminated"]
    if running := [each.id for each in left if each.state != "shutting-down"]:
        api.need(f"cannot end elastic nodes of {group}", "ec2:TerminateInstances", InstanceIds=running)
    return sorted(each.node or each.id for each in left)


def _places(api: Api, ids: Sequence[str]) -> dict[str, str]:
    """Return the position of each instance in AWS's network.

    AWS gives none for small instances, and none without permission.
    """
    what, found = "cannot read the places of machines in the network", list[Mapping[str, Any]]()
    for some in batched(ids, _ASKED_AT_ONCE):
        try:
            found += api.need(what, "ec2:DescribeInstanceTopology", InstanceIds=list(some))["Instances"]
        except AwsError as error:
            # otherwise raise: an empty tag would stay, although the instance has a position
            if error.code not in NOT_PERMITTED | _NOT_OFFERED:
                raise
    return {each["InstanceId"]: " ".join(each["NetworkNodes"]) for each in found}


def _start_anew(api: Api, cluster: str, found: Sequence[ClusterInstance]) -> None:
    """Have groups replace their dead instances.

    A group counts a dead instance as its own until told otherwise, because its own replacement is suspended. EC2 lists
    an instance for an hour after its end, also when the group has released it. After that only the group lists it.
    """
    shown = {each.id: each.state for each in found}
    known = api.need("cannot list dead machines that their groups still count", _GROUPS, **_of_cluster(cluster))
    for group in known["AutoScalingGroups"]:
        for each in (one for one in group["Instances"] if not one["LifecycleState"].startswith(_GOING)):
            id_ = each["InstanceId"]
            if shown[id_] in _DEAD if id_ in shown else each["HealthStatus"] != "Healthy":
                end_of_group(api, id_, id_, tags_of(group).get(tags.GROUP, ""))


def _unnamed(machines_: Sequence[ClusterInstance], wanted: Sequence[str]) -> Iterator[tuple[ClusterInstance, str]]:
    """Yield each instance that joins, with its name.

    Assign both in order: instances by start, names as wanted. Elastic instances hold no name.
    """
    holder: dict[str, ClusterInstance] = {}
    joining = []
    for each in (each for each in machines_ if each.in_group):
        if each.node and each.node not in holder:
            holder[each.node] = each
        else:
            joining.append(each)
    yield from zip(joining, (name for name in wanted if name not in holder), strict=False)


def _tag(api: Api, machine: ClusterInstance, of: Mapping[str, str]) -> None:
    put_tags(api, f"cannot write the name of {machine.id} of {machine.group}", [machine.id], of)


def _age(machine: ClusterInstance) -> tuple[str, str]:
    return machine.started, machine.id


def _member(machine: ClusterInstance) -> Member:
    return Member(
        name=machine.node,
        group=machine.group,
        instance=machine.instance,
        address=machine.address,
        # an address on a card is for IP over EFA: no plan knows the NIC's name on the node, so no program can use it
        rail_addresses=("",) * len(machine.rail_addresses),
        host_key=machine.host_key,
        target=machine.id,
        places=tuple(machine.places.split()) or None,
    )


def _session(region: str) -> tuple[str, ...]:
    """Return the proxy command of ssh: a tunnel of Systems Manager. No port of the node is open."""
    how = ("--document-name", "AWS-StartSSHSession", "--parameters", "portNumber=%p")
    return ("aws", "ssm", "start-session", "--region", region, "--target", "%h", *how)


def _identity_file(cluster: str, region: str) -> str:
    """Return the file with the ssh key of the cluster.

    The key is in Systems Manager, where IAM policies control access.
    """
    what, name = f"cannot read the key that logs in to cluster {cluster}", tags.identity_parameter(cluster)
    answer = Api(region).need(what, "ssm:GetParameter", Name=name, WithDecryption=True)
    text = answer["Parameter"]["Value"].rstrip("\n") + "\n"
    file = paths.state_dir() / "aws" / region / cluster / "identity"
    if not file.is_file() or file.read_text() != text:
        _write_private(file, text)
    return str(file)


def _write_private(file: Path, text: str) -> None:
    """Write a file atomically and readable by its owner only."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
    Path(name).replace(file)
