"""Accepted and refused YAML, and messages about broken text."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import DeclarationError, load_file
from stampworks.declaration.nodes import plain
from stampworks.declaration.reading import DEPTH_MAX, read

from .conftest import EXAMPLE, Complaint, changed, outline

BROKEN = {
    "tab": ("name: a\n\tcloud: local", "2:1: a tab cannot stand here"),
    "too-far-left": ("pools:\n  - name: gpu\n    machine: x\n   count: 4", "4:4: this does not fit the lines above"),
    "too-far-right": ("pools:\n  - name: gpu\n     machine: x", "3:13: a ':' cannot stand here"),
    "no-colon": ("name: x\ncloud\npools: 3", "2:1: a ':' is missing"),
    "colon-in-text": ("name: a: b", "1:8: a ':' cannot stand here"),
    "bracket": ("pools: [gpu, cpu\nname: x", "1:8: the '[' is never closed"),
    "bracket-at-the-end": ("pools: [gpu", "1:8: the '[' is never closed"),
    "brace": ("network: {cidr: x\nname: x", "1:10: the '{' is never closed"),
    "wrong-bracket": ("pools: [gpu}", "1:12: expected ',' or ']' here"),
    "stray-bracket": ("pools: ]", "1:8: ']' cannot stand here"),
    "quote": ("name: 'local\ncloud: x", "1:7: the quote is never closed"),
    "text-behind-quotes": ("name: 'a' b", "1:11: this does not fit the text before it"),
    "escape": ('name: "\\q"', "1:9: not an escape that YAML knows"),
    "escape-of-nothing": ('name: "\\U00110000"', "1:10: the escape does not stand for a character"),
    "at-sign": ("name: @local", "1:7: text cannot begin with '@'"),
    "ampersand": ("name: &", "1:7: text cannot begin with '&' or '*'"),
    "list-behind-key": ("pools: - gpu", "1:8: a list cannot begin here"),
    "list-in-mapping": ("name: a\n- b", "2:1: this does not fit the lines above"),
    "second-document": ("name: a\n---\nname: b", "2:1: a second document begins here"),
    "control-character": ("name: a\x07b", "1:8: the character U+0007 cannot stand in a file"),
    "invisible-character": ("name: a\ufeffb", "1:8: the character U+FEFF cannot stand in a file"),
    "too-deep": ("pools: " + "[" * 100, "1:39: nested more than 32 levels deep"),
}

SCALARS = {
    "~": None,
    "": None,
    "null": None,
    "true": True,
    "False": False,
    "yes": "yes",
    "off": "off",
    "0": 0,
    "-12": -12,
    "007": "007",
    "0x10": "0x10",
    "1_000": "1_000",
    "12:30:45": "12:30:45",
    "2026-11-21": "2026-11-21",
    "2026.11": 2026.11,
    "1e3": 1000.0,
    "'1'": "1",
    '"true"': "true",
    "9" * 18: int("9" * 18),
    "9" * 19: "9" * 19,
}

REFUSED = {
    "alias": (
        changed("preempts: [normal]", "preempts: &n [normal]") + "storage2: *n\n",
        ["29:1: storage2: there is no such key", "29:11: storage2: aliases such as *n are not read"],
    ),
    "alias-instead-of-a-value": (
        changed("count: 4", "count: &c 4").replace("count: 1", "count: *c"),
        ["8:42: pools[1].count: aliases such as *c are not read"],
    ),
    "merge": (
        changed("{name: bob, uid: 2002}", "{<<: {uid: 2002}, name: bob}"),
        ["15:6: users[1]: merge keys (<<) are not read"],
    ),
    "tag": (
        changed("name: local", "name: !!python/name:os.system local"),
        ["2:7: name: tags such as !!python/name:os.system are not read"],
    ),
    "twice": (changed("cloud: local\n", "cloud: local\nname: other\n"), ["4:1: name: 'name' is written twice"]),
    "mapping-as-key": (EXAMPLE + "? {a: b}\n: c\n", ["29:3: a key must be a word"]),
    "number-as-key": (EXAMPLE + "1: c\n", ["29:1: ['1']: there is no such key"]),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN.values(), ids=BROKEN)
def test_broken(text: str, expected: str, complaint: Complaint) -> None:
    """Broken YAML is reported at its place, in plain words."""
    assert outline(complaint(text)) == [expected]


@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=lambda each: repr(each)[:24])
def test_scalar(text: str, value: object) -> None:
    """Words have their meaning in YAML 1.2; words on which versions disagree are text."""
    node = read(f"key: {text}", "file")
    assert node is not None
    got = plain(node)["key"]
    assert (type(got), got) == (type(value), value)


@pytest.mark.parametrize(("text", "expected"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, expected: list[str], complaint: Complaint) -> None:
    """Refused syntax is reported once, and does not make other fields look missing."""
    assert outline(complaint(text)) == expected


def test_aliases_elsewhere(folder: Path) -> None:
    """Other programs' configuration in the same stack file may use all of YAML."""
    indented = "".join(f"    {line}\n" for line in EXAMPLE.splitlines())
    text = f"config:\n  other:a: &a [1]\n  other:b: *a\n  stampworks:cluster:\n{indented}"
    (folder / "Pulumi.local.yaml").write_text(text)
    assert load_file(folder / "Pulumi.local.yaml").declaration.name == "local"


def test_alias_bomb(complaint: Complaint) -> None:
    """Aliases of aliases cost no memory, for none is followed."""
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40))]
    assert "aliases such as *a0 are not read" in complaint("\n".join(lines))


@pytest.mark.parametrize("nesting", ["[", "{a: ", "- ", "? "])
def test_deep_nesting(nesting: str, complaint: Complaint) -> None:
    """Nesting is bounded long before Python's own stack is."""
    assert f"nested more than {DEPTH_MAX} levels deep" in complaint(nesting * 5000)


def test_line_breaks(folder: Path) -> None:
    """Lines are counted as in YAML, for any kind of line break."""
    (folder / "cluster.yaml").write_bytes(changed("count: 4", "count: 0").replace("\n", "\r\n").encode())
    with pytest.raises(DeclarationError) as caught:
        load_file(Path("cluster.yaml")).refuse_problems()
    [problem] = caught.value.problems
    assert (problem.line, problem.column, problem.source) == (7, 43, "  - {name: gpu, machine: sim-h100, count: 0}")
