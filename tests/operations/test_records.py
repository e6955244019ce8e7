"""Records of runs in a cluster's shared directory, which users may have filled with anything."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from stampworks.operations import InputError, UnknownError, records
from stampworks.operations.records import BYTES_MAX, NEWEST_MAX, Found
from stampworks.plan import Plan

from tests.operations.slurm.standin import StandIn
from tests.operations.slurm.test_status import directory, the_plan


class Shared:
    """A shared directory with runs."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "shared" / "runs"
        self.runs.mkdir(parents=True)
        self.plan: Plan = dataclasses.replace(the_plan(), storage=(directory(folder / "shared"),))

    def run(self, name: str, text: str | None, at: int) -> Path:
        folder = self.runs / name
        folder.mkdir()
        if text is not None:
            (folder / "record.json").write_text(text)
            os.utime(folder / "record.json", (at, at))
        return folder


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def test_the_newest_come_first(shared: Shared, cluster: StandIn) -> None:
    """The newest of many runs are shown."""
    for number in range(NEWEST_MAX + 5):
        shared.run(f"run-{number}", f"record {number}", number)
    found = records(shared.plan, cluster.roster)
    last = NEWEST_MAX + 4
    assert found[0] == Found(f"run-{last}", f"record {last}")
    assert [each.name for each in found] == [f"run-{last - number}" for number in range(NEWEST_MAX)]
    assert records(shared.plan, cluster.roster, ["run-0"]) == (Found("run-0", "record 0"),)


def test_unsafe_files_are_not_read(shared: Shared, cluster: StandIn, tmp_path: Path) -> None:
    """A link out of the folder, a pipe without a writer, and an endless file."""
    (tmp_path / "secret").write_text("secret")
    (shared.run("link", None, 0) / "record.json").symlink_to(tmp_path / "secret")
    os.mkfifo(shared.run("pipe", None, 0) / "record.json")
    (shared.run("endless", None, 0) / "record.json").symlink_to("/dev/zero")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "record.json").write_text("secret")
    (shared.runs / "folder").symlink_to(tmp_path / "elsewhere")
    shared.run("large", "x" * (BYTES_MAX + 100), 0)
    found = {each.name: each for each in records(shared.plan, cluster.roster)}
    assert found["link"] == Found("link", "", "Too many levels of symbolic links")
    assert found["endless"].why == "Too many levels of symbolic links"
    assert found["pipe"] == Found("pipe", "", "it is no file")
    assert "folder" not in found
    assert len(found["large"].text) == BYTES_MAX + 1


def test_a_run_may_have_no_record_yet(shared: Shared, cluster: StandIn) -> None:
    """A missing record is reported at its request; an unknown name is an error with similar names."""
    shared.run("begun", None, 0)
    shared.run("demo", "{}", 0)
    assert records(shared.plan, cluster.roster) == (Found("demo", "{}"),)
    assert records(shared.plan, cluster.roster, ["begun"]) == (
        Found("begun", "", "it has left no record yet: it goes on, or was killed"),
    )
    with pytest.raises(InputError, match=r"no run of cluster local is called 'dmo'\n  hint: did you mean demo\?"):
        records(shared.plan, cluster.roster, ["dmo"])


def test_where_nothing_ever_ran(shared: Shared, cluster: StandIn) -> None:
    """Without a folder of runs, the list is empty."""
    shared.runs.rmdir()
    assert records(shared.plan, cluster.roster) == ()


@pytest.mark.parametrize("name", ["", "../x", "a b", "-rf", "x" * 101, "a\n"])
def test_a_name_is_one(shared: Shared, cluster: StandIn, name: str) -> None:
    """Names with path separators are refused before they reach the cluster."""
    with pytest.raises(InputError, match="is not the name of a run"):
        records(shared.plan, cluster.roster, [name])
    assert not (cluster.folder / "sent").exists()


def test_a_cluster_without_a_shared_directory_has_no_runs(cluster: StandIn) -> None:
    """The error says which storage to declare."""
    with pytest.raises(InputError, match="has no storage that all nodes see"):
        records(the_plan(), cluster.roster)


@pytest.mark.parametrize(
    "answer", ["", "{}", "[]", '{"names": [], "told": []}', '{"names": 1, "told": {"a": 1}}', "[" * 9999]
)
def test_a_head_that_says_nonsense_is_not_believed(shared: Shared, cluster: StandIn, answer: str) -> None:
    """The training result is unknown."""
    cluster.program("python3", f"#!/bin/sh\necho '{answer}'\n")
    with pytest.raises(UnknownError, match="its list of runs cannot be read"):
        records(shared.plan, cluster.roster)


def test_a_head_that_is_silent_is_not_waited_for(shared: Shared, cluster: StandIn) -> None:
    """The usual time limit applies."""
    cluster.unreachable()
    with pytest.raises(UnknownError, match="head cannot be reached"):
        records(shared.plan, cluster.roster)
