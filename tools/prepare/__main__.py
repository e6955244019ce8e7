"""Prepare this machine for the project; existing parts are kept."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (an older one can read this far)
    sys.exit(f"Python 3.11 or later is needed; {sys.executable} is {sys.version.split()[0]}")

import argparse
import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from pathlib import Path

from stampworks.state.paths import cache_dir

from . import ROOT, engine, image, kubernetes, plugin, published, python_packages, system, training
from .progress import StepError, step


def main() -> int:
    """Take the steps that the arguments ask for, print all problems, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.prepare", description=__doc__)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--python", action="store_true", help="only the virtual environment")
    extent.add_argument("--image", action="store_true", help="also the image that local nodes start from")
    parser.add_argument("--training", action="store_true", help="also what tests need: torch, and what others publish")
    parser.add_argument("--kubernetes", action="store_true", help="also the programs of a Kubernetes on this machine")
    parser.add_argument("--site", action="store_true", help="also what builds the documentation as a site")
    parser.add_argument("--long", action="store_true", help="also what only long tests need")
    asked = parser.parse_args()

    cache = cache_dir()
    with _alone(cache):
        problems = prepare(
            ROOT,
            cache,
            everything=not asked.python,
            with_image=asked.image,
            with_training=asked.training,
            with_kubernetes=asked.kubernetes,
            with_site=asked.site or asked.long,
            of_long_tests=asked.long,
        )
    for problem in problems:
        print(f"\n{problem}", file=sys.stderr)
    return 4 if problems else 0


def prepare(
    root: Path,
    cache: Path,
    everything: bool,
    with_image: bool,
    with_training: bool = False,
    with_kubernetes: bool = False,
    with_site: bool = False,
    of_long_tests: bool = False,
) -> list[str]:
    """Take all possible steps, and return the problems of the others together."""
    problems = Problems()
    if everything:
        with problems.collected(), step("system programs") as shown:
            system.ensure_programs(shown)
        with problems.collected(), step("namespaces"):
            system.ensure_namespaces()
    if of_long_tests:
        with problems.collected(), step("long tests") as shown:
            system.ensure_programs_of_long_tests(shown)
    with problems.collected():
        with step("uv") as shown:
            uv = python_packages.ensure_uv(shown, cache)
        with step("python packages") as shown:
            python_packages.ensure_environment(shown, root, uv)
        beside = {"training": with_training, "site": with_site, "recipes": of_long_tests}
        _environments(root, uv, cache, [name for name, asked in beside.items() if asked])
    if everything:
        with problems.collected(), step("pulumi engine") as shown:
            engine.ensure_engine(shown, root, cache)
    if with_kubernetes:
        with problems.collected(), step("kubernetes") as shown:
            kubernetes.ensure_kubernetes(shown, root, cache)
    if of_long_tests:
        with problems.collected(), step("kubernetes plugin") as shown:
            plugin.ensure_plugin(shown, root, cache)
    if with_training:
        with problems.collected(), step("published") as shown:
            published.ensure_published(shown, root, cache)
    if with_image and not problems.texts:
        with problems.collected(), step("node image") as shown:
            image.ensure_image(shown, root)
    return problems.texts


def _environments(root: Path, uv: Path, cache: Path, names: Sequence[str]) -> None:
    """Create the virtual environments in addition to the project's."""
    ensure = {"training": training.ensure_training, "site": training.ensure_site, "recipes": training.ensure_recipes}
    for name in names:
        with step(name) as shown:
            ensure[name](shown, root, uv, cache)


class Problems:
    """Failures, kept until every other step was tried."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the error of a step, so that later steps still run."""
        try:
            yield
        except (StepError, OSError) as error:
            self.texts.append(str(error))


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Hold a lock: two set-ups at once would build everything twice, so that the later one waits."""
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
