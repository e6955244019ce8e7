"""The documentation as a site: built as `make docs` builds it, and read in a browser."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.views.report.browser import browser

MKDOCS = ROOT / ".venv" / "site" / "bin" / "mkdocs"
LINKS = "[...document.querySelectorAll('.md-nav--primary a.md-nav__link')]"
TITLE = "document.querySelector('article h1')?.textContent"
TIMEOUT_S = 600


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.long
@pytest.mark.prepared
def test_the_site_in_a_browser(tmp_path: Path) -> None:
    """Each page of the menu opens by a click, and the site contacts no other host."""
    site, profile = tmp_path / "site", tmp_path / "profile"
    profile.mkdir()
    command = [str(MKDOCS), "build", "--strict", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=TIMEOUT_S)
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        start = f"http://127.0.0.1:{server.server_port}/"
        with browser(profile, TIMEOUT_S) as page:
            page.show(f"{start}docs/index.html", 1400)
            menu = page.tell(f"{LINKS}.map(link => link.href)")
            titles = set()
            for link in dict.fromkeys(
                link for link in menu if "#" not in link and not link.endswith("/docs/index.html")
            ):
                page.click(f"{LINKS}.find(each => each.href === {link!r})")
                titles.add(page.tell(TITLE))
            asked = [heard["params"] for heard in page.events if heard["method"] == "Network.requestWillBeSent"]
            answered = [heard["params"] for heard in page.events if heard["method"] == "Network.responseReceived"]
        server.shutdown()
    assert len(titles) >= len([*DOCS.rglob("*.md")])
    assert None not in titles
    assert [each["request"]["url"] for each in asked if not each["request"]["url"].startswith((start, "data:"))] == []
    assert [each["response"]["url"] for each in answered if each["response"]["status"] >= 400] == []
