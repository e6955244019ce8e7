"""Writes the table of verbs in docs/reference/commands.md from the parser: python -m tests.docs.commands"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from stampworks.cli.main import parser

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGE = FOLDER / "commands.md"
PAGES = sorted(FOLDER.glob("commands-*.md"))
HEADER = "| verb | does |\n| --- | --- |\n"


def verbs() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    [choices] = [action.choices for action in parser()._actions if isinstance(action.choices, dict)]
    return choices


def sections() -> dict[str, tuple[Path, str]]:
    """Return the page and the text of each verb's section, without its heading."""
    return {
        verb: (page, text)
        for page in PAGES
        for verb, text in re.findall(r"^## stampworks ([\w-]+)\n(.*?)(?=^## |\Z)", page.read_text(), re.M | re.S)
    }


def page() -> str:
    """Return the whole page, with the expected table."""
    text, pattern = PAGE.read_text(), re.compile(rf"^{re.escape(HEADER)}(\|.*\n)*", re.MULTILINE)
    assert pattern.search(text), f"{PAGE.name} has no table of verbs"
    return pattern.sub(lambda _: HEADER + "".join(_row(verb) for verb in verbs()), text)


def _row(verb: str) -> str:
    [help_] = [
        action.help
        for choices in parser()._actions
        if isinstance(choices, argparse._SubParsersAction)
        for action in choices._choices_actions
        if action.dest == verb
    ]
    where, _ = sections()[verb]
    return f"| [`{verb}`]({where.name}#stampworks-{verb}) | {help_} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
