"""The single written form of the reason why a node takes no jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.configuration import playbooks_dir
from stampworks.text.reasons import DrainReason, parsed, prefix, written

relaxed = settings(deadline=None)


@relaxed
@given(st.builds(DrainReason, st.just("person"), st.from_regex(r"[\w.-]+", fullmatch=True), st.text()))
def test_reason_of_a_person_round_trips(reason: DrainReason) -> None:
    """This holds for any text."""
    assert parsed(written(reason), "root") == reason


@pytest.mark.parametrize("by", ["stampworks", "health"])
@relaxed
@given(text=st.text())
def test_reason_of_the_toolkit_round_trips(by: str, text: str) -> None:
    """The text begins with the prefix of its part."""
    reason = parsed(f"{by}: {text}", "root")
    assert reason == DrainReason(by, "", text)  # type: ignore[arg-type]
    assert written(reason).startswith(prefix(by))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["Not responding", "", "person : x", "person a b: x", "healthy: x", "person alice"])
def test_any_other_line_is_slurms(line: str) -> None:
    """A name appears only in a signed reason."""
    assert parsed(line, "root") == DrainReason("slurm", "root", line)


def test_the_health_program_signs_as_the_health_check() -> None:
    """It runs on nodes without the toolkit, so that it has its own copy of the prefix."""
    program = (playbooks_dir() / "roles/health/files/stampworks-health").read_text()
    assert f'PREFIX = "{prefix("health")}"\n' in program
