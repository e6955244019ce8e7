"""Remedies by the error text of the kernel or of a program."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from stampworks.machine_room import files
from stampworks.machine_room.errors import RoomError
from stampworks.machine_room.remedies import remedy


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        (
            "write error: Disk quota exceeded",
            "remove files of this user's or ask for a larger quota (quota -s says how much it is), "
            "then run the same command again: it continues",
        ),
        (
            "rm: cannot remove '/a': Device or resource busy",
            "something is mounted there (findmnt shows what): unmount it, "
            "then run the same command again: it continues",
        ),
        ("mount overlay on /a: No such device", "the kernel may lack it; as root: modprobe overlay"),
        ("RTNETLINK answers: Device or resource busy", ""),
        ("who knows", ""),
    ],
)
def test_words_and_what_helps(why: str, hint: str) -> None:
    """Unknown reasons have no hint."""
    assert remedy(why, "/usr/bin") == hint


@pytest.mark.parametrize("words", ["is not valid yet (invalid for another 2h)", "is expired (invalid since 2h)"])
def test_a_clock_that_may_be_wrong_is_told(words: str) -> None:
    """apt refuses an index from the future, and one that is too old: the date shows which clock is wrong."""
    hint = r"this machine's clock says \d{4}-\d\d-\d\d \d\d:\d\d UTC: set it if that is wrong, then run the same .*"
    assert re.fullmatch(hint, remedy(f"E: Release file for mirror {words}.", "/usr/bin"))


@pytest.mark.parametrize(
    ("files_total", "left"), [(1000, "3 MiB and 7 files"), (0, "3 MiB")], ids=["counts files", "does not"]
)
def test_a_full_disk_is_told_in_bytes_and_in_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files_total: int, left: str
) -> None:
    """The nearest existing folder counts; bytes or inodes may be used up."""
    found = SimpleNamespace(f_bavail=3, f_frsize=1 << 20, f_files=files_total, f_favail=7)
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    assert remedy("No space left on device", "", place=tmp_path / "not/there") == (
        f"make room: {tmp_path} has {left} left; then run the same command again: it continues"
    )


def test_a_quota_that_is_met_while_writing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, and no part of it stays."""

    def exceed(*_: object) -> None:
        raise OSError(122, os.strerror(122))

    monkeypatch.setattr(os, "fchmod", exceed)
    with pytest.raises(RoomError) as caught:
        files.write(tmp_path / "file", "text")
    first, second = str(caught.value).splitlines()
    assert first == f"{tmp_path}/file: cannot write it: Disk quota exceeded"
    assert second.startswith("  hint: remove files of this user's or ask for a larger quota (quota -s ")
    assert list(tmp_path.iterdir()) == []
