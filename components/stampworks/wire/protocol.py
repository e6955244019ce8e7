"""Pulumi's wire protocol, without the rest of its SDK.

The generated modules are inside the `pulumi` package. Importing that package takes 0.25 s of every command, more than
half of this plugin's start, and the modules need none of it. The packages above them are therefore registered as empty
modules with a path, without their code, and removed before other code can import them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def _bare(*packages: str) -> Iterator[None]:
    spec = importlib.util.find_spec(packages[0])
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{sys.executable} has no package {packages[0]}: install stampworks into it again")
    root = Path(spec.submodule_search_locations[0])
    entered = [name for name in packages if name not in sys.modules]
    for name in entered:
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in entered:
            del sys.modules[name]


with _bare("pulumi", "pulumi.runtime", "pulumi.runtime.proto"):
    from pulumi.runtime.proto import (
        engine_pb2,
        engine_pb2_grpc,
        plugin_pb2,
        provider_pb2,
        provider_pb2_grpc,
        status_pb2,
    )

__all__ = ["engine_pb2", "engine_pb2_grpc", "plugin_pb2", "provider_pb2", "provider_pb2_grpc", "status_pb2"]
