"""Installed SDKs of packages: their plugins, the types that they register, and the names of inputs of each type."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sdk:
    """A `pulumi_*` package of Python."""

    package: str
    """First part of its type tokens."""
    plugin: str
    """Name of the plugin that an engine starts for it: the package itself, or a bridge with a parameter."""
    version: str
    """Version of the plugin."""
    folder: Path


@functools.cache
def sdks() -> Mapping[str, Sdk]:
    """Return the installed SDKs by their packages."""
    found: dict[str, Sdk] = {}
    for folder in sys.path:
        for file in sorted(Path(folder).glob("pulumi_*/pulumi-plugin.json")):
            with contextlib.suppress(OSError, ValueError):
                said = json.loads(file.read_text())
                if said.get("resource") and said.get("name"):
                    package = str((said.get("parameterization") or said).get("name", ""))
                    sdk = Sdk(package, str(said["name"]), str(said.get("version", "")), file.parent)
                    found.setdefault(package, sdk)
    return found


@functools.cache
def classes_of(package: str) -> Mapping[str, str]:
    """Return the class of each resource type of a package, as its SDK registers them; none if there is no SDK."""
    if package not in sdks():
        return {}
    with contextlib.suppress(OSError, ValueError):
        text = (sdks()[package].folder / "__init__.py").read_text()
        _, _, registered = text.partition('resource_modules="""')
        modules = json.loads(registered.partition('"""')[0] or "[]")
        return {token: f"{each['fqn']}:{name}" for each in modules for token, name in each["classes"].items()}
    return {}


def unknown_inputs(token: str, inputs: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the inputs, at any depth, that the SDK does not know: path, name, and known names.

    Neither the SDK nor an engine refuses a wrong name in a dictionary: a real provider does, at the plan or the
    creation. A type without an SDK yields none.
    """
    if arguments := _arguments(token):
        yield from _unknown(arguments, inputs, "")


def _arguments(token: str) -> type | None:
    """Return the class of a resource's inputs. It ends with InitArgs where a type of parts has the other name."""
    where = classes_of(token.partition(":")[0]).get(token, "")
    module, _, name = where.partition(":")
    with contextlib.suppress(ImportError):
        sdk = importlib.import_module(module) if module else None
        return getattr(sdk, f"{name}InitArgs", None) or getattr(sdk, f"{name}Args", None)
    return None


def _unknown(arguments: type, inputs: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    known = _fields(arguments)
    for name, value in inputs.items():
        here = f"{path}.{name}" if path else name
        if name not in known:
            yield here, name, tuple(known)
        elif known[name]:
            for at, each in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(each, Mapping):
                    below = here if at is None else f"{here}[{at}]"
                    # if a value may have one of several types, report the errors of the most similar one
                    yield from min((list(_unknown(kind, each, below)) for kind in known[name]), key=len)


@functools.cache
def _fields(arguments: type) -> Mapping[str, tuple[type, ...]]:
    """Return the inputs of a type by their names on the wire, each with the types that dictionaries below it have."""
    from pulumi import (
        _types,
    )  # the only place that maps Python's names to names on the wire; tests compare it with the SDKs

    found = _types.input_type_types(arguments).items()
    return {name: tuple(each for each in _parts(kind) if _types.is_input_type(each)) for name, kind in found}


def _parts(kind: Any) -> Iterator[type]:
    """Yield the types in a union or list. Names below a mapping are free, and none of its types is yielded."""
    if isinstance(kind, type):
        yield kind
    elif typing.get_origin(kind) not in (dict, Mapping):
        for each in typing.get_args(kind):
            yield from _parts(each)
