"""Headless Chromium, controlled over a pipe, and a reader for its screenshots."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.prepare.system import BROWSER

TIMEOUT_S = 120
"""Limit for all requests to a browser, which is ended then: the waiting test sees its end."""


@dataclass
class Page:
    """A page, with its requests and errors."""

    _to: int
    _from: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _rest: bytes = b""
    _last: int = 0

    def ask(self, method: str, **parameters: Any) -> Any:
        """Return the answer to a command; events before it are kept."""
        self._last += 1
        asked = {"id": self._last, "method": method, "params": parameters}
        asked |= {"sessionId": self.session} if self.session else {}
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while (heard := self._hear()).get("id") != self._last:
            self.events.append(heard)
        assert "error" not in heard, heard
        return heard["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            assert more, "the browser ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        return heard

    def show(self, page: Path | str, width: int) -> None:
        """Show a file or an address, and wait until it has loaded."""
        if not self.session:
            [target] = self.ask("Target.getTargets", filter=[{"type": "page"}])["targetInfos"]
            self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Log", "Runtime"):
                self.ask(f"{domain}.enable")
            self.ask("Emulation.setScrollbarsHidden", hidden=True)  # screenshots need no animations
        self.resize(width)
        loads = self._loads() + 1
        self.ask("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        self._wait(loads)

    def click(self, element: str) -> None:
        """Click an element, given as an expression, and wait for the page that it leads to."""
        loads = self._loads() + 1
        assert self.tell(f"Boolean({element})"), element
        self.tell(f"{element}.click()")
        self._wait(loads)

    def _wait(self, loads: int) -> None:
        while self._loads() < loads:
            self.events.append(self._hear())

    def _loads(self) -> int:
        return sum(heard.get("method") == "Page.loadEventFired" for heard in self.events)

    def resize(self, width: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)

    def tell(self, expression: str) -> Any:
        """Return the value of an expression on this page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, **clip: float) -> bytes:
        """Return a picture of the whole page, or of a part of it, as PNG."""
        more = {"clip": {**clip, "scale": 1}} if clip else {}
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True, **more)["data"])

    def paper(self) -> bytes:
        """Return it as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"])


@contextlib.contextmanager
def browser(folder: Path, timeout_s: int = TIMEOUT_S) -> Iterator[Page]:
    """Yield a browser with a profile in the folder."""
    program = shutil.which(BROWSER)
    assert program, f"{BROWSER} is not on PATH: python3 -m tools.prepare --long"
    inbound, to = os.pipe()
    from_, outbound = os.pipe()
    # the browser reads from 3 and writes to 4; dash supports no numbers above 9
    script = f'exec 3<&{inbound} 4>&{outbound}; exec timeout {timeout_s} "$@"'
    command = ["bash", "-c", script, "bash", program, "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            command,
            pass_fds=(inbound, outbound),
            env={**os.environ, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    os.close(inbound)
    os.close(outbound)
    page = Page(to, from_)
    try:
        yield page
    finally:
        page.session = ""
        with contextlib.suppress(OSError, AssertionError):
            page.ask("Browser.close")
        process.wait()
        os.close(to)
        os.close(from_)


def pixels(png: bytes) -> list[list[tuple[int, int, int]]]:
    """Return the rows of a picture with 8 bits a colour, as browsers take them."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind in (2, 6)) == (8, True)
    of_pixel = 4 if kind == 6 else 3
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        data += png[at + 8 : at + 8 + length] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    raw = zlib.decompress(data)
    rows: list[list[tuple[int, int, int]]] = []
    before = bytearray(width * of_pixel)
    for start in range(0, len(raw), width * of_pixel + 1):
        line = bytearray(raw[start + 1 : start + 1 + width * of_pixel])
        for i in range(len(line)):
            left, corner = (line[i - of_pixel], before[i - of_pixel]) if i >= of_pixel else (0, 0)
            line[i] = line[i] + _predicted(raw[start], left, before[i], corner) & 255
        rows.append([(line[i], line[i + 1], line[i + 2]) for i in range(0, len(line), of_pixel)])
        before = line
    assert len(rows) == height
    return rows


def _predicted(method: int, left: int, above: int, corner: int) -> int:
    """Return the prediction of a byte in a picture's line, as the PNG standard has it."""
    if method == 4:
        return min((left, above, corner), key=lambda each: abs(left + above - corner - each))
    return (0, left, above, (left + above) // 2)[method]
