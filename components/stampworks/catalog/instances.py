"""What a cloud has to be told to start a machine as a node: where its NICs are, and which image it boots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from stampworks.catalog.hardware import known_nics
from stampworks.catalog.rows import CatalogError, Machine, load, rows

_FILE = "instances.yaml"


@dataclass(frozen=True)
class _Cards:
    name: str
    first: int
    step: int
    source: str
    read: str


@dataclass(frozen=True)
class _OfSuite:
    """What there is for each kind of processors."""

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


def fabric_cards(machine: Machine) -> tuple[int, ...]:
    """The network cards that have its NICs of the fabric, in the order of the rails; none where nobody knows."""
    cards = _cards().get(machine.name)
    first, step = (cards.first, cards.step) if cards else (0, 1)
    return tuple(range(first, first + step * known_nics(machine), step))


def published_image(machine: Machine, suite: str) -> str:
    """Where the machine's cloud says which image of a suite is the newest that the machine can boot."""
    return _of_suite("images", machine, suite)


def agent_package(machine: Machine, suite: str, region: str) -> str:
    """The package of what a cloud lets people in through, for images of a suite, which do not bring it."""
    return _of_suite("agents", machine, suite).replace("{region}", region)


def scratch_model(machine: Machine) -> str:
    """What the disks inside a machine call themselves; empty where nobody knows, or where they hold what must stay."""
    found = _models().get(machine.cloud)
    return found.model if found else ""


def architecture(machine: Machine) -> Literal["x86_64", "arm64"]:
    """Of its processors."""
    return "arm64" if machine.name in load(_FILE)["arm64"] else "x86_64"


def _of_suite(what: str, machine: Machine, suite: str) -> str:
    if not (found := _suites(what).get(f"{machine.cloud} {suite}")):
        raise CatalogError(f"{_FILE}: {what}: lacks {machine.cloud} {suite}")
    return found.arm64 if architecture(machine) == "arm64" else found.x86_64


@cache
def _cards() -> Mapping[str, _Cards]:
    return rows(_Cards, load(_FILE)["fabric_cards"], f"{_FILE}: fabric_cards")


@cache
def _models() -> Mapping[str, _Model]:
    return rows(_Model, load(_FILE)["scratch_models"], f"{_FILE}: scratch_models")


@cache
def _suites(what: str) -> Mapping[str, _OfSuite]:
    return rows(_OfSuite, load(_FILE)[what], f"{_FILE}: {what}")
