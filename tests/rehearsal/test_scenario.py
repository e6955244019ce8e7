"""A scenario is read strictly, and errors have their place."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks.declaration import DeclarationError
from stampworks.rehearsal import Scenario, load_scenario
from stampworks.rehearsal.scenario import ConfigurationChange, InjectedFailure


def loaded(tmp_path: Path, text: str) -> Scenario:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return load_scenario(file)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(DeclarationError) as error:
        raise DeclarationError(loaded(tmp_path, text).problems)
    return str(error.value).replace(f"{tmp_path}/", "")


def test_a_whole_scenario(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """\
changes:
  - {name: more, path: pools.gpu.count, value: 6}
  - {config: "aws:region", value: eu-west-1}
failures:
  - {fail: throttle, type: "aws:ec2/vpc:Vpc", times: 3}
  - {fail: crash, at: 2}
latency: {"aws:ec2/vpc:Vpc": 0.5}
durations: {"aws:rds/instance:Instance": 1200}
secrets: {"aws:secretKey": anything}
""",
    )
    assert found.changes == (
        ConfigurationChange("more", "pools.gpu.count", 6),
        ConfigurationChange("aws:region", "aws:region", "eu-west-1", config=True),
    )
    assert found.failures == (
        InjectedFailure("throttle", type="aws:ec2/vpc:Vpc", times=3),
        InjectedFailure("crash", at=2),
    )
    assert found.latency == {"aws:ec2/vpc:Vpc": 0.5}
    assert found.durations == {"aws:rds/instance:Instance": 1200}
    assert found.secrets == {"aws:secretKey": "anything"}


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = refused(
        tmp_path,
        """\
change: []
changes:
  - {path: a, config: b, value: 1}
  - {path: a}
failures:
  - {fail: fire, at: 0}
  - {fail: quota}
  - {fail: quota, at: 1, times: 2}
latency: {"a:b:C": 61}
durations: {"a:b:C": 86401, "a:b:D": .inf, "a:b:E": -1}
""",
    )
    assert text.endswith("11 problems in scenario.yaml: nothing was changed.")
    place = "scenario.yaml:1:1: there is no 'change' here\n    change: []\n    ^\n"
    assert f"{place}  hint: did you mean 'changes'?" in text
    assert "changes[0]: has either path: or config:" in text
    assert "changes[1]: has no value:" in text
    assert "failures[0].fail: is not a failure" in text
    assert "hint: write stock-out, quota, throttle or crash" in text
    assert "failures[0].at: must be a whole number from 1" in text
    assert "failures[1]: does not say which creation fails" in text
    assert "failures[2].times: is for throttle only" in text
    assert "latency[a:b:C]: must be seconds from 0 to 60" in text
    assert "hint: a rehearsal really waits; durations: are counted only" in text
    assert all(f"durations[a:b:{each}]: must be seconds from 0 to 86400" in text for each in "CDE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("- 1\n", "must be a mapping"),
        ("changes: {}\n", "changes: must be a list"),
        ("latency: []\n", "latency: must be a mapping"),
        ("durations: 900\n", "durations: must be a mapping"),
        ("latency: &a {}\nsecrets: *a\n", "aliases such as *a are not read"),
        ("x" * 70000, "is larger than 64 KiB"),
    ],
)
def test_refuses_malformed_scenarios(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_valid_parts_are_read(tmp_path: Path) -> None:
    """Problems of the stack are reported together with problems of the scenario."""
    found = loaded(tmp_path, "changes: [{path: a}, {path: b, value: 1}]\nfailures: [{fail: fire, at: 1}]\n")
    assert [change.path for change in found.changes] == ["b"]
    assert (found.failures, len(found.problems)) == ((), 2)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="nowhere: cannot be read: No such file or directory"):
        load_scenario(tmp_path / "nowhere")


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_scenario_is_read_or_refused(tmp_path: Path, text: str) -> None:
    for written in (text, f"changes: [{text}]", f"failures:\n  - {text}", f"latency: {text}"):
        (tmp_path / "scenario.yaml").write_bytes(written.encode("utf-8", "surrogatepass"))
        with contextlib.suppress(DeclarationError):
            load_scenario(tmp_path / "scenario.yaml")


def test_failure_hits_the_numbered_creation() -> None:
    urn = "urn:pulumi:s::p::a:b:Parent$aws:ec2/vpc:Vpc::net"
    assert InjectedFailure("quota", at=2).numbered(["another", urn]).hits(urn)
    assert not InjectedFailure("quota", at=1).numbered(["another", urn]).hits(urn)
    assert not InjectedFailure("quota", at=3).numbered(["another", urn]).hits(urn)
    assert InjectedFailure("quota", type="aws:ec2/vpc:Vpc").hits(urn)
    assert InjectedFailure("quota", name="net").hits(urn)
    assert not InjectedFailure("quota", type="aws:ec2/vpc:Vpc", name="other").hits(urn)
