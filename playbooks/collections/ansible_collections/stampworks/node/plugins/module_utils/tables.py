"""Tables of mounts: the kernel's, and the lines of /etc/fstab that are ours. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """Lines of a table that are ours, between two marks; every other line is somebody else's."""

    begin: str
    end: str

    def put(self, text: str, lines: Sequence[str]) -> tuple[str, dict[str, str]]:
        """The table with our block replaced by these lines, and what the old one had: by mount point, its source."""
        head, begin, rest = text.partition(self.begin)
        block, _, tail = rest.partition(self.end)
        old = [line.split() for line in block.splitlines() if line.strip()]
        if head and not head.endswith("\n"):
            head += "\n"
        ours = self.begin + "".join(lines) + self.end if lines else ""
        had = {unescaped(path): unescaped(source) for source, path, *_ in old}
        return (head + ours + tail if begin or lines else text), had


def mount_points(mountinfo: str) -> set[str]:
    return {unescaped(line.split()[4]) for line in mountinfo.splitlines()}


def escaped(word: str) -> str:
    """fstab separates by blanks, so blanks and backslashes inside a word are octal."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\#" else char for char in word)


def unescaped(word: str) -> str:
    head, *rest = word.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] if part[:3].isdigit() else "\\" + part for part in rest)
