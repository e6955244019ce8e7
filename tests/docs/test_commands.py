"""Commands on pages: the parser accepts each, and commands without a cluster are run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main, parser

from tests.docs import commands
from tests.docs.pages import ROOT, markdown

TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SHELL = re.compile(r"^( *)```(?:sh)?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FILES = {
    name: text
    for page in markdown()
    for text, name in re.findall(
        r"^```yaml\n(# (stacks/\S+\.yaml)\n.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    )
}
"""Files of stacks that pages show whole, by the name in their first line."""
PURE = {"plan", "schema", "explain", "topology", "addons", "compare", "estimate", "fabric"}
"""Verbs that read files and print: they need no cluster, account or engine."""


@dataclass(frozen=True)
class Shown:
    """A command line of a block on a page."""

    page: str
    words: tuple[str, ...]
    piped: bool = False

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def shown() -> Iterator[Shown]:
    """Yield each command of each block."""
    for page in markdown():
        if page.name == "CHANGELOG.md":  # it has commands of earlier versions
            continue
        for _, block in SHELL.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                yield from _of_line(page.relative_to(ROOT).as_posix(), line)


def _of_line(page: str, line: str) -> Iterator[Shown]:
    if not re.match(r" *(?:stampworks|make|\. tools/env\.sh|tools/gang|helm|[A-Z_]+=)\b", line):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set(";|&<>"):
            words.append(word)
            continue
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words and words[0] in ("stampworks", "make"):
            yield Shown(page, tuple(words), word == "|")
        words = []


COMMANDS = list(dict.fromkeys(each for each in shown() if each.words[0] == "stampworks"))
INLINE = sorted(
    {
        (page.relative_to(ROOT).as_posix(), " ".join(words.split()))
        for page in markdown()
        if page.name != "CHANGELOG.md"
        for words in re.findall(r"(?<!`)`(stampworks [a-z][^`]*)`(?!`)", page.read_text())
    }
)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_the_parser_takes_a_command(command: Shown) -> None:
    """A command in a block is complete: verb, options and arguments."""
    words = list(command.words[1:])
    split = words.index("--") if "--" in words else len(words)
    arguments = parser().parse_args(words[:split])
    assert split == len(words) or arguments.takes_command


@pytest.mark.parametrize(("page", "command"), INLINE)
def test_a_command_in_a_sentence_exists(page: str, command: str) -> None:
    """A sentence may leave arguments out, but its verb and its options are there."""
    _, verb, *words = command.replace("|", " | ").split()
    assert verb in commands.verbs(), page
    words = words[: words.index("--")] if "--" in words else words
    words = words[: words.index("|")] if "|" in words else words
    known = {option for action in _actions(verb) for option in action}
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert verb in ("run", "kubectl") or options <= known, page


def _actions(verb: str) -> Iterator[tuple[str, ...]]:
    pending = [commands.verbs()[verb]]
    while pending:
        for action in pending.pop()._actions:
            yield tuple(action.option_strings)
            pending += action.choices.values() if isinstance(action.choices, dict) else ()


def test_make_targets_exist() -> None:
    """Targets in blocks and in sentences."""
    named = {word for each in shown() if each.words[0] == "make" for word in each.words[1:] if "=" not in word}
    for page in markdown():
        named |= set(re.findall(r"`make ([a-z0-9-]+)", page.read_text()))
    assert len(named) > 8
    assert named - TARGETS == set()


def of_stacks(command: Shown) -> bool:
    """Whether a command refers to the reader's own stacks, so that it does not run in this project."""
    words = command.words
    if words[1] not in PURE:
        return False
    named = {words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-s", "--stack", "--from")}
    named |= {word for word in words[2:] if words[1] == "compare" and not word.startswith("-")}
    files = [f"stacks/Pulumi.{name}.yaml" for name in named]
    return all(file in FILES or (ROOT / file).exists() for file in files)


RUN = [command for command in COMMANDS if of_stacks(command)]


@pytest.mark.parametrize("command", RUN, ids=str)
def test_a_command_runs(command: Shown, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that need no cluster print an answer; a rule may say no, because no account was read."""
    assert main(command.words[1:]) in (exits.FINE, exits.NO)
    assert capsys.readouterr().out


def test_enough_commands_are_run() -> None:
    """Fail when a change of the pages leaves the tests above with nothing to run."""
    assert len(RUN) >= 10
    assert len(FILES) >= 3
    assert len(COMMANDS) >= 50


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a copy of the project with its stacks and those of pages, and work in it."""
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    for name, text in FILES.items():
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_faults_of_commands_are_found() -> None:
    [wrong] = _of_line("a.md", "stampworks status --jsn")
    with pytest.raises(exits.CliError, match="--json"):
        parser().parse_args(wrong.words[1:])
    lines = 'A=b stampworks topology -s x --as kueue | stampworks kubectl -s x -- apply -f -  # "so"'
    assert [(each.words[1], each.piped) for each in _of_line("a.md", lines)] == [("topology", True), ("kubectl", False)]
