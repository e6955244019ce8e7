"""Folders of Stampworks on disk. Standard library only, so that every room may import it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for data that can be made again: the engine, node images, packages."""
    return _private(_place("STAMPWORKS_CACHE", "XDG_CACHE_HOME", ".cache"))


def state_dir() -> Path:
    """Return the folder for data that cannot be made again: rooms of the local cloud, the state of stacks."""
    return _private(_place("STAMPWORKS_STATE", "XDG_STATE_HOME", ".local/state"))


def connection_file() -> Path:
    """Return the path of the connection file that an administrator gave to a user."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".config") / "stampworks" / "connection.json"


def _place(own: str, xdg: str, below_home: str) -> Path:
    if chosen := os.environ.get(own):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get(xdg, "")
    # the XDG specification: a relative path counts as unset
    return (Path(base) if Path(base).is_absolute() else Path.home() / below_home) / "stampworks"


def _private(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest existing folder above it, which has the same file system."""
    return next(each for each in (path, *path.parents) if each.exists())


def write_whole(file: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically: a reader sees the old text or the new one."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            os.fchmod(opened.fileno(), mode)
            opened.write(text)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink()
        raise
