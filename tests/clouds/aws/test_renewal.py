"""Nodes of AWS with an outdated image or template get a new disk or machine: node by node, and in a roll."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from stampworks import operations
from stampworks.clouds.aws import members, renewal, tags
from stampworks.clouds.aws.errors import AwsError
from stampworks.clouds.aws.session import Api
from stampworks.operations.ground import NodeStanding
from stampworks.plan import Plan, Roster
from stampworks.text.reasons import DrainReason

from tests.clouds.aws import booting
from tests.clouds.aws.booting import boot, key
from tests.clouds.aws.machines import (
    ALONE,
    AT,
    CLUSTER,
    CONTENT,
    NAMES,
    STOCK_OUT,
    Boots,
    ids,
    join,
    launch,
    planned,
    stamped,
    start,
    start_head,
    tag,
    with_launch,
)
from tests.clouds.aws.simulated import REGION, Simulated

pytestmark = pytest.mark.usefixtures("groups")


def test_nothing_is_outdated_when_nothing_has_changed(aws: Simulated, plan: Plan) -> None:
    stamped(aws, plan)
    assert renewal.outdated(plan, CONTENT) == {}


def test_another_image_is_another_disk_and_the_machine_stays(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rare marks are kept. The key that the console still shows is not taken for that of the new disk."""
    before, new, boots = stamped(aws, plan), with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    late = renewal.outdated(new, CONTENT)
    assert late == dict.fromkeys(("gpu-001", "gpu-002"), "its disk was made from another image")
    renewal.renew(new, CONTENT, ["gpu-002"], boots.said.append)
    after = members.members(CLUSTER, REGION)
    assert [each.target for each in after.members] == [each.target for each in before.members]
    assert after.members[0] == before.members[0]
    assert after.members[1].host_key == key(101)
    assert after.members[1].instance != before.members[1].instance
    disk = after.members[1].instance.partition("/")[2]
    [volume] = aws.client("ec2").describe_volumes(VolumeIds=[disk])["Volumes"]
    assert {each["Key"]: each["Value"] for each in volume["Tags"]} == {
        **tags.cost_tags(plan),
        tags.GROUP: "gpu",
        "Name": f"{CLUSTER}-gpu",
    }
    assert boots.said[0] == f"gpu-002: a new disk for {after.members[1].target}"
    assert "waiting for gpu-002" in boots.said
    assert list(renewal.outdated(new, CONTENT)) == ["gpu-001"]
    assert sorted(renewal.outdated(plan, "other content")) == ["gpu-001", "gpu-002"]


@pytest.mark.parametrize(
    "of_image",
    [
        {"user": "ubuntu"},
        {"root_device": "/dev/sda1"},
        {"published_image": "/other"},
        {"agent": "https://elsewhere/9.deb"},
    ],
)
def test_image_fields_are_not_part_of_the_machine(plan: Plan, of_image: dict[str, Any]) -> None:
    """Otherwise another release would end machines that may not be available again."""
    machine = tags.of_machine(tags.template(plan.pools[0], plan.release, CONTENT))
    other = with_launch(plan, image="ami-2", **of_image).pools[0]
    assert tags.of_machine(tags.template(other, plan.release, CONTENT)) == machine
    for kept in ({"disk_gib": 300}, {"agent": ""}, {"instance_type": "p5.48xlarge"}):
        other = with_launch(plan, **kept).pools[0]
        assert tags.of_machine(tags.template(other, plan.release, CONTENT)) != machine


@pytest.mark.parametrize("changed", [{"image": "ami-2"}, {"disk_gib": 300}])
@pytest.mark.long
def test_a_roll_waits_until_aws_shows_what_it_has_done(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """An outdated answer is not taken for the new state, and no node is renewed twice."""
    before, new, boots = stamped(aws, plan), with_launch(plan, **changed), Boots(aws, monkeypatch)
    renewal.outdated(new, CONTENT)
    ask = Api.ask

    def asked(self: Api, action: str, **parameters: Any) -> dict[str, Any]:
        answer = ask(self, action, **parameters)
        if action.partition(":")[2] in ("CreateReplaceRootVolumeTask", "TerminateInstanceInAutoScalingGroup"):
            aws.lag("ec2:DescribeInstances", times=4)
        return answer

    monkeypatch.setattr(Api, "ask", asked)
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION)
    assert after.members[0].instance != before.members[0].instance
    assert after.members[1] == before.members[1]
    done = [each for each in aws.calls if each.endswith(("CreateReplaceRootVolumeTask", "InAutoScalingGroup"))]
    assert len(done) == 1


def test_another_template_is_another_machine(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template of a machine cannot change: its group starts another one, which takes over the name."""
    before, new, boots = stamped(aws, plan), with_launch(plan, disk_gib=300), Boots(aws, monkeypatch)
    assert renewal.outdated(new, CONTENT)["gpu-001"] == "its machine was started from another template"
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION)
    assert [each.name for each in after.members] == ["gpu-001", "gpu-002"]
    assert after.members[0].target != before.members[0].target
    assert after.members[1] == before.members[1]
    assert len(ids(aws)) == 2


def test_why_a_node_does_not_come_back_is_said(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is shown while the `up` waits for the group's machine, and at the end."""
    stamped(aws, plan)
    new, said = with_launch(plan, disk_gib=300), list[str]()
    monkeypatch.setattr(renewal, "PATIENCE_S", 1)
    monkeypatch.setattr(renewal, "time", SimpleNamespace(monotonic=count().__next__, sleep=lambda _: None))
    aws.tried("gpu", AT, STOCK_OUT)
    with pytest.raises(AwsError) as caught:
        renewal.renew(new, CONTENT, ["gpu-001"], said.append)
    assert f"waiting for gpu-001; gpu, tried at 2026-11-25T20:31Z: {STOCK_OUT}" in said
    why = f"AWS {REGION}: gpu-001 have not come back: gpu, tried at 2026-11-25T20:31Z: {STOCK_OUT}\n"
    assert str(caught.value).startswith(
        f"{why}  hint: run pulumi up again: it continues from here, when there are some; sooner may"
    )


def test_login_nodes_are_found_and_made_anew_like_the_others(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Login nodes have names, a group and disks, like nodes with jobs."""
    plan = planned(login_nodes=1)
    start(aws, plan)
    start(aws, plan, count=1, group="login")
    for number, each in enumerate(ids(aws)):
        boot(each, number)
    before = join({**NAMES, "login": ("login-001",)})
    assert [(each.name, each.group) for each in before.members][-1] == ("login-001", "login")
    assert renewal.outdated(plan, CONTENT) == {}
    renewal.condemn(plan, ["login-001"], "alice says: full disk")
    assert renewal.outdated(plan, CONTENT) == {"login-001": "alice says: full disk"}
    new, boots = with_launch(plan, disk_gib=300), Boots(aws, monkeypatch)
    renewal.renew(new, CONTENT, ["login-001"], boots.said.append)
    after = {each.name: each for each in members.members(CLUSTER, REGION).members}
    assert [after[each.name].target == each.target for each in before.members] == [True, True, False]


def test_condemned_node_is_outdated_until_renewed(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image does not matter, and the request can be cancelled."""
    boots = (stamped(aws, plan), Boots(aws, monkeypatch))[1]
    renewal.condemn(plan, ["gpu-001", "gpu-002"], "alice says: fans")
    assert renewal.outdated(plan, CONTENT) == dict.fromkeys(("gpu-001", "gpu-002"), "alice says: fans")
    renewal.condemn(plan, ["gpu-002"], "")
    renewal.renew(plan, CONTENT, ["gpu-001"], boots.said.append)
    assert renewal.outdated(plan, CONTENT) == {}


@pytest.mark.parametrize(
    "call", ["CreateTags", "DescribeReplaceRootVolumeTasks", "CreateReplaceRootVolumeTask", "DeleteTags"]
)
@pytest.mark.long
def test_a_roll_that_ends_anywhere_is_gone_on_with(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The next roll finds the node outdated or finished; nothing is lost, and keys of deleted disks are removed."""
    stamped(aws, plan)
    new, boots = with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    aws.fail(f"ec2:{call}", "UnauthorizedOperation", times=1)
    with pytest.raises(
        AwsError, match=r"cannot (?=.*gpu-001 \(i-[0-9a-f]+\)).*new disk.*: ec2:[A-Za-z]+: not permitted"
    ):
        renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    boots.boot(0)
    join()
    if late := [name for name in renewal.outdated(new, CONTENT) if name == "gpu-001"]:
        renewal.renew(new, CONTENT, late, boots.said.append)
    found = {each.name: each for each in join().members}
    assert "gpu-001" not in renewal.outdated(new, CONTENT)
    shown = booting.CONSOLES[found["gpu-001"].target]
    assert shown.rstrip().endswith("login:")
    assert found["gpu-001"].host_key == shown.rsplit("ssh-ed25519", 1)[1].join(["ssh-ed25519", ""]).split(" root@")[0]


def test_nodes_that_do_not_return_are_named(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped(aws, plan)
    monkeypatch.setattr(renewal, "PATIENCE_S", 0.05)
    with pytest.raises(AwsError) as caught:
        renewal.renew(with_launch(plan, image="ami-2"), CONTENT, ["gpu-001", "gpu-002"], lambda _: None)
    assert str(caught.value) == (
        "AWS us-east-1: gpu-001, gpu-002 have not come back: their console has shown no host key for 0 min\n"
        "  hint: the machine's console in EC2 shows its progress, and whether the image boots; then run the same "
        "command again"
    )


def test_a_disk_that_aws_does_not_make_is_said(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the node at once; the others continue. The next `up` tries again, with the same or another
    image."""
    before, new, boots = stamped(aws, plan), with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    booting.REFUSED.add("ami-2")
    with pytest.raises(AwsError) as caught:
        renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    task = booting.TASKS[-1]["ReplaceRootVolumeTaskId"]
    assert str(caught.value) == (
        f"AWS us-east-1: gpu-001 got no new disk: gpu-001: AWS says of {task}, the replacement: failed\n"
        "  hint: check that the image exists and fits the machine, and run pulumi up, which tries again; for "
        "another machine first: stampworks roll gpu-001 --machine --reason TEXT"
    )
    assert renewal.outdated(plan, CONTENT) == {"gpu-001": "its new disk is not attached yet"}
    renewal.renew(plan, CONTENT, ["gpu-001"], boots.said.append)
    assert renewal.outdated(plan, CONTENT) == {}
    assert [each.target for each in join().members] == [each.target for each in before.members]


def test_a_disk_that_is_on_its_way_is_waited_for(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The requesting process was killed: the replacement is not requested twice."""
    stamped(aws, plan)
    new, boots = with_launch(plan, image="ami-2"), Boots(aws, monkeypatch)
    booting.BROKEN.add("ami-2")
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "PATIENCE_S", 0.05)
        with pytest.raises(AwsError, match="gpu-001 have not come back"):
            renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    booting.BROKEN.clear()
    booting.TASKS[-1]["TaskState"] = "in-progress"
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    assert aws.calls.count("ec2:CreateReplaceRootVolumeTask") == 1
    assert "gpu-001" not in renewal.outdated(new, CONTENT)


def test_a_machine_that_is_broken_itself_goes(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user requests it: its disk is current, so that a new disk would not help."""
    before, boots = stamped(aws, plan), Boots(aws, monkeypatch)
    renewal.condemn(plan, ["gpu-001"], "alice says: a dead GPU", machine=True)
    assert renewal.outdated(plan, CONTENT) == {"gpu-001": "another machine: alice says: a dead GPU"}
    renewal.renew(plan, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION).members
    assert after[0].name == "gpu-001"
    assert after[0].target != before.members[0].target
    assert after[1] == before.members[1]
    assert renewal.outdated(plan, CONTENT) == {}


def test_ended_instance_is_not_confused_with_its_successor(aws: Simulated, plan: Plan) -> None:
    """EC2 lists an ended elastic machine for an hour. No request names an instance that EC2 may have forgotten."""
    stamped(aws, plan)
    [alone] = aws.client("ec2").run_instances(ImageId=aws.publish("/test/gone"), MinCount=1, MaxCount=1)["Instances"]
    gone = alone["InstanceId"]
    tag(aws, gone, CLUSTER=CLUSTER, GROUP="gpu", NODE="gpu-001", ELASTIC="1")
    aws.client("ec2").terminate_instances(InstanceIds=[gone])
    renewal.condemn(plan, ["gpu-001"], "alice says: a dead GPU", machine=True)
    assert renewal.outdated(plan, CONTENT) == {"gpu-001": "another machine: alice says: a dead GPU"}
    [listed] = aws.client("ec2").describe_instances(InstanceIds=[gone])["Reservations"][0]["Instances"]
    assert tags.CONDEMNED not in {each["Key"] for each in listed["Tags"]}


def test_node_keeps_its_disk_when_the_image_needs_a_smaller_one(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS cannot shrink a disk, and such machines may not be available again."""
    before, boots = stamped(aws, plan), Boots(aws, monkeypatch)
    new = with_launch(plan, image=aws.publish("/test/small"))
    with pytest.raises(AwsError) as caught:
        renewal.renew(new, CONTENT, ["gpu-001", "gpu-002"], boots.said.append)
    why = f"the disk of {launch(new.pools[0].launch).image} has 15 GiB, and its own 200"
    assert str(caught.value) == (
        f"AWS us-east-1: cannot give gpu-001, gpu-002 a new disk: gpu-001: {why}\n  gpu-002: {why}\n"
        "  hint: make the image anew, with a disk as large as stampworks image --packer says; or let them have other "
        "machines: stampworks roll gpu-001 gpu-002 --machine --reason TEXT"
    )
    assert members.members(CLUSTER, REGION) == before
    renewal.condemn(new, ["gpu-001"], "alice says: take it", machine=True)
    renewal.renew(new, CONTENT, ["gpu-001"], boots.said.append)
    after = members.members(CLUSTER, REGION).members
    assert [after[0].target != before.members[0].target, after[1]] == [True, before.members[1]]


def test_a_login_node_whose_new_disk_would_be_smaller_gets_another_machine(
    aws: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(login_nodes=1)
    start(aws, plan, count=1, group="login")
    boot(ids(aws)[0], 1)
    [before] = join({"login": ("login-001",)}).members
    new, boots = with_launch(plan, image=aws.publish("/test/small")), Boots(aws, monkeypatch)
    renewal.renew(new, CONTENT, ["login-001"], boots.said.append)
    [after] = members.members(CLUSTER, REGION).members
    assert after.target != before.target
    why = f"the disk of {launch(new.pools[0].launch).image} has 15 GiB, and its own 200"
    assert boots.said[0] == f"login-001: another machine for {before.target}: {why}"


def test_an_image_that_is_gone_hides_nothing_of_another(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for both ids fails in AWS when one is unknown, and succeeds in moto."""
    aws.fail("ec2:DescribeImages", "InvalidAMIID.NotFound", "The image id does not exist", where="ImageId.2")
    stamped(aws, plan)
    small = aws.publish("/test/small")
    [first, *others] = with_launch(plan, image=small).groups
    new = replace(plan, groups=(replace(first, launch=replace(launch(first.launch), image="ami-gone")), *others))
    boot(start_head(aws, new), 7)
    renewal.condemn(new, ["head"], "alice says: full disk")
    with pytest.raises(AwsError, match=f"cannot give gpu-001 a new disk: gpu-001: the disk of {small} has 15 GiB"):
        renewal.renew(new, CONTENT, ["gpu-001", "head"], Boots(aws, monkeypatch).said.append)


def test_the_head_gets_a_new_disk_where_somebody_says_so(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other changes of the head belong to the engine, and its machine is never replaced implicitly."""
    head = start_head(aws, plan)
    boot(head, 7)
    stamped(aws, plan)
    assert renewal.outdated(plan, CONTENT) == {}
    assert "head" not in renewal.outdated(with_launch(plan, image="ami-2", disk_gib=300), CONTENT)
    with pytest.raises(AwsError) as caught:
        renewal.condemn(plan, ["gpu-001", "head"], "alice says: fans", machine=True)
    assert str(caught.value) == (
        "AWS us-east-1: cannot mark gpu-001, head for renewal: head is in no group that "
        "would start another machine\n  hint: `pulumi stack --show-urns` shows the URN of its "
        "aws:ec2/instance:Instance; run pulumi up --replace URN"
    )
    renewal.condemn(plan, ["head"], "alice says: full disk")
    assert renewal.outdated(plan, CONTENT) == {"head": "alice says: full disk"}
    boots = Boots(aws, monkeypatch)
    renewal.renew(plan, CONTENT, ["head"], boots.said.append)
    found = {each.name: each for each in members.members(CLUSTER, REGION).members}["head"]
    assert (found.target, found.host_key) == (head, key(101))
    assert renewal.outdated(plan, CONTENT) == {}


# -- a whole roll


class Scheduler:
    """Stand-in for the scheduler of a roll; it answers once a playbook has been on its head."""

    def __init__(self, aws: Simulated, monkeypatch: pytest.MonkeyPatch, head: str) -> None:
        self.aws, self.head, self.happened = aws, head, list[str]()
        self.reasons: dict[str, DrainReason] = {}
        self.roster: Roster | None = None
        module = importlib.import_module(
            "stampworks.operations.roll"
        )  # the package exports a function of the same name
        monkeypatch.setattr(module, "service_of", self.of)
        monkeypatch.setattr(members, "POLL_S", 0)

    def of(self, _: Plan, roster: Roster) -> Scheduler:
        self.roster = roster
        return self

    def look(self) -> dict[str, NodeStanding]:
        there = {each.name: each for each in self.roster.members} if self.roster else {}
        if "head" not in there or there["head"].target != self.head:
            raise operations.OperationError("nobody answers", "look there")
        held = self.reasons
        return {name: NodeStanding(held=held.get(name), out="held" if name in held else "") for name in NAMES["gpu"]}

    def held(self, names: Collection[str]) -> dict[str, DrainReason | None]:
        return {name: self.reasons.get(name) for name in names}

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        self.reasons |= reasons

    def give_back_own(self, names: Collection[str]) -> None:
        for name in names:
            self.reasons.pop(name, None)

    def requeue(self, *_: object) -> None:
        raise AssertionError("nobody asked for it")

    def wait_until_free(self, *_: object) -> None:
        """Return at once: no jobs run."""

    await_answers = take_in = wait_until_free

    def play(self, roster: Roster, hosts: Collection[str]) -> None:
        """Run the playbook: all hosts must exist, and Slurm must know all others."""
        assert [each.name for each in roster.members] == ["gpu-001", "gpu-002", "head"]
        for each in roster.members:
            if each.name in hosts:
                assert each.host_key.split()[1] in booting.CONSOLES[each.target].rpartition("-----BEGIN")[2]
        if "head" in hosts:
            self.head = next(each.target for each in roster.members if each.name == "head")
        self.happened.append(f"play {','.join(hosts)}")

    def roll(self, plan: Plan) -> None:
        plan = replace(plan, proof=replace(plan.proof, level="none"))
        order = operations.Order(plan, CONTENT, "programs", "fingerprint")
        operations.roll(order, None, self.happened.append, self.play, lambda _: None)

    def did(self) -> list[str]:
        """Return the actions without progress messages."""
        done, self.happened[:] = [each for each in self.happened if not each.startswith(("waiting", "head: "))], []
        return done


def with_head(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> tuple[Scheduler, Roster]:
    head = start_head(aws, plan)
    boot(head, 7)
    return Scheduler(aws, monkeypatch, head), stamped(aws, plan)


@pytest.mark.long
def test_a_new_image_is_one_up(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine has replaced the head a moment ago, and the pool is outdated since: the roll waits for the head."""
    slurm, before = with_head(aws, plan, monkeypatch)
    old, new = before.members[2].target, with_launch(plan, image="ami-2")
    Boots(aws, monkeypatch)
    aws.client("ec2").terminate_instances(InstanceIds=[old])
    ALONE.remove(old)
    head = start_head(aws, new)
    slurm.roll(new)
    assert [each for each in slurm.did() if each.startswith("play")] == ["play head", "play gpu-001", "play gpu-002"]
    after = members.members(CLUSTER, REGION)
    assert [each.target for each in after.members] == [*(each.target for each in before.members[:2]), head]
    assert renewal.outdated(new, CONTENT) == {}
    assert slurm.reasons == {}


@pytest.mark.long
def test_an_image_that_does_not_boot_stops_it_and_one_up_goes_back(
    aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single node is out of service then. The previous image renews it first, and leaves the other nodes
    unchanged."""
    slurm, before = with_head(aws, plan, monkeypatch)
    Boots(aws, monkeypatch)
    booting.BROKEN.add("ami-2")
    with monkeypatch.context() as patch:
        patch.setattr(renewal, "PATIENCE_S", 0.05)
        with pytest.raises(operations.RollStoppedError) as caught:
            slurm.roll(with_launch(plan, image="ami-2"))
    assert str(caught.value) == (
        "the roll has stopped: AWS us-east-1: gpu-001 have not come back: their console has shown no host key for 0 "
        "min\n  unchanged: gpu-002\n  hint: the machine's console in EC2 shows its progress, and whether the "
        "image boots; then run the same command again; to go back, undo the change and run pulumi up"
    )
    slurm.did()
    slurm.roll(plan)
    target = before.members[0].target
    assert slurm.did() == [
        *("renewing gpu-001: its new disk is not attached yet", f"gpu-001: a new disk for {target}", "play head"),
        *("gpu-001: begun earlier", "play gpu-001"),
    ]
    after = members.members(CLUSTER, REGION)
    assert [each.target for each in after.members] == [each.target for each in before.members]
    assert after.members[1:] == before.members[1:]
    assert renewal.outdated(plan, CONTENT) == {}
    assert slurm.reasons == {}
