"""The lock: looked-up images of a stack, next to its file."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pulumi
import pytest
from stampworks import planning
from stampworks.catalog import newest_release
from stampworks.cli.main import main
from stampworks.cluster import clouds
from stampworks.declaration import DeclarationError, Lock, LockedImage, load_file, lock_text
from stampworks.planning.rules.images import OF_LOCK

DECLARED = """\
version: 1
name: test
cloud: aws
region: us-east-1
pools: [{name: cpu, machine: m7i, count: 2, zone: us-east-1a}]
"""
IMAGE = "/aws/service/debian/release/13/latest/amd64"
FOUND = {"id": "ami-0123456789abcdef0", "name": "debian-13-amd64-20261102-2290", "created": "2026-11-02"}
LOCK: dict[str, Any] = {"version": 1, "region": "us-east-1", "images": {IMAGE: FOUND}}


def locked(folder: Path, text: str) -> Path:
    """The file of a declaration that has this lock."""
    file = folder / "test.yaml"
    file.write_text(DECLARED)
    (folder / "test.lock.json").write_text(text)
    return file


def refusal(file: Path) -> str:
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_file(file))
    return str(error.value)


def test_nodes_boot_what_was_looked_up(tmp_path: Path) -> None:
    """All nodes boot the image; without a lock the plan says where to look, and names no image."""
    plan = planning.plan(load_file(locked(tmp_path, json.dumps(LOCK))))
    assert {group.launch.image for group in plan.groups if group.launch} == {"ami-0123456789abcdef0"}
    (tmp_path / "test.lock.json").unlink()
    without = planning.plan(load_file(tmp_path / "test.yaml"))
    found = [group.launch for group in without.groups if group.launch]
    assert [(each.image, each.published_image) for each in found] == [("", IMAGE)] * 2


def refused(file: Path) -> list[tuple[str, str]]:
    """Return the reasons that keep nodes from booting, as `stampworks plan` shows them and `up` refuses."""
    plan = planning.plan(load_file(file))
    found = [each for each in planning.rules(plan, None) if each.id in OF_LOCK and each.outcome == "fail"]
    told = [(place, what) for place, what, *_ in clouds.refusals(plan, found)]
    assert told == [(each.place, f"{each.text} ({each.id})") for each in found]
    return told


UNLOCKED = "the image of its nodes in us-east-1 is not locked, and the newest one changes by itself"
UNPREPARED = "nodes have no way to the internet and boot the distribution's image, so that they can install nothing"


def test_no_cluster_of_images_that_nobody_looked_up(tmp_path: Path) -> None:
    """The newest image changes over time, and with it every node that starts."""
    assert refused(locked(tmp_path, json.dumps({**LOCK, "images": {}}))) == [("region", f"{UNLOCKED} (image.locked)")]
    assert refused(locked(tmp_path, json.dumps(LOCK))) == []


def test_a_lock_that_nobody_looked_up_hides_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole plan is printed, with the failed rule, and the exit code is NO."""
    file = locked(tmp_path, json.dumps(LOCK))
    assert main(["plan", str(file)]) == 0
    with_lock = capsys.readouterr().out
    (tmp_path / "test.lock.json").unlink()
    assert main(["plan", str(file)]) == 1
    without = capsys.readouterr().out
    assert "  FAIL     image.locked" in without

    def headings(said: str) -> list[str]:
        return [part.partition("\n")[0] for part in said.split("\n\n") if not part.startswith("Rules: ")]

    assert headings(without) == headings(with_lock)
    assert len(headings(without)) > 5


def test_nodes_without_a_way_out_boot_an_image_of_our_own(tmp_path: Path) -> None:
    """Such nodes cannot install packages; the lock says whether an image is complete."""

    def problems(**lock: Any) -> list[tuple[str, str]]:
        file = locked(tmp_path, json.dumps({**LOCK, **lock}))
        file.write_text(DECLARED + "network: {egress: none}\n")
        return refused(file)

    assert problems() == [("network.egress", f"{UNPREPARED} (image.prepared)")]
    assert [each[0] for each in problems(images={})] == ["region", "network.egress"]
    assert problems(made_with=newest_release()) == []


STACKS = Path(__file__).parents[2] / "stacks"


@pytest.mark.parametrize("file", sorted(STACKS.glob("Pulumi.*.yaml")), ids=lambda file: file.stem)
def test_each_stack_that_comes_along_can_be_planned(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No account is needed: looked-up values are placeholders, and the plan says so."""
    assert main(["plan", str(file)]) == 0
    assert ("lock.example" in capsys.readouterr().out) == file.stem.startswith("Pulumi.aws-")


@pytest.mark.parametrize("file", sorted(STACKS.glob("Pulumi.aws-*.yaml")), ids=lambda file: file.stem)
def test_no_cluster_of_an_example(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The placeholder images do not exist. A rehearsal, which boots nothing, continues."""
    source = load_file(file)
    plan, findings = planning.judged(source, None, None)
    assert source.lock.is_example
    parts = [each.name for each in plan.scheduler.parts]
    nothing = f"nothing was looked up for {', '.join(['head', 'gpu', *parts])}, and no `up` begins with it"
    hint = "`stampworks lock -s STACK` looks it up, and keeps it beside the stack's file"
    expected = [("region", f"the lock is an example: {nothing} (lock.example)", hint, True)]
    assert clouds.refusals(plan, findings) == expected
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", said.append)
    with pytest.raises(SystemExit):
        clouds.load(plan)
    assert said == [f"region: {expected[0][1]}\n  hint: {hint}"]
    monkeypatch.setenv(clouds.REHEARSAL, "true")
    assert clouds.refusals(plan, findings) == []


def test_an_example_of_another_release_or_region_is_looked_up(tmp_path: Path) -> None:
    """Locks of images do not help: the lock is empty."""
    example = {IMAGE: {**FOUND, "id": "example"}}
    file = locked(tmp_path, json.dumps({**LOCK, "region": "us-west-2", "images": example, "made_with": "2020.01"}))
    text = refusal(file)
    assert text.count("hint: `stampworks lock -s STACK` looks its images up again") == 2
    assert "make" not in text.replace("were made with", "")


def test_a_plan_that_somebody_hands_over_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans from any source are refused; a rehearsal, which boots nothing, continues."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", said.append)
    plan = planning.plan(load_file(locked(tmp_path, json.dumps({**LOCK, "images": {}}))))
    with pytest.raises(SystemExit):
        clouds.load(plan)
    hint = "`stampworks lock -s STACK` looks it up, and keeps it beside the stack's file"
    assert said == [f"region: {UNLOCKED} (image.locked)\n  hint: {hint}"]
    monkeypatch.setenv(clouds.REHEARSAL, "true")
    assert clouds.load(plan).nodes is importlib.import_module("stampworks.clouds.aws.nodes")


def test_the_image_of_another_release(tmp_path: Path) -> None:
    """A node would report a release that differs from the declared one."""
    text = refusal(locked(tmp_path, json.dumps({**LOCK, "made_with": "2020.01"})))
    newest = newest_release()
    assert (
        f"release: the images of the lock were made with release 2020.01, but the declared release is {newest}" in text
    )
    assert f"hint: make images with {newest}, or write release: 2020.01" in text


def test_the_lock_of_another_region(tmp_path: Path) -> None:
    """Image ids differ by region."""
    other = {**LOCK, "region": "us-west-2"}
    problem = "region: the images were looked up in us-west-2, and each region has its own"
    text = " ".join(refusal(locked(tmp_path, json.dumps(other))).split())
    assert problem in text
    assert "hint: `stampworks lock -s STACK` looks its images up again" in text
    own = " ".join(refusal(locked(tmp_path, json.dumps({**other, "made_with": newest_release()}))).split())
    assert problem in own
    assert "hint: make an image that has the release, and lock that, as docs/how-to/aws-images.md says" in own


NO_KEYS = "is not a lock file of stampworks: keys is a mapping of lists of public keys"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a lock file of stampworks: Expecting value"),
        (
            "[]",
            "is not a lock file of stampworks: its keys are images, region, version, and optionally "
            "hosts, keys, made_with and parts",
        ),
        (
            json.dumps({**LOCK, "made_by": "me"}),
            "is not a lock file of stampworks: its keys are images, region, version, and optionally "
            "hosts, keys, made_with and parts",
        ),
        (json.dumps({**LOCK, "version": 2}), "is not a lock file of stampworks: its version is not 1"),
        (
            json.dumps({**LOCK, "region": 1}),
            "is not a lock file of stampworks: region and made_with are strings, images is a mapping",
        ),
        (
            json.dumps({**LOCK, "made_with": 1}),
            "is not a lock file of stampworks: region and made_with are strings, images is a mapping",
        ),
        (json.dumps({**LOCK, "parts": []}), "is not a lock file of stampworks: parts is a mapping"),
        (
            json.dumps({**LOCK, "parts": {"1.34/coredns": "$(id)"}}),
            "is not a lock file of stampworks: parts have versions like v1.20.4-eksbuild.1",
        ),
        (
            json.dumps({**LOCK, "parts": {"1.34/coredns": 1}}),
            "is not a lock file of stampworks: parts have versions like v1.20.4-eksbuild.1",
        ),
        (
            json.dumps({**LOCK, "images": []}),
            "is not a lock file of stampworks: region and made_with are strings, images is a mapping",
        ),
        (
            json.dumps({**LOCK, "keys": []}),
            NO_KEYS,
        ),
        (
            json.dumps({**LOCK, "keys": {"https://a.example/b": []}}),
            NO_KEYS,
        ),
        (
            json.dumps({**LOCK, "keys": {"https://a.example/b": [1]}}),
            NO_KEYS,
        ),
        (
            json.dumps({**LOCK, "images": {IMAGE: "ami-0123456789abcdef0"}}),
            "is not a lock file of stampworks: each of its images has id, name, created, all of them strings",
        ),
        (
            json.dumps({**LOCK, "images": {IMAGE: {**FOUND, "created": 2026}}}),
            "is not a lock file of stampworks: each of its images has id, name, created, all of them strings",
        ),
        (
            json.dumps({**LOCK, "images": {IMAGE: {**FOUND, "id": "a b"}}}),
            "is not a lock file of stampworks: images have ids like ami-0123456789abcdef0",
        ),
        ("[" * 100_000, "is not a lock file of stampworks: maximum recursion depth exceeded"),
        ('"' + "x" * 300_000 + '"', "is larger than 256 KiB"),
    ],
)
def test_invalid_locks(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file and the remedy, and no plan uses it."""
    refused = refusal(locked(tmp_path, text))
    assert f"test.lock.json: {said}" in refused
    assert "hint: `stampworks lock -s STACK` looks its images up again" in refused


def test_a_pipe_is_no_lock(tmp_path: Path) -> None:
    """Reading does not wait for the other end of the pipe."""
    file = locked(tmp_path, "")
    (tmp_path / "test.lock.json").unlink()
    os.mkfifo(tmp_path / "test.lock.json")
    assert "test.lock.json: is not a file" in refusal(file)


def test_locks_are_read_as_written(tmp_path: Path) -> None:
    """The order of entries is stable."""
    images = {name: LockedImage(f"ami-{name}", "debian", "2026-11-02") for name in "ba"}
    lock = Lock("us-east-1", images, parts={"1.34/vpc-cni": "v1.20.4-eksbuild.2", "1.34/coredns": "v1.12.4-eksbuild.1"})
    text = lock_text(lock)
    assert text.index("ami-a") < text.index("ami-b") < text.index("coredns") < text.index("vpc-cni")
    assert load_file(locked(tmp_path, text)).lock == lock


def test_a_lock_that_cannot_be_read_can_be_renewed(tmp_path: Path) -> None:
    """Writing the lock loads the declaration without it."""
    assert load_file(locked(tmp_path, "[]"), locked=False).lock == Lock()
