"""Folders of the cache that clones share: made once, found through a link, removed when unused."""

from __future__ import annotations

import shutil
from pathlib import Path

CLONES = "clones"
"""The file in a shared folder that names the clones which use it."""


def use(folder: Path, root: Path, link: Path, target: Path) -> None:
    """Link the clone to the target in the folder, and remove unused folders of the same kind."""
    point(link, target)
    claim(folder, root)
    sweep(folder.parent, folder.name.split("-")[0], link.relative_to(root))


def point(link: Path, target: Path) -> None:
    """Replace the link in one step, so that readers always find a target."""
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(exist_ok=True)
    fresh = link.with_name(f"{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def claim(folder: Path, root: Path) -> None:
    """Note that a clone uses a folder, for clones can be anywhere."""
    users = _users(folder)
    if str(root) not in users:
        (folder / CLONES).write_text("".join(f"{one}\n" for one in [*users, root]))


def sweep(cache: Path, kind: str, link: Path) -> None:
    """Remove large folders that no clone links to any more."""
    for folder in cache.glob(f"{kind}-[0-9]*"):
        users = _users(folder)
        if users and not any((Path(user) / link).resolve().is_relative_to(folder.resolve()) for user in users):
            # Use a name that the next run deletes, so that a partial folder never looks complete.
            shutil.rmtree(folder.rename(unfinished(folder)))


def unfinished(folder: Path) -> Path:
    """The name that a folder of this kind has before it is whole and after it was."""
    return folder.with_name(f"{folder.name.split('-')[0]}-unfinished-{folder.name}")


def clear(cache: Path, kind: str) -> None:
    """Remove the remains of killed runs."""
    for leftover in cache.glob(f"{kind}-unfinished-*"):
        shutil.rmtree(leftover)


def _users(folder: Path) -> list[str]:
    record = folder / CLONES
    return record.read_text().splitlines() if record.exists() else []
