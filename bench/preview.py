"""`pulumi preview` on AWS, in the real engine with providers that only record: of a thousand nodes against ten, and of
the toolkit against a program with the same resources that is written by hand.

The same resources are those of AWS and the components that they lie in, each with the values that it got, or with the
output of the resource that a value comes from, and after what it has to come after: nodes after the way out of their
network, pools after the head. Without that no program could make them. What the toolkit has besides (keys, roll,
roster, playbook, proof) the program by hand lacks: what these cost is the toolkit's.

Fixed start-up is what a preview takes however many resources there are: it is told from the rest by stamping the same
stack with one pool and with many, and has a row of its own. Start of engine and interpreter are in it, imports, reading
declaration and catalog, and those resources that there is one of. What grows is what has a target: the pools' resources
and all that the toolkit does for each. Both programs do without Python's search for cycles, as `stacks/__main__.py`
does, so that what it saves counts for neither.

Seconds are those of the processors, of engine, program and providers together, where a row says so: what else a machine
does makes these vary less than time on a clock. From one preview to the next they still vary more than the programs
differ, so that it takes many rounds to tell. What the engine is handed does not vary, and a row counts it.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stampworks.rehearsal import read_stack, steps
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.result import ResourceStep
from stampworks.rehearsal.scenario import ConfigurationChange
from stampworks.rehearsal.servers import Servers
from stampworks.rehearsal.stack import Stack, changed

from bench.machine import timed
from bench.rows import Row, compared, of_means

ROOT = Path(__file__).parents[1]
STACK, FEW, MANY, RUNS, ROUNDS = "aws-dev-g6", 10, 1000, 6, 24
PROJECT = json.dumps({"name": "bench", "runtime": {"name": "python", "options": {"virtualenv": sys.prefix}}})
POOLS = 25
SMALL = {"MANY": 20, "RUNS": 1, "ROUNDS": 2, "POOLS": 2}
SHARE = 1.05
TEXT_MIN = 8
"""Minimum length in characters: shorter values, such as versions, may be equal by chance."""


def rows() -> list[Row]:
    with Servers() as servers, tempfile.TemporaryDirectory(prefix="stampworks-bench-") as folder:
        engines: list[Engine] = []
        with servers.serving(Recording({}, lambda: None, None)) as ports, _ended(engines):

            def engine(stack: Stack, ports: Mapping[str, int] = ports) -> Engine:
                home = Path(folder) / f"engine {len(engines)}"
                home.mkdir()
                engines.append(Engine(home, stack, ports))
                return engines[-1]

            stack = read_stack(STACK, ROOT, ROOT / "stacks", {})
            pairs = {count: _pair(servers, engine, _with_pools(stack, count), Path(folder)) for count in (1, POOLS)}
            return [*_node_rows(engine(stack), stack), *_shares(pairs)]


@contextlib.contextmanager
def _ended(engines: Sequence[Engine]) -> Iterator[None]:
    try:
        yield
    finally:
        for each in engines:
            each.end()


def _node_rows(engine: Engine, stack: Stack) -> list[Row]:
    """A preview shows a resource for each pool, for any number of nodes."""
    found: dict[int, int] = {}
    free = changed(stack, stack.config, ConfigurationChange("no budget", "budget", None))

    def preview(count: int) -> float:
        engine.configure(changed(stack, free, ConfigurationChange("nodes", "pools.gpu.count", count)))
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


def _previewed(engine: Engine) -> tuple[ResourceStep, ...]:
    ran = engine.run("preview")
    if ran.code:
        raise RuntimeError("\n".join(ran.errors) or ran.said)
    return steps.steps(ran)


@dataclass(frozen=True)
class Pair:
    """A stack of the toolkit and the hand-written program, before their first `up`."""

    ours: Engine
    by_hand: Engine
    resources: int
    """Number of resources common to both programs (the toolkit's and the hand-written one)."""


def _with_pools(stack: Stack, count: int) -> Stack:
    """The same cluster with this many pools of the kind that it has."""
    [pool] = stack.declared["pools"]
    pools = [{**pool, "name": f"{pool['name']}{number or ''}"} for number in range(count)]
    free = changed(stack, stack.config, ConfigurationChange("no budget", "budget", None))
    return replace(stack, config=changed(stack, free, ConfigurationChange("pools", "pools", pools)))


def _pair(servers: Servers, engine: Callable[..., Engine], stack: Stack, folder: Path) -> Pair:
    record = io.StringIO()
    # answer with a recording provider that creates everything
    with servers.serving(Recording({}, lambda: None, record)) as ports:
        stamped = engine(stack, ports)
        ran = stamped.run("up", "--yes", "--skip-preview")
        if ran.code:
            raise RuntimeError("\n".join(ran.errors) or ran.said)
        made = [each for each in stamped.state().resources if each["type"].startswith("aws:") or _grouping(each)]
    calls = [json.loads(line) for line in record.getvalue().splitlines()]
    values = {each["urn"]: each["values"] for each in calls if each["call"] == "Create" and not each["preview"]}
    project = folder / f"program {len(made)}"
    project.mkdir()
    (project / "Pulumi.yaml").write_text(PROJECT)
    (project / "__main__.py").write_text(_program(made, values))
    by_hand = engine(Stack("bench", project, project, "bench", {"aws:region": "us-east-1"}, None))
    _same(made, _previewed(by_hand))
    return Pair(engine(stack), by_hand, len(made))


def _grouping(resource: Mapping[str, Any]) -> bool:
    return not resource["custom"] and resource["type"] != "pulumi:pulumi:Stack"


def _shares(pairs: Mapping[int, Pair]) -> list[Row]:
    few, many = pairs[1], pairs[POOLS]
    took: list[list[tuple[float, float]]] = []
    """Seconds of processor and of wall time for each of the four, by round."""
    engines = [few.ours, few.by_hand, many.ours, many.by_hand]
    for number in range(ROUNDS):
        order = engines if number % 2 else engines[::-1]
        found = {id(each): _spent(each) for each in order}
        took.append([found[id(each)] for each in engines])
    grown = many.resources - few.resources
    growth = [[after[0] - before[0] for before, after in ((one[0], one[2]), (one[1], one[3]))] for one in took]
    fixed = [
        [one[side][0] - growth[number][side] / grown * few.resources for side in (0, 1)]
        for number, one in enumerate(took)
    ]
    clock = [[one[2][1], one[3][1]] for one in took]
    mine, other = (_values(after) - _values(before) for before, after in zip(engines[:2], engines[2:], strict=True))
    return [
        of_means(
            f"the same of {grown} resources more, on the processors, against a program by hand", "s", growth, SHARE
        ),
        Row("values that these are made from, and the toolkit's own", mine, other, "", mine / other, *[None] * 4),
        of_means("the same however many they are: fixed start-up, on the processors", "s", fixed, None),
        of_means(f"the same of all {many.resources}, with start-up, on the clock", "s", clock, None),
    ]


def _values(engine: Engine) -> int:
    """Return the number of values that the engine wrote into its log."""
    made = engine.run("preview").of("resourcePreEvent")
    return sum(_counted(each["metadata"]["new"].get("inputs", {})) for each in made)


def _counted(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_counted, parts))


def _spent(engine: Engine) -> tuple[float, float]:
    """CPU seconds and elapsed seconds of a preview."""
    before = _processors()
    clock = timed(lambda: _previewed(engine))
    return _processors() - before, clock


def _processors() -> float:
    """Return the processor time of this process, which has the providers, and of its ended children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def _program(made: Sequence[Mapping[str, Any]], values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the program that an engineer would write by hand, with the given values."""
    lines = ["import gc\ngc.disable()\nimport pulumi\nimport pulumi_aws as aws\n"]
    whole: list[str] = []
    """Names of components that register all their children, as Pulumi's guide requires."""
    variables: dict[str, str] = {}
    outputs: dict[str, str] = {}
    """Placeholders for outputs of earlier resources."""
    for number, each in enumerate(made):
        urn, name, variable = each["urn"], each["urn"].rpartition("::")[2], f"r{number}"
        place = f"parent={variables.get(each['parent'])}, depends_on=[{_after(each, variables)}]"
        options = f"opts=pulumi.ResourceOptions({place})"
        if _grouping(each):
            lines.append(f"{variable} = pulumi.ComponentResource({each['type']!r}, {name!r}, None, {options})\n")
            whole.append(f"{variable}.register_outputs({{}})\n")
        else:
            package, _, kind = each["type"].removeprefix("aws:").partition(":")
            given = "".join(f"{_snake(key)}={_written(value, outputs, key)}, " for key, value in values[urn].items())
            module = package.partition("/")[0]
            lines.append(f"{variable} = aws.{module}.{kind}({name!r}, {given}{options})\n")
            computed = {key: value for key, value in each["outputs"].items() if key not in each["inputs"]}
            for key, value in {"id": each["id"], **computed}.items():
                if isinstance(value, str) and len(value) >= TEXT_MIN and not value.isdecimal():
                    outputs.setdefault(value, f"{variable}.{_snake(key)}")
        variables[urn] = variable
    return "".join([*lines, *whole])


def _after(one: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Return the resource that it waits for without using a value of it, as nodes wait for NAT."""
    used = {urn for urns in one.get("propertyDependencies", {}).values() for urn in urns}
    return ", ".join(variables[urn] for urn in one.get("dependencies", ()) if urn in variables and urn not in used)


def _written(value: Any, outputs: Mapping[str, str], key: str = "") -> str:
    if isinstance(value, str):
        longest = "|".join(map(re.escape, sorted(outputs, key=len, reverse=True)))
        parts = [each for each in re.split(f"({longest})", value) if each] if outputs else [value]
        texts = [outputs.get(each) or repr(each) for each in parts] or ["''"]
        return texts[0] if len(texts) == 1 else f"pulumi.Output.concat({', '.join(texts)})"
    if isinstance(value, list):
        return f"[{', '.join(_written(each, outputs) for each in value)}]"
    if isinstance(value, dict):  # keys of tags are free, all others are the SDK's
        named = {name if key == "tags" else _snake(name): _written(each, outputs, name) for name, each in value.items()}
        return f"{{{', '.join(f'{name!r}: {each}' for name, each in named.items())}}}"
    return repr(value)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _same(made: Sequence[Mapping[str, Any]], previewed: Sequence[ResourceStep]) -> None:
    """Both programs must create the same resources to be compared."""
    ours = Counter(each["type"] for each in made)
    by_hand = Counter(each.type for each in previewed if each.type != "pulumi:pulumi:Stack")
    if ours != by_hand:
        raise RuntimeError(f"the program by hand makes other things: {(ours - by_hand) | (by_hand - ours)}")
