"""Handlers of a plugin's resources: a table of properties, and the operations of a resource."""

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
    """A wrong input, and its path."""

    path: str
    reason: str


class StoppedError(Exception):
    """Raised at the next line of progress, to end work in a thread."""


@dataclass
class Call:
    """An operation on a resource: the data of the engine, and a way to report progress."""

    urn: str
    id: str
    inputs: Mapping[str, Any]
    old_inputs: Mapping[str, Any] = field(default_factory=dict)
    old_outputs: Mapping[str, Any] = field(default_factory=dict)
    """Outputs of the last operation. An earlier failure may have left any of them out."""
    say: Progress = lambda _: None
    left: Mapping[str, Any] = field(default_factory=dict)
    """Outputs that a failing operation leaves and that cannot be read back."""
    mask: Callable[[str], str] = lambda text: text
    """Removes the secrets of this resource from a text that comes from elsewhere."""
    _stopped: bool = False
    _awaited: Future[Any] | None = None

    def progress(self, line: str) -> None:
        """Show a line at the resource. Any thread may call this."""
        if self._stopped:
            raise StoppedError
        self.say(line)

    async def thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run blocking work outside of the event loop. When the call is cancelled, the work ends before this
        returns."""
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
        """Return a function with which blocking work in its thread waits for a coroutine."""
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
    """A type of resource. Its docstring is its description in the schema."""

    table: ClassVar[PropertyTable]
    refresh: ClassVar[bool] = False
    """Whether every preview and up reads the resource first."""

    @property
    def token(self) -> str:
        """The type token of the resource."""
        return self.table.token

    @property
    def inputs(self) -> Mapping[str, Property]:
        """The inputs by their names on the wire."""
        return self.table.inputs

    @property
    def outputs(self) -> Mapping[str, Property]:
        """The outputs by their names on the wire."""
        return self.table.outputs

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002 (a resource may be named by either)
        """Return the id. It is the same for each attempt at a creation, so that a retry finds the results of the
        first."""
        return hashlib.sha256(urn.encode()).hexdigest()[:12]

    def check(self, inputs: Mapping[str, Any]) -> Iterable[InputFailure]:  # noqa: ARG002
        """Return faults of the inputs beyond those of the table. It is called only if all inputs are known."""
        return ()

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Return each difference between the actual state and the declaration in words, by the property that shows
        it."""
        return {"drift": outputs["drift"]} if outputs.get("drift") else {}

    @abstractmethod
    async def ensure(self, call: Call) -> dict[str, Any]:
        """Bring the actual state to the inputs, whatever exists, and return the outputs."""

    @abstractmethod
    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the current outputs; None when the resource does not exist."""

    async def remains(self, call: Call) -> dict[str, Any] | None:
        """Return what exists after `ensure` has failed. The default reads the resource; override it if that is
        expensive."""
        return await self.read(call)

    @abstractmethod
    async def delete(self, call: Call) -> None:
        """Delete the resource, if it exists."""


@dataclass(frozen=True)
class Package:
    """The resources that a plugin serves."""

    name: str
    version: str
    description: str
    handlers: tuple[Handler, ...]
    expected_errors: tuple[type[Exception], ...] = ()
    """Errors with a complete text. Any other error is shown with its place in the code."""
