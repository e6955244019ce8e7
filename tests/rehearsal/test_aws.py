"""A program with a cloud's resources in the real engine, without the cloud and without its plugin."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.conftest import Trial, parsed, phase, project

pytestmark = pytest.mark.engine

PROGRAM = Path(__file__).with_name("program") / "__main__.py"
CONFIG = """\
config:
  aws:region: rehearsed-1
  trial:cidr: 10.0.1.0/24
  trial:nodes: 4
  trial:capacity: 2400
  trial:token:
    secure: v1:abcdefgh:ijklmnop
"""
SCENARIO = """\
changes:
  - {name: another token, config: "trial:token", value: other}
  - {name: more room, config: "trial:capacity", value: 3600}
  - {name: a number that is none, config: "trial:nodes", value: many}
  - {name: another subnet, config: "trial:cidr", value: 10.0.2.0/24}
failures:
  - {fail: throttle, type: "aws:ec2/vpc:Vpc", times: 3}
  - {fail: throttle, name: nodes, times: 1000}
  - {fail: crash, name: nodes}
  - {fail: crash, name: cluster}
  - {fail: quota, at: 4}
  - {fail: quota, name: nobody}
durations:
  "aws:sns/topic:Topic": 60
  "aws:fsx/lustreFileSystem:LustreFileSystem": 900
secrets:
  "trial:token": "not the token"
"""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return project(tmp_path_factory.mktemp("aws"), PROGRAM, "dev", CONFIG)


@pytest.fixture(scope="module")
def found(trial: Trial, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Rehearse the program. Nothing of the user's is touched, and nothing is left."""
    aside = tmp_path_factory.mktemp("aside")
    (trial.folder / "scenario.yaml").write_text(SCENARIO)
    before = trial.files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(aside))
        code, text, said = trial.rehearse("--json", "--scenario", "scenario.yaml")
    assert code == 1, said
    assert trial.files() == before
    assert list(aside.glob("stampworks-*")) == []
    return parsed(text)


def ops(step_of: Mapping[str, Any]) -> list[str]:
    return [f"{each['op']} {each['type'].split(':')[-1]}" for each in step_of["steps"]]


def test_an_encrypted_value_wants_a_stand_in(trial: Trial) -> None:
    """The error says where and how to write a substitute; nothing runs."""
    code, _, said = trial.rehearse()
    assert code == 2
    assert "stacks/Pulumi.dev.yaml:6:1: config.trial:token: is encrypted, and a rehearsal decrypts nothing" in said
    assert "hint: give a value for it in the scenario: secrets: {'trial:token': anything}" in said


def test_problems_of_scenario_and_stack_are_reported_together(trial: Trial) -> None:
    (trial.folder / "wrong.yaml").write_text("changes: [{path: a}]\n")
    code, _, said = trial.rehearse("--scenario", "wrong.yaml")
    assert code == 2
    assert "wrong.yaml:1:11: changes[0]: has no value:" in said
    assert "config.trial:token: is encrypted" in said


def test_all_is_created_and_stays_as_it_is(found: Mapping[str, Any]) -> None:
    assert sorted(ops(phase(found, "up"))) == [
        "create Group",
        "create Instance",
        "create LaunchTemplate",
        "create LustreFileSystem",
        "create Subnet",
        "create Vpc",
    ]
    assert phase(found, "up again")["found"] == "0 changes"
    assert phase(found, "refresh")["found"] == "0 changes"
    assert "aws" in found["packages"]
    assert found["types_without_rule"] == []


def test_a_new_version_of_a_template_reaches_its_group(found: Mapping[str, Any]) -> None:
    done = ops(phase(found, "change: another token"))
    assert [each for each in done if not each.endswith(" Instance")] == ["update LaunchTemplate", "update Group"]


def test_another_first_boot_replaces_who_says_so(found: Mapping[str, Any]) -> None:
    [step] = [each for each in phase(found, "change: another token")["steps"] if each["name"] == "head"]
    assert step["op"] == "replace"
    [why] = step["why"]
    assert (why["path"], why["replaces"]) == ("userData", True)


def test_growth_in_place_replaces_nothing(found: Mapping[str, Any]) -> None:
    assert ops(phase(found, "change: more room")) == ["update LustreFileSystem"]


def test_a_change_that_would_replace_what_is_protected_is_refused(found: Mapping[str, Any]) -> None:
    """Another range replaces the subnet, and with it the file system in it."""
    refused = phase(found, "change: another subnet")
    assert (refused["verdict"], refused["found"]) == ("fail", "refused by the engine")
    assert any("scratch" in note and "protect" in note for note in refused["notes"])


def test_refusal_of_the_program_is_named(found: Mapping[str, Any]) -> None:
    refused = phase(found, "change: a number that is none")
    assert (refused["verdict"], refused["found"]) == ("fail", "refused by the stack's own program")


def test_a_duration_of_what_is_never_met_is_told(found: Mapping[str, Any]) -> None:
    assert found["types_never_met"] == ["aws:sns/topic:Topic"]
    assert found["rules_passed_over"] == [], "the stack declares no cluster"


def test_protected_resources_refuse_destroy(found: Mapping[str, Any]) -> None:
    destroyed = phase(found, "destroy")
    assert destroyed["verdict"] == "pass"
    assert destroyed["found"] == "6 deleted"
    assert destroyed["notes"] == [
        "refused by its preview, for these are protected: aws:fsx/lustreFileSystem:LustreFileSystem scratch",
        "with --skip-preview 3 others were deleted before the engine refused: 1 Group, 1 Instance, 1 LaunchTemplate",
        "they were unprotected in this rehearsal's own state, and destroyed",
    ]


def test_resource_left_by_a_crash_is_found(found: Mapping[str, Any]) -> None:
    """A network has no name by which the next up could find it: it is created once more, and the verdict is no."""
    crashed = phase(found, "failure: crash at cluster")
    assert (crashed["verdict"], crashed["found"]) == ("fail", "the next up finishes, and leaves something behind")
    [over] = [note for note in crashed["notes"] if note.startswith("there, and in no state:")]
    assert "aws:ec2/vpc:Vpc cluster (vpc-" in over


def test_resource_left_by_a_crash_may_block_the_next_up(found: Mapping[str, Any]) -> None:
    """A subnet outside of the state has the range that the next one requests."""
    crashed = phase(found, "failure: crash at nodes")
    assert (crashed["verdict"], crashed["found"]) == ("fail", "the next up does not finish")
    assert any("InvalidSubnet.Conflict" in note for note in crashed["notes"])


def test_a_duration_is_counted_and_not_waited_for(found: Mapping[str, Any]) -> None:
    path = found["critical_path"]
    assert path["seconds"] == 900
    assert path["resources"][-1] == "aws:fsx/lustreFileSystem:LustreFileSystem scratch"
    assert path["resources"][-1] not in path["unknown"]


def test_throttling_is_the_providers_own_business(found: Mapping[str, Any]) -> None:
    """Throttling that ends before the provider's last attempt is no finding."""
    throttled = phase(found, "failure: throttle at aws:ec2/vpc:Vpc")
    assert (throttled["verdict"], throttled["found"]) == ("pass", "the provider tried again, and went on")
    [note] = throttled["notes"]
    assert note.startswith("told 3 times to try later: aws:ec2/vpc:Vpc cluster; attempts of its provider: 25, as doc")


def test_a_provider_gives_up_after_its_last_attempt(found: Mapping[str, Any]) -> None:
    throttled = phase(found, "failure: throttle at nodes")
    assert (throttled["verdict"], throttled["found"]) == ("pass", "the next up finishes, with nothing twice")
    assert throttled["notes"][0].startswith("told 25 times to try later: aws:ec2/subnet:Subnet nodes; ")
    assert any("rehearsed throttle: told to try later until the last attempt" in note for note in throttled["notes"])
    assert "create Subnet" in ops(throttled)


def test_next_up_finishes_after_a_quota_error(found: Mapping[str, Any]) -> None:
    """The fourth creation of the list fails, with its dependents."""
    refused = phase(found, "failure: quota at creation 4")
    assert (refused["verdict"], refused["found"]) == ("pass", "the next up finishes, with nothing twice")
    assert any("rehearsed quota: the limit of the account is reached" in note for note in refused["notes"])
    fourth = phase(found, "up")["steps"][3]
    assert refused["met"] == [f"{fourth['type']} {fourth['name']}"]
    assert f"create {fourth['type'].split(':')[-1]}" in ops(refused)


def test_a_failure_that_never_happens_is_not_passed(found: Mapping[str, Any]) -> None:
    missed = phase(found, "failure: quota at nobody")
    assert (missed["verdict"], missed["found"]) == ("unknown", "never happened: it matches none of 6 creations")
