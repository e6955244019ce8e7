"""Output on a terminal: progress with elapsed time, tables that remote text cannot scramble."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from stampworks.text.printable import printable

SHOWN_AFTER_S = 1.0
_REWRITE = "\r\x1b[K"


class Progress:
    """A line on the terminal that shows the current step.

    On a terminal one line is rewritten every second with the elapsed time, and a step below a second is never shown.
    In a pipe each thing said is a line of its own.
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = printable(what)
        self._stream = stream or sys.stderr
        self.terminal = self._stream.isatty()
        self._started = time.monotonic()
        self._line = ""
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        if self.terminal:
            self._ticker.start()
        return self

    def __call__(self, line: str) -> None:
        """Show the current step; a repeated line is printed once."""
        if line == self._line:
            return
        self._line = line
        if not self.terminal:
            print(f"{self._what}: {printable(line)}", file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the line so that other output can be printed; the next second shows it again."""
        if self.terminal:
            self._stream.write(_REWRITE)
            self._stream.flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self.terminal:
            self._ticker.join()
            self._stream.write(_REWRITE)
        elapsed_s = time.monotonic() - self._started
        if kind is None and elapsed_s >= SHOWN_AFTER_S:
            print(f"{self._what}: {elapsed_s:.1f} s", file=self._stream, flush=True)

    def _tick(self) -> None:
        while not self._over.wait(SHOWN_AFTER_S):
            elapsed_s = time.monotonic() - self._started
            text = f"{self._what}: {printable(self._line)} ({elapsed_s:.0f} s)" if self._line else self._what
            self._stream.write(_REWRITE + text[: terminal_width() - 1])
            self._stream.flush()


def terminal_width() -> int:
    """Return the columns of the terminal; 100 without one."""
    return shutil.get_terminal_size((100, 24)).columns
