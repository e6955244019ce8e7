"""A plugin with a single resource, a file, which shows all properties of the base.

Its folder has the files. `<name>.stale` stands for a change outside of the stack.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stampworks.properties import Property, PropertyTable
from stampworks.provider.handler import Call, Handler, InputFailure, Package
from stampworks.provider.server import serve


class ToyError(Exception):
    """An error with a text for the user."""


class File(Handler):
    """A file of some lines."""

    refresh = True
    table = PropertyTable(
        "toy:index:File",
        inputs={
            "folder": Property("string", "where it lies", replaces=True),
            "lines": Property("array", "what it holds"),
            "size": Property("integer", "how much it weighs", required=False),
            "password": Property("string", "never shown", required=False),
            "mode": Property("string", "how to behave", required=False),
            "labels": Property("object", "whatever", required=False),
            "weight": Property("integer", "in tens: it is rounded up", required=False, settled=True),
        },
        outputs={
            "path": Property("string", "where it is", stable=True),
            "made": Property("integer", "how many times it was written"),
            "token": Property("string", "derived from the password", secret=True),
            "stale": Property("array", "what is wrong with it"),
        },
    )

    def check(self, inputs: Mapping[str, Any]) -> Iterable[InputFailure]:
        if not inputs["lines"]:
            yield InputFailure("lines", "a file of no lines is no file")

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {f"stale[{i}]": [f"{what} is stale"] for i, what in enumerate(outputs.get("stale", []))}

    async def ensure(self, call: Call) -> dict[str, Any]:
        path = self._path(call)
        if path.exists() and not call.old_outputs:
            call.progress("taking over what is there")
        (path.parent / f"{path.name}.stale").unlink(missing_ok=True)
        mode = call.inputs.get("mode", "")
        if mode == "fail early":
            raise ToyError(f"the password {call.inputs['password']} is too short")
        path.write_text("".join(f"{line}\n" for line in call.inputs["lines"]))
        made = path.with_suffix(".made")
        made.write_text(str(int(made.read_text()) + 1 if made.exists() else 1))
        if mode == "fail late":
            raise ToyError("the ink has run out")
        if mode == "bug":
            raise KeyError("nonsense")
        if mode == "full":
            await call.thread(Path("/dev/full").write_text, "which is the device that always is")
        if mode == "slow":
            await self._slowly(call)
        if mode == "slow thread":
            await call.thread(work_slowly, call)
        found = await self.read(call)
        if found is None:
            raise ToyError("it vanished")
        return found

    async def _slowly(self, call: Call) -> None:
        for i in range(6000):
            call.progress(f"page {i}")
            await asyncio.sleep(0.1)

    async def read(self, call: Call) -> dict[str, Any] | None:
        path = self._path(call)
        if not path.exists():
            return None
        weight = call.inputs.get("weight")
        return {
            **({} if weight is None else {"weight": -(-weight // 10) * 10}),
            "path": str(path),
            "made": int(path.with_suffix(".made").read_text()),
            "token": f"derived from {call.inputs.get('password', '')}",
            "stale": ["first"] if path.with_suffix(".stale").exists() else [],
        }

    async def delete(self, call: Call) -> None:
        self._path(call).unlink(missing_ok=True)

    def _path(self, call: Call) -> Path:
        return Path(call.inputs["folder"], call.id)


def work_slowly(call: Call) -> None:
    for i in range(6000):
        call.progress(f"sheet {i}")
        time.sleep(0.1)


if __name__ == "__main__":
    package = Package("toy", os.environ.get("TOY_VERSION", "0.0.1"), "A file", (File(),), expected_errors=(ToyError,))
    Path(os.environ["TOY_PIDS"], str(os.getpid())).touch()
    asyncio.run(serve(package, next((word for word in sys.argv[1:] if not word.startswith("-")), "")))
