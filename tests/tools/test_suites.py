"""Arguments of each pytest."""

from __future__ import annotations

import fnmatch
import sys
import time
from pathlib import Path

import pytest

from tools import suites

README, CLUSTER, TRAINING, TESTS = (str(suite) for suite in suites.SUITES)


@pytest.mark.parametrize(
    ("words", "readme", "cluster", "training", "others"),
    [
        ([], [README], [CLUSTER], [TRAINING], [TESTS]),
        (["-x"], ["-x", README], ["-x", CLUSTER], ["-x", TRAINING], ["-x", TESTS]),
        (["tests/tools", "-q"], None, None, None, ["-q", "tests/tools"]),
        (["tests/test_names.py::test_it"], None, None, None, ["tests/test_names.py::test_it"]),
        (["tests/training/pytest.ini", "-q"], None, None, ["-q", "tests/training/pytest.ini"], None),
        (["tests"], [README], [CLUSTER], [TRAINING], ["tests"]),
        (
            ["tests/tools", "tests/training", "tests/cluster"],
            [README],
            ["tests/cluster"],
            ["tests/training"],
            ["tests/tools"],
        ),
        (["tests/cluster"], [README], ["tests/cluster"], None, None),
        (["tests/cluster/test_readme.py::test_it"], ["tests/cluster/test_readme.py::test_it"], None, None, None),
        (["tests/cluster/test_roll.py"], None, ["tests/cluster/test_roll.py"], None, None),
        (["-k", "tools"], ["-k", "tools", README], *(["-k", "tools", suite] for suite in (CLUSTER, TRAINING, TESTS))),
    ],
)
def test_paths_go_where_they_belong_and_all_else_to_each(
    words: list[str],
    readme: list[str] | None,
    cluster: list[str] | None,
    training: list[str] | None,
    others: list[str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[list[str]] = []

    def ended(command: list[str]) -> int:
        called.append(command)
        return 0

    monkeypatch.chdir(suites.ROOT)
    monkeypatch.setattr(suites, "_ended", ended)
    assert suites.main(words) == 0
    chosen = zip(suites.SUITES.values(), (readme, cluster, training, others), strict=True)
    assert called == [[*begin, *more] for begin, more in chosen if more is not None]


@pytest.mark.parametrize(
    ("codes", "ended"),
    [
        *(((0, 0, 0, 0), 0), ((0, 0, 5, 5), 0), ((5, 5, 5, 5), 5), ((1, 0, 0, 0), 1)),
        *(((0, 0, 1, 0), 1), ((5, 5, 2, 1), 2), ((5, 0, 0, 3), 3)),
    ],
)
def test_any_failure_fails_and_who_chose_nothing_does_not(
    codes: tuple[int, int, int, int], ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ARGS='-k foo' some suites usually have nothing to run."""
    left = list(codes)
    monkeypatch.setattr(suites, "_ended", lambda _: left.pop(0))
    assert suites.main(["-k", "foo"]) == ended
    assert not left


def test_an_environment_that_is_not_there_is_said_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(suites.SUITES, suites.TRAINING, [str(tmp_path / "python")])
    assert suites.main([str(suites.TRAINING)]) == 4
    assert capsys.readouterr().err == (
        f"{tmp_path}/python is not there, in which tests/training run: python3 -m tools.prepare --training\n"
    )


def test_imported_modules_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds if Python may not write bytecode."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert suites._ended([sys.executable, "-c", "import sys; sys.exit(sys.dont_write_bytecode)"]) == 0


def test_no_test_runs_twice() -> None:
    """Tests with their own suite are left out of the enclosing one."""
    assert f"--ignore={README}" in suites.SUITES[suites.CLUSTER]
    assert f"--ignore={CLUSTER}" in suites.SUITES[suites.TESTS]


def test_each_suite_that_ran_has_a_line_with_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary is at the end of the output."""
    codes = iter((0, 5, 1))
    seconds = iter((0.0, 61.4, 61.4, 62.0, 70.0, 79.6))
    monkeypatch.setattr(suites, "_ended", lambda _: next(codes))
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    assert suites.main([README, TRAINING, "tests/tools"]) == 1
    assert capsys.readouterr().out == (
        "\n"
        "suite readme    passed              61 s\n"
        "suite training  no tests             1 s\n"
        "suite others    failed with 1       10 s\n"
    )


def test_the_quick_suite_is_the_pure_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test needs an engine, a cluster or more than the Python environment."""
    called: list[list[str]] = []

    def ended(command: list[str]) -> int:
        called.append(command)
        return 0

    monkeypatch.setattr(suites, "_ended", ended)
    assert suites.main(["--check", "-x"]) == 0
    [command] = called
    assert command[: len(suites.CHECK) + 1] == [*suites.CHECK, "-x"]
    assert str(suites.TESTS / "planning") in command
    assert not {str(suites.CLUSTER), str(suites.TRAINING)} & set(command)


def test_pytest_enters_every_folder_with_tests(request: pytest.FixtureRequest) -> None:
    """By default pytest enters no folder called build, so that the tests of planning/build did not run."""
    left_out = request.config.getini("norecursedirs")
    folders = {part for file in suites.TESTS.rglob("test_*.py") for part in file.relative_to(suites.TESTS).parts[:-1]}
    assert [each for each in sorted(folders) if any(fnmatch.fnmatch(each, pattern) for pattern in left_out)] == []
