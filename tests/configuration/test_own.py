"""Input of a run about the user's own roles and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stampworks import configuration
from stampworks.plan import Extras, OwnCheck, OwnRole, Plan, Roster
from stampworks.schedulers import slurm

EXTRAS = Extras(
    roles=(OwnRole("motd", "roles/motd", ("head", "gpu"), "{}"), OwnRole("agent", "agent", ("small",), "{}")),
    checks=(OwnCheck("scratch", "scratch.sh", ("gpu",), 3), OwnCheck("mine", "mine.py", ("gpu", "small"), 10)),
)
TEXTS = {"scratch": "#!/bin/sh\n", "mine": "#!/usr/bin/python3\n{{ x }}\n"}


@pytest.fixture
def made(case_of: Callable[..., tuple[Plan, Roster]]) -> dict[str, Any]:
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}, {"name": "small", "machine": "sim-cpu", "count": 1}]
    plan, roster = case_of(pools=pools)
    plan = replace(plan, extras=EXTRAS)
    whole: dict[str, Any] = configuration.inventory(plan, roster, slurm.files(plan, roster), TEXTS)["all"]
    return whole


def test_a_group_is_a_role_is_a_switch(made: dict[str, Any]) -> None:
    """This holds for the user's roles and the toolkit's."""
    hosts = made["hosts"]
    assert set(made["children"]["motd"]["hosts"]) == {n for n, h in hosts.items() if h["node_group"] in ("head", "gpu")}
    assert set(made["children"]["agent"]["hosts"]) == {n for n, h in hosts.items() if h["node_group"] == "small"}


def test_a_host_knows_its_own_checks(made: dict[str, Any]) -> None:
    """Scripts are stored once, not once per host."""
    hosts = made["hosts"].values()
    names = {host["node_group"]: [check["name"] for check in host.get("health_checks", [])] for host in hosts}
    assert names == {"head": [], "gpu": ["scratch", "mine"], "small": ["mine"]}
    folder = "/usr/local/lib/stampworks/checks"
    assert made["vars"]["health_programs"] == [
        {"path": f"{folder}/scratch", "content": TEXTS["scratch"], "mode": "0755"},
        {"path": f"{folder}/mine", "content": TEXTS["mine"], "mode": "0755"},
    ]


def test_check_texts(tmp_path: Path) -> None:
    """Read from the folder where the paths begin."""
    (tmp_path / "scratch.sh").write_text(TEXTS["scratch"])
    (tmp_path / "mine.py").write_text(TEXTS["mine"])
    assert configuration.check_texts(EXTRAS, tmp_path) == TEXTS


@pytest.fixture
def digest(tmp_path: Path) -> Callable[[], str]:
    (tmp_path / "roles/motd/tasks").mkdir(parents=True)
    (tmp_path / "roles/motd/tasks/main.yml").write_text("[]")
    (tmp_path / "agent").mkdir()
    return lambda: configuration.content_digest(EXTRAS, tmp_path)


def test_without_own_roles_only_our_playbooks_count() -> None:
    """Clusters without roles of their own keep their digest."""
    assert configuration.content_digest(Extras((), EXTRAS.checks), Path("/nowhere")) == configuration.playbooks_digest()


@pytest.mark.parametrize("name", ["roles/motd/tasks/main.yml", "roles/motd/files/new", "agent/README.md"])
def test_a_file_of_a_role_is_a_change(digest: Callable[[], str], tmp_path: Path, name: str) -> None:
    """Any file counts, because a role may read each of them."""
    before = digest()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("another text")
    assert digest() != before


def test_foreign_files_are_no_change_of_a_role(digest: Callable[[], str], tmp_path: Path) -> None:
    """Files of version control, broken links and files outside of the role do not count."""
    before = digest()
    (tmp_path / "agent" / ".git").mkdir()
    (tmp_path / "agent" / ".git" / "index").write_text("x")
    (tmp_path / "agent" / "broken").symlink_to("nowhere")
    (tmp_path / "beside").write_text("x")
    assert digest() == before


def test_the_place_of_a_project_is_no_change(digest: Callable[[], str], tmp_path: Path) -> None:
    """Two clones of a project have the same digest, also below a folder of an odd name."""
    moved = tmp_path.parent / f"{tmp_path.name}-elsewhere" / "__pycache__"
    moved.parent.mkdir()
    before = digest()
    tmp_path.rename(moved)
    assert configuration.content_digest(EXTRAS, moved) == before
