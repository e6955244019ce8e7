"""Tests of the files of declarations, and of their bases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks.declaration import DeclarationError, DeclarationSource, load_file, load_stack, load_value

from .conftest import EXAMPLE, changed

BARE_EXAMPLE = """\
  hint: write one, for example
        version: 1
        name: my-cluster
        cloud: local
        pools:
          - {name: gpu, machine: sim-h100, count: 4}
"""
STACK_EXAMPLE = """\
  hint: write one, for example
        config:
          stampworks:cluster:
            version: 1
            name: my-cluster
            cloud: local
            pools:
              - {name: gpu, machine: sim-h100, count: 4}
"""
UNUSABLE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.yaml", b"", f"a.yaml: the file is empty\n{BARE_EXAMPLE}"),
    "only-remarks": ("a.yaml", b"# nothing\n", f"a.yaml: the file is empty\n{BARE_EXAMPLE}"),
    "list": ("a.yaml", b"- 1\n", f"a.yaml:1:1: declaration: must be a mapping\n    - 1\n    ^\n{BARE_EXAMPLE}"),
    "stack-without-configuration": (
        "Pulumi.a.yaml",
        b"encryptionsalt: v1\n",
        "Pulumi.a.yaml:1:1: there is no stampworks:cluster in the configuration\n"
        f"    encryptionsalt: v1\n    ^\n{STACK_EXAMPLE}",
    ),
    "stack-of-another-program": (
        "a.yaml",
        b"config:\n  aws:region: x\n",
        f"a.yaml:1:1: there is no stampworks:cluster in the configuration\n    config:\n    ^\n{STACK_EXAMPLE}",
    ),
    "misspelled-key": (
        "a.yaml",
        b"config:\n  stampworks:clutser: {}\n",
        "a.yaml:1:1: there is no stampworks:cluster in the configuration\n    config:\n    ^\n"
        "  hint: is 'stampworks:clutser' meant?\n",
    ),
    "declaration-in-quotes": (
        "a.yaml",
        b"config:\n  stampworks:cluster: '{}'\n",
        "a.yaml:2:23: stampworks:cluster: must be a mapping\n"
        f"      stampworks:cluster: '{{}}'\n                          ^\n{STACK_EXAMPLE}",
    ),
    "declaration-without-value": (
        "a.yaml",
        b"config:\n  stampworks:cluster:\n",
        f"a.yaml:2:3: stampworks:cluster: has no value\n      stampworks:cluster:\n      ^\n{STACK_EXAMPLE}",
    ),
    "declared-twice": (
        "a.yaml",
        b"config:\n  stampworks:cluster: {}\n  stampworks:cluster: {}\n",
        "a.yaml:3:3: 'stampworks:cluster' is written twice\n      stampworks:cluster: {}\n      ^\n"
        "  hint: keep one; the first is in line 2\n",
    ),
    "utf-16": ("a.yaml", "a: 1".encode("utf-16"), "a.yaml: is UTF-16\n  hint: save it as UTF-8\n"),
    "latin-1": (
        "a.yaml",
        b"version: 1\nname: caf\xe9\n",
        "a.yaml:2:10: the byte 0xe9 is not UTF-8\n    name: caf\ufffd\n             ^\n"
        "  hint: save the file as UTF-8\n",
    ),
    "too-large": (
        "a.yaml",
        b"#" * (256 * 1024 + 1),
        "a.yaml: is larger than 256 KiB\n  hint: shorten it, or move entries that repeat into a base\n",
    ),
}


def refused(path: str) -> str:
    with pytest.raises(DeclarationError) as caught:
        load_file(Path(path)).refuse_problems()
    return str(caught.value)


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.yaml").write_text(text)


@pytest.mark.parametrize(("name", "content", "expected"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_file(name: str, content: bytes, expected: str) -> None:
    """A file without a declaration is refused, with the text to write or the way to save it."""
    Path(name).write_bytes(content)
    assert refused(name) == f"{expected}\n1 problem in {name}: nothing was changed."


def test_missing_file() -> None:
    """The hint names the probable file."""
    write(local=EXAMPLE)
    assert refused("locla.yaml").startswith("locla.yaml: does not exist\n  hint: did you mean 'local.yaml'?\n")


def test_directory() -> None:
    """A directory is answered with the files in it."""
    Path("stacks").mkdir()
    Path("stacks/prod.yaml").write_text(EXAMPLE)
    assert refused("stacks").startswith("stacks: is a directory\n  hint: name a file in it; stacks has prod.yaml\n")


@pytest.mark.parametrize("name", ["a" * 300, "x\0y", "/dev/zero", "a.yaml/b"])
def test_impossible_file(name: str) -> None:
    """A file with any name gets an answer."""
    write(a=EXAMPLE)
    assert refused(name).endswith("nothing was changed.")


def test_byte_order_mark() -> None:
    """A mark that some editors write at the beginning of UTF-8 is read over, and moves no column."""
    Path("a.yaml").write_bytes(b"\xef\xbb\xbf" + changed("version: 1", "version: 3").encode())
    assert refused("a.yaml").startswith("a.yaml:1:10: version: ")


def test_stack_by_name() -> None:
    """A stack is found by its short name and by Pulumi's full one."""
    indented = "".join(f"    {line}\n" for line in EXAMPLE.splitlines())
    Path("Pulumi.local.yaml").write_text(f"config:\n  stampworks:cluster:\n{indented}")
    assert load_stack("local", Path()) == load_stack("organization/stampworks/local", Path())


@pytest.mark.parametrize(
    ("stack", "hint"), [("locla", "did you mean 'local'?"), ("prod", "there is only local")], ids=["near", "far"]
)
def test_missing_stack(stack: str, hint: str) -> None:
    """The error lists the existing stacks."""
    Path("Pulumi.local.yaml").touch()
    with pytest.raises(DeclarationError) as caught:
        load_stack(stack, Path()).refuse_problems()
    assert str(caught.value).startswith(f"Pulumi.{stack}.yaml: there is no stack '{stack}'\n  hint: {hint}\n")


def test_value() -> None:
    """A declaration in Pulumi's configuration equals one of a file, and its problems have no lines."""
    data: dict[str, Any] = yaml.safe_load(EXAMPLE)
    write(cluster=EXAMPLE)
    assert load_value(data, "stack local").declaration == load_file(Path("cluster.yaml")).declaration
    data["pools"][0]["count"] = 0
    with pytest.raises(DeclarationError) as caught:
        load_value(data, "stack local").refuse_problems()
    assert str(caught.value) == (
        "stack local: pools[0].count: must be from 1 to 4096, not 0\n"
        "  hint: largest number of nodes; for none, take the pool out\n\n"
        "1 problem in stack local: nothing was changed."
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "o: the declaration must be a mapping"),
        ({"name": object()}, "o: name: values of type object are not read"),
        (
            {"extends": "base.yaml"},
            "o: extends: extends works in a file only, and this declaration comes from elsewhere",
        ),
    ],
    ids=["no mapping", "no data", "a base"],
)
def test_unusable_value(value: object, expected: str) -> None:
    """All other types of values are refused."""
    with pytest.raises(DeclarationError) as caught:
        load_value(value, "o").refuse_problems()
    assert expected in str(caught.value).splitlines()


def test_endless_value() -> None:
    """A value that contains itself is refused."""
    value: dict[str, Any] = {}
    value["pools"] = value
    with pytest.raises(DeclarationError, match="nested more than 32 levels deep"):
        load_value(value, "o").refuse_problems()


def load(name: str) -> DeclarationSource:
    return load_file(Path(name))


def test_extends() -> None:
    """Mappings of a base are merged, and everything else is replaced."""
    write(
        base=changed("version: 1\n", ""),
        over="extends: base.yaml\nversion: 1\nfabric: {leaf_nodes: 4}\n"
        "pools: [{name: gpu, machine: sim-cpu, count: 2}]\n"
        "scheduler: {queues: [{name: all, pools: [gpu], default: true}]}\n",
    )
    base, over = load_value(yaml.safe_load(EXAMPLE), "").declaration, load("over.yaml").declaration
    assert over.fabric == base.fabric.model_copy(update={"leaf_nodes": 4})
    assert [pool.count for pool in over.pools] == [2]
    assert [queue.name for queue in over.scheduler.queues] == ["all"]
    assert over.scheduler.priorities == base.scheduler.priorities
    assert over.users == base.users


def test_extends_is_relative_to_its_file() -> None:
    """Each file names its base relative to itself, also below a stack's configuration."""
    Path("stacks/bases").mkdir(parents=True)
    Path("stacks/bases/root.yaml").write_text(EXAMPLE)
    Path("stacks/bases/middle.yaml").write_text("extends: root.yaml\nname: middle\n")
    Path("stacks/Pulumi.top.yaml").write_text(
        "config:\n  stampworks:cluster: {extends: bases/middle.yaml, name: top}\n"
    )
    assert load_stack("top", Path("stacks")).declaration.name == "top"
    assert load("stacks/bases/middle.yaml").declaration.name == "middle"


def test_problems_of_a_base() -> None:
    """A problem points into the file in which the value is written, and the last line names all files."""
    write(base=changed("count: 4", "count: 0"), over="extends: base.yaml\nname: 7\n")
    assert refused("over.yaml") == (
        "over.yaml:2:7: name: must be text, not 7\n"
        "    name: 7\n"
        "          ^\n"
        '  hint: write it in quotes: "7"\n'
        "\n"
        "base.yaml:7:43: pools[0].count: must be from 1 to 4096, not 0\n"
        "      - {name: gpu, machine: sim-h100, count: 0}\n"
        "                                              ^\n"
        "  hint: largest number of nodes; for none, take the pool out\n"
        "\n"
        "2 problems in over.yaml and base.yaml: nothing was changed."
    )


def test_a_list_of_a_base_that_does_not_fit() -> None:
    """Other stacks use the base: the hint says where an own list goes."""
    write(base=EXAMPLE, over="extends: base.yaml\npools: [{name: train, machine: sim-h100, count: 4}]\n")
    said = refused("over.yaml")
    assert "base.yaml:23:28: scheduler.queues[0].pools[0]: no pool is called 'gpu'\n" in said
    own = "(a list scheduler.queues in over.yaml takes the place of the one in the base)"
    assert f"  hint: there is only train {own}\n" in said


def test_reports_refused_syntax_of_both_files() -> None:
    """Refused syntax is reported from both files."""
    write(base=EXAMPLE + "cloud: local\n", over="extends: base.yaml\nname: a\nname: b\n")
    assert [line for line in refused("over.yaml").splitlines() if "twice" in line] == [
        "base.yaml:29:1: cloud: 'cloud' is written twice",
        "over.yaml:3:1: name: 'name' is written twice",
    ]


def test_circle_of_bases() -> None:
    """Bases that form a circle are refused, with the chain of files."""
    write(a="extends: b.yaml\n", b="extends: c.yaml\n", c="extends: ./a.yaml\n")
    assert refused("a.yaml") == (
        "c.yaml:1:10: extends: bases extend each other in a circle: a.yaml -> b.yaml -> c.yaml -> a.yaml\n"
        "    extends: ./a.yaml\n"
        "             ^\n"
        "  hint: take this extends: out\n"
        "\n"
        "1 problem in c.yaml: nothing was changed."
    )


def test_large_bases() -> None:
    """Files that extend each other share a size limit."""
    filler = "#" * 100 * 1024
    write(a="extends: b.yaml\n", b=f"extends: c.yaml\n{filler}\n", c=f"extends: d.yaml\n{filler}\n", d=filler)
    assert refused("a.yaml").splitlines()[:4] == [
        "c.yaml:1:10: extends: d.yaml makes the whole larger than 256 KiB",
        "    extends: d.yaml",
        "             ^",
        "  hint: shorten it, or move entries that repeat into a base",
    ]


def test_missing_base() -> None:
    """A base that does not exist is shown where it is named."""
    write(over="extends: bsae.yaml\n", base=EXAMPLE)
    assert refused("over.yaml").splitlines()[:4] == [
        "over.yaml:1:10: extends: bsae.yaml does not exist",
        "    extends: bsae.yaml",
        "             ^",
        "  hint: did you mean 'base.yaml'?",
    ]


def test_later_problems() -> None:
    """Later steps can point at the user's line, or at the parent of an unwritten field."""
    write(cluster=EXAMPLE)
    source = load("cluster.yaml")
    written = source.problem("pools[0].machine", "no such machine", "look around")
    assert (written.line, written.column, written.path) == (7, 26, "pools[0].machine")
    assert (written.message, written.hint) == ("no such machine", "look around")
    assert written.source == "  - {name: gpu, machine: sim-h100, count: 4}"
    defaulted = source.problem("storage[1].protect", "no")
    assert (defaulted.line, defaulted.column) == (12, 5)
    whole = source.problem("", "no")
    assert (whole.line, whole.column) == (1, 1)
