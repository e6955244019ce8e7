"""Hooks of MkDocs: the site has every page of the repository, at its path, and the menu of docs/index.md."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".md", ".svg", ".webp", "-policy.json", "LICENSE")
ENTRY = re.compile(r"^(?:\|[^|]*\| |- )\[([^\]]+)\]\(([^)#]+)\)", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Collect the pages in a folder, so that links between docs/ and pages next to the code work."""
    folder = Path(tempfile.mkdtemp(prefix="stampworks-site-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in _names():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    config["docs_dir"] = str(folder)
    config["nav"] = menu((ROOT / "docs" / "index.md").read_text())
    return config


def menu(index: str) -> list[dict[str, Any]]:
    """Return the menu: a tab for each heading of the map, with its pages by their titles."""
    tabs: list[dict[str, Any]] = [{"Stampworks": ["README.md", {"Documentation": "docs/index.md"}]}]
    for heading, text in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL):
        pages = [{_plain(title): _path(link)} for title, link in ENTRY.findall(text)]
        tabs.append({heading: pages})
    return tabs


def _path(link: str) -> str:
    return (ROOT / "docs" / link).resolve().relative_to(ROOT).as_posix()


def _plain(title: str) -> str:
    return title.replace("`", "")


def _names() -> list[str]:
    """Return the pages that are or would be committed, without the expected outputs of tests."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    kept = [name for name in listed if name.endswith(SUFFIXES) and (ROOT / name).is_file()]
    return [name for name in kept if not name.startswith("tests/") and not name.startswith(".github/")]
