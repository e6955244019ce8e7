"""The module that writes a set of files, and the program that carries it to a node."""

from __future__ import annotations

import json
import pwd
import subprocess
import sys
from collections.abc import Callable, Sequence
from os import geteuid
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped]
from ansible_collections.stampworks.node.plugins.action import files as action
from ansible_collections.stampworks.node.plugins.modules import files
from ansible_collections.stampworks.node.plugins.plugin_utils import on_node

ME = pwd.getpwuid(geteuid()).pw_name
Writer = Callable[..., dict[str, Any]]


def entry(path: Path, content: str | None = None, **more: Any) -> dict[str, Any]:
    return {"path": str(path), "content": content, "owner": ME, "group": ME, **more}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr(files, "RECORDS", tmp_path / "records")

    def run(*wanted: dict[str, Any], then: Sequence[Sequence[str]] = (), check: bool = False) -> dict[str, Any]:
        return files.answer({"name": "test", "files": list(wanted), "then": list(then)}, check)

    return run


def test_a_set_is_written_once(write: Writer, tmp_path: Path) -> None:
    """The second run changes nothing."""
    wanted = [entry(tmp_path / "a/b/file", "text\n", mode="0640"), entry(tmp_path / "folder", directory=True)]
    assert write(*wanted)["changed"]
    assert (tmp_path / "a/b/file").read_text() == "text\n"
    assert (tmp_path / "a/b/file").stat().st_mode & 0o7777 == 0o640
    assert (tmp_path / "folder").is_dir()
    assert not write(*wanted)["changed"]


@pytest.mark.parametrize("content", ["", "ü € 😀\n", "'\"$(touch x) `id` \\n {{ x }}\n", "\r\n\0\u2028", "no newline"])
def test_text_arrives_as_it_is(write: Writer, tmp_path: Path, content: str) -> None:
    """The content is passed through unchanged."""
    write(entry(tmp_path / "file", content))
    assert (tmp_path / "file").read_bytes() == content.encode()


def test_a_tree_becomes_its_files(tmp_path: Path) -> None:
    """Each file has its place below the path; Python's cache files are left out."""
    for name in ("one.py", "deeper/two.py", "__pycache__/one.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = action.single({"path": "/there", "tree": str(tmp_path), "mode": "0640"})
    assert found == [
        {"path": "/there/deeper/two.py", "content": "deeper/two.py", "mode": "0640"},
        {"path": "/there/one.py", "content": "one.py", "mode": "0640"},
    ]
    with pytest.raises(AnsibleActionFail, match=r"files: /there: there is no file in .*/empty"):
        action.single({"path": "/there", "tree": str(tmp_path / "empty")})


def test_kernel_settings_must_be_in_force(write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right file is not sufficient when the kernel has another value."""
    kernel, commands = tmp_path / "sys", list[str]()
    (kernel / "net/ipv4").mkdir(parents=True)
    (kernel / "net/ipv4/range").write_text("1\t9\n")
    monkeypatch.setattr(files, "KERNEL", kernel)
    monkeypatch.setattr(files, "run", lambda argv: commands.append(" ".join(argv)))
    wanted = entry(tmp_path / "conf", "# net.ipv4.other = 5\nnet.ipv4.range = 1 9\n", settings=True)
    assert write(wanted)["drift"] == [f"{tmp_path}/conf is missing"]
    assert commands == [f"sysctl --quiet --load {tmp_path}/conf"]
    assert not write(wanted)["changed"]
    (kernel / "net/ipv4/range").write_text("1\t8\n")
    assert write(wanted, check=True)["drift"] == ["kernel setting net.ipv4.range is 1 8, not 1 9"]
    assert len(commands) == 1
    write(wanted)
    assert len(commands) == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_text("other"), "differs"),
        (lambda path: path.chmod(0o640), "has another owner or mode"),
    ],
)
def test_drift_does_not_show_contents(write: Writer, tmp_path: Path, spoil: Callable[[Path], None], words: str) -> None:
    """The text may be shown to anybody, whatever the file contains."""
    wanted = entry(tmp_path / "key", "s3cret", mode="0600", secret=True)
    write(wanted)
    spoil(tmp_path / "key")
    result = write(wanted, check=True)
    assert result["drift"] == [f"{tmp_path}/key {words}"]
    assert "s3cret" not in str(result)
    assert "other" not in str(result["diff"])


def test_a_changed_mode_is_a_change(write: Writer, tmp_path: Path) -> None:
    """A file with the right text and the wrong mode is wrong."""
    write(entry(tmp_path / "file", "text", mode="0600"))
    (tmp_path / "file").chmod(0o644)
    assert write(entry(tmp_path / "file", "text", mode="0600"))["paths"] == [str(tmp_path / "file")]
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o600


def test_files_dropped_from_a_set_are_removed(write: Writer, tmp_path: Path) -> None:
    """Only files of an earlier run of the same set are removed, and no folder of others."""
    (tmp_path / "mine").write_text("not of the set")
    write(
        entry(tmp_path / "old", "x"),
        entry(tmp_path / "folder", directory=True),
        entry(tmp_path / "used", directory=True),
    )
    (tmp_path / "used/file").write_text("somebody's")
    result = write(entry(tmp_path / "new", "y"))
    assert result["changed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "new", "records", "used"]
    assert not write(entry(tmp_path / "new", "y"), check=True)["changed"]


def test_check_mode_says_and_does_nothing(write: Writer, tmp_path: Path) -> None:
    """A dry run reports the same change as the real one."""
    write(entry(tmp_path / "old", "x"))
    wanted = [entry(tmp_path / "new", "y")]
    dry = write(*wanted, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "records"]
    assert dry == write(*wanted)
    assert not write(*wanted, check=True)["changed"]


def test_once_means_never_again(write: Writer, tmp_path: Path) -> None:
    """A state file is created once, and then belongs to its users."""
    write(entry(tmp_path / "state", "first", once=True))
    (tmp_path / "state").write_text("changed")
    assert not write(entry(tmp_path / "state", "other", once=True))["changed"]
    assert (tmp_path / "state").read_text() == "changed"


def test_an_open_end_belongs_to_others(write: Writer, tmp_path: Path) -> None:
    """Files of others stay there, are no drift, and go when the end is closed."""
    path = tmp_path / "hosts"

    def hosts(first: str, *, follow: bool = True) -> dict[str, Any]:
        end = "# others follow\n" if follow else ""
        return write(entry(path, f"{first}\n{end}", open_end=follow))

    hosts("10.0.0.1 one")
    with path.open("a") as file:
        file.write("10.0.0.9 nine\n")
    assert not hosts("10.0.0.1 one")["changed"]
    assert hosts("10.0.0.2 one")["changed"]
    assert path.read_text() == "10.0.0.2 one\n# others follow\n10.0.0.9 nine\n"
    hosts("10.0.0.2 one", follow=False)
    assert path.read_text() == "10.0.0.2 one\n"
    hosts("10.0.0.2 one")
    assert path.read_text() == "10.0.0.2 one\n# others follow\n"


def test_commands_run_when_something_changed(write: Writer, tmp_path: Path) -> None:
    """Once, in order, and not at all when nothing did."""
    log = tmp_path / "log"
    then = [["sh", "-c", f"echo {word} >>{log}"] for word in ("one", "two")]
    for _ in range(2):
        write(entry(tmp_path / "file", "text"), then=then)
    assert log.read_text() == "one\ntwo\n"


def test_a_failing_command_puts_everything_back(write: Writer, tmp_path: Path) -> None:
    """The next run sees the difference again, and tries again."""
    write(entry(tmp_path / "kept", "before"), entry(tmp_path / "gone", "x"))
    wanted = [entry(tmp_path / "kept", "after"), entry(tmp_path / "new", "y")]
    then = [["sh", "-c", "echo no such setting >&2; exit 3"]]
    result = write(*wanted, then=then)
    assert result["failed"]
    assert result["msg"].endswith("exit code 3: no such setting")
    assert (tmp_path / "kept").read_text() == "before"
    assert (tmp_path / "gone").exists()
    assert not (tmp_path / "new").exists()
    assert write(*wanted, check=True)["changed"]


def test_a_directory_in_the_way_is_said(write: Writer, tmp_path: Path) -> None:
    """A person's folder is not removed."""
    (tmp_path / "file").mkdir()
    result = write(entry(tmp_path / "file", "x"))
    assert result["msg"] == f"{tmp_path}/file: a directory stands where this file should go: move it away"


def test_an_unknown_owner_is_said(write: Writer, tmp_path: Path) -> None:
    """The error has the owner's name, which a role sets."""
    result = write(entry(tmp_path / "file", "x", owner="nobody-here"))
    assert result["msg"] == "no user is called 'nobody-here' on this node"


def test_a_secret_is_never_shown(write: Writer, tmp_path: Path) -> None:
    """Neither the old nor the new text is shown."""
    write(entry(tmp_path / "key", "0ld-s3cret", secret=True))
    result = write(entry(tmp_path / "key", "n3w-s3cret", secret=True))
    assert result["changed"]
    assert "s3cret" not in json.dumps(result)


def test_a_diff_is_readable(write: Writer, tmp_path: Path) -> None:
    """The form is that of diff -u."""
    write(entry(tmp_path / "file", "one\ntwo\n"))
    (change,) = write(entry(tmp_path / "file", "one\nthree\n"))["diff"]
    assert change["prepared"].splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-two", "+three"]


def test_a_module_travels_with_what_it_imports(tmp_path: Path) -> None:
    """The program that reaches a node needs nothing but Python there."""
    sources = on_node.sources("files")
    assert [name.rpartition(".")[2] for name, _ in sources] == ["node", "main"]
    work = {
        "sources": sources,
        "arguments": {"name": "test", "files": [entry(tmp_path / "file", "😀")], "then": []},
        "check": True,
    }
    command = [sys.executable, "-IS", "-c", on_node.BOOTSTRAP]
    done = subprocess.run(command, input=json.dumps(work), capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)["paths"] == [str(tmp_path / "file")]


def test_arguments_are_checked_against_the_documentation() -> None:
    """Documentation and argument specification are one text."""
    spec = on_node.argument_spec("files")
    assert spec["name"] == {"type": "str", "required": True}
    assert spec["files"]["options"]["mode"] == {"type": "str"}
