"""Images and versions that were looked up once and are kept next to a stack's file, so that every `up` uses them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Final, TypeVar

from stampworks.declaration.errors import DeclarationError
from stampworks.declaration.files import UnreadableError, displayed, text_of
from stampworks.declaration.nodes import FilePosition
from stampworks.declaration.wording import alternatives

T = TypeVar("T")

VERSION = 1
SUFFIXES = (".json",)
AGAIN: Final = "`stampworks lock -s STACK` looks its images up again"
MADE_UP: Final = "example"
"""Id of an image, or version of a part, in the lock of an example: it can be planned, and exists nowhere."""
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@ -]{0,1000}|")
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FIELDS, _OPTIONAL = {"version", "region", "images"}, {"hosts", "keys", "made_with", "parts"}


@dataclass(frozen=True)
class LockedImage:
    """A machine image as `stampworks lock` found it."""

    id: str
    name: str
    """Information for readers, like the date below: no code depends on it."""
    created: str


@dataclass(frozen=True)
class LockedRail:
    """A port of a host on the fabric."""

    interface: str
    address: str
    """Empty for a port without an address."""


@dataclass(frozen=True)
class LockedHost:
    """A machine as `stampworks hosts lock` found it."""

    address: str
    port: int
    inside: str
    host_key: str
    """Its public host key, which a person confirmed or declared."""
    machine_id: str
    group: str
    rack: str
    rails: tuple[LockedRail, ...]


@dataclass(frozen=True)
class Lock:
    """Empty if nothing was looked up."""

    region: str = ""
    images: Mapping[str, LockedImage] = field(default_factory=dict)
    """Images by the parameter with which the cloud publishes the newest one."""
    made_with: str = ""
    """Release whose roles made the images; empty for images of a distribution."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Versions of the parts of a cloud's Kubernetes, by its version and their names."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Public keys of users by the URL that had them. The declaration judges them like keys that are written there."""
    hosts: tuple[LockedHost, ...] = ()
    """Machines that answer ssh, in the order in which they get names of nodes."""

    @property
    def is_example(self) -> bool:
        hosts = (host.machine_id for host in self.hosts)
        return MADE_UP in {*(image.id for image in self.images.values()), *self.parts.values(), *hosts}


NONE: Final = Lock()


def lock_file(declared: Path) -> Path:
    """Return the path of a file's lock: stacks/aws.lock.json belongs to stacks/Pulumi.aws.yaml."""
    return beside(declared, "lock")


def read_lock(declared: Path) -> Lock:
    """Return the lock of a file, if it has one; raise DeclarationError for an unreadable lock."""
    file = lock_file(declared)
    return read_beside(file, _lock, "is not a lock file of stampworks", AGAIN) if os.path.lexists(file) else NONE


def beside(declared: Path, what: str) -> Path:
    """Return the path of a file that was written for a declaration."""
    return declared.with_name(f"{declared.stem.removeprefix('Pulumi.')}.{what}.json")


def read_beside(file: Path, read: Callable[[Any], T], otherwise: str, hint: str) -> T:
    """Read JSON from a file by `read`, which raises ValueError; raise DeclarationError for that."""
    try:
        return read(json.loads(text_of(file, SUFFIXES)))
    except UnreadableError as error:
        what = str(error)
    except (ValueError, RecursionError) as error:
        what = f"{otherwise}: {error}"
    raise DeclarationError([FilePosition(displayed(file)).problem("", what, hint)])


def _lock(data: Any) -> Lock:
    if not isinstance(data, dict) or set(data) - _OPTIONAL != _FIELDS:
        fields, more = ", ".join(sorted(_FIELDS)), alternatives(sorted(_OPTIONAL), "and")
        raise ValueError(f"its keys are {fields}, and optionally {more}")
    if data["version"] != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    images = data["images"]
    made_with, parts = data.get("made_with", ""), data.get("parts", {})
    if not isinstance(data["region"], str) or not isinstance(images, dict) or not isinstance(made_with, str):
        raise ValueError("region and made_with are strings, images is a mapping")
    if not isinstance(parts, dict):
        raise ValueError("parts is a mapping")
    parts = {name: _part(version) for name, version in parts.items()}
    keys = _keys(data.get("keys", {}))
    images = {name: _image(image) for name, image in images.items()}
    return Lock(data["region"], images, made_with, parts, keys, _hosts(data.get("hosts", [])))


def _hosts(data: Any) -> tuple[LockedHost, ...]:
    if not isinstance(data, list):
        raise ValueError("hosts is a list")
    return tuple(_host(each) for each in data)


def _host(data: Any) -> LockedHost:
    names = [each.name for each in fields_of(LockedHost)]
    if not isinstance(data, dict) or set(data) != {*names}:
        raise ValueError(f"each of its hosts has {', '.join(names)}")
    rails, port = data["rails"], data["port"]
    texts = [value for name, value in data.items() if name not in ("port", "rails")]
    if not all(isinstance(each, str) and _PLAIN.fullmatch(each) for each in texts) or type(port) is not int:
        raise ValueError("each of its hosts has plain texts, and a number as its port")
    if not isinstance(rails, list) or not all(map(_is_rail, rails)):
        raise ValueError("the rails of a host are a list of {interface, address}")
    return LockedHost(**{**data, "rails": tuple(LockedRail(**each) for each in rails)})


def _is_rail(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and set(data) == {"interface", "address"}
        and all(isinstance(each, str) and _PLAIN.fullmatch(each) for each in data.values())
    )


def _keys(data: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(data, dict) or not all(map(_is_key_list, data.values())):
        raise ValueError("keys is a mapping of lists of public keys")
    return {url: tuple(found) for url, found in data.items()}


def _is_key_list(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(each, str) for each in data)


def _part(data: Any) -> str:
    if not isinstance(data, str) or not _PART.fullmatch(data):
        raise ValueError("parts have versions like v1.20.4-eksbuild.1")
    return data


def _image(data: Any) -> LockedImage:
    fields = [field.name for field in fields_of(LockedImage)]
    if not isinstance(data, dict) or set(data) != {*fields} or not all(isinstance(each, str) for each in data.values()):
        raise ValueError(f"each of its images has {', '.join(fields)}, all of them strings")
    if not _IMAGE.fullmatch(data["id"]):
        raise ValueError("images have ids like ami-0123456789abcdef0")
    return LockedImage(**data)


def lock_text(lock: Lock) -> str:
    """Return the text of its file: equal locks have equal texts."""
    images = {parameter: asdict(lock.images[parameter]) for parameter in sorted(lock.images)}
    keys = {url: list(found) for url, found in sorted(lock.keys.items())}
    hosts = [asdict(each) for each in lock.hosts]
    more = {"made_with": lock.made_with, "parts": dict(sorted(lock.parts.items())), "keys": keys, "hosts": hosts}
    said = {name: value for name, value in more.items() if value}
    return json.dumps({"version": VERSION, "region": lock.region, "images": images, **said}, indent=2) + "\n"
