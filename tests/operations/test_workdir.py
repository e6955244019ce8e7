"""The working directory of a job."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from stampworks.operations import on_storage, own_jobs, workdir


def test_lists_files_that_git_would_commit(tmp_path: Path) -> None:
    """Listed are tracked and new files, without ignored and deleted ones."""
    for name in ("kept.py", "gone.py", "data.bin"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("*.bin\n")
    git = ["git", "-C", str(tmp_path)]
    for words in (["init", "--quiet"], ["add", "kept.py", "gone.py"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("new")
    (tmp_path / "new.py").chmod(0o755)
    found = workdir.scan(tmp_path)
    assert [(name, kind) for name, kind, _ in found.entries] == [
        (".gitignore", "600"),
        ("kept.py", "600"),
        ("new.py", "700"),
    ]


def test_submodules(tmp_path: Path) -> None:
    """Tracked and new files of submodules are taken along at each depth; a submodule that was not fetched has none."""
    own = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    for name in ("inner", "outer", "top"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(name)
        git = [*own, "-C", str(tmp_path / name)]
        subprocess.run([*git, "init", "--quiet"], check=True)
        if name != "inner":
            below = {"outer": "inner", "top": "outer"}[name]
            subprocess.run([*git, "submodule", "--quiet", "add", str(tmp_path / below), "lib"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message=x"], check=True)
    git = [*own, "-C", str(tmp_path / "top")]
    names = [name for name, _, _ in workdir.scan(tmp_path / "top").entries]
    assert names == [".gitmodules", "lib/.gitmodules", "lib/outer.py", "top.py"]
    subprocess.run([*git, "submodule", "--quiet", "update", "--init", "--recursive"], check=True)
    (tmp_path / "top" / "lib" / "new.py").write_text("new")
    (tmp_path / "top" / "lib" / "lib" / ".gitignore").write_text("*.bin\n")
    (tmp_path / "top" / "lib" / "lib" / "data.bin").write_text("data")
    names = [name for name, _, _ in workdir.scan(tmp_path / "top").entries]
    more = ["lib/lib/.gitignore", "lib/lib/inner.py", "lib/new.py", "lib/outer.py", "top.py"]
    assert names == [".gitmodules", "lib/.gitmodules", *more]


def test_a_folder_without_git(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a").write_text("a")
    (tmp_path / "link").symlink_to("below/a")
    (tmp_path / "folder").symlink_to("below")
    found = workdir.scan(tmp_path)
    assert [(name, value) for name, kind, value in found.entries if kind == "link"] == [
        ("folder", "below"),
        ("link", "below/a"),
    ]
    assert list(found.contents.values()) == [tmp_path / "below" / "a"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "below/../../outside"])
def test_a_link_that_leaves(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(workdir.WorkdirError, match=f"link is a link that leaves the folder: {target}"):
        workdir.scan(tmp_path)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "SIZE_MAX_MIB", 1)
    for name in "ab":
        (tmp_path / name).write_bytes(bytes(600 << 10))
    with pytest.raises(workdir.WorkdirError, match="has more than 1 MiB") as caught:
        workdir.scan(tmp_path)
    assert "in .gitignore" in caught.value.hint
    monkeypatch.setattr(workdir, "FILES_MAX", 1)
    with pytest.raises(workdir.WorkdirError, match="has more than 1 files"):
        workdir.scan(tmp_path)


def sent(folder: Path, there: Path) -> list[str]:
    """Copy a folder as `submit` does; returns the contents that had to travel."""
    found = workdir.scan(folder)
    missing: list[str] = on_storage.missing(there / ".objects", sorted(found.contents))["missing"]
    for part in own_jobs._parts({digest: found.contents[digest] for digest in missing}):
        on_storage.put(there / ".objects", part)
    given = {"files": {"run.sh": "x"}, "secrets": "", "manifest": [list(entry) for entry in found.entries]}
    given["turn"] = on_storage.look(there / "job", "")["turn"]
    assert on_storage.place(there / "job", there / ".objects", given) == {}
    on_storage.watch(there / "job", "1")
    return missing


def test_only_what_changed_travels(tmp_path: Path) -> None:
    """Files created by the job stay. Files deleted locally are removed, and files changed by the job are restored."""
    folder, there = tmp_path / "folder", tmp_path / "there"
    for each in (folder, there):
        each.mkdir()
    for name in "abc":
        (folder / name).write_text(name)
    assert len(sent(folder, there)) == 3
    copy = there / "job" / "workdir"
    (copy / "checkpoint").write_text("mine")
    (copy / "a").write_text("changed by the job")
    (folder / "b").unlink()
    (folder / "c").write_text("new")
    assert len(sent(folder, there)) == 1
    assert {each.name: each.read_text() for each in copy.iterdir()} == {"a": "a", "c": "new", "checkpoint": "mine"}
    assert sent(folder, there) == []
    assert (there / "job").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_becomes_a_file_and_back(tmp_path: Path) -> None:
    """No empty folder is left. Files of the job in the folder stay, and then the new file is refused."""
    folder, there = tmp_path / "folder", tmp_path / "there"
    for each in (folder / "pkg" / "deep", there):
        each.mkdir(parents=True)
    (folder / "pkg" / "deep" / "a.py").write_text("a")
    sent(folder, there)
    copy = there / "job" / "workdir"
    shutil.rmtree(folder / "pkg")
    (folder / "pkg").write_text("file")
    sent(folder, there)
    assert (copy / "pkg").read_text() == "file"
    (folder / "pkg").unlink()
    sent(folder, there)
    assert list(copy.iterdir()) == []
    (folder / "pkg").mkdir()
    (folder / "pkg" / "a.py").write_text("a")
    sent(folder, there)
    (copy / "pkg" / "checkpoint").write_text("of the job")
    shutil.rmtree(folder / "pkg")
    (folder / "pkg").write_text("file")
    with pytest.raises(SystemExit, match="pkg is a folder with files of the job, and a file in what was submitted"):
        sent(folder, there)
    assert (copy / "pkg" / "checkpoint").read_text() == "of the job"
    (copy / "pkg" / "checkpoint").unlink()
    (copy / "pkg").rmdir()
    sent(folder, there)


def test_large_and_empty_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may take several calls, and a call several files."""
    monkeypatch.setattr(own_jobs, "_PART_BYTES", 10)
    folder, there = tmp_path / "folder", tmp_path / "there"
    for each in (folder, there):
        each.mkdir()
    contents = {"empty": b"", "large": bytes(range(35)), "ten": bytes(10), "small": b"x"}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    sent(folder, there)
    copy = there / "job" / "workdir"
    assert {each.name: each.read_bytes() for each in copy.iterdir()} == contents


def test_a_content_that_is_another_one(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="was changed on its way"):
        on_storage.put(tmp_path / "objects", [("0" * 64, 0, 1, "eA==")])


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "there").symlink_to("/")
    with pytest.raises(SystemExit, match="belongs to another user"):
        on_storage.private(tmp_path / "there")
