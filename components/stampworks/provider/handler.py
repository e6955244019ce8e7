"""Handlers of resources of a plugin: the table of its properties and the three things that a resource can do."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from stampworks.properties import Property, PropertyTable

P = ParamSpec("P")
R = TypeVar("R")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class InputFailure:
    """An input that cannot be, and where it is."""

    path: str
    reason: str


class StoppedError(Exception):
    """Ends work in a thread, at its next line of progress."""


@dataclass
class Call:
    """One operation on one resource: what the engine knows, and a way to tell it what goes on."""

    urn: str
    id: str
    inputs: Mapping[str, Any]
    old_inputs: Mapping[str, Any] = field(default_factory=dict)
    old_outputs: Mapping[str, Any] = field(default_factory=dict)
    """What the last operation left. An earlier failure may have left any of it out."""
    say: Progress = lambda _: None
    left: Mapping[str, Any] = field(default_factory=dict)
    """What an operation that is about to fail leaves behind, where a look at the world would not find it."""
    mask: Callable[[str], str] = lambda text: text
    """The text without any secret of this resource: for outputs that come from elsewhere."""
    _stopped: bool = False
    _awaited: Future[Any] | None = None

    def progress(self, line: str) -> None:
        """Shows the line beside the resource; any thread may call it."""
        if self._stopped:
            raise StoppedError
        self.say(line)

    async def thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs blocking work beside the event loop. When the call is cancelled, the work ends before this returns."""
        work = asyncio.create_task(asyncio.to_thread(function, *args, **kwargs))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stopped = True
            if self._awaited:
                self._awaited.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._stopped = False
            raise

    def waiter(self) -> Callable[[Coroutine[Any, Any, R]], R]:
        """A function by which blocking work, in its thread, waits for something asynchronous."""
        loop = asyncio.get_running_loop()

        def wait(coroutine: Coroutine[Any, Any, R]) -> R:
            self._awaited = asyncio.run_coroutine_threadsafe(coroutine, loop)
            if self._stopped:
                self._awaited.cancel()
            try:
                return cast(R, self._awaited.result())
            finally:
                self._awaited = None

        return wait


class Handler(ABC):
    """One type of resource. Its docstring is its description in the schema."""

    table: ClassVar[PropertyTable]
    refresh: ClassVar[bool] = False
    """Whether every preview and up looks at the world first."""

    @property
    def token(self) -> str:
        return self.table.token

    @property
    def inputs(self) -> Mapping[str, Property]:
        return self.table.inputs

    @property
    def outputs(self) -> Mapping[str, Property]:
        return self.table.outputs

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002 (a resource may be named by either)
        """The id, the same however often a creation is tried, so that a second try finds what the first one left."""
        return hashlib.sha256(urn.encode()).hexdigest()[:12]

    def check(self, inputs: Mapping[str, Any]) -> Iterable[InputFailure]:  # noqa: ARG002
        """What is wrong with the inputs beyond what the table says; only asked when all of them are known."""
        return ()

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """What in the world is no longer as declared: by the property that shows it, in words."""
        return {"drift": outputs["drift"]} if outputs.get("drift") else {}

    @abstractmethod
    async def ensure(self, call: Call) -> dict[str, Any]:
        """Makes the world as the inputs say, whatever was there before, and returns the outputs."""

    @abstractmethod
    async def read(self, call: Call) -> dict[str, Any] | None:
        """The outputs as the world is now, or None when the resource is not there."""

    async def remains(self, call: Call) -> dict[str, Any] | None:
        """What is there after `ensure` has failed: a look, unless looking is dear."""
        return await self.read(call)

    @abstractmethod
    async def delete(self, call: Call) -> None:
        """Removes the resource; fine when it is gone already."""


@dataclass(frozen=True)
class Package:
    """All that a plugin serves."""

    name: str
    version: str
    description: str
    handlers: tuple[Handler, ...]
    expected_errors: tuple[type[Exception], ...] = ()
    """Errors whose text says all; any other one is shown with the place where it happened."""
