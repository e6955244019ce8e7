"""`stampworks sweep`: its output, and the option that removes rooms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli.main import main


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two rooms that do not run: one belongs to a stack, the other to none."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path))
    folder = tmp_path / "rooms"
    for name in ("mine", "stray"):
        (folder / name / "nodes" / "head").mkdir(parents=True)
    (folder / "mine" / "owner").write_text("stack dev of project test, claim 1")
    return folder


def test_all_rooms_are_listed_with_their_owners(rooms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list includes rooms without a stack."""
    assert main(["sweep"]) == 0
    assert capsys.readouterr().out == (
        "  cluster  runs  nodes  belongs to\n"
        "  mine     no        1  stack dev of project test, claim 1\n"
        "  stray    no        1  nobody\n"
    )
    assert main(["sweep", "--json"]) == 0
    assert [each["owner"] for each in json.loads(capsys.readouterr().out)["rooms"]] == [
        "stack dev of project test, claim 1",
        "",
    ]


def test_nothing_goes_without_a_word(rooms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the option, the output names the room and the command that removes it."""
    assert main(["sweep", "mine"]) == 1
    assert capsys.readouterr().err == (
        "nothing was removed: the room of mine would go with its shared directories and its queue\n"
        "  hint: `pulumi destroy` is the way while its stack is known; --yes if it is lost\n"
    )
    assert (rooms / "mine" / "owner").exists()


def test_with_a_word_it_goes(rooms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the option, only the named room is removed."""
    assert main(["sweep", "mine", "--yes"]) == 0
    assert capsys.readouterr().out == "the room of mine is gone\n"
    assert [path.name for path in rooms.iterdir()] == ["stray"]


def test_removed_rooms_as_json(rooms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the removed rooms."""
    assert main(["sweep", "mine", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": "mine"}


def test_a_word_alone_removes_nothing(rooms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--yes` without a name is refused, and no option can be abbreviated."""
    assert main(["sweep", "--yes"]) == 2
    assert capsys.readouterr().err == ("--yes removes a room: name it\n  hint: write stampworks sweep CLUSTER --yes\n")
    assert main(["sweep", "mine", "--ye"]) == 2
    assert len(list(rooms.iterdir())) == 2


def test_a_room_that_is_not_there(rooms: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest name is offered; no name leads out of the folder."""
    assert main(["sweep", "stay", "--yes"]) == 2
    assert "stray" in capsys.readouterr().err
    assert main(["sweep", "../rooms/mine", "--yes"]) == 2
    assert (rooms / "mine").exists()
