"""Which pytest is given what."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import suites

TORCH = str(suites.ROOT / ".venv" / "training" / "bin" / "python")
INI, TRAINING = str(suites.TRAINING / "pytest.ini"), str(suites.TRAINING)


@pytest.mark.parametrize(
    ("words", "all_others", "of_training"),
    [
        ([], [], [TRAINING]),
        (["-k", "foo", "-x"], ["-k", "foo", "-x"], ["-k", "foo", "-x", TRAINING]),
        (["tests/tools", "-q"], ["-q", "tests/tools"], None),
        (["tests/test_names.py::test_no_name_is_lost"], ["tests/test_names.py::test_no_name_is_lost"], None),
        (["tests/training/pytest.ini", "-q"], None, ["-q", "tests/training/pytest.ini"]),
        (["tests"], ["tests"], [TRAINING]),
        (["tests/tools", "tests/training"], ["tests/tools"], ["tests/training"]),
        (["-k", "tools"], ["-k", "tools"], ["-k", "tools", TRAINING]),
    ],
)
def test_paths_go_where_they_belong_and_all_else_to_both(
    words: list[str], all_others: list[str] | None, of_training: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []

    def ended(command: list[str]) -> int:
        called.append(command)
        return 0

    monkeypatch.chdir(suites.ROOT)
    monkeypatch.setattr(suites, "_ended", ended)
    assert suites.main(words) == 0
    expected = []
    if all_others is not None:
        expected.append([sys.executable, "-m", "pytest", *all_others])
    if of_training is not None:
        expected.append([TORCH, "-m", "pytest", "-c", INI, *of_training])
    assert called == expected


@pytest.mark.parametrize(
    ("codes", "ended"), [((0, 0), 0), ((0, 5), 0), ((5, 0), 0), ((5, 5), 5), ((1, 0), 1), ((0, 1), 1), ((5, 2), 2)]
)
def test_either_failure_fails_and_one_that_chose_nothing_does_not(
    codes: tuple[int, int], ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ARGS='-k foo' most of the time one of both has nothing to run."""
    left = list(codes)
    monkeypatch.setattr(suites, "_ended", lambda _: left.pop(0))
    assert suites.main(["-k", "foo"]) == ended
    assert not left


def test_an_environment_that_is_not_there_is_said_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suites, "TORCH", tmp_path / "python")
    assert suites.main([str(suites.TRAINING)]) == 4
    assert capsys.readouterr().err == (
        f"{tmp_path}/python is not there, in which tests/training run: python3 -m tools.prepare --training\n"
    )
