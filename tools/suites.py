"""Runs pytest twice with the same arguments: on all tests but those of training, and on these where there is torch.

A path below tests/ goes to the one that it belongs to, and the other one then has nothing to do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
TRAINING = TESTS / "training"
TORCH = ROOT / ".venv" / "training" / "bin" / "python"
NOTHING_RAN = 5
"""What pytest ends with when it has chosen no test."""


def main(words: list[str]) -> int:
    """The exit status: that of the first that failed."""
    paths = [word for word in words if _is_test(word)]
    given = [word for word in words if word not in paths]
    of_training = [path for path in paths if _place(path).is_relative_to(TRAINING)]
    others = [path for path in paths if path not in of_training]
    if not paths or TESTS in map(_place, others):
        of_training = [str(TRAINING)]
    ended = []
    if others or not paths:
        ended.append(_ended([sys.executable, "-m", "pytest", *given, *others]))
    if of_training:
        ended.append(_ended([str(TORCH), "-m", "pytest", "-c", str(TRAINING / "pytest.ini"), *given, *of_training]))
    return next((code for code in ended if code not in (0, NOTHING_RAN)), min(ended))


def _is_test(word: str) -> bool:
    return not word.startswith("-") and _place(word).exists() and _place(word).is_relative_to(TESTS)


def _place(word: str) -> Path:
    """The file or folder in `tests/test_it.py::test_one`."""
    return Path(word.partition("::")[0]).resolve()


def _ended(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except FileNotFoundError as error:
        said = f"{error.filename} is not there, in which tests/training run: python3 -m tools.prepare --training"
        print(said, file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
