"""Runs pytest four times with the same arguments: on the README, on clusters, on training with its torch, on all else.

A path below tests/ goes to the one that it belongs to, and the others then have nothing to do. Each file's tests run in
one process, several files at the same time; `-n 0` among the arguments runs all in this one, as a debugger needs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
CLUSTER, TRAINING = TESTS / "cluster", TESTS / "training"
README = CLUSTER / "test_readme.py"
TORCH = ROOT / ".venv" / "training" / "bin" / "python"
PYTEST = [sys.executable, "-m", "pytest", "--dist", "loadfile"]
SUITES = {
    README: [*PYTEST, "-n", "0"],  # what rails carry proves its cluster: there is nothing beside it, as at its reader's
    CLUSTER: [*PYTEST, "-n", "4", f"--ignore={README}"],  # some of their time they wait
    TRAINING: [str(TORCH), "-m", "pytest", "-c", str(TRAINING / "pytest.ini"), "-n", "2", "--dist", "loadfile"],
    TESTS: [*PYTEST, "-n", "2", f"--ignore={CLUSTER}"],
}
"""How the tests of a place are run; what is in none of the first ones is of the last."""
NOTHING_RAN = 5
"""What pytest ends with when it has chosen no test."""


def main(words: list[str]) -> int:
    """The exit status: that of the first that failed."""
    paths = [word for word in words if _is_test(word)]
    given = [word for word in words if word not in paths]
    own: dict[Path, list[str]] = {suite: [] for suite in SUITES}
    for path in paths or [str(TESTS)]:
        place = _place(path)
        for suite in (suite for suite in SUITES if suite.is_relative_to(place)):
            own[suite].append(path if suite == place else str(suite))
        if place not in SUITES:
            own[next(suite for suite in SUITES if place.is_relative_to(suite))].append(path)
    ended = [_ended([*SUITES[suite], *given, *chosen]) for suite, chosen in own.items() if chosen]
    return next((code for code in ended if code not in (0, NOTHING_RAN)), min(ended))


def _is_test(word: str) -> bool:
    return not word.startswith("-") and _place(word).exists() and _place(word).is_relative_to(TESTS)


def _place(word: str) -> Path:
    """The file or folder in `tests/test_it.py::test_one`."""
    return Path(word.partition("::")[0]).resolve()


def _ended(command: list[str]) -> int:
    # Thousands of programs are started, and each would compile all of the project again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except FileNotFoundError as error:
        said = f"{error.filename} is not there, in which tests/training run: python3 -m tools.prepare --training"
        print(said, file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
