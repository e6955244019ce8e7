"""Write down what is on a host before a cluster comes onto it, and give the host back as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stampworks.clouds.hosts.errors import HostError
from stampworks.clouds.hosts.shell import Answer, ask
from stampworks.plan import Host, Hosts

KEEP_S = 120.0
GIVE_BACK_S = 1800.0
PACKAGE = "stampworks.clouds.hosts.keeping"
FOLDER = Path(__file__).with_name("keeping")
LOADER = """
import importlib.abc, importlib.util, runpy, sys

class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in SOURCES else None
    def get_source(self, name):
        return SOURCES[name]
    def is_package(self, name):
        return any(other.startswith(name + ".") for other in SOURCES)

sys.dont_write_bytecode = True
sys.meta_path.insert(0, Sources())
from stampworks.clouds.hosts.keeping.program import main
sys.exit(main(sys.argv[1:]))
"""
"""End of the program: it imports the files of the package from the text itself."""


@dataclass(frozen=True)
class Kept:
    """A thing that stays on a host on purpose."""

    what: str
    why: str


@dataclass(frozen=True)
class GivenBack:
    """A host that was given back."""

    kept: tuple[Kept, ...]
    differences: tuple[str, ...]
    """Differences that remain, those of kept things included."""


def keep(hosts: Hosts, host: Host) -> None:
    """Write down what is on a host, unless that was done before."""
    _asked(hosts, host, ["keep"], "write down what is there", KEEP_S)


def differences(hosts: Hosts, host: Host) -> tuple[str, ...]:
    """Return what differs on a host from what was written down."""
    return _differences(host, _asked(hosts, host, ["differences"], "compare it with what was there", KEEP_S))


def give_back(hosts: Hosts, host: Host, protected: Sequence[str] = (), keep_packages: bool = False) -> GivenBack:
    """Give a host back as it was found. A host where something failed keeps its list and its mark."""
    options = [*(["--keep-packages"] if keep_packages else []), *(f"--protect={path}" for path in protected)]
    what = "give it back as it was found"
    answer = _asked(hosts, host, ["give-back", *options], what, GIVE_BACK_S)
    if failed := _texts(answer.get("failed")):
        raise HostError(host.id, f"cannot {what}", "; ".join(failed), "remove the causes, and destroy again")
    rows = answer.get("kept")
    kept = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return GivenBack(
        tuple(Kept(str(row.get("what", "")), str(row.get("why", ""))) for row in kept), _differences(host, answer)
    )


@cache
def program() -> str:
    """Return the package as one program."""
    parts = PACKAGE.split(".")
    sources = {".".join(parts[: end + 1]): "" for end in range(len(parts))}
    sources |= {f"{PACKAGE}.{path.stem}": path.read_text() for path in sorted(FOLDER.glob("[!_]*.py"))}
    return f"SOURCES = {sources!r}\n{LOADER}"


def _asked(hosts: Hosts, host: Host, words: Sequence[str], what: str, timeout_s: float) -> dict[str, Any]:
    said = ask(hosts, host, ["python3", "-I", "-S", "-", *words], program(), timeout_s)
    answer = _parsed(said)
    if answer is None or (said.code and not answer.get("failed")):
        raise HostError(host.id, f"cannot {what}", said.why if said.code else "it answers something else than JSON")
    return answer


def _parsed(said: Answer) -> dict[str, Any] | None:
    """Return the answer of the program; None for anything else."""
    try:
        answer = json.loads(said.output)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _differences(host: Host, answer: dict[str, Any]) -> tuple[str, ...]:
    listed = answer.get("differences", answer)
    if not isinstance(listed, dict):
        raise HostError(host.id, "cannot compare it with what was there", "it answers something else than differences")
    return tuple(line for lines in listed.values() for line in _texts(lines))


def _texts(listed: Any) -> tuple[str, ...]:
    return tuple(text for text in listed if isinstance(text, str)) if isinstance(listed, list) else ()
