"""Writes the table of add-ons in docs/reference/addons.md from the catalog: python -m tests.docs.addons"""

from __future__ import annotations

import re
from pathlib import Path

from stampworks import catalog

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "addons.md"
HEADER = "| add-on | what it is | version | Kubernetes | part of a cluster |\n| --- | --- | --- | --- | --- |\n"
WORDS = {"always": "always", "needed": "if another one needs it", "asked": "if switched on"} | {
    "brought": "if the cloud has it"
}


def table() -> str:
    rows = [_row(name, row) for name, row in catalog.releases()[catalog.newest_release()].addons.items()]
    return HEADER + "".join(rows)


def page() -> str:
    """Return the whole page, with the expected table."""
    text, found = PAGE.read_text(), re.compile(rf"^{re.escape(HEADER)}(\|.*\n)*", re.MULTILINE)
    assert found.search(text), f"{PAGE.name} has no table of add-ons"
    return found.sub(lambda _: table(), text)


def _row(name: str, row: catalog.AddOn) -> str:
    needs = f"; needs {' and '.join(row.needs)}" if row.needs else ""
    own = "the cloud's own" if row.wanted == "brought" else f"{row.version}, no chart"
    version = row.version if row.chart else own
    cells = (f"`{name.replace('-', '_')}`", f"{row.what}{needs}", version, _range(row), _wanted(row))
    return f"| {' | '.join(cells)} |\n"


def _range(row: catalog.AddOn) -> str:
    if isinstance(row.kubernetes_min, catalog.Unknown):
        return "unknown"
    until = "or later" if isinstance(row.kubernetes_max, catalog.Unknown) else f"to {row.kubernetes_max}"
    return f"{row.kubernetes_min} {until}"


def _wanted(row: catalog.AddOn) -> str:
    if row.fabrics:
        return f"where the fabric is {' or '.join(row.fabrics)}"
    return "where nodes have such accelerators" if row.accelerators else WORDS[row.wanted]


if __name__ == "__main__":
    PAGE.write_text(page())
