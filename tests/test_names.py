"""Folded names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.text.names import fold

relaxed = settings(deadline=None)  # how busy the machine is says nothing about the code


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
    """Numbers that follow each other, the way Slurm reads them; in Slurm's own files without blanks."""
    assert fold(names) == folded
    assert fold(names, ",") == folded.replace(" ", "")


def unfold(text: str) -> list[str]:
    names = []
    for stem, ranges, plain in re.findall(r"([^,\[\s]*)\[([^]]*)\]|([^,\[\s]+)", text):
        if plain:
            names.append(plain)
        for span in filter(None, ranges.split(",")):
            first, _, last = span.partition("-")
            names += [f"{stem}{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return names


@relaxed
@given(st.lists(st.tuples(st.sampled_from(["gpu-", "prep-", "leaf1-"]), st.integers(1, 1100)), unique=True))
def test_no_name_is_lost(parts: list[tuple[str, int]]) -> None:
    """What was folded can be unfolded, in the same order."""
    names = [f"{stem}{number:03d}" for stem, number in parts]
    assert unfold(fold(names)) == names


def test_names_without_a_number_stay_what_they_are() -> None:
    """A name may be the beginning of another one that has a number."""
    assert fold(["gpu", "gpu2"]) == "gpu, gpu2"
    assert fold(["head", "head"]) == "head, head"
