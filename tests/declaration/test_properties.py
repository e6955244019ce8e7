"""Any text gives a declaration, or a list of problems with positions in the text."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks.declaration import Declaration, DeclarationError, load_file, load_value
from stampworks.declaration.nodes import ValueNode, parsed, plain, spelled, walk
from stampworks.declaration.reading import FLOAT, read

from .conftest import EXAMPLE

# The folder of a test outlives its examples; each example overwrites the one file in it.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

STACK = (Path(__file__).parents[2] / "stacks" / "Pulumi.local.yaml").read_text()
TOKENS = re.findall(r"\n *|[\w./:-]*\w|[^\w\n]", STACK)

NODES = dict(walk(read(EXAMPLE, "") or pytest.fail("the example is empty")))
PATHS = [path for path in NODES if path]
SCALAR_PATHS = [path for path in PATHS if not isinstance(NODES[path].value, (list, dict))]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 100_000),
    st.floats(allow_nan=False, allow_infinity=False),
    # the YAML writer here keeps to version 1.1, to which 1e5 is no number and needs no quotes
    st.text(max_size=30).filter(lambda text: not FLOAT.fullmatch(text)),
    st.sampled_from(["gpu", "cpu", "normal", "research", "/shared", "10.0.0.0/8", "slurm", "alice", "head"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)


def answer(text: str) -> Declaration | DeclarationError:
    """Return the result of a text; any other error fails the test."""
    Path("cluster.yaml").write_text(text, encoding="utf-8", newline="")
    try:
        return load_file(Path("cluster.yaml")).declaration
    except DeclarationError as error:
        return error


def replaced(path: tuple[str | int, ...], value: Any) -> Any:
    data = copy.deepcopy(yaml.safe_load(EXAMPLE))
    parent = data
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return data


def points_at(error: DeclarationError, text: str) -> bool:
    """Whether each problem quotes the line that it names and has its column inside of it."""
    lines = text.split("\n")
    return all(
        problem.source == lines[problem.line - 1] and 1 <= problem.column <= len(problem.source) + 1
        for problem in error.problems
    )


@relaxed
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_text(text: str) -> None:
    """Any text at all has an answer that can be printed."""
    found = answer(text)
    assert isinstance(found, DeclarationError)
    assert str(found).endswith("nothing was changed.")


@relaxed
@given(st.text(alphabet="ab:-?[]{},&*!|>'\"%@`#\\\n \t<~", max_size=60))
def test_any_yaml(text: str) -> None:
    """Any combination of YAML's own signs gives an answer with a position."""
    found = answer(text)
    assert isinstance(found, DeclarationError)
    assert all(problem.line == 0 or points_at(DeclarationError([problem]), text) for problem in found.problems)


@relaxed
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    """A piece cut out of the example, doubled or overwritten, leaves a declaration or problems that point into it."""
    start = data.draw(st.integers(0, len(EXAMPLE)))
    end = data.draw(st.integers(start, min(len(EXAMPLE), start + 40)))
    middle = data.draw(st.sampled_from(["", EXAMPLE[start:end] * 2, "\n", ": ", "'", "- ", "{", "null", "*a", "\t"]))
    text = EXAMPLE[:start] + middle + EXAMPLE[end:]
    found = answer(text)
    assert isinstance(found, Declaration) or points_at(found, text)


@st.composite
def edited(draw: st.DrawFn) -> str:
    """The demo's stack file after a hand has slipped a few times: a token left out, written twice, or two exchanged."""
    tokens = list(TOKENS)
    for _ in range(draw(st.integers(1, 3))):
        one, other = draw(st.integers(0, len(tokens) - 1)), draw(st.integers(0, len(tokens) - 1))
        kind = draw(st.sampled_from(["leave out", "write twice", "exchange"]))
        if kind == "leave out":
            del tokens[one]
        elif kind == "write twice":
            tokens.insert(one, tokens[one])
        else:
            tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


def test_the_tokens_are_the_file() -> None:
    """No token is lost; keys and values are separate tokens."""
    assert "".join(TOKENS) == STACK
    assert {"stampworks:cluster", "drain_timeout_minutes", "10.77.0.0/16", "{", "\n    "} <= set(TOKENS)


@settings(relaxed, max_examples=300)
@given(edited())
def test_any_slip_of_the_hand(text: str) -> None:
    """Any edited stack file is a declaration, or has problems that point into it."""
    found = answer(text)
    assert isinstance(found, Declaration) or points_at(found, text)


@relaxed
@given(st.sampled_from(PATHS), VALUES)
def test_any_value(path: tuple[str | int, ...], value: Any) -> None:
    """Any value in any place gives a declaration or problems, and the same ones with and without a file."""
    data = replaced(path, value)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=False)
    found = answer(text)
    if isinstance(found, Declaration):
        assert found == load_value(data, "o").declaration
        return
    assert points_at(found, text)
    with pytest.raises(DeclarationError) as caught:
        load_value(data, "o").refuse_problems()
    assert sorted(each.path for each in caught.value.problems) == sorted(each.path for each in found.problems)


@pytest.mark.parametrize("path", SCALAR_PATHS, ids=spelled)
def test_points_at_the_value(path: tuple[str | int, ...]) -> None:
    """A value of a wrong type is reported at its line and column."""
    place, written = NODES[path].place, NODES[path].written
    before, behind = place.source[: place.column - 1], place.source[place.column - 1 :]
    old = f'"{written}"' if behind.startswith('"') else written
    assert behind.startswith(old)
    lines = EXAMPLE.split("\n")
    lines[place.line - 1] = f"{before}12.5{behind.removeprefix(old)}"  # no field accepts fractions
    found = answer("\n".join(lines))
    assert isinstance(found, DeclarationError)
    assert (spelled(path), place.line, place.column) in [(each.path, each.line, each.column) for each in found.problems]


@pytest.mark.parametrize("path", [path for path in PATHS if isinstance(path[-1], str)], ids=spelled)
def test_points_at_the_key(path: tuple[str | int, ...]) -> None:
    """A misspelled key is reported at its line and column."""
    entry = NODES[path].entry
    lines = EXAMPLE.split("\n")
    line, start = lines[entry.line - 1], entry.column - 1
    assert line[start:].startswith(f"{path[-1]}:")
    lines[entry.line - 1] = f"{line[:start]}zz{line[start:]}"
    found = answer("\n".join(lines))
    assert isinstance(found, DeclarationError)
    wrong = spelled((*path[:-1], f"zz{path[-1]}"))
    assert (entry.line, entry.column) in [(each.line, each.column) for each in found.problems if each.path == wrong]


@given(st.sampled_from(PATHS))
def test_paths_can_be_read_back(path: tuple[str | int, ...]) -> None:
    """A path as messages show it leads back to its value."""
    assert parsed(spelled(path)) == path


@given(VALUES)
def test_yaml_means_what_it_means(value: Any) -> None:
    """A value written as YAML is read as the same value."""
    node = read(yaml.safe_dump({"key": value}, allow_unicode=False), "f")
    assert isinstance(node, ValueNode)
    assert plain(node) == {"key": value}
