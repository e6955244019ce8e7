"""Bring this machine to where the project runs; what is there already is kept."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (an older one can read this far)
    sys.exit(f"Python 3.11 or later is needed; {sys.executable} is {sys.version.split()[0]}")

import argparse
import contextlib
import fcntl
import runpy
from collections.abc import Iterator
from pathlib import Path

from . import engine, image, python_packages, system
from .progress import StepError, step

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.prepare", description=__doc__)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--python", action="store_true", help="only the virtual environment")
    extent.add_argument("--image", action="store_true", help="also the image that local nodes start from")
    asked = parser.parse_args()

    # The project's own answer to where things live, without the packages that importing the project would need.
    cache = Path(runpy.run_path(str(ROOT / "components/stampworks/paths.py"))["cache_dir"]())
    problems = Problems()
    with _alone(cache):
        prepare(cache, problems, everything=not asked.python, with_image=asked.image)
    return problems.report()


def prepare(cache: Path, problems: Problems, everything: bool, with_image: bool) -> None:
    """Do all the steps that can be done, so that all problems are known at once."""
    if everything:
        with problems.collected(), step("system programs") as shown:
            system.ensure_programs(shown)
    with problems.collected():
        with step("uv") as shown:
            uv = python_packages.ensure_uv(shown, cache)
        with step("python packages") as shown:
            python_packages.ensure_environment(shown, ROOT, uv)
    if everything:
        with problems.collected(), step("pulumi engine") as shown:
            engine.ensure_engine(shown, ROOT, cache)
    if with_image and not problems.texts:
        with problems.collected(), step("node image") as shown:
            image.ensure_image(shown, ROOT)


class Problems:
    """What could not be done, kept until everything else was tried."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        try:
            yield
        except StepError as error:
            self.texts.append(str(error))

    def report(self) -> int:
        for text in self.texts:
            print(f"\n{text}", file=sys.stderr)
        return 4 if self.texts else 0


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Two set-ups at once would build everything twice: the later one waits."""
    with (cache / "prepare.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another set-up on this machine to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: run it again to go on from here")
