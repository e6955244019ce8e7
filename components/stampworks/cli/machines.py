"""Find a machine of the catalog by the name that a user typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampworks.cli import exits

if TYPE_CHECKING:
    from stampworks import catalog


def machine_named(name: str) -> catalog.Machine:
    """Return the machine with this name or alias. An error suggests near spellings, and machines with the accelerator
    of that name."""
    from stampworks import catalog
    from stampworks.declaration.values import machine_hint
    from stampworks.declaration.wording import shown

    names = catalog.machine_names()
    if name in names:
        return names[name]
    folded = {each.casefold(): row for each, row in names.items()}
    if row := folded.get(name.casefold()):
        return row
    raise exits.CliError(f"no machine is called {shown(name)}", machine_hint(name))
