"""The engine's side of the Pulumi SDK without its other parts.

`import pulumi` takes 0.3 s, and the engine starts a language host twice for each command. The protocol's generated
modules need nothing else of the SDK, so that the packages above them are registered empty: with a path, without their
code.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _enter_bare_packages(*names: str) -> None:
    spec = importlib.util.find_spec(names[0])
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{sys.executable} has no {names[0]} package: run tools/prepare")
    root = Path(spec.submodule_search_locations[0])
    for name in names:
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


_enter_bare_packages("pulumi", "pulumi.runtime", "pulumi.runtime.proto")

from pulumi.runtime.proto import language_pb2 as language  # noqa: E402
from pulumi.runtime.proto import plugin_pb2 as plugin  # noqa: E402
from pulumi.runtime.proto.language_pb2_grpc import (  # noqa: E402
    LanguageRuntimeServicer,
    add_LanguageRuntimeServicer_to_server,
)

__all__ = ["LanguageRuntimeServicer", "add_LanguageRuntimeServicer_to_server", "language", "plugin"]
