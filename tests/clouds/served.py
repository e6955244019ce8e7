"""Small HTTP servers on the loopback that stand for an API of a cloud, or for another server that the toolkit asks.

    with served() as server:
        server.pages["/agent.deb"] = Page(b"the package")
        server.busy = 2  # the next two requests are answered with 503
        ...
        assert server.asked == ["/agent.deb"] * 3

Only what tests need is here: pages by path, answers that fail, move or never end. AWS has moto (tests/clouds/aws).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Page:
    """An answer."""

    content: bytes = b""
    status: int = 200
    location: str = ""
    """The address that the answer moves the caller to; empty for none."""


@dataclass
class Served:
    """A running server: pages by path, requests so far, and faults."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    """Answers by path; any other path is an empty page."""
    asked: list[str] = field(default_factory=list)
    """Paths of requests, in their order."""
    busy: int = 0
    """Number of next requests that are answered with 503."""
    drips: bool = False
    """Whether answers begin and do not end."""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        page = self.pages.get(handler.path, Page())
        if self.busy > 0:
            self.busy, page = self.busy - 1, Page(status=503)
        handler.send_response(page.status)
        if page.location:
            handler.send_header("Location", page.location)
        handler.end_headers()
        while self.drips:
            handler.wfile.write(b"#\n")
            handler.wfile.flush()
            time.sleep(0.05)
        handler.wfile.write(page.content)


@contextmanager
def served() -> Iterator[Served]:
    """Run a server until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state = Served(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield state
        finally:
            state.drips = False
            server.shutdown()
