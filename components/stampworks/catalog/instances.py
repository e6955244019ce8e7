"""What a cloud has to be told to start a machine as a node: where its NICs are, and which image it boots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

from stampworks.catalog.hardware import known_nics
from stampworks.catalog.rows import CatalogError, Machine, load, rows

_FILE = "instances.yaml"
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class _Cards:
    name: str
    first: int
    step: int
    source: str
    read: str


@dataclass(frozen=True)
class _Agent:
    """Its package for each kind of processors; empty where the image brings it."""

    name: str
    x86_64: str
    arm64: str
    source: str
    read: str


@dataclass(frozen=True)
class _Model:
    name: str
    model: str
    source: str
    read: str


@dataclass(frozen=True)
class PublishedImage:
    """Where a cloud says which image of a suite is the newest for each kind of processors, and what is in each."""

    name: str
    x86_64: str
    arm64: str
    user: str
    """Who can log in to it, and become root."""
    root_device: str
    """What it calls its own disk."""
    source: str
    read: str

    def of(self, machine: Machine, kubernetes: str = "") -> str:
        """For nodes of a Kubernetes by its version: 1.35."""
        return _of(self, machine).replace("{kubernetes}", kubernetes)


def fabric_cards(machine: Machine) -> tuple[int, ...]:
    """The network cards that have its NICs of the fabric, in the order of the rails; none where nobody knows."""
    cards = _cards().get(machine.name)
    first, step = (cards.first, cards.step) if cards else (0, 1)
    return tuple(range(first, first + step * known_nics(machine), step))


def published_image(machine: Machine, suite: str) -> PublishedImage:
    """Where the machine's cloud publishes images of a suite."""
    return _row(_images(), "images", machine, suite)


def agent_package(machine: Machine, suite: str, region: str) -> str:
    """The package of what a cloud lets people in through; empty where images of the suite bring it."""
    return _of(_row(_agents(), "agents", machine, suite), machine).replace("{region}", region)


def scratch_model(machine: Machine) -> str:
    """What the disks inside a machine call themselves; empty where nobody knows, or where they hold what must stay."""
    found = _models().get(machine.cloud)
    return found.model if found else ""


def architecture(machine: Machine) -> Literal["x86_64", "arm64"]:
    """Of its processors."""
    return "arm64" if machine.name in load(_FILE)["arm64"] else "x86_64"


def _of(row: PublishedImage | _Agent, machine: Machine) -> str:
    return row.arm64 if architecture(machine) == "arm64" else row.x86_64


def _row(table: Mapping[str, _Row], what: str, machine: Machine, suite: str) -> _Row:
    if not (found := table.get(f"{machine.cloud} {suite}")):
        raise CatalogError(f"{_FILE}: {what}: lacks {machine.cloud} {suite}")
    return found


@cache
def _cards() -> Mapping[str, _Cards]:
    return rows(_Cards, load(_FILE)["fabric_cards"], f"{_FILE}: fabric_cards")


@cache
def _models() -> Mapping[str, _Model]:
    return rows(_Model, load(_FILE)["scratch_models"], f"{_FILE}: scratch_models")


@cache
def _images() -> Mapping[str, PublishedImage]:
    return rows(PublishedImage, load(_FILE)["images"], f"{_FILE}: images")


@cache
def _agents() -> Mapping[str, _Agent]:
    return rows(_Agent, load(_FILE)["agents"], f"{_FILE}: agents")
