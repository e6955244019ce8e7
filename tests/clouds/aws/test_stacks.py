"""Requests of the example stacks to AWS, in the real engine with providers that only record."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pytest
from stampworks import planning
from stampworks.clouds.aws import alarms
from stampworks.clouds.aws.nodes import interface_type, may_start
from stampworks.clouds.aws.place import zone_beside
from stampworks.declaration import load_stack, load_value
from stampworks.plan import Group, Interface, Plan
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.rehearsal import load_scenario, read_stack
from stampworks.rehearsal.stack import changed

from .conftest import CHANGES, EKS, REHEARSED, ROOT, Rehearse, Rehearsed

pytestmark = pytest.mark.engine
GOLDEN = Path(__file__).parent / "golden"
MADE_FROM = re.compile(r"\b[0-9a-f]{12}-[0-9a-f]{12}\b")
BY_EC2 = {"kms:ViaService": "ec2.*"}
HOLDS_DATA = {"Bucket", "FileSystem", "Keyring", "LustreFileSystem", "OpenZfsFileSystem", "Volume"}


@pytest.fixture(params=REHEARSED.values())
def rehearsed(request: pytest.FixtureRequest, rehearse: Rehearse) -> Rehearsed:
    return rehearse(request.param)


@pytest.fixture
def plan(rehearsed: Rehearsed) -> Plan:
    return planning.plan(load_stack(rehearsed.stack, ROOT / "stacks"))


def test_requests_to_aws_match_golden_files(rehearsed: Rehearsed, request: pytest.FixtureRequest) -> None:
    """The golden file has all requests; `--regenerate` writes it again. Digests of nodes are left out."""
    text = MADE_FROM.sub("a template", json.dumps(rehearsed.made, indent=1, sort_keys=True) + "\n")
    assert ("a template" in text) is (rehearsed.stack != EKS)  # these nodes are not renewed by our roll
    file = GOLDEN / f"{rehearsed.stack}.json"
    if request.config.getoption("--regenerate"):
        file.write_text(text)
    assert text.splitlines() == file.read_text().splitlines()


def test_disks_and_metadata_are_guarded(rehearsed: Rehearsed) -> None:
    """Disks are encrypted, and metadata is read with a token, on the machine alone."""
    for there in (rehearsed, rehearsed.with_changes()):
        assert all(each["encrypted"] for kind in ("Volume", "FileSystem") for each in there.of(kind))
        assert len(there.of("DefaultSecurityGroup")) == 1
        machines = [each for each in there.of("Instance") if "engine" not in each]  # a database is called so, too
        launched = [each["metadataOptions"] for each in (*machines, *there.of("LaunchTemplate"))]
        assert {(each["httpTokens"], each["httpPutResponseHopLimit"]) for each in launched} == {("required", 1)}


def test_no_node_reads_its_tags(rehearsed: Rehearsed) -> None:
    """AWS would refuse such launches for EKS, whose tags have names that metadata does not support. Elastic nodes read
    theirs."""
    for there in (rehearsed, rehearsed.with_changes()):
        machines = [each for each in there.of("Instance") if "engine" not in each]
        launched = [each["metadataOptions"] for each in (*machines, *there.of("LaunchTemplate"))]
        assert {each["instanceMetadataTags"] for each in launched} == {"disabled"}


def test_efa_may_pass_between_nodes(rehearsed: Rehearsed) -> None:
    """The group allows all traffic to itself in both directions; otherwise EFA silently carries nothing."""
    template = rehearsed.template()
    [nodes] = {group for each in template["networkInterfaces"] for group in each["securityGroups"]}
    for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        own = [
            each
            for each in rehearsed.of(kind)
            if each["securityGroupId"] == nodes and each.get("referencedSecurityGroupId") == nodes
        ]
        assert [each["ipProtocol"] for each in own] == ["-1"]


def test_nics_are_where_the_plan_has_them(rehearsed: Rehearsed, plan: Plan) -> None:
    """A NIC has the node's address, and each card of the fabric has an EFA-only interface."""
    [pool], template = plan.pools, rehearsed.template()
    asked = [
        (each["networkCardIndex"], each["deviceIndex"], each["interfaceType"]) for each in template["networkInterfaces"]
    ]
    assert asked[0] == (0, 0, "interface")
    assert [kind for _, _, kind in asked[1:]] == ["efa-only"] * (pool.rails or 0)
    assert len({(card, device) for card, device, _ in asked}) == len(asked)


@pytest.mark.parametrize(
    ("fabric", "address", "kind"), [(False, True, "interface"), (True, False, "efa-only"), (True, True, "efa")]
)
def test_interface_types_of_nics(fabric: bool, address: bool, kind: str) -> None:
    assert interface_type(Interface("card1", card=1, device=1, fabric=fabric, address=address)) == kind


def test_how_machines_are_paid_for(rehearsed: Rehearsed, plan: Plan) -> None:
    """Reservations are targeted, and are in no group that could be asked for."""
    [pool], template = plan.pools, rehearsed.template()
    assert template.get("instanceMarketOptions") == (
        {"marketType": "capacity-block"} if pool.purchase == "block" else None
    )
    assert len(rehearsed.of("PlacementGroup")) == (0 if pool.reservation else 1)
    if pool.reservation:
        specified = template["capacityReservationSpecification"]
        assert specified["capacityReservationTarget"] == {"capacityReservationId": pool.reservation}


def test_nodes_without_a_way_out_reach_what_they_boot_with(rehearsed: Rehearsed, plan: Plan) -> None:
    """Endpoints serve nodes without egress; with egress no endpoint costs money."""
    services = {each["serviceName"].rpartition("us-")[2].partition(".")[2] for each in rehearsed.of("VpcEndpoint")}
    assert services == set(plan.network.endpoints)
    assert bool(rehearsed.of("NatGateway")) is (plan.network.egress == "nat")
    # these are reached by a route, outside of any security group: the nodes' own group has to allow them
    allowed = [each for each in rehearsed.of("SecurityGroupEgressRule") if "prefixListId" in each]
    assert [(each["toPort"], each["prefixListId"][:3]) for each in allowed] == [(443, "pl-")]


def test_a_bucket_is_shown_as_files(rehearsed: Rehearsed, plan: Plan) -> None:
    """Files deleted on the file system stay in the bucket."""
    shown = [each for each in plan.storage if each.repository]
    made = rehearsed.of("DataRepositoryAssociation")
    assert len(made) == len(shown)
    for each in made:
        assert each["dataRepositoryPath"].startswith(f"s3://{plan.name}-corpus-")
        assert each["fileSystemPath"] == "/"
        assert each["s3"]["autoExportPolicy"]["events"] == ["NEW", "CHANGED"]
        assert each["s3"]["autoImportPolicy"]["events"] == ["NEW", "CHANGED", "DELETED"]


def test_refused_traffic_may_be_logged(rehearsed: Rehearsed) -> None:
    """The flow log has its own group and the minimum of actions."""
    [log] = rehearsed.of("FlowLog")
    [group] = [each["role"] for each in rehearsed.of("RolePolicy") if "logs:DescribeLogGroups" in each["policy"]]
    [policy] = [json.loads(each["policy"]) for each in rehearsed.of("RolePolicy") if each["role"] == group]
    assert log["iamRoleArn"].endswith(f"role/{group}")
    own, listed = policy["Statement"]
    assert [*own["Action"], listed["Action"]] == [
        *("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
        "logs:DescribeLogGroups",
    ]
    assert own["Resource"] == [log["logDestination"], f"{log['logDestination']}:*"]


def test_files_are_saved_where_that_is_declared(rehearsed: Rehearsed, plan: Plan) -> None:
    """Backups exist only where declared, whatever AWS's default is."""
    declared = ["backups" in each.features for each in plan.storage if each.kind == "efs"]
    policies = [each["backupPolicy"]["status"] for each in rehearsed.of("BackupPolicy")]
    assert policies == ["ENABLED" if saved else "DISABLED" for saved in declared]


def test_budget_sends_mail(rehearsed: Rehearsed, plan: Plan) -> None:
    """Costs count by the cluster's tag, and the mail is sent before the budget is used up."""
    budgets = rehearsed.of("Budget")
    assert [each["limitAmount"] for each in budgets] == [str(plan.budget.monthly_usd)] * bool(plan.budget.monthly_usd)
    for each in budgets:
        [counted] = each["costFilters"]
        assert counted == {"name": "TagKeyValue", "values": [f"user:stampworks:cluster${plan.name}"]}
        told = {(one["notificationType"], one["threshold"]) for one in each["notifications"]}
        assert told == {("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)}
        assert all(one["subscriberEmailAddresses"] == [*plan.budget.notify] for one in each["notifications"])


def test_end_of_a_block_sends_mail(rehearsed: Rehearsed, plan: Plan) -> None:
    """EventBridge names a block by its id; only it may publish to the topic."""
    blocks = alarms.blocks(plan)
    asked = [json.loads(each["eventPattern"]) for each in rehearsed.of("EventRule")]
    assert [each["detail"] for each in asked] == [{"capacity-reservation-id": blocks}] * bool(blocks)
    subscribed = {(each["protocol"], each["endpoint"]) for each in rehearsed.of("TopicSubscription")}
    assert subscribed == {("email", address) for address in plan.budget.notify if blocks}
    for each in rehearsed.of("TopicPolicy"):
        [statement] = json.loads(each["policy"])["Statement"]
        assert statement["Principal"] == {"Service": "events.amazonaws.com"}
        assert (statement["Action"], statement["Resource"]) == ("sns:Publish", each["arn"])
        assert "Condition" not in statement, "EventBridge fills in no context for topics: nobody would be told"


def policies(rehearsed: Rehearsed) -> Iterator[tuple[str, set[str | None]]]:
    """Yield the changes of a scenario in order: name, and effects in the review."""
    stack = read_stack(rehearsed.stack, ROOT, ROOT / "stacks", {})
    config = stack.config
    before = planning.plan(load_value(stack.declared, "stack"))
    for change in load_scenario(CHANGES / f"{stack.name}.yaml").changes:
        after = changed(stack, config, change)
        plan = planning.plan(load_value(after["stampworks:cluster"], "stack"))
        yield (
            change.name,
            {each.policy for each in review("", ReviewedStack("", before), ReviewedStack("", plan)).changes},
        )
        if rehearsed.phase(f"change: {change.name}")["verdict"] == "pass":
            config, before = after, plan


def test_review_predicts_the_changes(rehearsed: Rehearsed) -> None:
    """Every policy occurs. In-place and rolled changes keep all data, new nodes have another template version, and
    refused changes happen only without protection."""
    found = dict(policies(rehearsed))
    assert {policy for said in found.values() for policy in said} >= {"in place", "roll", "replace", "refuse"}
    guarded = any("protected" in note for note in rehearsed.phase("destroy").get("notes", ()))
    for name, said in found.items():
        phase = rehearsed.phase(f"change: {name}")
        steps = {(each["op"], each["type"].rpartition(":")[2]) for each in phase["steps"]}
        if "refuse" in said:
            assert (phase["verdict"] == "fail") is guarded, name
            assert guarded or lost(steps), name
            continue
        assert phase["verdict"] == "pass", (name, phase)
        assert not lost(steps), name
        if said & {"roll", "replace"}:
            assert {kind for op, kind in steps if op != "delete"} & {"LaunchTemplate", "NodeGroup"}, name


def lost(steps: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {(op, kind) for op, kind in steps if op in ("replace", "delete") and kind in HOLDS_DATA}


@pytest.mark.long
def test_effects_of_changes(rehearse: Rehearse) -> None:
    """Growth changes the size of the group, another machine a version of its template. Only resources with data are
    replaced for another kind."""
    rehearsed = rehearse("aws-dev-g6")
    done = {
        phase["name"].removeprefix("change: "): {
            (step["op"], step["type"].rpartition(":")[2]) for step in phase["steps"] if step["type"].startswith("aws:")
        }
        for phase in rehearsed.found["phases"]
        if phase["name"].startswith("change: ")
    }
    assert done["no budget"] == {("delete", "Budget")}
    assert done["a thousand nodes"] == {("update", "Group")}
    assert {("create", "Group"), ("create", "LaunchTemplate"), ("create", "Role")} <= done["login nodes"]
    assert {op for op, _ in done["login nodes"]} == {"create"}, "nothing else is touched"
    assert done["another machine"] == {("update", "LaunchTemplate"), ("update", "Group")}
    assert done["an address on each card"] == {("update", "LaunchTemplate"), ("update", "Group")}
    kinds = ("LustreFileSystem", "OpenZfsFileSystem", "FileSystem", "MountTarget", "BackupPolicy")
    assert done["more file systems"] == {("create", kind) for kind in kinds}
    assert done["models are saved"] == done["models are not saved"] == {("update", "LustreFileSystem")}
    assert done["larger and faster homes"] == {("update", "OpenZfsFileSystem")}
    assert done["homes without a standby"] == {("replace", "OpenZfsFileSystem")}
    assert done["a larger file system"] == {("update", "LustreFileSystem")}
    assert done["another file system"] == {("replace", "LustreFileSystem")}


@pytest.mark.long
def test_each_kind_of_lustre_is_told_what_it_has(rehearse: Rehearse) -> None:
    """FSx refuses a file system with an option that its type lacks. Options that can be enabled later are off."""
    keys = (
        *("storageCapacity", "perUnitStorageThroughput", "throughputCapacity", "driveCacheType"),
        *("dataReadCacheConfiguration", "metadataConfiguration", "rootSquashConfiguration"),
        *("automaticBackupRetentionDays", "copyTagsToBackups"),
    )
    made = rehearse("aws-dev-g6").with_changes().of("LustreFileSystem")
    found = {
        f"{each['deploymentType']} {each['storageType']}": {key: each[key] for key in keys if key in each}
        for each in made
    }
    saved = {"automaticBackupRetentionDays": 0, "copyTagsToBackups": True}
    assert found == {
        "SCRATCH_1 SSD": {"storageCapacity": 2400},
        "PERSISTENT_1 HDD": {
            "storageCapacity": 6000,
            "perUnitStorageThroughput": 12,
            "driveCacheType": "READ",
            **saved,
        },
        "PERSISTENT_2 SSD": {
            "storageCapacity": 2400,
            "perUnitStorageThroughput": 250,
            "rootSquashConfiguration": {"rootSquash": "65534:65534"},
            **saved,
        },
        "PERSISTENT_2 INTELLIGENT_TIERING": {
            "throughputCapacity": 4000,
            "dataReadCacheConfiguration": {"sizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"},
            "metadataConfiguration": {"mode": "USER_PROVISIONED", "iops": 6000},
        },
    }


@pytest.mark.long
def test_homes_on_openzfs(rehearse: Rehearse) -> None:
    """A replaced file system has the last declared options; nothing is left after deletion."""
    [made] = rehearse("aws-dev-g6").with_changes().of("OpenZfsFileSystem")
    declared = ("deploymentType", "storageCapacity", "throughputCapacity", "automaticBackupRetentionDays")
    assert [made[key] for key in declared] == ["SINGLE_AZ_2", 2048, 640, 0]
    assert made["skipFinalBackup"] is True
    volume = made["rootVolumeConfiguration"]
    assert volume["dataCompressionType"] == "LZ4"
    [exported] = volume["nfsExports"]["clientConfigurations"]
    assert exported == {"clients": "*", "options": ["rw", "crossmnt", "root_squash"]}


MANAGED = """\
changes:
  - {name: managed, path: scheduler, value: {accounting: true, database: managed}}
"""


@pytest.mark.long
def test_a_managed_database_is_for_the_head_alone(rehearse: Rehearse) -> None:
    """The database spans two zones, has a port for the head only, is encrypted, and is protected."""
    rehearsed = rehearse("aws-dev-g6", MANAGED).with_changes()
    [change] = [each for each in rehearsed.found["phases"] if each["name"].startswith("change: ")]
    assert change["verdict"] == "pass", change
    assert rehearsed.found["types_without_rule"] == []
    [made] = [each for each in rehearsed.of("Instance") if each.get("engine")]
    assert (made["password"], made["publiclyAccessible"], made["storageEncrypted"]) == ("[secret]", False, True)
    assert (made["deletionProtection"], made["deleteAutomatedBackups"]) == (True, False)
    destroyed = " ".join(rehearsed.phase("destroy")["notes"])
    assert destroyed.count("aws:rds/instance:Instance aws-dev-g6-accounting") == 2, "protected, and kept by the cloud"
    [settings] = rehearsed.of("ParameterGroup")
    assert {"name": "require_secure_transport", "value": "1"} in settings["parameters"]
    assert len({*rehearsed.of("SubnetGroup")[0]["subnetIds"]}) == 2
    assert {each["availabilityZone"] for each in rehearsed.of("Subnet")} == {"us-east-1a", "rehearsed-1a"}
    by_port = [each for each in rehearsed.of("SecurityGroupIngressRule") if each.get("fromPort") == 3306]
    assert [each["securityGroupId"] for each in by_port] == made["vpcSecurityGroupIds"]
    [head] = [each for each in change["steps"] if each["type"].endswith("ec2/instance:Instance")]
    assert head["op"] == "replace", "its subnet takes a part of another one, so that all of them are made anew"


@pytest.mark.long
def test_another_order_changes_nothing(rehearse: Rehearse) -> None:
    """A sorted list replaces no resource, and repeats no proof."""
    phases = rehearse("aws-p5").found["phases"]
    steps = {each["name"].removeprefix("change: "): each["steps"] for each in phases}
    for name in ("users", "tags", "priorities", "all file systems but the first"):
        assert not steps[name]


@pytest.mark.long
def test_objects_that_go_sooner(rehearse: Rehearse) -> None:
    """Expiry is a rule of the bucket, which stays unchanged otherwise."""
    steps = rehearse("aws-p5").phase("change: checkpoints go sooner")["steps"]
    of_aws = [(each["op"], each["type"].rpartition(":")[2]) for each in steps if each["type"].startswith("aws:")]
    assert of_aws == [("update", "BucketLifecycleConfiguration")]


@pytest.mark.long
def test_a_file_system_of_another_kind_is_refused(rehearse: Rehearse) -> None:
    """The new file system would replace the one with data. The provider itself refuses to replace metadata
    configuration with none."""
    refused = rehearse("aws-p5").phase("change: another kind of file system")
    assert (refused["verdict"], refused["found"]) == ("fail", "refused by the engine")
    assert any("metadata_configuration can only be set" in note for note in refused["notes"])


@pytest.mark.parametrize(
    ("failure", "found", "notes"),
    [
        (
            "stock-out at aws:autoscaling/group:Group",
            "the next up finishes, with nothing twice",
            ["rehearsed stock-out: the cloud has no capacity now", "left in the state: "],
        ),
        (
            "crash at aws:fsx/lustreFileSystem:LustreFileSystem",
            "the next up finishes, and leaves something behind",
            [
                "left in the state: ",
                "was being created: aws:fsx/lustreFileSystem:LustreFileSystem aws-p5-data",
                "there, and in no state: aws:fsx/lustreFileSystem:LustreFileSystem aws-p5-data (fs-",
            ],
        ),
    ],
)
@pytest.mark.long
def test_next_up_finishes_after_a_failure(failure: str, found: str, notes: list[str], rehearse: Rehearse) -> None:
    """The next `up` finishes the work. A resource that a crash left out of the state has an id to find it."""
    phase = rehearse("aws-p5").phase(f"failure: {failure}")
    assert phase["found"] == found
    assert len(phase["notes"]) == len(notes)
    assert all(told.startswith(note) for told, note in zip(phase["notes"], notes, strict=True))


GROUP_OF_RESERVATIONS = "arn:aws:resource-groups:us-east-1:123456789012:group/ours"
ELASTIC = f"""\
changes:
  - {{name: a release with Ansible, path: release, value: "2026.12"}}
  - {{name: elastic, path: pools.gpu.count_min, value: 1}}
  - name: fall-backs
    path: pools.gpu.fallbacks
    value:
      - {{purchase: reserved, reservation: cr-1}}
      - {{purchase: reserved, reservation: "{GROUP_OF_RESERVATIONS}"}}
      - {{purchase: spot}}
"""


@pytest.mark.long
def test_elastic_nodes_start_from_templates_of_their_own(rehearse: Rehearse) -> None:
    """Each way to buy has a complete template, which the controller may start."""
    rehearsed = rehearse("aws-dev-g6", ELASTIC).with_changes()
    phases = {each["name"]: each for each in rehearsed.found["phases"] if each["name"].startswith("change: ")}
    assert [each["verdict"] for each in phases.values()] == ["pass", "pass", "pass"], phases
    assert rehearsed.found["types_without_rule"] == []
    made = {each["name"]: each for each in rehearsed.of("LaunchTemplate") if each.get("name")}
    assert sorted(made) == [f"aws-dev-g6.gpu.{number}" for number in range(4)]
    own, reserved, grouped, spot = (made[name] for name in sorted(made))
    assert [each.get("instanceMarketOptions") for each in (own, reserved, spot)] == [None, None, {"marketType": "spot"}]
    targets = [each["capacityReservationSpecification"]["capacityReservationTarget"] for each in (reserved, grouped)]
    assert targets == [
        {"capacityReservationId": "cr-1"},
        {"capacityReservationResourceGroupArn": GROUP_OF_RESERVATIONS},
    ]
    assert [bool(each.get("placement")) for each in (own, reserved, spot)] == [True, False, True]
    assert all(nic["subnetId"] for each in made.values() for nic in each["networkInterfaces"])
    reading = [
        each for each in rehearsed.of("LaunchTemplate") if each["metadataOptions"]["instanceMetadataTags"] == "enabled"
    ]
    assert [each.get("name") for each in reading] == sorted(made)
    tags = spot["tagSpecifications"][0]["tags"]
    assert {"stampworks:cluster": "aws-dev-g6", "stampworks:group": "gpu", "stampworks:elastic": "spot"}.items() <= (
        tags.items()
    )
    [policy] = [json.loads(each["policy"]) for each in rehearsed.of("RolePolicy") if "RunInstances" in each["policy"]]
    [at_start] = [one for one in policy["Statement"] if "ec2:CreateAction" in str(one)]
    assert {*at_start["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"]} == {*tags}
    actions = {one["Action"]: one for one in policy["Statement"] if isinstance(one["Action"], str)}
    assert set(actions) == {
        *("ec2:RunInstances", "ec2:CreateTags", "ec2:TerminateInstances", "ec2:DescribeInstances", "iam:PassRole"),
        "kms:CreateGrant",
    }
    assert all(one["Condition"]["StringLike"] == BY_EC2 for one in policy["Statement"] if "kms:" in str(one["Action"]))
    assert actions["ec2:TerminateInstances"]["Condition"] == {
        "StringEquals": {
            "aws:ResourceTag/stampworks:cluster": "aws-dev-g6",
            "aws:ResourceTag/stampworks:group": ["gpu"],
        },
        "Null": {"aws:ResourceTag/stampworks:elastic": "false"},
    }
    assert actions["ec2:RunInstances"]["Condition"]["Bool"] == {"ec2:IsLaunchTemplateResource": "true"}
    assert all(each["instanceInitiatedShutdownBehavior"] == "terminate" for each in made.values())
    assert "libexec/stampworks/join" in base64.b64decode(own["userData"]).decode()


def pools_of(pools: Sequence[Mapping[str, Any]], **more: Any) -> Sequence[Group]:
    of = {"version": 1, "name": "cluster", "cloud": "aws", "region": "us-west-2", "scheduler": {}}
    declared = [{"machine": "g6-8xlarge", **pool, **more} for pool in pools]
    return planning.plan(load_value({**of, "pools": declared}, "test")).pools


def test_one_policy_is_for_all_that_starts_with_the_work() -> None:
    """Inline policies of a role are limited to 10,240 characters. A reservation group is named in the policy, because
    EC2 does not mark its use by a template."""
    fallbacks = [{"purchase": "reserved", "reservation": GROUP_OF_RESERVATIONS}, {"purchase": "spot"}]
    pools = [{"name": f"pool-{number:02}", "count": 2, "count_min": 0, "fallbacks": fallbacks} for number in range(20)]
    groups = pools_of(pools)
    role, template = "arn:aws:iam::123456789012:role/{}", "arn:aws:ec2:us-west-2:123456789012:launch-template/lt-{:017}"
    roles = [role.format(f"stampworks-{each.name}-0123456") for each in groups]
    templates = [template.format(number) for number in range(3 * len(groups))]
    names = [*(f"a-tag-of-the-organisation-{number:02}" for number in range(20)), *TAGGED]
    said = may_start("cluster", groups, roles, templates, names)
    assert len(said) < 10_240 - 1_000
    starts = json.loads(said)["Statement"][0]["Condition"]
    assert starts["StringEqualsIfExists"] == {"ec2:InstanceType": ["g6.8xlarge"]}
    by_group = [one for one in json.loads(said)["Statement"] if one["Resource"] == [GROUP_OF_RESERVATIONS]]
    assert by_group == [{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": [GROUP_OF_RESERVATIONS]}]
    assert GROUP_OF_RESERVATIONS not in may_start(
        "cluster", pools_of(pools[:1], fallbacks=[]), roles[:1], templates[:1], TAGGED
    )


TAGGED = ["Name", "stampworks:cluster", "stampworks:elastic", "stampworks:group", "stampworks:template"]


def test_the_head_starts_no_node_of_another_cluster() -> None:
    """Tags identify a node. A launch must use the tags of its template, this cluster and these groups."""
    [group] = pools_of([{"name": "gpu", "count": 2, "count_min": 0}])
    role, template = "arn:aws:iam::123456789012:role/r", "arn:aws:ec2:us-west-2:123456789012:launch-template/lt-1"
    statements = json.loads(may_start("c", [group], [role], [template], TAGGED))["Statement"]
    [at_start] = [one for one in statements if "ec2:CreateAction" in str(one)]
    assert at_start["Condition"] == {
        "StringEquals": {
            "ec2:CreateAction": "RunInstances",
            "aws:RequestTag/stampworks:cluster": "c",
            "aws:RequestTag/stampworks:group": ["gpu"],
        },
        "ForAllValues:StringEquals": {"aws:TagKeys": TAGGED},
    }


@pytest.mark.long
def test_elastic_nodes_read_bundle_and_key(rehearse: Rehearse) -> None:
    """A bundle in a private bucket and Slurm's key: their role may read both, and no other parameter."""
    rehearsed = rehearse("aws-dev-g6", ELASTIC).with_changes()
    [bundle] = [each for each in rehearsed.of("BucketObjectv2") if each["key"] == "bundle.tar.gz"]
    assert bundle["source"]
    assert not bundle.get("tags"), "of which S3 takes 10"
    may = [json.loads(each["policy"]) for each in rehearsed.of("RolePolicy") if "bundle.tar.gz" in each["policy"]]
    allowed = {(one["Action"], one["Resource"].rpartition(":")[2].partition("/")[2]) for one in may[0]["Statement"]}
    assert allowed == {
        ("s3:GetObject", "bundle.tar.gz"),
        ("ssm:GetParameter", "stampworks/aws-dev-g6/slurm-key"),
    }


def test_where_aws_runs_no_kubernetes_none_is_asked_for() -> None:
    """The zone's letter means another zone in each account, so only the account knows."""
    ids = {"us-east-1a": "use1-az2", "us-east-1b": "use1-az3", "us-east-1c": "use1-az4"}
    assert zone_beside("us-east-1a", ids, ["use1-az3"], "c-control-plane") == "us-east-1c"
    assert zone_beside("us-east-1b", ids, [], "c-database") == "us-east-1a"
    with pytest.raises(pulumi.RunError) as caught:
        zone_beside("us-east-1b", ids, ["use1-az3"], "c-control-plane")
    assert str(caught.value) == (
        "c-control-plane: AWS offers none in zone us-east-1b (use1-az3), where the nodes are.\n"
        "  hint: write another network.zone; aws ec2 describe-availability-zones lists the ids of zones"
    )


def test_prerequisites_are_created_first(rehearsed: Rehearsed) -> None:
    """FSx refuses a file system whose security group does not admit Lustre, and the name of an EFS resolves only with
    its mount target: clients follow both."""
    after = _after(json.loads(rehearsed.state)["deployment"]["resources"])
    rules = {urn for urn in after if re.search(r"gressRule::[^:]*-(nodes|storage)-(nodes|storage)$", urn)}
    assert len(rules) == 8
    stored = [urn for urn in after if re.search(r"aws:(fsx/\w+FileSystem|efs/fileSystem):\w+::", urn)]
    for urn in stored:
        assert rules <= after[urn], urn
    nodes = [urn for urn in after if re.search(r"aws:(ec2/instance|autoscaling/group|eks/nodeGroup):\w+::", urn)]
    assert nodes
    for urn in (each for each in nodes if not each.endswith("eks-head")):  # the head mounts nothing
        assert {each for each in after if "aws:efs/mountTarget" in each}.union(stored) <= after[urn], urn


def _after(resources: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the earlier resources for each resource. A state has each resource after its dependencies."""
    found: dict[str, set[str]] = {}
    for each in resources:
        near = {*each.get("dependencies", ()), each.get("parent", "")}
        found[each["urn"]] = near.union(*(found.get(urn, set()) for urn in near))
    return found
