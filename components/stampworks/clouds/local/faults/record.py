"""Record of injected faults in the room's folder. A fault is recorded before it is injected, so that it can be
cleared."""

from __future__ import annotations

import dataclasses
import json

from stampworks.clouds.faults import Injected
from stampworks.machine_room import RoomError, files
from stampworks.machine_room.room import Room

FILE = "faults.json"


def read(room: Room) -> list[Injected]:
    """Return the recorded faults. Raise RoomError for a damaged file."""
    path = room.folder / FILE
    try:
        return [Injected(**each) for each in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        remedy = f"remove it with rm {path}; `pulumi up --refresh` then repairs most of the cluster"
        raise RoomError(str(path), "cannot read the list of injected faults", str(error), remedy) from None


def add(room: Room, one: Injected) -> None:
    """Add a fault. The caller holds the room's lock."""
    found = read(room)
    if one not in found:
        _write(room, [*found, one])


def remove(room: Room, one: Injected) -> None:
    """Remove a fault. The caller holds the room's lock."""
    _write(room, [each for each in read(room) if each != one])


def _write(room: Room, found: list[Injected]) -> None:
    path = room.folder / FILE
    if found:
        files.write(path, json.dumps([dataclasses.asdict(each) for each in found], indent=2) + "\n", 0o600)
    else:
        path.unlink(missing_ok=True)
