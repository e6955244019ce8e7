"""`pulumi preview` on AWS, in the real engine with providers that only record: of a thousand nodes against ten, and of
the toolkit against a program with the same resources that is written by hand."""

from __future__ import annotations

import contextlib
import io
import json
import re
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stampworks.rehearsal import read_stack, steps
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.result import Step
from stampworks.rehearsal.scenario import Change
from stampworks.rehearsal.servers import Servers
from stampworks.rehearsal.stack import Stack, changed

from bench.machine import timed
from bench.rows import Row, compared, interval

ROOT = Path(__file__).parents[1]
STACK, FEW, MANY, RUNS = "aws-dev-g6", 10, 1000, 6
PROJECT = json.dumps({"name": "bench", "runtime": {"name": "python", "options": {"virtualenv": f"{ROOT}/.venv"}}})
SHARE = 1.05
"""The toolkit's work, against that of a program by hand; what either imports is left out."""
IMPORTS_OURS = "import stampworks.cluster\nfrom stampworks.clouds.aws import network, nodes, place, storage\n"
IMPORTS_BY_HAND = "import pulumi_aws as aws\n"


def rows() -> list[Row]:
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="stampworks-bench-") as folder:
        record = io.StringIO()
        engines: list[Engine] = []
        recording = Recording({}, lambda: None, record)
        with servers.serving(recording) as ports, _ended(engines):

            def engine(stack: Stack, name: str) -> Engine:
                (Path(folder) / name).mkdir()
                engines.append(Engine(Path(folder) / name, stack, ports))
                return engines[-1]

            stack = read_stack(STACK, ROOT, ROOT / "stacks", {})
            return [*_of_nodes(engine(stack, "ours"), stack), *_by_hand(engine, stack, record, Path(folder))]


@contextlib.contextmanager
def _ended(engines: Sequence[Engine]) -> Iterator[None]:
    try:
        yield
    finally:
        for each in engines:
            each.end()


def _of_nodes(engine: Engine, stack: Stack) -> list[Row]:
    """A preview shows a resource for each pool, however many nodes it has."""
    found: dict[int, int] = {}
    free = changed(stack, stack.config, Change("no budget", "budget", None))

    def preview(count: int) -> float:
        engine.configure(changed(stack, free, Change("nodes", "pools.gpu.count", count)))
        return timed(lambda: found.update({count: len(_previewed(engine))}))

    took = compared(
        f"pulumi preview of {MANY} nodes on AWS, against {FEW}",
        "s",
        lambda: preview(MANY),
        lambda: preview(FEW),
        1.3,
        RUNS,
    )
    same = found[MANY] == found[FEW]
    return [
        took,
        Row("resources of the same", found[MANY], found[FEW], "", found[MANY] / found[FEW], None, None, 1.0, same),
    ]


def _previewed(engine: Engine) -> tuple[Step, ...]:
    ran = engine.run("preview")
    if ran.code:
        raise RuntimeError("\n".join(ran.errors) or ran.said)
    return steps.steps(ran)


def _by_hand(engine: Any, stack: Stack, record: io.StringIO, folder: Path) -> list[Row]:
    """Both without what a program pays that imports the same and makes nothing."""
    ours = engine(stack, "again")
    made = ours.run("up", "--yes", "--skip-preview")
    if made.code:
        raise RuntimeError("\n".join(made.errors) or made.said)
    calls = [json.loads(line) for line in record.getvalue().splitlines()]
    wanted = [each for each in calls if each["call"] == "Create" and not each["preview"]]
    of_aws = [each for each in wanted if each["type"].startswith("aws:")]
    fresh = {"ours": engine(stack, "fresh")}
    for name, text in {
        "ours imported": IMPORTS_OURS,
        "by hand": _program(of_aws),
        "by hand imported": IMPORTS_BY_HAND,
    }.items():
        project = folder / f"program {name}"
        project.mkdir()
        (project / "Pulumi.yaml").write_text(PROJECT)
        (project / "__main__.py").write_text(text)
        region = {"aws:region": "us-east-1"}
        fresh[name] = engine(Stack("bench", project, "bench", region, None), name)
    _same(of_aws, _previewed(fresh["by hand"]))
    shares, times = [], []
    for number in range(RUNS):
        order = list(fresh) if number % 2 else list(reversed(fresh))
        took = {name: timed(partial(_previewed, fresh[name])) for name in order}
        times.append((took["ours"] - took["ours imported"], took["by hand"] - took["by hand imported"]))
        shares.append(times[-1][0] / times[-1][1])
    low, high = interval(shares)
    mine, other = (statistics.median(each) for each in zip(*times, strict=True))
    what = f"the same of {len(of_aws)} resources beyond its imports, against a program by hand"
    return [Row(what, mine, other, "s", statistics.median(shares), low, high, SHARE, high <= SHARE)]


def _program(made: Sequence[Mapping[str, Any]]) -> str:
    """Each resource with the values that it got, as somebody would write it who knows them."""
    lines = [IMPORTS_BY_HAND]
    for each in made:
        package, _, kind = each["type"].removeprefix("aws:").partition(":")
        values = ", ".join(f"{_snake(key)}={value!r}" for key, value in each["values"].items())
        lines.append(f"aws.{package.partition('/')[0]}.{kind}({each['name']!r}, {values})\n")
    return "".join(lines)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _same(made: Sequence[Mapping[str, Any]], previewed: Sequence[Step]) -> None:
    """The two programs make the same things, or nothing is compared."""
    ours = sorted(each["type"] for each in made)
    by_hand = sorted(each.type for each in previewed if each.type.startswith("aws:"))
    if ours != by_hand:
        raise RuntimeError(f"the program by hand makes other things: {sorted({*ours} ^ {*by_hand})}")
