"""Refused beginnings of docstrings and comments, missing docstrings, commit subjects, and the sample of sentences."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import sample_words, words

CLEAN = '''"""Members of a group."""

LIMIT = 3  # a group has more
"""Longest wait."""


def members() -> None:
    """Return the members.

    What follows the first line may begin as it likes.
    """
    # the text says
    # which one it is
'''


def test_clear_beginnings_pass() -> None:
    """A later line of a comment, a later paragraph, and a string that is no docstring may have any beginning."""
    assert words.problems(Path("a.py"), CLEAN + '    print("What a day")\n') == []


@pytest.mark.parametrize("word", ["What", "Of", "Who", "Whom", "Those", "That", "Which"])
@pytest.mark.parametrize(
    ("old", "form"),
    [
        ("Members of", "{} a group has of"),
        ("Longest wait", "{} waits longest"),
        ("Return the members.", "{} are the members."),
        ("a group has more", "{} a group has"),
        ("the text says", "{} the text says"),
    ],
)
def test_an_unclear_beginning_is_named(old: str, form: str, word: str) -> None:
    """Docstrings of modules, functions and attributes, and comments; in small letters, too."""
    for opening in (word, word.lower()):
        [problem] = words.problems(Path("a.py"), CLEAN.replace(old, form.format(opening)))
        line = next(at for at, text in enumerate(CLEAN.splitlines(), 1) if old in text)
        assert problem.startswith(f"a.py:{line}: opens with '{opening}': begin with a verb or a noun: {opening} ")


def test_unchecked_files_exist() -> None:
    """The list cannot outlive its files."""
    assert [path for path in words.IN_IMAGE if not (words.ROOT / path).exists()] == []


def test_lint_fails_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "one.py").write_text("# which is wrong\n")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "python_files", lambda: [Path("tools/one.py")])
    assert words.main([]) == 1
    assert capsys.readouterr().err.startswith("tools/one.py:1: opens with 'which'")


def test_public_definitions_need_docstrings() -> None:
    """Modules, classes, functions and methods count, but no private ones and nothing within a function."""
    source = """class Node:
    def start(self): ...
    def _stop(self): ...
    async def wait(self):
        'Wait.'

class _Private:
    def method(self): ...

def public():
    def inner(): ...
"""
    assert words.documentation_problems({Path("a.py"): ast.parse(source)}) == [
        "a.py:1: the module has no docstring",
        "a.py:1: Node has no docstring",
        "a.py:10: public has no docstring",
        "a.py:2: Node.start has no docstring",
        "20.0% of 5 public definitions have a docstring: write 95% of them",
    ]


def test_a_few_docstrings_may_be_missing() -> None:
    """19 of 20 are enough, 18 of 19 are not."""

    def problems(count: int) -> list[str]:
        documented = "".join(f"def f{number}():\n    'Return it.'\n" for number in range(count))
        return words.documentation_problems({Path("a.py"): ast.parse(f"'A module.'\n{documented}def g(): ...\n")})

    assert problems(18) == []
    assert problems(17) == [
        "a.py:36: g has no docstring",
        "94.7% of 19 public definitions have a docstring: write 95% of them",
    ]


@pytest.mark.parametrize(
    "message",
    [
        "aws: Retry launches that find no capacity\n\nThe reason.\n",
        "# a comment of git\naws, docs: Retry\n",
        "a: " + "B" * 69,
        "Merge branch users\n",
        "fixup! aws: Retry\n",
        "cli/jobs.py: Show `squeue`'s reasons (again)",
    ],
)
def test_a_subject_in_its_form(message: str) -> None:
    assert words.subject_problem(message) == ""


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Retry launches",
        "aws: retry launches",
        "aws: Retry launches.",
        "aws:Retry launches",
        "AWS: Retry launches",
        "aws:  Retry launches",
        "aws: What AWS says of launches",
        "aws: The launches are retried",
    ],
)
def test_a_subject_in_another_form(message: str) -> None:
    found = words.subject_problem(message)
    assert found.startswith(f"the subject is {message!r}: write `area: Imperative`, as in `aws: Retry ")


def test_a_long_subject() -> None:
    assert words.subject_problem("a: " + "B" * 70) == "the subject has 73 characters: use at most 72"


def test_the_hook_refuses_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Git gives the hook a file."""
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text("did things\n")
    assert words.main(["--subject", str(file)]) == 1
    assert "the subject is 'did things'" in capsys.readouterr().err
    file.write_text("tools: Do things\n")
    assert words.main(["--subject", str(file)]) == 0


def test_the_sample_is_drawn_by_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed draws the same texts, as many of each kind; another seed draws others."""
    drawn = sample_words.sample("2026-11-28", 22)
    assert drawn == sample_words.sample("2026-11-28", 22) != sample_words.sample("2026-11-29", 22)
    kinds = [kind for kind, _ in drawn]
    assert [kinds.count(kind) for kind in sample_words.KINDS] == [6, 6, 5, 5]
    assert len(set(drawn)) == 22
    assert sample_words.main(["--seed", "2026-11-28", "--count", "22"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 22
    assert lines[0].startswith(f"1. docstring, {drawn[0][1][0]}:{drawn[0][1][1]}: ")


def test_a_page_is_read_by_sentences(tmp_path: Path) -> None:
    """Code, tables and headings are no sentences."""
    page = "# Title\n\nOne is here. Two\nis there.\n\n```sh\nls # code\n```\n\n| a | table |\n\n- Five is it\n"
    assert [(line, " ".join(text.split())) for line, text in sample_words._sentences(page)] == [
        (3, "One is here."),
        (3, "Two is there."),
        (12, "- Five is it"),
    ]
