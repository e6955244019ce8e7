"""Tests of the way from a stack to its plan, without the engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.cluster.stack import _from_here
from stampworks.plan import Extras, OwnCheck, OwnRole


def test_own_files_are_named_from_the_programs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the program's folder, where the plugin runs; a declaration may be elsewhere."""
    extras = Extras((OwnRole("motd", "roles/motd", (), "{}"),), (OwnCheck("scratch", "../scratch.sh", (), 10),))
    (tmp_path / "program").mkdir()
    monkeypatch.chdir(tmp_path / "program")
    assert _from_here(extras, tmp_path / "program") == extras
    moved = _from_here(extras, tmp_path / "stacks")
    assert moved.roles[0].path == "../stacks/roles/motd"
    assert moved.checks[0].path == "../scratch.sh"
