"""The error that the machine room raises."""

from __future__ import annotations

AGAIN = "run the same command again: it continues"


class RoomError(Exception):
    """A failure of the machine room: place, step, reason and remedy."""

    def __init__(self, where: str, what: str, why: str = "", remedy: str = "") -> None:
        self.where, self.what, self.why, self.remedy = where, what, why.strip(), remedy
        text = f"{where}: {what}"
        if self.why:
            text += ": " + self.why.replace("\n", "\n  ")
        super().__init__(f"{text}\n  hint: {remedy}" if remedy else text)
