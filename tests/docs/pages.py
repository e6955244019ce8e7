"""The Markdown pages of the repository, and the places that a link can lead to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def files(pattern: str = "*") -> list[Path]:
    """Return the files that are or would be committed."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", pattern]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(ROOT / name for name in {*listed} if name and (ROOT / name).is_file())


def markdown() -> list[Path]:
    """Return every page, without the expected outputs of tests."""
    return [page for page in files("*.md") if not page.is_relative_to(ROOT / "tests")]


def links(text: str) -> list[str]:
    """Return the relative targets of a page's links, without those in code."""
    targets = re.findall(r"\]\(([^()\s]+)\)", _without_code(text))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """Return the names by which a forge reaches the headings of a page."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        again = 0
        while (name := f"{slug}-{again}" if again else slug) in found:
            again += 1
        found.add(name)
    return found


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading of that file."""
    found = []
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(link)
    return found


def _without_code(text: str) -> str:
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", "", text)


def run(
    block: str, environment: Mapping[str, str], timeout_s: float, folder: Path = ROOT, prefix: Sequence[str] = ()
) -> str:
    """Return the output of the commands on a page, which stop at the first failure."""
    done = subprocess.run(
        [*prefix, "bash", "-e", "-c", block],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{block}\nended with {done.returncode}:\n{done.stdout}"
    return done.stdout
