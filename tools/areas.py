"""`make test-long AREA=...`: the long campaigns by area, and the areas that a change can reach.

An area is a set of test files. A change reaches it if a changed file belongs to it, is imported by one of its files
directly or indirectly, or matches one of the area's patterns: programs that tests start, and files that are not Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tools import import_graph, suites

ROOT = import_graph.ROOT
AFFECTED = "affected"
LONG = "long and not gpu and not cloud"
UP = ("stacks.__main__", "stampworks.provider.__main__", "stampworks.clouds.local.*")
"""Programs behind `pulumi up` of a stack of the local cloud."""
NODES = ("playbooks/*", "workloads/validation/*", "stacks/Pulumi.*", "tools/engine/*")
"""Files that reach a node or the engine without being imported."""


CLOUDS = "stampworks.clouds"
"""Room of the clouds, whose parts a test imports on demand."""


@dataclass(frozen=True)
class Area:
    """Long tests about one subject."""

    tests: tuple[str, ...]
    """Patterns of files below tests/; the first area that matches has a file."""
    programs: tuple[str, ...] = ()
    """Patterns of modules that the tests start in processes of their own."""
    files: tuple[str, ...] = ()
    """Patterns of other files that the tests depend on."""


AREAS = {
    "kubernetes": Area(
        (
            *(
                f"cluster/test_{name}.py"
                for name in ("kubernetes", "gangs", "pods", "*_in_pods", "operators", "demo_k8s")
            ),
            *("cluster/test_same_verdicts.py", "schedulers/test_a*.py", "tools/test_kubernetes_plugin.py"),
        ),
        UP,
        (
            *NODES,
            "workloads/recipes/*",
            "tools/kube/*",
            "tools/jobset/*",
            "tools/kwok/*",
            "tools/dns/*",
            "tools/kubernetes_plugin/*",
        ),
    ),
    "proof": Area(
        (
            *(
                "cluster/test_proof.py",
                "cluster/test_pods_proven.py",
                "cluster/test_prolog.py",
                "cluster/test_faults.py",
            ),
            *("cluster/test_workloads.py", "qualification/*", "views/*", "workloads/*", "physics/*"),
        ),
        (*UP, "stampworks.cli.qualify", "stampworks.cli.fault", "stampworks.cli.report"),
        NODES,
    ),
    "training": Area(
        ("training/*", "cluster/test_submit.py", "cluster/test_own_jobs.py", "cluster/test_recipes.py"),
        (
            *UP,
            "training.*",
            "stampworks_train.*",
            "stampworks.cli.jobs",
            "stampworks.cli.submit",
            "stampworks.cli.workload",
        ),
        ("workloads/*", *NODES),
    ),
    "hostile": Area(
        ("cluster/test_hostile.py", "*/test_fuzz.py", "*/test_hostile.py", "*/test_bombs.py", "*/test_properties.py"),
        UP,
        NODES,
    ),
    "hosts": Area(
        ("clouds/hosts/*", "cluster/test_hosts*.py"),
        (*UP, "stampworks.clouds.hosts.*", "stampworks.cli.hosts", "stampworks.cli.facts"),
        ("*/clouds/hosts/tree/*", *NODES),
    ),
    "kills": Area(
        ("cluster/*", "clouds/local/*", "machine_room/*", "tools/*", "operations/*", "provider/*"),
        (*UP, "stampworks.cli.drain", "stampworks.cli.roll", "stampworks.cli.status"),
        (*NODES, "tools/language_host/*", "tools/prepare/*"),
    ),
    "aws": Area(("clouds/aws/*",), ("stacks.__main__", "stampworks.clouds.aws.*"), ("stacks/*", "*/rehearsal/rules/*")),
    "conformance": Area(
        ("conformance/*",), (*UP, "stampworks.clouds.aws.*"), (*NODES, "stacks/*", "*/rehearsal/rules/*")
    ),
    "playbooks": Area(("playbooks/*", "configuration/*"), (), ("playbooks/*",)),
    "rehearsal": Area(
        ("rehearsal/*", "upgrade/*", "cli/*", "wheel/*"),
        ("stacks.__main__", "stampworks.clouds.*"),
        ("stacks/*", "*/rehearsal/rules/*"),
    ),
    "machines": Area(("machines/*",), UP, ("playbooks/*", "stacks/Pulumi.aws*")),
    "planning": Area(("planning/*", "schedulers/*", "declaration/*"), (), ("stacks/Pulumi.*", "*/catalog/*")),
    "docs": Area(("docs/*",), (), ("*.md", "docs/images/*", "mkdocs.yml", "tools/site/*")),
    "bench": Area(("bench/*",), ("bench.*", *UP), NODES),
}


@dataclass(frozen=True)
class Reached:
    """A changed file that an area depends on, and the path to it."""

    area: str
    file: str
    way: str


def main() -> int:
    """Run the test files of the chosen areas, or list them, and return the exit status."""
    parser = argparse.ArgumentParser(prog="make test-long", description=__doc__)
    parser.add_argument("--area", default="", help=f"{', '.join(AREAS)}, or {AFFECTED}; without it, all")
    parser.add_argument("--base", default="", help=f"with {AFFECTED}: the commit that the change is held against")
    parser.add_argument("--list", action="store_true", help="print the test files and run nothing")
    asked, given = parser.parse_known_args()
    chosen = list(AREAS)
    if asked.area == AFFECTED:
        base = asked.base or default_base()
        print(f"areas that the change since {base} can reach:", flush=True)
        reached = list(affected(changed(base)))
        for one in reached:
            print(f"  {one.area:<12}{one.file}: {one.way}", flush=True)
        chosen = [one.area for one in reached]
    elif asked.area:
        chosen = [name for name in asked.area.split(",") if name]
        if unknown := [name for name in chosen if name not in AREAS]:
            print(f"no area {', '.join(unknown)}\n  hint: areas are {', '.join(AREAS)}, {AFFECTED}", file=sys.stderr)
            return 2
    files = [file for file, area in long_files().items() if area in chosen]
    if asked.list or not files:
        print("\n".join(files) or "no area is reached: nothing to run")
        return 0
    # Run one file at a time: many of them measure.
    return suites.main(["-n", "0", "-m", LONG, *given, *files])


def default_base() -> str:
    """Return the upstream of main, else the last tag, else the commit before this one."""
    for command in (["rev-parse", "--abbrev-ref", "main@{upstream}"], ["describe", "--tags", "--abbrev=0"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return "HEAD~1"


def changed(base: str) -> list[str]:
    """List the files that differ from the base, tracked or new."""
    listed = []
    for command in (["diff", "--name-only", "-z", base, "--"], ["ls-files", "--others", "--exclude-standard", "-z"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"git {' '.join(command)}: {done.stderr.strip()}\n  hint: BASE=COMMIT names another commit")
        listed += [name for name in done.stdout.split("\0") if name]
    return listed


def long_files() -> dict[str, str]:
    """Map each file that has long tests to its area."""
    return {file: area_of(file) for file in _tests() if "mark.long" in (ROOT / file).read_text(encoding="utf-8")}


def area_of(file: str) -> str:
    """Return the area of a test file; empty for a file that no area has."""
    name = file.removeprefix("tests/")
    return next((area for area, one in AREAS.items() if _matches(name, one.tests)), "")


def affected(files: Sequence[str]) -> Iterator[Reached]:
    """Yield the first changed file that reaches each area, with its path."""
    graph, paths = import_graph.graph(), import_graph.modules()
    # an area names the parts of its clouds among its programs
    edges = {module: () if module.rpartition(".")[0] == CLOUDS else graph[module] for module in graph}
    names = {str(path): module for module, path in paths.items()}
    of_area: dict[str, list[str]] = {area: [] for area in AREAS}
    for file, area in long_files().items():
        of_area[area].append(file)
    for area, tests in of_area.items():
        started = [module for module in edges if _matches(module, AREAS[area].programs)]
        reached = import_graph.chains(edges, [*(names[file] for file in tests), *started])
        for file in files:
            if chain := reached.get(names.get(file, "")):
                yield Reached(area, file, " > ".join(chain[:-1]) + " > it" if len(chain) > 1 else "is one of its own")
                break
            if _matches(file, AREAS[area].files):
                yield Reached(area, file, "its tests depend on files of this kind")
                break


def _tests() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
