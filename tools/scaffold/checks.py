"""A new check of a proof: a program that measures on the nodes, and a campaign that judges."""

from __future__ import annotations

from pathlib import Path

from . import names
from .files import File, Scaffold, ScaffoldError

PROGRAM = '''\
"""Say in one sentence what NAME measures, and how."""

from __future__ import annotations

from dataclasses import dataclass

from .ranks import Ranks
from .result import Answer


@dataclass(frozen=True)
class Options:
    seconds: float = 1.0
    """How long it measures."""

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ValueError("seconds must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    answer.problem(f"NAME does not measure anything yet in its {options.seconds:g} s")
    ranks.collect(answer)
'''
CAMPAIGN = '''\
"""Say in one sentence what NAME judges, and which fault it finds."""

from __future__ import annotations

from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import finding_without_number
from stampworks.qualification.subject import Subject

CHECK = "NAME"
SECONDS = 1.0
_STARTUP_S = 40.0


def measured(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Ask all nodes once."""
    seconds = _STARTUP_S + len(nodes) + SECONDS + subject.waking_s(nodes[0])
    heard = yield Ask((CHECK,), nodes, {CHECK: {"seconds": SECONDS}}, seconds, f"{CHECK} of {len(nodes)} nodes")
    why = f"{len(heard.of(CHECK))} nodes have answered, and nothing judges their answers yet"
    evidence.add([finding_without_number(CHECK, "unknown", nodes, why)])
'''
TEST = '''\
"""NAME: say which fault is found, and which node is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.qualification.levels import steps

ROOT = Path(__file__).parents[2]
CHECK = "NAME"


def test_nodes_have_the_program() -> None:
    """A program that is not listed is not started."""
    programs = (ROOT / "workloads/validation/__main__.py").read_text().partition("PROGRAMS = (")[2].partition("\\n)")[0]
    assert f'"{CHECK}"' in programs, f"add {CHECK} to PROGRAMS of workloads/validation/__main__.py"


def test_a_level_asks_for_it() -> None:
    """A campaign that is in no level never runs."""
    names = {check for step in steps("burn-in") for check in step.checks}
    assert CHECK in names, f"add a Step with {CHECK}.measured to components/stampworks/qualification/levels.py"


def test_a_node_that_is_broken_fails() -> None:
    """Nothing is judged yet."""
    pytest.fail(
        f"write run of workloads/validation/{CHECK}.py and measured of components/stampworks/qualification/{CHECK}.py, "
        f"let SimulatedCluster of tests/qualification/conftest.py answer for {CHECK}, and replace this test by one of "
        "a node that is broken: tests/qualification/test_fabric.py is an example"
    )
'''
STEPS = (
    "Measure: run of workloads/validation/NAME.py. It knows nothing of what is right. Add NAME to PROGRAMS of\n"
    "workloads/validation/__main__.py and a row to workloads/README.md; its test goes to tests/workloads.",
    "Judge: measured of components/stampworks/qualification/NAME.py. The number that must be reached follows from the\n"
    "plan by a function of physics, and its words are the derivation of the finding.",
    "Add a Step to _ALL of components/stampworks/qualification/levels.py.",
    "Break it: a fault in components/stampworks/clouds/local/faults that names NAME, its line in SEEN of\n"
    "tests/cluster/test_faults.py, and its row in docs/how-it-works/proof.md.",
    "pytest tests/qualification tests/workloads",
)


def scaffold(name: str, root: Path) -> Scaffold:
    """Return the files of a check."""
    names.check("check", name, names.MODULE, names.MODULE_RULE)
    texts = {
        f"workloads/validation/{name}.py": PROGRAM,
        f"components/stampworks/qualification/{name}.py": CAMPAIGN,
        f"tests/qualification/test_{name}.py": TEST,
    }
    if taken := [path for path in texts if (root / path).exists()]:
        raise ScaffoldError(f"there is something of the name {name!r} already: {', '.join(taken)}")
    files = [File(path, text.replace("NAME", name)) for path, text in texts.items()]
    return Scaffold(files, [step.replace("NAME", name) for step in STEPS])
