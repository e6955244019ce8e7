"""Launch parameters of a machine on a cloud: the places of its NICs, and its boot image."""

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
    """The agent's package by processor architecture; empty when the image contains it."""

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
    """The cloud's parameters for the newest image of a suite by processor architecture, and properties of these
    images."""

    name: str
    x86_64: str
    arm64: str
    user: str
    """The login user, who can become root."""
    root_device: str
    """The image's name for its root disk."""
    source: str
    read: str

    def of(self, machine: Machine, kubernetes: str = "") -> str:
        """Return the parameter; `kubernetes` is the version for nodes of a managed Kubernetes, like 1.35."""
        return _id_for(self, machine).replace("{kubernetes}", kubernetes)


def fabric_cards(machine: Machine) -> tuple[int, ...]:
    """Return the network cards with the fabric's NICs, in the order of the rails; none when the NICs are unknown."""
    cards = _cards().get(machine.name)
    first, step = (cards.first, cards.step) if cards else (0, 1)
    return tuple(range(first, first + step * known_nics(machine), step))


def published_image(machine: Machine, suite: str) -> PublishedImage:
    """Return the row of the cloud's published images of a suite."""
    return _row(_images(), "images", machine, suite)


def agent_package(machine: Machine, suite: str, region: str) -> str:
    """Return the package of the cloud's access agent; empty when images of the suite contain it."""
    return _id_for(_row(_agents(), "agents", machine, suite), machine).replace("{region}", region)


def scratch_model(machine: Machine) -> str:
    """Return the model name of the machine's local disks; empty when it is unknown, or when they hold data that must
    stay."""
    found = _models().get(machine.cloud)
    return found.model if found else ""


def architecture(machine: Machine) -> Literal["x86_64", "arm64"]:
    """Return the processor architecture of a machine."""
    return "arm64" if machine.name in load(_FILE)["arm64"] else "x86_64"


def _id_for(row: PublishedImage | _Agent, machine: Machine) -> str:
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
