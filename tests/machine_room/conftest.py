"""Rooms that are removed after their test."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stampworks import catalog
from stampworks import machine_room as room
from stampworks.machine_room.specs import ImageSpec

from tests.machine_room.stamping import Stamp


@pytest.fixture(scope="session")
def image() -> room.NodeImage:
    """The base system alone, in the user's own cache: created once for all tests, and for `make demo`."""
    row = catalog.releases()[catalog.newest_release()]
    spec = ImageSpec(row.suite, row.base_packages, (), runs_containers=False)
    return room.ensure_image(spec, lambda builder: None, "tests", print)


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, timeout=30)
    return path.read_text(), path.with_suffix(".pub").read_text()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own: no room of the user's can be met."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def new_stamp(state: Path, image: room.NodeImage, key: tuple[str, str]) -> Iterator[Callable[[], Stamp]]:
    made: list[Stamp] = []

    def make() -> Stamp:
        made.append(Stamp(f"t{uuid.uuid4().hex[:8]}", image, *key))
        return made[-1]

    yield make
    for stamp in made:
        stamp.remove()


@pytest.fixture
def stamp(new_stamp: Callable[[], Stamp]) -> Stamp:
    return new_stamp()
