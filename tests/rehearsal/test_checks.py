"""Faults of a scenario by its stack: all of them at their lines, before the engine is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import DeclarationError
from stampworks.rehearsal import load_scenario, read_stack, rehearse, sdks

STACK = """\
config:
  a:b: text
  stampworks:cluster:
    {version: 1, name: dev, cloud: local, pools: [{name: gpu, machine: sim-h100, count: 2}]}
"""


def refused(tmp_path: Path, scenario: str) -> str:
    (tmp_path / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")
    (tmp_path / "Pulumi.dev.yaml").write_text(STACK)
    (tmp_path / "scenario.yaml").write_text(scenario)
    said: list[str] = []
    with pytest.raises(DeclarationError) as error:
        rehearse(read_stack("dev", tmp_path, tmp_path, {}), load_scenario(tmp_path / "scenario.yaml"), said.append)
    assert said == [], "nothing was run"
    return str(error.value).replace(f"{tmp_path}/", "")


def test_all_that_is_wrong_is_told_at_once_and_where(tmp_path: Path) -> None:
    text = refused(
        tmp_path,
        """\
changes:
  - {path: pools.gpu.coun, value: 3}
  - {path: pools.gpuu.count, value: 3}
  - {path: pools.gpu.count, value: -3}
  - {path: version, value: 7}
  - {config: "a:b", value: other}
failures:
  - {fail: stockout, at: 1}
  - {fail: quota, type: "aws:ec2/instence:Instance"}
latency: {"stampworks:cluster:Keyrin": 1}
durations:
  "aws:fsx/lustreFileSystm:LustreFileSystem": 900
  "asw:ec2/vpc:Vpc": 1
  "aws:sns/topic:Topic": 1
  "kubernetes:example.com/v1:Own": 1
  "other:a:B": 1
""",
    )
    assert text.endswith("9 problems in scenario.yaml: nothing was changed.")
    for said in (
        "scenario.yaml:2:12: changes[0].path: pools[0].coun: there is no such key",
        "hint: did you mean 'count'?",
        "scenario.yaml:3:12: changes[1].path: the declaration has no 'gpuu' on the way to pools.gpuu.count",
        "hint: did you mean 'gpu'?",
        "scenario.yaml:4:12: changes[2].path: pools[0].count: must be from 1 to",
        "scenario.yaml:5:12: changes[3].path: version: this release of stampworks reads version 1, not 7",
        "scenario.yaml:8:12: failures[0].fail: is not a failure",
        "scenario.yaml:9:25: failures[1].type: aws has no resource of the type 'aws:ec2/instence:Instance'",
        "hint: did you mean 'aws:ec2/instance:Instance'?",
        "scenario.yaml:10:11: latency: stampworks has no resource of the type 'stampworks:cluster:Keyrin'",
        "scenario.yaml:12:3: durations: aws has no resource of the type 'aws:fsx/lustreFileSystm:LustreFileSystem'",
        "scenario.yaml:13:3: durations: there is no package of the type 'asw:ec2/vpc:Vpc'",
        "hint: did you mean 'aws'?",
    ):
        assert said in text


def test_a_type_that_is_like_none_is_told_where_types_are(tmp_path: Path) -> None:
    text = refused(tmp_path, 'durations: {"aws:x": 1}\n')
    assert "aws has no resource of the type 'aws:x'" in text
    assert "hint: the list of the first `up` has the types of the stack" in text


def test_types_are_those_that_an_installed_package_registers() -> None:
    assert {"aws:ec2/vpc:Vpc", "aws:sns/topic:Topic"} <= sdks.classes_of("aws").keys()
    assert sdks.classes_of("kubernetes") == sdks.classes_of("nothing") == {}
