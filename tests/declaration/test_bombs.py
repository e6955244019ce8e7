"""Declarations that try to cost time or memory: both grow only with the size of the file."""

from __future__ import annotations

import contextlib
import cProfile
import pstats
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_file
from stampworks.declaration.files import SIZE_MAX_KIB

REST = "version: 1\nname: a\ncloud: local\n"
HEAD = REST + "pools: [{name: gpu, machine: sim-h100, count: 1}]\n"
PRIORITIES = HEAD + "scheduler:\n  priorities:\n"
ACCOUNTS = "scheduler:\n  accounting: true\n  accounts:\n"
MEMORY_MAX_BYTES = 1 << 30
Make = Callable[[int], str]


def lines(head: str, line: str) -> Make:
    """A head, and as many numbered lines as fit."""

    def numbered() -> Iterator[str]:
        yield from (line.replace("NEXT", str(number + 1)).replace("N", str(number)) for number in count())

    def make(size: int) -> str:
        text, room = [head], size - len(head)
        for each in numbered():
            room -= len(each)
            if room < 0:
                return "".join(text)
            text.append(each)
        raise AssertionError

    return make


def flow(head: str, item: str, tail: str) -> Make:
    return lambda size: head + item * ((size - len(head) - len(tail)) // len(item)) + tail


def two(first: Make, second: Make) -> Make:
    return lambda size: first(size // 2) + second(size // 2)


BOMBS: dict[str, Make] = {
    "unknown-keys": lines(HEAD, "keyN: 1\n"),
    "unknown-keys-in-pools": lines(REST + "pools:\n", "  - {nmae: x, cuontN: 1}\n"),
    "unknown-accounts": two(
        lines(HEAD + "users:\n", "  - {name: uN, uid: 2000, accounts: [bN]}\n"), lines(ACCOUNTS, "    - {name: aN}\n")
    ),
    "accounts": two(
        lines(HEAD + "users:\n", "  - {name: uN, uid: 2000, accounts: [aN]}\n"), lines(ACCOUNTS, "    - {name: aN}\n")
    ),
    "chain": lines(PRIORITIES, "    - {name: pN, weight: 1, preempts: [pNEXT]}\n"),
    "circles": lines(
        PRIORITIES, "    - {name: pN, weight: 1, preempts: [qN]}\n    - {name: qN, weight: 1, preempts: [pN]}\n"
    ),
    "mounts": lines(HEAD + "storage:\n", "  - {name: sN, kind: directory, mount: /mN/a/b/c/d}\n"),
    "deep-mount": flow(HEAD + "storage: [{name: a, kind: directory, mount: ", "/a", "}]\n"),
    "list": flow(REST + "pools: [", "a,", "]\n"),
    "empty-pools": flow(REST + "pools: [", "{},", "]\n"),
    "pools": lines(REST + "pools:\n", "  - {name: pN, machine: sim-h100, count: 1024}\n"),
    "twice": lines(HEAD, "name: a\n"),
    "flow-keys": flow(HEAD + "x: {", "a,", "}\n"),
    "questions": lines(HEAD + "x:\n", "  ? a\n"),
    "tags": lambda size: lines("", "%TAG !aN! b\n")(size - len(HEAD) - 4) + "---\n" + HEAD,
    "digits": flow(REST + "pools: [{name: gpu, machine: sim-h100, count: ", "9", "}]\n"),
    "fraction": flow(REST + "pools: [{name: gpu, machine: sim-h100, count: 1e", "9", "}]\n"),
    "escapes": flow(HEAD + 'x: "', "\\n", '"\n'),
    "blank-lines": flow(HEAD, "\n", ""),
}


def calls(text: str) -> int:
    """Return the number of function calls until a text is planned or refused: a measure that does not depend on the
    machine's load."""
    Path("cluster.yaml").write_text(text)
    with cProfile.Profile() as profile, contextlib.suppress(DeclarationError):
        planning.plan(load_file(Path("cluster.yaml")))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # it is there


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
@pytest.mark.long
def test_work_follows_size(make: Make) -> None:
    """Twice the file is about twice the work, and not four times."""
    small, large = make(4 << 10), make(8 << 10)
    calls(HEAD)  # work that is done once
    assert calls(large) < 2.8 * calls(small)


PROGRAM = """
from pathlib import Path
from stampworks import planning
from stampworks.declaration import DeclarationError, load_file
try:
    planning.plan(load_file(Path("cluster.yaml")))
except DeclarationError as error:
    assert len(str(error)) < 50_000
"""


@pytest.mark.long
@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_the_largest_file_is_bounded(make: Make) -> None:
    """The largest file that is read needs little memory and ends."""
    text = make((SIZE_MAX_KIB << 10) - 8)
    assert len(text) > (SIZE_MAX_KIB << 10) * 0.95
    Path("cluster.yaml").write_text(text)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))

    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300, preexec_fn=limit)
