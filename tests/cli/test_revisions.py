"""Limits of a repository's revision on the machine that reviews it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli import exits, revisions
from stampworks.cli.main import main
from stampworks.cli.named import Named
from stampworks.cli.review import Opened, _stay_inside
from stampworks.declaration import DeclarationError

from tests.cli.test_review import BASE, ROLE, Capsys, Repository, repository, reviewed, wrong

__all__ = ["repository"]  # the fixture

SECRET = "config:\n  stampworks:cluster:\n    password: hunter2\n"


@pytest.mark.parametrize("kind", ["absolute", "above", "through"])
def test_stacks_of_the_machine(repository: Repository, capsys: Capsys, tmp_path: Path, kind: str) -> None:
    """The folder of stacks must be below the project."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "Pulumi.one.yaml").write_text(SECRET)
    climb = "../" * 40 + str(outside).lstrip("/")
    named = {"absolute": str(outside), "above": climb, "through": f"stacks/{climb}"}[kind]
    repository.edit("Pulumi.yaml", "stackConfigDir: stacks", f"stackConfigDir: {named}")
    repository.commit()
    text = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert f"--head: HEAD:Pulumi.yaml:4: stackConfigDir {named} leaves the project" in text
    assert "hunter2" not in text
    assert "stampworks-review" not in text


def test_no_stack_outside_of_what_was_written(tmp_path: Path) -> None:
    """Bases outside of the revision are refused, wherever the name comes from."""
    file = tmp_path / "Pulumi.one.yaml"
    file.write_text(SECRET)
    written = tmp_path / "written"
    with pytest.raises(DeclarationError, match="lies outside of the repository"):
        _stay_inside(Opened("head", "HEAD", None, tmp_path, written), file)


@pytest.mark.parametrize(
    "text",
    ['description: !!int ""\n', "description: !!timestamp x\n", "description: !!float ''\n", "stackConfigDir: ''\n"],
)
def test_tags_make_no_values(repository: Repository, capsys: Capsys, text: str) -> None:
    """Tags of YAML create no objects: the reader takes a single text from Pulumi.yaml."""
    repository.write("Pulumi.yaml", f"name: test\nruntime: python\n{text}")
    repository.write(
        "Pulumi.one.yaml", "config:\n  stampworks:cluster:\n    extends: stacks/base/all.yaml\n    name: one\n"
    )
    repository.commit()
    assert main(["review", "-s", "one", "--base", "HEAD", "--head", "."]) == exits.FINE
    assert "Nothing changes." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [\n", ":2 is not YAML"),
        ("[" * 5000, " is not YAML"),
        ("stackConfigDir: [a]\n", ":1: stackConfigDir is no text"),
        ('a: "\\U00110000"\n', " is not YAML"),
        ("#" * (64 << 10) + "\n", " is larger than 64 KiB"),
    ],
)
def test_a_project_file_that_is_broken(repository: Repository, capsys: Capsys, text: str, said: str) -> None:
    """A broken project file is an error of its side, in a revision and in a folder."""
    good = repository.git("rev-parse", "HEAD")
    repository.write("Pulumi.yaml", text)
    bad = repository.commit()
    assert f"--head: {bad}:Pulumi.yaml{said}" in wrong(capsys, "--base", good, "--head", bad)
    assert f"Pulumi.yaml{said}" in wrong(capsys, "--base", good, "--head", ".")


def with_role(repository: Repository, path: str = "../roles/motd") -> None:
    repository.write("stacks/base/all.yaml", BASE + ROLE.replace("roles/motd", path))
    repository.write("stacks/roles/motd/tasks/main.yml", "[]\n")


def test_many_names_for_one_object(repository: Repository, capsys: Capsys) -> None:
    """The size of written files is limited, and checked before git is asked."""
    with_role(repository)
    blob = repository.folder / "stacks/roles/motd/0"
    blob.write_bytes(b"#" * revisions.SIZE_MAX)
    for name in range(1, revisions.TOTAL_MAX_MIB + 1):
        os.link(blob, blob.with_name(str(name)))
    repository.commit()
    text = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert "--head: the stacks of " in text
    assert "name more than 10,000 files or 64 MiB" in text


def test_many_stacks(repository: Repository, capsys: Capsys) -> None:
    """YAML is slow to parse, so that the size of each side is limited."""
    for number in range(10):
        repository.write(f"stacks/Pulumi.{number}.yaml", "#" * 255 * 1024)
    repository.commit()
    text = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert "--head: HEAD:stacks/Pulumi.8.yaml: with it the stacks and what they extend are larger than 2 MiB" in text
    text = wrong(capsys, "--base", "HEAD~1", "--head", ".")
    assert "stacks/Pulumi.8.yaml: with it the stacks and what they extend are larger than 2 MiB" in text


@pytest.mark.parametrize("limit", ["FILES_MAX", "ANSWER_MAX"])
def test_many_files(repository: Repository, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Number and size of files are limited over all roles and bases."""
    with_role(repository)
    for name in range(20):
        repository.write(f"stacks/roles/motd/{name}-{'x' * 200}", "")
    repository.commit()
    monkeypatch.setattr(revisions, limit, {"FILES_MAX": 23, "ANSWER_MAX": 2000}[limit])
    said = {"FILES_MAX": "name more than 23 files", "ANSWER_MAX": "git says more than"}[limit]
    assert said in wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")


def test_each_object_is_read_once(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each object is available under all of its names."""
    with_role(repository)
    for name in ("a", "b", "c"):
        repository.write(f"stacks/roles/motd/{name}", "the same\n")
    repository.commit()
    asked: list[str] = []
    contents = revisions._contents

    def noted(of: Any, objects: Any) -> Any:
        asked.extend(objects)
        return contents(of, objects)

    monkeypatch.setattr(revisions, "_contents", noted)
    into = tmp_path / "into"
    head = revisions.revision("HEAD", repository.folder)
    assert head
    revisions.write_project(head, repository.folder, into, Named())
    assert len(asked) == len(set(asked))
    assert {(into / "stacks/roles/motd" / name).read_text() for name in ("a", "b", "c")} == {"the same\n"}


def test_a_long_chain_of_bases(repository: Repository, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain is followed up to the limit, and no further file is read."""
    for number in range(40):
        repository.write(f"stacks/base/{number}.yaml", f"extends: {number + 1}.yaml\n")
    repository.edit("stacks/Pulumi.one.yaml", "all.yaml", "0.yaml")
    repository.commit()
    asked: list[str] = []
    looked_up = revisions._looked_up

    def noted(of: Any, paths: Any) -> Any:
        asked.extend(paths)
        return looked_up(of, paths)

    monkeypatch.setattr(revisions, "_looked_up", noted)
    assert "more than 8 bases extend one another" in wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert "stacks/base/7.yaml" in asked
    assert "stacks/base/12.yaml" not in asked


@pytest.mark.parametrize("name", ["pa blob", "pa tree 1", "symlink 7", '"\\ud800.yaml"', f"{'x' * 300}.yaml"])
def test_names_that_look_like_answers(repository: Repository, capsys: Capsys, name: str) -> None:
    """A missing object is found to be missing under any name."""
    repository.edit("stacks/Pulumi.one.yaml", "base/all.yaml", name)
    repository.commit()
    assert "--head HEAD:stacks/Pulumi.one.yaml:3:14: extends" in wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")


def test_a_role_behind_a_link(repository: Repository, capsys: Capsys) -> None:
    """A link to a folder of the repository is followed; links that are not are listed."""
    with_role(repository, "../roles/link")
    (repository.folder / "stacks/roles/link").symlink_to("motd")
    before = repository.commit()
    repository.write("stacks/roles/motd/tasks/main.yml", "[] # other\n")
    (repository.folder / "stacks/roles/motd/files").symlink_to("../../base")
    repository.commit()
    found = reviewed(capsys, "--base", before, "--head", "HEAD", code=exits.UNKNOWN)
    assert [each["path"] for each in found["changes"]] == ["extras.roles[link].content"]
    assert (found["verdict"], found["siblings"][0]["verdict"]) == ("unknown", "unknown")
    [said] = [each for each in found["unknown"] if each.startswith("content of 1 file")]
    assert said.startswith(
        "content of 1 file in the roles of HEAD, such as stacks/roles/link/files, which cannot be read"
    )


def test_another_repository_in_a_role(repository: Repository, capsys: Capsys) -> None:
    """Its content is unknown, so its changes are unknown; stacks without that role are not affected."""
    with_role(repository)
    own = "".join(f"    {line}\n" for line in (BASE + "name: three").splitlines())
    repository.write("stacks/Pulumi.three.yaml", f"config:\n  stampworks:cluster:\n{own}")
    before = repository.commit()
    entry = f"160000,{before},stacks/roles/motd/files/other"
    repository.git("update-index", "--add", "--cacheinfo", entry)
    repository.git("commit", "--quiet", "--message", "change")
    found = reviewed(capsys, "--base", before, "--head", "HEAD", code=exits.UNKNOWN)
    assert (found["verdict"], found["headline"]) == ("unknown", "No known changes.")
    assert (
        "content of 1 file in the roles of HEAD, such as stacks/roles/motd/files/other, which cannot be read"
        in found["unknown"][0]
    )
    assert reviewed(capsys, "--base", before, "--head", "HEAD", stack="three")["verdict"] == "pass"


def test_a_long_name_of_a_stack(repository: Repository, capsys: Capsys) -> None:
    """A name that is too long is simply not found."""
    assert main(["review", "-s", "x" * 5000, "--base", "HEAD", "--head", "."]) == exits.WRONG_INPUT
    assert capsys.readouterr().err.startswith("there is no stack xxx")


def test_nothing_is_fetched(repository: Repository, capsys: Capsys, tmp_path: Path, monkeypatch: Any) -> None:
    """A clone that lacks objects does not get them for a review, also from a git that knows no GIT_NO_LAZY_FETCH."""
    repository.edit("stacks/base/all.yaml", "count: 2", "count: 3")
    head = repository.commit()
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
    part = tmp_path / "part"
    repository.git("clone", "--quiet", "--filter=blob:none", "--no-checkout", repository.folder.as_uri(), str(part))
    (part / "Pulumi.yaml").write_text("name: test\n")
    older = tmp_path / "bin" / "git"
    older.parent.mkdir()
    older.write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n')
    older.chmod(0o755)
    monkeypatch.setenv("PATH", str(older.parent), prepend=os.pathsep)
    monkeypatch.chdir(part)
    assert main(["review", "-s", "one", "--base", "HEAD~1", "--head", head]) != exits.FINE
    assert "Traceback" not in capsys.readouterr().err
    listed = subprocess.run(
        ["git", "rev-list", "--objects", "--all", "--missing=print"], check=True, capture_output=True, text=True
    ).stdout
    assert listed.count("\n?") == 5  # two of the base, and each of the three others


def test_an_object_that_is_broken(repository: Repository, capsys: Capsys) -> None:
    """Git ends in the middle of its answer."""
    blob = repository.git("rev-parse", "HEAD:stacks/base/all.yaml")
    file = repository.folder / ".git" / "objects" / blob[:2] / blob[2:]
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-20])
    assert main(["review", "-s", "one", "--base", "HEAD", "--head", "."]) == exits.UNKNOWN
    assert "--base: git cannot read all of " in capsys.readouterr().err


def test_a_project_above_the_repository(repository: Repository, capsys: Capsys) -> None:
    """The project's revisions are outside of the repository."""
    (repository.folder / "Pulumi.yaml").unlink()
    (repository.folder.parent / "Pulumi.yaml").write_text("name: test\n")
    assert "is not in the repository in" in wrong(capsys, "--base", "HEAD", "--head", "HEAD")


def test_a_name_that_no_file_can_have(repository: Repository, capsys: Capsys) -> None:
    """A git tree may contain names that are too long for this machine."""
    with_role(repository)
    repository.commit()
    blob = repository.git("hash-object", "-w", "Pulumi.yaml")
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},stacks/roles/motd/{'x' * 300}")
    repository.git("commit", "--quiet", "--message", "long")
    text = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert f"--head: HEAD:stacks/roles/motd/{'x' * 300} cannot be written: file name too long" in text


def test_the_lock_of_a_stack_comes_with_it(repository: Repository, capsys: Capsys) -> None:
    """Each revision has its own lock: otherwise another image would look like a change."""
    repository.write("stacks/one.lock.json", "[]")
    repository.commit()
    said = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    fields = "images, region, version, and optionally hosts, keys, made_with and parts"
    told = f"is not a lock file of stampworks: its keys are {fields}"
    assert f"HEAD:stacks/one.lock.json: {told}" in said


def test_facts_come_with_their_revision(repository: Repository, capsys: Capsys) -> None:
    """Each revision has its own facts, so that a review without credentials knows them."""
    repository.write("stacks/one.facts.json", "[]")
    repository.commit()
    said = wrong(capsys, "--base", "HEAD~1", "--head", "HEAD")
    assert "--head HEAD:stacks/one.facts.json: holds no facts: " in said
