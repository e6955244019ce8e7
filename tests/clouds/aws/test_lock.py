"""`stampworks lock`: looked-up images, the written file, and errors."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.cli.main import main
from stampworks.clouds.aws import session
from stampworks.declaration import load_file
from stampworks.planning.rules.images import OF_LOCK

from tests.clouds.aws.simulated import Simulated

PARAMETER = "/aws/service/debian/release/13/latest/amd64"
DECLARED = """\
version: 1
name: test
cloud: aws
region: us-east-1
pools: [{name: gpu, machine: g6-8xlarge, count: 2, zone: us-east-1a}]
"""

pytestmark = pytest.mark.usefixtures("environment")


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.yaml").write_text(DECLARED)
    return tmp_path / "test.yaml"


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lock(declared: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the verb: exit code, stdout, stderr."""

    def call(*options: str) -> tuple[int, str, str]:
        return main(["lock", "test.yaml", *options]), *capsys.readouterr()

    return call


def published(aws: Simulated, name: str, day: int, **fields: Any) -> str:
    created = datetime.datetime(2026, 11, day, tzinfo=datetime.UTC)
    return aws.publish(PARAMETER, name=name, creation_date=created, **fields)


def test_plan_uses_the_locked_image(aws: Simulated, declared: Path, lock: Call) -> None:
    """Every node boots the image, and the file describes it."""
    image = published(aws, "debian-13-amd64-20261102-2290", 2)
    assert lock() == (
        0,
        "test.lock.json: looked up in us-east-1\n"
        f"  {PARAMETER}, booted by head, gpu\n"
        f"    none -> {image} (debian-13-amd64-20261102-2290, of 2026-11-02)\n",
        "",
    )
    assert json.loads((declared.parent / "test.lock.json").read_text()) == {
        "version": 1,
        "region": "us-east-1",
        "images": {PARAMETER: {"id": image, "name": "debian-13-amd64-20261102-2290", "created": "2026-11-02"}},
    }
    plan = planning.plan(load_file(declared))
    assert {group.launch.image for group in plan.groups if group.launch} == {image}


def test_lists_newer_images(aws: Simulated, declared: Path, lock: Call) -> None:
    """Old and new values have name and day; without a newer one the file stays unchanged."""
    old = published(aws, "old", 2)
    lock()
    file = declared.parent / "test.lock.json"
    before = file.stat()
    assert lock()[1].startswith("test.lock.json: nothing is newer\n")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    new = published(aws, "new", 20)
    code, said, _ = lock()
    assert (code, said.splitlines()[-1]) == (0, f"    {old} (old, of 2026-11-02) -> {new} (new, of 2026-11-20)")
    assert sorted(path.name for path in declared.parent.iterdir()) == ["test.lock.json", "test.yaml"]


VERSIONS = {
    "aws-efs-csi-driver": "v2.1.14-eksbuild.1",
    "coredns": "v1.12.4-eksbuild.1",
    "eks-node-monitoring-agent": "v1.6.2-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.1",
    "kube-proxy": "v1.35.1-eksbuild.2",
    "vpc-cni": "v1.20.4-eksbuild.2",
}
ON_EKS = (
    DECLARED
    + "scheduler: {kind: kubernetes}\nstorage: [{name: home, kind: efs, tier: regional, mount: /home/shared}]\n"
)


@pytest.fixture
def of_eks(aws: Simulated, declared: Path) -> dict[str, str]:
    """A declaration of an EKS cluster, and the images that AWS publishes for its groups."""
    declared.write_text(ON_EKS)
    for name, version in VERSIONS.items():
        aws.addon(name, "v9.9.9-eksbuild.9", "1.35", "1.36", default=False)
        aws.addon(name, version, "1.35", default=True)
        aws.addon(name, "v8.8.8-eksbuild.8", "1.35", default=True)
    where = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64"
    day = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
    return {
        group: aws.publish(f"{where}/{kind}/recommended/image_id", name=kind, creation_date=day)
        for group, kind in (("head", "standard"), ("gpu", "nvidia"))
    }


def not_locked(declared: Path) -> list[str]:
    plan = planning.plan(load_file(declared))
    return [each.text for each in planning.rules(plan, None) if each.id in OF_LOCK and each.outcome == "fail"]


def test_locks_images_and_versions_of_eks(declared: Path, lock: Call, of_eks: dict[str, str]) -> None:
    """The lock has images for nodes with accelerators and for the cluster's own pods, and the versions that EKS chooses
    for this Kubernetes by default, which change over time."""
    [_, parts] = not_locked(declared)
    named = ", ".join(VERSIONS)
    told = f"the versions of {named} for Kubernetes 1.35 are not locked, and the cloud's own choice changes by"
    assert parts == f"{told} itself"
    code, said, _ = lock()
    assert code == 0
    assert said.splitlines()[-6:] == [f"  1.35/{name}: none -> {version}" for name, version in VERSIONS.items()]
    plan = planning.plan(load_file(declared))
    assert {group.name: group.launch.image for group in plan.groups if group.launch} == of_eks
    assert {part.name: part.version for part in plan.scheduler.parts} == VERSIONS
    assert not not_locked(declared)


def test_another_kubernetes_has_parts_of_other_versions(
    aws: Simulated, declared: Path, lock: Call, of_eks: dict[str, str]
) -> None:
    """Versions of the old Kubernetes do not count; newer versions are shown next to the old ones."""
    lock()
    file = declared.parent / "test.lock.json"
    file.write_text(file.read_text().replace("1.35/vpc-cni", "1.34/vpc-cni").replace("v1.12.4", "v1.12.3"))
    [told] = not_locked(declared)
    assert told.startswith("the versions of vpc-cni for Kubernetes 1.35 are not locked")
    assert json.loads(lock("--json")[1])["parts"][:2] == [
        {"part": "1.34/vpc-cni", "before": VERSIONS["vpc-cni"], "after": None},
        {"part": "1.35/aws-efs-csi-driver", **dict.fromkeys(("before", "after"), VERSIONS["aws-efs-csi-driver"])},
    ]
    assert "v1.12.4" in file.read_text()
    assert not not_locked(declared)


def test_a_part_that_a_region_lacks(aws: Simulated, declared: Path, lock: Call, of_eks: dict[str, str]) -> None:
    """The error names all missing parts, along with missing images."""
    declared.write_text(ON_EKS.replace("us-east-1", "us-west-2"))
    said = refused(aws, lock, 2)
    hint = "  hint: take another region, or a release of another Kubernetes"
    where = "test.yaml:4:9: region: us-west-2 has no"
    assert said[4:-1] == [line for name in VERSIONS for line in (f"{where} {name} for Kubernetes 1.35", hint)]
    assert said[-1] == "8 problems in test.yaml: nothing was changed."


def test_parts_that_nobody_may_ask_for(aws: Simulated, lock: Call, of_eks: dict[str, str]) -> None:
    aws.fail("eks:GET /addons/supported-versions", "AccessDeniedException", "someone is not authorized", status=403)
    assert refused(aws, lock, 3)[:2] == [
        "test.yaml:4:9: region: the versions of its Kubernetes in us-east-1 was not looked up: "
        "eks:DescribeAddonVersions: not permitted (AccessDeniedException: someone is not authorized)",
        f"  hint: {session.PERMIT}",
    ]


def test_the_image_of_amazon_linux(aws: Simulated, declared: Path, lock: Call) -> None:
    """The image has the kernel that the release names, by the parameter that AWS publishes."""
    declared.write_text(DECLARED + 'release: "2026.11-amazon"\n')
    day = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
    parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.12-x86_64"
    image = aws.publish(parameter, name="al2023-ami-2023.12", creation_date=day)
    assert lock()[0] == 0
    plan = planning.plan(load_file(declared))
    assert {group.launch.image for group in plan.groups if group.launch} == {image}
    found = [(each.id, each.outcome) for each in planning.rules(plan, None) if each.id.startswith("image.")]
    assert found == [("image.prepared", "fail")]
    assert main(["plan", "test.yaml"]) == 1, "it has no Slurm, and an image of the release has"
    file = declared.parent / "test.lock.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "made_with": "2026.11-amazon"}))
    assert main(["plan", "test.yaml"]) == 0


OF_GPUS = "/aws/service/deeplearning/ami/x86_64/base-with-single-cuda-ubuntu-24.04/latest/ami-id"
OF_HEAD = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
DLAMI = catalog.releases()["2026.12-ubuntu-dlami"].vendor_images["aws"].image
WITH_DLAMI = DECLARED + 'release: "2026.12-ubuntu-dlami"\nscheduler: {accounting: true}\n'


@pytest.fixture
def of_vendor(aws: Simulated, declared: Path) -> Callable[[str, int], str]:
    """A declaration of nodes that boot AWS's image; AWS publishes an image of that name."""
    declared.write_text(WITH_DLAMI)
    day = datetime.datetime(2026, 7, 17, tzinfo=datetime.UTC)
    aws.publish(OF_HEAD, name="ubuntu", creation_date=day)

    def call(name: str, day: int) -> str:
        created = datetime.datetime(2026, 7, day, tzinfo=datetime.UTC)
        return aws.publish(OF_GPUS, name=name, creation_date=created, owner_id="898082745236", owner_alias="amazon")

    return call


def test_the_image_of_a_vendor(declared: Path, lock: Call, of_vendor: Callable[[str, int], str]) -> None:
    """Nodes with GPUs boot it, and the head boots the distribution's; nothing is missing, and no image is built."""
    image = of_vendor(DLAMI, 17)
    code, said, _ = lock()
    assert (code, said.splitlines()[-2:]) == (
        0,
        [f"  {OF_GPUS}, booted by gpu", f"    none -> {image} ({DLAMI}, of 2026-07-17)"],
    )
    plan = planning.plan(load_file(declared))
    head, gpu = (group.launch.image for group in plan.groups if group.launch)
    assert (gpu, head != image) == (image, True)
    assert main(["plan", "test.yaml"]) == 0


def test_a_newer_image_of_a_vendor_has_other_parts(lock: Call, of_vendor: Callable[[str, int], str]) -> None:
    """The image with the release's name is used, even if a newer image exists."""
    image = of_vendor(DLAMI, 17)
    of_vendor(DLAMI.replace("20260717", "20260724"), 24)
    assert lock()[1].splitlines()[-1] == f"    none -> {image} ({DLAMI}, of 2026-07-17)"


def test_an_image_of_that_name_of_somebody_else(
    aws: Simulated, lock: Call, of_vendor: Callable[[str, int], str]
) -> None:
    """Any account can use such a name. Only the image of its owner counts."""
    newer = DLAMI.replace("20260717", "20260724")
    aws.publish("/elsewhere", name=DLAMI, owner_id="111122223333")
    of_vendor(newer, 24)
    assert refused(aws, lock, 2) == [
        f"test.yaml:6:10: release: us-east-1 has no image '{DLAMI}' of amazon, whose parts release "
        f"2026.12-ubuntu-dlami lists; the newest there is '{newer}'",
        "  hint: take another release or region, or lock an image of your own",
        "1 problem in test.yaml: nothing was changed.",
    ]


def test_a_region_without_the_parameter_of_a_vendor(
    aws: Simulated, declared: Path, lock: Call, of_vendor: Callable[[str, int], str]
) -> None:
    """The region's images still have names."""
    declared.write_text(WITH_DLAMI.replace("us-east-1", "us-west-2"))
    aws.publish(OF_HEAD, name="ubuntu", region="us-west-2")
    alias = {"owner_id": "898082745236", "owner_alias": "amazon"}
    image = aws.publish("/elsewhere", name=DLAMI, region="us-west-2", **alias)
    assert f"none -> {image} ({DLAMI}" in lock()[1]


def test_for_programs(aws: Simulated, lock: Call) -> None:
    image = published(aws, "debian", 2)
    told = json.loads(lock("--json")[1])
    after = {"id": image, "name": "debian", "created": "2026-11-02"}
    assert (told["region"], told["changed"]) == ("us-east-1", True)
    assert told["images"] == [{"parameter": PARAMETER, "before": None, "after": after}]
    assert json.loads(lock("--json")[1])["changed"] is False


def test_another_region(aws: Simulated, declared: Path, lock: Call) -> None:
    """Images of the old region are dropped, and the old lock does not prevent a new one."""
    published(aws, "east", 2)
    lock()
    declared.write_text(DECLARED.replace("us-east-1", "us-west-2"))
    image = published(aws, "west", 3, region="us-west-2")
    assert lock()[1].startswith("test.lock.json: looked up in us-west-2, before in us-east-1\n")
    assert planning.plan(load_file(declared)).groups[0].launch is not None
    assert image in (declared.parent / "test.lock.json").read_text()


def test_a_lock_of_ones_own_images_is_left_alone(aws: Simulated, declared: Path, lock: Call) -> None:
    """Otherwise the next `up` would boot the distribution's image on every node. Newer images are not looked up."""
    file = declared.parent / "test.lock.json"
    published(aws, "debian", 2)
    lock()
    text = json.dumps({**json.loads(file.read_text()), "made_with": "2026.11"})
    file.write_text(text)
    assert lock() == (
        2,
        "",
        "test.lock.json: its images were made with release 2026.11, and published ones would replace them on "
        "every node\n"
        "  hint: make an image that has the release, and lock that, as docs/how-to/aws-images.md says; or delete the "
        "file to look up published ones\n",
    )
    assert file.read_text() == text
    file.unlink()
    assert lock()[0] == 0


def test_an_example_is_written_anew(aws: Simulated, declared: Path, lock: Call) -> None:
    """The example claims an image with its release, as stacks that need such images do."""
    file = declared.parent / "test.lock.json"
    image = published(aws, "debian", 2)
    example = {"id": "example", "name": "an example", "created": "2026-11-01"}
    told = {"version": 1, "region": "us-east-1", "images": {PARAMETER: example}, "made_with": "2026.12"}
    file.write_text(json.dumps(told))
    assert lock()[1].splitlines()[-1] == f"    none -> {image} (debian, of 2026-11-02)"
    assert "example" not in file.read_text()
    assert "made_with" not in file.read_text()


def test_a_lock_that_is_broken_is_written_anew(aws: Simulated, declared: Path, lock: Call) -> None:
    published(aws, "debian", 2)
    (declared.parent / "test.lock.json").write_text("{")
    assert lock()[0] == 0
    planning.plan(load_file(declared))


def refused(aws: Simulated, call: Call, code: int) -> list[str]:
    """Return the message, without the excerpt of the file; nothing was written."""
    found, out, said = call()
    assert (found, out, Path("test.lock.json").exists()) == (code, "", False)
    return [line for line in said.splitlines() if line and not line.startswith("    ")]


def test_no_such_parameter(aws: Simulated, lock: Call) -> None:
    assert refused(aws, lock, 2) == [
        f"test.yaml:4:9: region: us-east-1 has no public parameter {PARAMETER}, which names the newest image of trixie",
        "  hint: take a region in which it is published",
        "1 problem in test.yaml: nothing was changed.",
    ]


def test_no_such_image(aws: Simulated, lock: Call) -> None:
    aws.parameter(PARAMETER, "ami-0123456789abcdef0")
    assert refused(aws, lock, 2)[:2] == [
        f"test.yaml:4:9: region: {PARAMETER} names ami-0123456789abcdef0, and us-east-1 has no such image for this "
        "account",
        "  hint: ask its publisher, or look again when it names another one",
    ]


def test_an_image_that_no_node_boots(aws: Simulated, lock: Call) -> None:
    """Report all faults of an image at once, each at its own field."""
    image = published(
        aws, "odd", 2, architecture="arm64", state="disabled", deprecation_time="2026-01-01T00:00:00.000Z"
    )
    named = f"{image} (odd, of 2026-11-02)"
    assert refused(aws, lock, 2) == [
        f"test.yaml:4:9: region: {named} is disabled in us-east-1, and no node boots it",
        "  hint: look again when its publisher names another one",
        f"test.yaml:4:9: region: {named} is deprecated since 2026-01-01, and may be gone when a node starts",
        "  hint: look again when its publisher names another one",
        f"test.yaml:4:9: region: {named} is for arm64, and m7i of head is x86_64",
        "  hint: ask its publisher: the parameter is for another architecture",
        f"test.yaml:5:30: pools[0].machine: {named} is for arm64, and g6-8xlarge of gpu is x86_64",
        "  hint: ask its publisher: the parameter is for another architecture",
        "4 problems in test.yaml: nothing was changed.",
    ]


def test_an_image_that_will_be_deprecated(aws: Simulated, lock: Call) -> None:
    """Every image of Debian will be, two years on."""
    published(aws, "debian", 2, deprecation_time="2099-01-01T00:00:00.000Z")
    assert lock()[0] == 0


NOT_LOOKED_UP = "test.yaml:4:9: region: the image of nodes in us-east-1 was not looked up: "


@pytest.mark.parametrize(
    ("action", "code", "message", "status", "why", "hint"),
    [
        (
            "ssm:GetParameter",
            "AccessDeniedException",
            "User: someone is not authorized",
            400,
            "ssm:GetParameter: not permitted (AccessDeniedException: User: someone is not authorized)",
            session.PERMIT,
        ),
        (
            "ec2:DescribeImages",
            "UnauthorizedOperation",
            f"You are not authorized. Encoded authorization failure message: {'x' * 2000}",
            403,
            "ec2:DescribeImages: not permitted (UnauthorizedOperation: You are not authorized.)",
            session.PERMIT,
        ),
        (
            "ssm:GetParameter",
            "ExpiredTokenException",
            "The security token has expired",
            400,
            "ssm:GetParameter: AWS refuses the credentials (ExpiredTokenException: The security token has expired)",
            session.RENEW,
        ),
        (
            "ec2:DescribeImages",
            "RequestLimitExceeded",
            "slower",
            503,
            "ec2:DescribeImages: AWS throttles requests (RequestLimitExceeded)",
            session.LATER,
        ),
        (
            "ec2:DescribeImages",
            "OptInRequired",
            "not subscribed",
            401,
            "ec2:DescribeImages: OptInRequired: not subscribed",
            session.LATER,
        ),
    ],
)
def test_silent_aws_is_unknown(
    aws: Simulated, lock: Call, action: str, code: str, message: str, status: int, why: str, hint: str
) -> None:
    """The error has place, problem, reason and remedy, each in a line; the exit code is UNKNOWN."""
    published(aws, "debian", 2)
    aws.fail(action, code, message, status=status)
    assert refused(aws, lock, 3)[:2] == [NOT_LOOKED_UP + why, f"  hint: {hint}"]


def test_an_answer_that_is_none(aws: Simulated, lock: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may answer instead of AWS."""
    aws.fail("ssm:GetParameter", "502", "<!doctype html>", status=502)
    assert refused(aws, lock, 3)[0] == f"{NOT_LOOKED_UP}ssm:GetParameter: not available: HTTP 502"


def test_no_network(lock: Call, aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said = refused(aws, lock, 3)
    assert said[:2] == [
        f'{NOT_LOOKED_UP}ssm:GetParameter: no answer: Could not connect to the endpoint URL: "http://127.0.0.1:1/"',
        f"  hint: {session.REACH}",
    ]


def test_no_credentials(lock: Call, aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert refused(aws, lock, 3)[:2] == [
        f"{NOT_LOOKED_UP}ssm:GetParameter: there are no credentials for AWS",
        f"  hint: {session.SIGN_IN}",
    ]
    monkeypatch.setenv("AWS_PROFILE", "nobody's")
    assert refused(aws, lock, 3)[0] == (
        f"{NOT_LOOKED_UP}ssm:GetParameter: cannot be asked: The config profile (nobody's) could not be found"
    )


def test_a_cloud_without_published_images(lock: Call, declared: Path, aws: Simulated) -> None:
    declared.write_text("version: 1\nname: test\ncloud: local\npools: [{name: gpu, machine: sim-h100, count: 2}]\n")
    nothing = "publishes no images to look up, and no user has keys at a URL"
    assert refused(aws, lock, 2) == [f"test.yaml: local {nothing}", "  hint: it needs no lock"]


def test_architectures() -> None:
    """A single machine type of AWS is not x86_64, and boots another image."""
    row = catalog.machines()["p6e-gb200"]
    assert (catalog.architecture(row), catalog.published_image(row, "trixie").of(row)) == (
        "arm64",
        "/aws/service/debian/release/13/latest/arm64",
    )
