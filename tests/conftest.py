"""Fixtures of all tests: private folders, so that no test reads or changes those of the user."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from tests.rehearsed import Rehearse

collect_ignore = ["training"]
"""Tests that need torch, which tools/suites.py runs with another pytest."""
TOGETHER = (
    # run together, so that each stack is rehearsed once
    frozenset(
        {
            *("tests/clouds/aws/test_stacks.py", "tests/clouds/aws/test_eks.py"),
            *("tests/conformance/test_rehearsed.py", "tests/rehearsal/test_own.py"),
        }
    ),
    frozenset(
        f"tests/cluster/test_{name}.py" for name in ("connection", "login", "own_jobs", "submit", "users", "workloads")
    ),
    frozenset(f"tests/cluster/test_{name}.py" for name in ("gangs", "identity", "kubernetes")),
)
"""Files that share slow fixtures (tests/cluster/shared.py): a single process runs the files of a set."""


class _Together(LoadFileScheduling):  # type: ignore[misc]  # whose package has no types
    """Run each file's tests in the same process, and those of files that share a fixture, too."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((min(files) for files in TOGETHER if file in files), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _Together(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write golden files anew instead of comparing them")


def pytest_configure() -> None:
    """Let Ctrl-C reach the children of tests, also where a background shell has disabled it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_folders(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests without a real engine or cluster keep their state, cache and settings out of the user's home."""
    if request.node.get_closest_marker("cluster") or request.node.get_closest_marker("engine"):
        return
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "own-state"))
    monkeypatch.setenv("STAMPWORKS_CACHE", str(tmp_path / "own-cache"))
    for name in ("STAMPWORKS_STACK", "COLUMNS"):  # pytest's workers also set the width of the terminal
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def rehearse(tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Rehearse each stack once for all tests that ask for it."""
    from tests.rehearsed import rehearsals  # imports the command line, which few tests need

    return rehearsals(tmp_path_factory)
