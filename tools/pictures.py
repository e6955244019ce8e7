"""Draw the pictures of the README from a real `make demo`: python -m tools.pictures RECORDING REPORT

RECORDING is the output of `script --quiet --command 'make demo' RECORDING` in a terminal of 100 columns, REPORT the
page that the demo writes, build/report.html. The terminal becomes docs/images/demo.svg, which has the commands and
lines that SHOWN names; the top of the report becomes docs/images/report.webp.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from tests.views.report.browser import browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLUMNS, LINE, CHARACTER = 100, 17, 7.85
FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
COLOURS = {"1": "#cdd6f4", "2": "#7ec98f", "3": "#e5c07b", "9": "#f28b82", "13": "#c58fe0"}
"""Colours of Pulumi's display, by their number of the 256."""
SHOWN = {
    "pulumi up": r"─ stampworks:cluster:(Roster|Playbook|Qualification) .*created|\d created$|^Dur",
    "stampworks status": "^cluster|^  ",
    "stampworks submit": "is submitted",
    "stampworks fault": "^rank-killed",
    "stampworks logs": r"failure of a rank|goes on after|^0: generation 2|run demo: finished|^0: step (36|51|76)",
    "stampworks report": "^See the proof",
}
"""Commands of the demo that are shown, and the lines of each; all others are left out."""
QUERY = re.compile(r"\x1b\].*?\x1b\\\\")
"""Question for the terminal's colours."""
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    """Lines as a terminal shows them at the end: as many escape sequences as the demo uses."""

    def __init__(self) -> None:
        self.lines: list[list[tuple[str, str]]] = [[]]
        self.row = self.column = 0
        self.style = ""

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            if found := ESCAPE.match(text, at):
                self._obey(found[1], found[2])
                at = found.end()
                continue
            self._put(text[at])
            at += 1

    def _put(self, character: str) -> None:
        if character == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append([])
        elif character == "\r":
            self.column = 0
        elif character >= " ":
            line = self.lines[self.row]
            line += [(" ", "")] * (self.column + 1 - len(line))
            line[self.column] = (character, self.style)
            self.column += 1

    def _obey(self, numbers: str, command: str) -> None:
        if command == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif command == "K":
            del self.lines[self.row][self.column :]
        elif command == "m" and numbers in ("", "0"):
            self.style = ""
        elif command == "m" and (colour := re.search(r"38;5;(\d+)", numbers)):
            self.style = COLOURS.get(colour[1], "")


def excerpt(lines: list[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """Return the commands that are shown, with their lines."""
    shown: list[list[tuple[str, str]]] = []
    pattern: str | None = None
    for line in lines:
        text = "".join(character for character, _ in line).rstrip()
        if text.startswith(("> ", "See the proof")):
            pattern = next((lines for command, lines in SHOWN.items() if command in text), None)
            if text.startswith("> ") and pattern:
                shown += [[], [(character, COLOURS["3"]) for character in text]]
                continue
        if pattern and text and re.search(pattern, text):
            shown.append(line if len(line) <= COLUMNS else [*line[: COLUMNS - 1], ("…", "")])
    return shown[1:]


def svg(lines: list[list[tuple[str, str]]]) -> str:
    """Return a picture of lines of a terminal."""
    width, height = round(COLUMNS * CHARACTER) + 32, len(lines) * LINE + 36
    rows = []
    for number, line in enumerate(lines):
        spans = "".join(_spans(line))
        rows.append(f'<text x="16" y="{30 + number * LINE}">{spans}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f2a"/>\n'
        f'<g font-family="{FONTS}" font-size="13" fill="#d5dae5">\n' + "\n".join(rows) + "\n</g>\n</svg>\n"
    )


def _spans(line: list[tuple[str, str]]) -> list[str]:
    """Return the parts of a line by colour, with spaces that no viewer collapses."""
    spans, text, style = [], "", ""
    for character, colour in [*line, ("", "end")]:
        if colour != style and text:
            text = text.replace(" ", "\xa0")
            spans.append(f'<tspan fill="{style}">{escape(text)}</tspan>' if style else escape(text))
            text = ""
        style = colour
        text += character
    return spans


def report(page: Path) -> bytes:
    """Return a picture of the top of a report."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as shown:
        shown.show(page.resolve(), 1000)
        clip = {"x": 0, "y": 0, "width": 1000, "height": 820, "scale": 1}
        taken = shown.ask("Page.captureScreenshot", format="webp", quality=60, captureBeyondViewport=True, clip=clip)
        return base64.b64decode(taken["data"])


def main(recording: Path, page: Path) -> None:
    screen = Screen()
    screen.write(QUERY.sub("", recording.read_bytes().decode(errors="replace")))
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "demo.svg").write_text(svg(excerpt(screen.lines)))
    (IMAGES / "report.webp").write_bytes(report(page))


if __name__ == "__main__":
    main(*(Path(name) for name in sys.argv[1:]))
