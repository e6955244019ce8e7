"""What the health program does when something else looks at the same moment."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from stampworks.configuration import playbooks_dir

PROGRAM = playbooks_dir() / "roles/health/files/stampworks-health"
HELD = "State=IDLE+DRAIN\n   Reason=health: 7 of 8 accelerators [root@2026-11-23T06:00:00]\n"
FREE = "State=IDLE\n   Reason=health: 7 of 8 accelerators [root@2026-11-23T06:00:00]\n"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    found = ModuleType("stampworks_health")
    monkeypatch.setenv("PATH", "")  # which it sets for all that it starts
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), found.__dict__)  # noqa: S102  (an import leaves files there)
    monkeypatch.setattr(found, "MARK", str(tmp_path / "mark"))
    (tmp_path / "mark").write_text("health: 7 of 8 accelerators")
    return found


@pytest.mark.parametrize(("after", "refused"), [(FREE, False), (HELD, True)])
def test_a_node_that_the_other_one_has_given_back_is_free(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, after: str, refused: bool
) -> None:
    """Slurm refuses to resume a node that takes jobs already; any other refusal is one, and we still know it was us."""
    said = iter([HELD, after])

    def output(*words: str) -> str:
        if words[1] == "update":
            raise ValueError("scontrol: slurm_update error: Invalid node state specified")
        return next(said)

    monkeypatch.setattr(program, "output", output)
    if refused:
        with pytest.raises(ValueError, match="Invalid node state"):
            program.give_back()
    else:
        program.give_back()
    assert Path(program.MARK).exists() == refused
