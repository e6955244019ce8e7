"""Commands that print machines, and all that can be wrong about them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks.cli.main import main
from stampworks.clouds.hosts import listing
from stampworks.clouds.hosts.listing import FORM, ListError, listed

ENTRY = {"address": "203.0.113.4", "inside": "10.0.0.4", "group": "gpu"}


def printing(text: str) -> list[str]:
    """Return a command that prints a text."""
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text!r})"]


def test_a_machine_a_line(tmp_path: Path) -> None:
    """Blank lines are none; the command runs in the folder."""
    lines = f"{json.dumps(ENTRY)}\n\n{json.dumps({'address': 'b'})}\n"
    assert listed(printing(lines), "", tmp_path) == [ENTRY, {"address": "b"}]
    (tmp_path / "list").write_text(json.dumps(ENTRY))
    assert listed(["cat", "list"], "", tmp_path) == [ENTRY]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["./nowhere"], "`./nowhere` cannot be started: No such file or directory"),
        (
            ["sh", "-c", "echo no quota >&2; exit 3"],
            "`sh -c echo no quota >&2; exit 3` ended with exit code 3: no quota",
        ),
        (["true"], "it printed nothing"),
        (printing("a b\n"), "line 1 is not JSON: a b"),
        (printing("{}\n3\n"), "line 2 is not an object: 3"),
        (printing("[" * 5000 + "\n"), "it printed an array, and no form without hosts.provider is known"),
        (printing("\x1b[2J\n"), "line 1 is not JSON: [2J"),
        (printing("{}\n" * 4097), "it printed more than 4096 machines"),
    ],
)
def test_what_is_no_list(command: list[str], why: str, tmp_path: Path) -> None:
    """The error says what the command did, and a hint what it should print."""
    with pytest.raises(ListError) as caught:
        listed(command, "", tmp_path)
    assert str(caught.value) == why
    assert caught.value.hint


def test_a_command_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped."""
    monkeypatch.setattr(listing, "TIMEOUT_S", 0.2)
    with pytest.raises(ListError, match=r"^`sleep 60` did not end within 0 s$"):
        listed(["sleep", "60"], "", tmp_path)


def test_an_array_of_a_provider_without_a_form(tmp_path: Path) -> None:
    """The hint says which form is always known."""
    with pytest.raises(ListError) as caught:
        listed(printing("[]"), "runpod", tmp_path)
    assert str(caught.value) == "it printed an array, and no form of runpod is known"
    assert caught.value.hint.startswith(FORM)


def declare(folder: Path, command: list[str], **hosts: Any) -> Path:
    file = folder / "lab.yaml"
    declared = {
        "version": 1,
        "name": "lab",
        "cloud": "hosts",
        "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
        "hosts": {"list_command": command, **hosts},
    }
    file.write_text(yaml.safe_dump(declared))
    return file


def test_machines_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All wrong fields of all machines at once, at the line of the command; then what is wrong between them."""
    wrong = [{"address": "-oProxyCommand=x", "group": "gpu"}, {"address": "a", "port": 0}, {**ENTRY, "colour": 1}]
    file = declare(tmp_path, printing("".join(f"{json.dumps(each)}\n" for each in wrong)))
    assert main(["hosts", "lock", str(file)]) == 2
    errors = capsys.readouterr().err
    assert "hosts.list_command: machine 1: address: " in errors
    assert "machine 2: port: " in errors
    assert "machine 2: group: " in errors
    assert "machine 3: colour: " in errors
    between = [ENTRY, {**ENTRY, "group": "nobody"}]
    file = declare(tmp_path, printing("".join(f"{json.dumps(each)}\n" for each in between)))
    assert main(["hosts", "lock", str(file)]) == 2
    errors = capsys.readouterr().err
    assert "203.0.113.4: no pool is called 'nobody'" in errors
    assert "203.0.113.4: machine 0 is reached at '203.0.113.4', too" in errors
    assert not (tmp_path / "lab.lock.json").exists()


def test_a_command_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says that nothing was told, and the error names its line."""
    file = declare(tmp_path, ["false"])
    assert main(["hosts", "lock", str(file)]) == 3
    assert "`false` ended with exit code 1" in capsys.readouterr().err


def test_nothing_to_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A declaration without machines says where to list them."""
    file = declare(tmp_path, [])
    assert main(["hosts", "lock", str(file)]) == 2
    assert "the declaration lists no machines" in capsys.readouterr().err
