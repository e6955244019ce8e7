"""Writes the table of stages in playbooks/README.md from the registry of roles: python -m tests.docs.roles"""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from stampworks.catalog.roles import HARDWARE, MEMBERS, ROLES

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
PAGE = PLAYBOOKS / "README.md"
HEADER = "| role | on | does |\n| --- | --- | --- |\n"
OWN = "| the user's own roles | their groups | whatever they do; `extras.roles` of the declaration |\n"


def table() -> str:
    """Return the rows in the order of the stages."""
    stages = [play["name"] for play in yaml.safe_load((PLAYBOOKS / "site.yml").read_text())]
    rows, nodes = HEADER, {**MEMBERS, **HARDWARE}
    for role in sorted((role for role in ROLES if role.stages), key=lambda role: stages.index(role.stages[0])):
        rows += OWN if role.name == "health" else ""
        rows += f"| `{role.name}` | {nodes[role.members]} | {role.does} |\n"
    return rows


def page() -> str:
    """Return the whole page, with the table as it has to be."""
    text, pattern = PAGE.read_text(), re.compile(rf"^{re.escape(HEADER)}(\|.*\n)*", re.MULTILINE)
    assert pattern.search(text), f"{PAGE.name} has no table of stages"
    return pattern.sub(lambda _: table(), text)


if __name__ == "__main__":
    PAGE.write_text(page())
