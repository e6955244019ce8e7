"""Every room imports only the rooms allowed by the table in docs/architecture.md ("Rooms"), which is repeated below as
data.

The checker reads source files with `ast`: imports inside functions, under `TYPE_CHECKING`, relative ones and
`importlib.import_module("...")` count like any other.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

import pytest
from stampworks import catalog
from stampworks.plan import SchedulerKind

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "stampworks"

# Modules that a pure step must not use: the clock, chance, processes, the network.
IMPURE = frozenset({"asyncio", "datetime", "http", "random", "secrets", "socket", "subprocess", "time", "urllib"})


@dataclass(frozen=True)
class Rule:
    """Imports that modules matching `room` may have: the toolkit's rooms as patterns, other packages by name.

    The standard library (a pure room: without IMPURE), EVERYWHERE and the room itself are always allowed. A name
    includes everything below it unless the rule is `exact`.
    """

    room: str
    ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    pure: bool = False
    exact: bool = False

    def covers(self, module: str) -> bool:
        return module == self.room if self.exact else below(module, self.room)


def below(module: str, pattern: str) -> bool:
    return fnmatchcase(module, pattern) or fnmatchcase(module, f"{pattern}.*")


def cloud_rules(cloud: str, *sdk: str, extra: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """Components know the engine, members, facts and faults only the cloud's SDK, and no cloud knows another."""
    room = f"stampworks.clouds.{cloud}"
    own = tuple(f"clouds.{cloud}.{each}" for each in ("errors", "machines", "session", "tags"))
    members = ("plan", "clouds.errors", *extra, *own)
    return (
        # says which parts the cloud has, and imports each where it is asked for
        Rule(
            room,
            ours=("clouds.contract", "clouds.components", "resources", f"clouds.{cloud}"),
            others=("pulumi", *sdk),
            exact=True,
        ),
        Rule(f"{room}.members", ours=members, others=sdk),
        Rule(f"{room}.facts", ours=members, others=sdk),
        Rule(f"{room}.faults", ours=("clouds.faults", *members), others=sdk),
        Rule(f"{room}.renewal", ours=(*members, f"clouds.{cloud}.members"), others=sdk),
        *(
            Rule(f"{room}.{each}", ours=("plan", "clouds.errors", *own), others=sdk)
            for each in ("errors", "machines", "session", "tags")
        ),
        # a request to Kubernetes is an operation on any cloud, and has the errors of operations
        Rule(f"{room}.access", ours=("operations.errors", *members), others=sdk),
        Rule(room, ours=("plan", "schedulers", "resources", *extra, f"clouds.{cloud}.tags"), others=("pulumi", *sdk)),
    )


HOST_WORK = ("choice", "contact", "directories", "errors", "groups", "keeper", "marks", "shell")
HOST_FACTS = ("answers", "keys", "listing", "lists", "survey")
ANY = ("*",)
EVERYWHERE = ("text", "state.paths")
PLANNED = ("declaration", "catalog", "physics", "plan", "changes")
"""Rooms that every part of planning may import."""
# The first rule that matches decides.
RULES = (
    Rule("stampworks.text", pure=True),
    Rule("stampworks.state.paths"),
    Rule("stampworks.state.facts", ours=("planning", "declaration", "plan")),
    Rule("stampworks.state", exact=True),
    Rule("stampworks.plan", others=("yaml",), pure=True),
    Rule("stampworks.changes", ours=("plan",), pure=True),
    Rule("stampworks.catalog", others=("yaml",), pure=True),
    Rule("stampworks.physics", ours=("catalog",), pure=True),
    Rule("stampworks.declaration", ours=("catalog",), others=("pydantic", "pydantic_core", "yaml")),
    # Each of these imports only those above it, so that no cycle exists.
    Rule("stampworks.planning.clouds", ours=("catalog", "plan"), pure=True),
    Rule("stampworks.planning.fat_tree", ours=(*PLANNED, "planning.clouds"), pure=True),
    Rule("stampworks.planning.build", ours=(*PLANNED, "planning.clouds", "planning.fat_tree"), pure=True),
    Rule("stampworks.planning.cost", ours=(*PLANNED, "planning.clouds", "planning.build"), pure=True),
    Rule("stampworks.planning.rules", ours=(*PLANNED, "planning.clouds", "planning.build", "planning.cost"), pure=True),
    Rule(
        "stampworks.planning.changes",
        ours=(*PLANNED, "planning.clouds", "planning.build", "planning.cost", "planning.rules"),
        pure=True,
    ),
    Rule("stampworks.planning", ours=(*PLANNED, "planning"), pure=True),
    Rule("stampworks.schedulers", ours=("plan", "catalog"), others=("jinja2",), pure=True),
    Rule("stampworks.jobs", ours=("declaration", "plan", "schedulers"), others=("pydantic",), pure=True),
    Rule("stampworks.properties", pure=True),
    Rule("stampworks.resources", ours=("plan", "properties"), others=("pulumi",)),
    Rule("stampworks.clouds.hosts.keeping"),  # it runs on hosts, which have nothing but Python
    # work on hosts, for resources, members and the plugin
    *(Rule(f"stampworks.clouds.hosts.{each}", ours=("plan", "clouds.errors", "clouds.hosts")) for each in HOST_WORK),
    *(Rule(f"stampworks.clouds.hosts.{each}", ours=("plan", "clouds.errors", "clouds.hosts")) for each in HOST_FACTS),
    *cloud_rules("hosts", extra=tuple(f"clouds.hosts.{each}" for each in HOST_WORK)),
    *cloud_rules("aws", "pulumi_aws", "boto3", "botocore"),
    Rule("stampworks.clouds.local.rooms", ours=("plan", "machine_room"), pure=True),
    *cloud_rules("local", extra=("machine_room", "clouds.local.rooms")),  # its SDK is the machine room
    Rule("stampworks.machine_room.kubernetes", ours=("machine_room",), others=("cryptography", "yaml")),
    Rule("stampworks.machine_room", ours=("machine_room.kubernetes",)),
    Rule("stampworks.clouds.faults"),
    Rule("stampworks.clouds.errors"),
    # the engine's types and resources stand in annotations alone
    Rule("stampworks.clouds.components", ours=("plan", "resources"), others=("pulumi",)),
    Rule("stampworks.clouds.contract", ours=("plan", "clouds.components", "clouds.faults")),
    Rule("stampworks.clouds.registry", ours=("clouds",)),
    Rule("stampworks.clouds", exact=True),
    Rule("stampworks.configuration", ours=("plan", "catalog"), others=("ansible_runner", "yaml")),
    Rule("stampworks.qualification", ours=("plan", "physics", "catalog"), others=("cryptography",)),
    Rule(
        "stampworks.operations",
        ours=(
            *("plan", "catalog", "physics.layouts", "configuration", "qualification", "schedulers"),
            *("clouds.contract", "clouds.registry", "clouds.faults", "jobs"),
        ),
    ),
    Rule("stampworks.wire", others=("pulumi", "google")),
    Rule(
        "stampworks.provider",
        ours=(
            "plan",
            "properties",
            "wire",
            "operations",
            "configuration",
            "qualification",
            "clouds.errors",
            *(f"clouds.hosts.{each}" for each in HOST_WORK),
            "clouds.local.rooms",
            "machine_room",
        ),
        others=("grpc", "google"),
    ),
    Rule("stampworks.views", ours=("plan", "changes", "physics", "catalog", "qualification"), pure=True),
    Rule("stampworks.rehearsal.sdks", others=("pulumi",)),
    Rule(
        "stampworks.rehearsal",
        ours=("plan", "declaration", "wire", "provider", "rehearsal.sdks"),
        others=("grpc", "google", "yaml"),
    ),
    Rule("stampworks.cluster", ours=ANY, others=ANY),
    Rule("stampworks.cli", ours=ANY, others=ANY),
    Rule("stampworks", ours=("cluster", "declaration", "plan"), exact=True),
    Rule("stacks", ours=ANY, others=ANY),
    Rule("workloads.stampworks_train", others=("torch", "numpy", "boto3", "botocore")),
    Rule("workloads.recipes", others=ANY),  # each recipe imports the packages that it shows
    Rule("workloads.training", others=("stampworks_train", "torch", "numpy", "fsspec", "validation", "wandb")),
    Rule("workloads", others=("torch", "numpy", "fsspec", "tensorboard")),
    # modules run on the nodes, action plugins here beside Ansible, which brings yaml
    Rule("playbooks.roles.power", others=("boto3", "botocore")),
    Rule("playbooks.roles.workloads.files.stampworks_torch", others=("torch",)),
    Rule("playbooks", others=("ansible", "ansible_collections.stampworks", "yaml")),
)

# Rooms that must start without the engine's SDK, including re-exports of each __init__.py on the way.
WITHOUT_PULUMI = (
    *("plan", "catalog", "physics", "declaration", "planning", "schedulers", "configuration", "views", "operations"),
    "jobs",
    "qualification",
    *("clouds.local.members", "clouds.local.facts", "clouds.local.faults", "clouds.local.renewal", "machine_room"),
    "clouds.local.rooms",
    *(
        "clouds.aws.machines",
        "clouds.aws.members",
        "clouds.aws.renewal",
        "clouds.components",
        "clouds.contract",
        "clouds.registry",
    ),
    "cli",
)


@dataclass(frozen=True)
class Import:
    line: int
    module: str


def imports(tree: ast.Module, module: str, package: bool, modules: frozenset[str]) -> Iterator[Import]:
    """Every module that a file imports by name, relative names resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, package)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield Import(node.lineno, name if name in modules else base)
        elif isinstance(node, ast.Call) and _imports_by_call(node):
            argument = node.args[0] if node.args else None
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield Import(node.lineno, argument.value)


def _absolute(node: ast.ImportFrom, module: str, package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + (1 if package else 0)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _imports_by_call(node: ast.Call) -> bool:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def rule_of(module: str) -> Rule | None:
    return next((rule for rule in RULES if rule.covers(module)), None)


def allowed(rule: Rule, importer: str, imported: str) -> bool:
    top = imported.partition(".")[0]
    if top in sys.stdlib_module_names:
        return not (rule.pure and top in IMPURE)
    if top == PACKAGE:
        if rule.ours == ANY or rule_of(imported) is rule:
            return True
        return any(below(imported, f"{PACKAGE}.{pattern}") for pattern in (*EVERYWHERE, *rule.ours))
    if top == importer.partition(".")[0]:  # a directory outside the package, such as workloads, may import from itself
        return True
    return any(below(imported, other) for other in rule.others)


def violations(path: Path, module: str, source: str, modules: frozenset[str]) -> list[str]:
    """Return a line for each forbidden import: position, import, and the room's allowed imports."""
    rule = rule_of(module)
    if rule is None:
        return [f"{path}:1: {module} belongs to no room: add a rule for it to {Path(__file__).name} and the docs"]
    package = path.name == "__init__.py"
    found = sorted(
        {
            (item.line, item.module)
            for item in imports(ast.parse(source), module, package, modules)
            if not allowed(rule, module, item.module)
        }
    )
    return [f"{path}:{line}: {_room(rule)} must not import {name} ({_may(rule)})" for line, name in found]


def _room(rule: Rule) -> str:
    return rule.room.removeprefix(f"{PACKAGE}.")


def _may(rule: Rule) -> str:
    library = f"the standard library{' but its ' + ', '.join(sorted(IMPURE)) if rule.pure else ''}"
    return f"it may import {', '.join((library, *EVERYWHERE, *rule.ours, *rule.others))}"


def sources() -> list[tuple[Path, str]]:
    """Every Python file of the product with the name it is imported by."""
    found = []
    for top, base in (("components", "components"), ("stacks", "."), ("workloads", "."), ("playbooks", ".")):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT / base).with_suffix("").parts
            found.append((path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)))
    return found


SOURCES = sources()
MODULES = frozenset(module for _, module in SOURCES)


def test_every_import_is_in_the_table() -> None:
    """No file of the product imports a forbidden room."""
    found = [
        line
        for path, module in SOURCES
        for line in violations(path.relative_to(ROOT), module, path.read_text(encoding="utf-8"), MODULES)
    ]
    assert not found, "\n" + "\n".join(found)


def circles(imported: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return groups of modules that import each other, directly or through others (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in imported.get(module, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in imported:
        if module not in number:
            visit(module)
    return found


def test_no_modules_import_each_other() -> None:
    """Imports inside functions and for types count, too: modules in a cycle cannot be read or moved alone."""
    imported = {
        module: {
            each.module
            for each in imports(
                ast.parse(path.read_text(encoding="utf-8")), module, path.name == "__init__.py", MODULES
            )
            if each.module in MODULES and each.module != module
        }
        for path, module in SOURCES
    }
    assert sum(map(len, imported.values())) > len(MODULES)
    assert circles(imported) == []
    assert circles({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": []}) == [["a", "b", "c"]]


OF_CLOUDS = ("stampworks.planning.clouds", "stampworks.clouds")


def asks_which_cloud(source: str, clouds: frozenset[str]) -> list[int]:
    """The lines that compare something with the name of a cloud."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            named = {
                each.value for side in node.comparators for each in ast.walk(side) if isinstance(each, ast.Constant)
            }
            asked = isinstance(node.left, ast.Attribute | ast.Name) and ast.unparse(node.left).endswith("cloud")
            if asked and not clouds.isdisjoint(named):
                found.append(node.lineno)
    return found


def test_no_code_compares_cloud_names() -> None:
    """Differences between clouds are in the folders of clouds: elsewhere their choices are read."""
    clouds = frozenset(catalog.CLOUDS)
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, module in SOURCES
        if not any(below(module, room) for room in OF_CLOUDS)
        for line in asks_which_cloud(path.read_text(encoding="utf-8"), clouds)
    ]
    assert found == []
    assert asks_which_cloud("if plan.cloud in ('aws', 'x'): pass", clouds) == [1]


SCHEDULERS = frozenset(get_args(SchedulerKind))
OF_SCHEDULERS = (
    "stampworks.declaration.schedulers",
    "stampworks.operations.schedulers",
    "stampworks.plan.traits",
)


def asks_which_scheduler(source: str) -> list[int]:
    """Return the lines that compare a kind of scheduler with a name, or look it up in a table."""
    return sorted(node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, _ASKING) and _asks(node))


_ASKING = (ast.Compare, ast.Dict, ast.Match, ast.Subscript)


def _asks(node: ast.Compare | ast.Dict | ast.Match | ast.Subscript) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_kind(node.slice)
    if isinstance(node, ast.Dict):
        return {key.value for key in node.keys if isinstance(key, ast.Constant)} == SCHEDULERS
    if isinstance(node, ast.Match):
        return _is_kind(node.subject) and not SCHEDULERS.isdisjoint(_constants(node))
    return any(map(_is_kind, (node.left, *node.comparators))) and not SCHEDULERS.isdisjoint(_constants(node))


def _is_kind(node: ast.expr) -> bool:
    """Whether it is the kind of a scheduler, by its name: of a plan, a declaration, its data or a subject."""
    ends = (".scheduler", "scheduler.kind", "declared.kind", "scheduler.get('kind')", "scheduler['kind']")
    return ast.unparse(node).endswith(ends)


def _constants(node: ast.AST) -> set[object]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}


def test_no_code_compares_scheduler_names() -> None:
    """The differences between schedulers are their traits, and the code behind their port."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, module in SOURCES
        if not any(below(module, room) for room in OF_SCHEDULERS)
        for line in asks_which_scheduler(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "if plan.scheduler.kind == 'slurm': pass",
        "if 'kubernetes' != declaration.scheduler.kind: pass",
        "if not a.scheduler.kind == b.scheduler.kind == 'kubernetes': pass",
        "if subject.scheduler in ('slurm', 'x'): pass",
        "if scheduler.get('kind') == 'slurm': pass",
        "match plan.scheduler.kind:\n    case 'slurm': pass",
        "KEPT[plan.scheduler.kind]",
        "TABLE = {'slurm': 1, 'kubernetes': 2}",
    ],
)
def test_a_question_for_the_scheduler_is_found(source: str) -> None:
    assert asks_which_scheduler(source) == [1]


@pytest.mark.parametrize("room", WITHOUT_PULUMI)
def test_a_room_starts_without_the_engine(room: str) -> None:
    """Importing a room that must not know of pulumi, all of it, does not load pulumi by a detour either."""
    modules = ", ".join(sorted(module for module in MODULES if below(module, f"{PACKAGE}.{room}")))
    program = f"import {modules}, sys; print(*sorted(n for n in ('pulumi', 'grpc', 'torch') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


def test_the_library_does_not_load_the_command() -> None:
    """Programs with a cluster of their own parse no command line."""
    program = "import stampworks.cluster, sys; print(*sorted(n for n in sys.modules if n.startswith('stampworks.cli')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


def test_verbs_load_no_scheduler_before_they_choose_one() -> None:
    """A command starts without the clients of the scheduler that its cluster does not have."""
    verbs = "stampworks.operations, stampworks.operations.jobs, stampworks.operations.run"
    behind = ("stampworks.operations.slurm", "stampworks.operations.kubernetes")
    program = f"import {verbs}, sys; print(*sorted(n for n in sys.modules if n.startswith({behind})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


def test_a_plan_loads_no_facts_of_accounts() -> None:
    """Only a stack whose account was read has them, and their classes are a twentieth of a plan's time."""
    facts = ("stampworks.planning.rules.account", "stampworks.planning.rules.owned")
    program = f"import stampworks.planning, sys; print(*sorted(n for n in sys.modules if n.startswith({facts})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


KNOWN = frozenset({"stampworks.plan", "stampworks.cluster", "stampworks.machine_room", "stampworks.clouds.other"})


@pytest.mark.parametrize(
    ("module", "source", "line", "name"),
    [
        ("stampworks.planning.build.layout", "import json\nimport pulumi\n", 2, "pulumi"),
        ("stampworks.planning.build.layout", "from datetime import date\n", 1, "datetime"),
        ("stampworks.planning.build.layout", "def f():\n    import time\n", 2, "time"),
        ("stampworks.planning.build.layout", "from ...cluster import Cluster\n", 1, "stampworks.cluster"),
        ("stampworks.planning.build.layout", "from stampworks import cluster\n", 1, "stampworks.cluster"),
        ("stampworks.planning.build.layout", "from stampworks import Cluster\n", 1, "stampworks"),
        ("stampworks.planning.build.layout", "from ..rules.findings import Facts\n", 1, "stampworks.planning.rules"),
        ("stampworks.planning.build.layout", "from stampworks.planning.cost import cost\n", 1, "planning.cost"),
        ("stampworks.planning.rules.cost", "from stampworks.planning.changes import order\n", 1, "planning.changes"),
        ("stampworks.planning.fat_tree.tree", "import stampworks.planning.build.layout\n", 1, "planning.build"),
        ("stampworks.physics.links", "import stampworks.plan\n", 1, "stampworks.plan"),
        ("stampworks.schedulers.slurm", "from stampworks.declaration import x\n", 1, "stampworks.declaration"),
        ("stampworks.configuration.run", "if TYPE_CHECKING:\n    import pulumi\n", 2, "pulumi"),
        ("stampworks.clouds.local.nodes", "from ..other import x\n", 1, "stampworks.clouds.other"),
        ("stampworks.physics.links", "from .. import machine_room\n", 1, "stampworks.machine_room"),
        ("stampworks.clouds.local.members", "import pulumi\n", 1, "pulumi"),
        ("stampworks.machine_room.nodes", "from stampworks.plan import Group\n", 1, "stampworks.plan"),
        ("stampworks.operations.ssh", "from stampworks import machine_room\n", 1, "stampworks.machine_room"),
        ("stampworks.operations.members", "from stampworks.clouds.other import x\n", 1, "stampworks.clouds.other"),
        ("stampworks.operations.status", "import_module('pulumi.runtime')\n", 1, "pulumi.runtime"),
        ("stampworks.qualification.judge", "import torch\n", 1, "torch"),
        ("stampworks.provider.node", "from stampworks.planning import plan\n", 1, "stampworks.planning"),
        ("stampworks.catalog.machines", "from ..plan import Machine\n", 1, "stampworks.plan"),
        ("stampworks.state.paths", "import yaml\n", 1, "yaml"),
        ("workloads.training.gpt", "import stampworks.plan\n", 1, "stampworks.plan"),
        ("stampworks.kitchen.sink", "import os\n", 1, "belongs to no room"),
    ],
)  # fmt: skip
def test_a_forbidden_import_is_found(module: str, source: str, line: int, name: str) -> None:
    """The checker names the file, the line and the module that a room must not import."""
    [found] = violations(Path("some/file.py"), module, source, KNOWN)
    assert found.startswith(f"some/file.py:{line}: ")
    assert name in found


def test_the_text_of_a_violation() -> None:
    """A violation lists the imports that the room may have."""
    [found] = violations(Path("x.py"), "stampworks.resources.roster", "import boto3\n", KNOWN)
    assert found == (
        "x.py:1: resources must not import boto3 "
        "(it may import the standard library, text, state.paths, plan, properties, pulumi)"
    )


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "stampworks.planning.changes.changes",
            "from stampworks.planning.rules.findings import Finding\nfrom .x import y\nimport json\n",
        ),
        (
            "stampworks.planning.build.layout",
            "from stampworks.state.paths import cache_dir\nfrom stampworks.plan import Plan\n",
        ),
        ("stampworks.clouds.local.members", "from stampworks.machine_room import read_room\n"),
        ("stampworks.operations.members", "from stampworks.clouds.registry import CLOUDS\n"),
        ("stampworks.cli.plan", "import stampworks.planning\nimport pulumi\n"),
        ("stacks.__main__", "from stampworks import Cluster\n"),
        ("workloads.training.gpt", "import torch.distributed\nfrom workloads.training import x\nfrom . import y\n"),
    ],
)
def test_an_allowed_import_is_not_reported(module: str, source: str) -> None:
    """The checker reports nothing that the table allows."""
    assert violations(Path("x.py"), module, source, KNOWN) == []
