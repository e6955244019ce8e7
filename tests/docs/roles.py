"""Writes docs/reference/roles.md from the registry of roles: python -m tests.docs.roles"""

from __future__ import annotations

from pathlib import Path

import yaml
from stampworks.catalog.roles import HARDWARE, MEMBERS, ROLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "roles.md"
HEADER = """\
# Roles

Ansible roles configure the nodes, in this order, which is that of the stages in `playbooks/site.yml`. `pulumi up` runs
them. Each role has a page with its variables. This page is made from `components/stampworks/catalog/roles.py`;
`python -m tests.docs.roles` writes it again. [Playbooks](../../playbooks/README.md) describes the layout of roles, and
[Adding a role](../contributing/adding-a-role.md) how to add your own.

| role | on | does |
| --- | --- | --- |
"""
OWN = "| your own roles | their groups | your own tasks; `extras.roles` of the declaration |\n"
IMAGES = """\

Builders of images have an additional role:

| role | does |
| --- | --- |
"""


def page() -> str:
    """Return the whole page, with the rows in the order of the stages."""
    stages = [play["name"] for play in yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text())]
    rows, nodes = HEADER, {**MEMBERS, **HARDWARE}
    for role in sorted((role for role in ROLES if role.stages), key=lambda role: stages.index(role.stages[0])):
        rows += OWN if role.name == "health" else ""
        rows += f"| {_link(role.name)} | {nodes[role.members]} | {role.does} |\n"
    return rows + IMAGES + "".join(f"| {_link(role.name)} | {role.does} |\n" for role in ROLES if not role.stages)


def _link(role: str) -> str:
    return f"[`{role}`](../../playbooks/roles/{role}/README.md)"


if __name__ == "__main__":
    PAGE.write_text(page())
