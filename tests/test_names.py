"""Folded names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.text.names import BRACKETS_MAX, UNFOLDED_MAX, fold, unfold

relaxed = settings(deadline=None)  # the machine's load says nothing about the code


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["head"], "head"),
        (["gpu-001"], "gpu-001"),
        (["gpu-001", "gpu-002", "gpu-003"], "gpu-[001-003]"),
        (["gpu-001", "gpu-003", "gpu-004"], "gpu-[001,003-004]"),
        (["head", "gpu-001", "gpu-002", "prep-001"], "head, gpu-[001-002], prep-001"),
        (["gpu-998", "gpu-999", "gpu-1000", "gpu-1001"], "gpu-[998-1001]"),
        (["a01", "a2", "a03"], "a[01,2,03]"),
        (["7", "8"], "[7-8]"),
        (["leaf1-9", "leaf1-10", "leaf2-1"], "leaf1-[9-10], leaf2-1"),
        (["rail0", "rail1", "fabric"], "rail[0-1], fabric"),
    ],
)
def test_runs_become_ranges(names: list[str], folded: str) -> None:
    """Consecutive numbers form ranges as in Slurm; Slurm's files have them without blanks."""
    assert fold(names) == folded
    assert fold(names, ",") == folded.replace(" ", "")


@relaxed
@given(st.lists(st.tuples(st.sampled_from(["gpu-", "prep-", "leaf1-"]), st.integers(1, 1100)), unique=True))
def test_no_name_is_lost(parts: list[tuple[str, int]]) -> None:
    """Folded names can be unfolded, in the same order."""
    names = [f"{stem}{number:03d}" for stem, number in parts]
    assert unfold(fold(names, ",")) == tuple(names)


def test_names_without_a_number_stay_what_they_are() -> None:
    """A name may be a prefix of a numbered one."""
    assert fold(["gpu", "gpu2"]) == "gpu, gpu2"
    assert fold(["head", "head"]) == "head, head"


@pytest.mark.parametrize(
    ("folded", "names"),
    [
        ("gpu-[001-003,007],head", ("gpu-001", "gpu-002", "gpu-003", "gpu-007", "head")),
        ("rack[1-2]-gpu[08-09]", ("rack1-gpu08", "rack1-gpu09", "rack2-gpu08", "rack2-gpu09")),
        ("gpu-[3-1]", ("gpu-3-1",)),  # not a range: it ends before it begins
        ("gpu-[a-b]", ("gpu-a-b",)),
        (f"a[{'9' * 19}-{'9' * 19}]", (f"a{'9' * 19}",)),
        (f"a[{'9' * 20}-{'9' * 20}]", (f"a{'9' * 20}-{'9' * 20}",)),  # such a number of nodes is not counted
    ],
)
def test_ranges_become_names(folded: str, names: tuple[str, ...]) -> None:
    """Slurm's short form is expanded; a part that is no range stays unchanged."""
    assert unfold(folded) == names


def test_a_list_of_nodes_has_a_limit() -> None:
    """A few characters may stand for more names than memory holds."""
    assert len(unfold(f"a[1-{UNFOLDED_MAX}]")) == UNFOLDED_MAX
    for folded in (f"a[1-{UNFOLDED_MAX}],b", "a[1-9999][1-9999]"):
        with pytest.raises(ValueError, match=f"a list of more than {UNFOLDED_MAX} nodes"):
            unfold(folded)
    with pytest.raises(ValueError, match=f"a name with more than {BRACKETS_MAX} ranges"):
        unfold("a" + "[1-2]" * (BRACKETS_MAX + 1))
