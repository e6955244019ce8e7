"""Run pytest once for each suite: the README, clusters, training with its torch, all other tests; then print the times.

Paths among the arguments are passed to their suites, and the other suites do not run. Each file's tests run in the same
process, several files in parallel; `-n 0` runs all in a single process, for a debugger. `--check` as the first argument
runs only the suite of `make check`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
CLUSTER, TRAINING = TESTS / "cluster", TESTS / "training"
README = CLUSTER / "test_readme.py"
TORCH = ROOT / ".venv" / "training" / "bin" / "python"
PYTEST = [sys.executable, "-m", "pytest", "--dist", "loadfile"]
SUITES = {
    README: [*PYTEST, "-n", "0"],  # it proves its cluster, so that nothing may run beside it
    CLUSTER: [*PYTEST, "-n", "4", f"--ignore={README}"],  # cluster tests often wait, so that four run at once
    TRAINING: [str(TORCH), "-m", "pytest", "-c", str(TRAINING / "pytest.ini"), "-n", "3", "--dist", "loadfile"],
    TESTS: [*PYTEST, "-n", "3", f"--ignore={CLUSTER}"],
}
"""The command of each suite; all remaining tests belong to the last one."""
NAMES = {README: "readme", CLUSTER: "clusters", TRAINING: "training", TESTS: "others"}
ORDINARY = "not long and not gpu and not cloud"
PURE = ("catalog", "cli", "declaration", "physics", "planning", "qualification", "schedulers", "views", "test_*.py")
CHECK = [*PYTEST, "-n", "2", "-m", f"{ORDINARY} and not engine and not cluster and not prepared"]
"""The command of `make check`: it needs the Python environment alone."""
NOTHING_RAN = 5
"""The exit status of pytest when it has chosen no test."""


def main(words: list[str]) -> int:
    """Return the exit status of the first suite that failed."""
    if words[:1] == ["--check"]:
        return _ended([*CHECK, *words[1:], *(str(path) for name in PURE for path in sorted(TESTS.glob(name)))])
    paths = [word for word in words if _is_test(word)]
    given = [word for word in words if word not in paths]
    own: dict[Path, list[str]] = {suite: [] for suite in SUITES}
    for path in paths or [str(TESTS)]:
        place = _place(path)
        for suite in (suite for suite in SUITES if suite.is_relative_to(place)):
            own[suite].append(path if suite == place else str(suite))
        if place not in SUITES:
            own[next(suite for suite in SUITES if place.is_relative_to(suite))].append(path)
    codes, lines = [], []
    for suite, chosen in own.items():
        if chosen:
            started_at = time.monotonic()
            codes.append(_ended([*SUITES[suite], *given, *chosen]))
            lines.append(_line(NAMES[suite], codes[-1], time.monotonic() - started_at))
    print("\n".join(["", *lines]), flush=True)
    return next((code for code in codes if code not in (0, NOTHING_RAN)), min(codes))


def _line(name: str, code: int, seconds: float) -> str:
    """Describe how a suite ended, for the end of the output."""
    ended = {0: "passed", NOTHING_RAN: "no tests"}.get(code, f"failed with {code}")
    return f"suite {name:<10}{ended:<16}{seconds:6.0f} s"


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
