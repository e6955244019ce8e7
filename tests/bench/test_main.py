"""Benchmarks run one after the other: a failure is reported, and the others still run."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import __main__ as bench
from bench import machine
from bench.rows import Row, measured


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(bench, "BUILD", tmp_path / "build")
    monkeypatch.setattr(machine, "ceilings", list)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return three benchmarks: the second one fails on request."""
    made: dict[str, Any] = {}
    for name in ("one", "two", "three"):
        made[name] = module = ModuleType(f"bench.{name}")

        def rows(module: Any = module) -> list[Row]:
            if module.error is not None:
                raise module.error
            return [measured(f"what {module.__name__} measures", "s", [float(module.NODES)])]

        vars(module).update(rows=rows, error=None, NODES=64, SMALL={"NODES": 2})
        monkeypatch.setitem(sys.modules, f"bench.{name}", module)
    monkeypatch.setattr(bench, "NAMES", tuple(made))
    return made


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit("pulumi up ended with 255:\nno room"), "failed: pulumi up ended with 255:\n    no room\n"),
        (ValueError("3 is not 4"), "failed: ValueError: 3 is not 4 (test_main.py:"),
    ],
)
def test_a_row_that_fails_is_told_and_the_others_run(
    modules: dict[str, Any], error: BaseException, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    modules["two"].error = error
    assert bench.main([]) == 1
    out, errors = capsys.readouterr()
    assert said in out
    assert ("what bench.one measures" in out, "what bench.three measures" in out) == (True, True)
    assert errors == "failed: two\n"
    assert sorted(path.name for path in bench.BUILD.iterdir()) == ["one.json", "three.json"]


def test_an_interrupt_ends_all_of_them(modules: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    modules["two"].error = KeyboardInterrupt()
    assert bench.main([]) == 130
    assert "three" not in capsys.readouterr().out


def test_all_of_them_pass(modules: dict[str, Any]) -> None:
    assert modules
    assert bench.main([]) == 0


def test_a_small_row_replaces_no_measured_one(modules: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Results of small runs are not kept: the files hold full measurements only."""
    assert modules
    assert bench.main(["--small", "one"]) == 0
    assert " 2 " in capsys.readouterr().out
    assert not bench.BUILD.exists()


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["plans"]) == 2
    assert "no benchmark is called 'plans'" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*bench.NAMES, *bench.LONG])
def test_small_settings_are_constants_of_their_module(name: str) -> None:
    module = importlib.import_module(f"bench.{name}")
    for constant, value in module.SMALL.items():
        assert getattr(module, constant) != value
