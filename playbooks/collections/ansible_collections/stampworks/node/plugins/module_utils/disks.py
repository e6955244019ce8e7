"""What is on a disk: nothing at all, a file system, or something that somebody may want back. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, run

BEGINNING = 4 << 20
"""Bytes within which whatever uses a disk has written something."""
NOTHING = 2
"""What blkid ends with when it has found nothing on a disk that it knows."""
PROBE = ["blkid", "--probe", "--output", "export"]


def is_blank(disk: Path) -> bool:
    """Only what was read, begins with nothing but zeros, as a new disk does, and holds nothing that is known.

    blkid alone would not do: it says the same of a disk that it cannot read.
    """
    try:
        with disk.open("rb") as file:
            begins = file.read(BEGINNING)
    except OSError as error:
        raise Refused(f"{disk}: cannot tell whether it is blank: {error.strerror}: it is left alone") from error
    done = run([*PROBE, str(disk)], check=False)
    return done.returncode == NOTHING and len(begins) == BEGINNING and not any(begins)


def contents(disk: Path) -> Mapping[str, str]:
    """What blkid says of it: TYPE, UUID, LABEL, PTTYPE; nothing where it knows nothing."""
    said = run([*PROBE, str(disk)], check=False).stdout
    return dict(line.partition("=")[::2] for line in said.splitlines())


def kind(of: Mapping[str, str]) -> str:
    """What a disk that is not blank holds, in a word."""
    return of.get("TYPE") or of.get("PTTYPE") or "something else"
