# ruff: noqa: ARG002, N802 (the protocol names these methods and their arguments)
"""A Pulumi plugin: it maps the engine's calls to a table of handlers, and knows no resource itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import traceback
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from stampworks.provider.changes import in_words, input_changes
from stampworks.provider.checks import failures
from stampworks.provider.handler import Call, Handler, InputFailure, Package
from stampworks.provider.progress import EngineLog
from stampworks.provider.schema import schema
from stampworks.text.printable import masking, printable_lines
from stampworks.wire.plugin import Plugin
from stampworks.wire.protocol import plugin_pb2, provider_pb2_grpc, status_pb2
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import UNKNOWN, PropertyChange, decode, encode, secret_names, top

R = TypeVar("R")
Context = grpc.aio.ServicerContext[Any, Any]

_MESSAGE_BYTES_MAX = 400 << 20  # the engine's own limit
_PARENT_POLL_S = 0.5
_GRACE_S = 2.0
_RUN_OUT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""Errors of an exhausted machine, which are not bugs of a resource."""


class InterruptedByUserError(Exception):
    """The engine asked to stop during an operation."""


class PluginServer(Plugin):
    """Server for one engine and one run."""

    def __init__(self, package: Package, engine_address: str) -> None:
        super().__init__(package.version)
        self._package = package
        self._handlers = {handler.token: handler for handler in package.handlers}
        self._engine = EngineLog(engine_address)
        self._running: set[asyncio.Task[Any]] = set()
        self._told: set[tuple[str, str]] = set()

    # -- the plugin

    async def Handshake(self, request: pb.ProviderHandshakeRequest, context: Context) -> pb.ProviderHandshakeResponse:
        """Connect to the engine's log."""
        self._engine = EngineLog(request.engine_address)
        return await super().Handshake(request, context)

    async def Attach(self, request: plugin_pb2.PluginAttach, context: Context) -> Empty:
        """Connect to the engine's log, when the engine did not start the plugin."""
        self._engine = EngineLog(request.address)
        return Empty()

    async def GetSchema(self, request: pb.GetSchemaRequest, context: Context) -> pb.GetSchemaResponse:
        """Return the schema that the handlers' tables give."""
        return pb.GetSchemaResponse(schema=json.dumps(schema(self._package)))

    async def Cancel(self, request: Empty, context: Context) -> Empty:
        """Cancel running operations; each keeps what it has finished."""
        self.cancel()
        return Empty()

    def cancel(self) -> None:
        """Ask every operation to end. Each still answers with the state that it leaves."""
        for task in self._running:
            task.cancel()

    # -- one resource

    async def Check(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        """Return the problems of inputs, all at once."""
        handler = await self._handler(request.urn, context)
        work = _Work(handler, request.urn, request.news)
        return pb.CheckResponse(
            inputs=request.news, failures=[work.failure(one) for one in failures(handler, work.call.inputs)]
        )

    async def Diff(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        """Compare inputs, and drift with no drift. Only marked inputs replace the resource."""
        handler = await self._handler(request.urn, context)
        olds, texts = decode(request.olds), {name for name, row in handler.inputs.items() if row.told_as_text}
        found = input_changes(handler.inputs, olds, decode(request.old_inputs), decode(request.news))
        inputs = [_whole(one, texts) for one in found]
        drifted = [PropertyChange(path, "update") for path in handler.drift(olds)]
        # an input in an old state may be missing in the table
        replaces = [one.path for one in inputs if (row := handler.inputs.get(top(one.path))) and row.replaces]
        detailed = {change.path: _difference(change, replaces, of_input=True) for change in inputs}
        detailed |= {change.path: _difference(change, replaces, of_input=False) for change in drifted}
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if detailed else pb.DiffResponse.DIFF_NONE,
            diffs=sorted({top(path) for path in detailed}),
            replaces=replaces,
            deleteBeforeReplace=bool(replaces),  # the new resource would collide with the old one of the same name
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Create a resource; in a preview only say which outputs are unknown."""
        handler = await self._handler(request.urn, context)
        work = _Work(handler, request.urn, request.properties)
        if request.preview:
            return pb.CreateResponse(properties=work.preview())
        work.call.id = handler.identity(request.urn, work.call.inputs)
        return pb.CreateResponse(
            id=work.call.id,
            properties=await self._ensure(work, request.timeout, context),
            refresh_before_update=handler.refresh,
        )

    async def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Update a resource; a preview reports its drift."""
        handler = await self._handler(request.urn, context)
        work = _Work(handler, request.urn, request.news, request.id, request.olds, request.old_inputs)
        await self._tell_changes(work)
        if request.preview:
            await self._tell_drift(work, work.call.old_outputs)
            return pb.UpdateResponse(properties=work.preview())
        return pb.UpdateResponse(
            properties=await self._ensure(work, request.timeout, context), refresh_before_update=handler.refresh
        )

    async def Read(self, request: pb.ReadRequest, context: Context) -> pb.ReadResponse:
        """Return inputs and outputs as they are now; empty if the resource is gone."""
        handler = await self._handler(request.urn, context)
        work = _Work(handler, request.urn, request.inputs, request.id, request.properties, request.inputs)
        try:
            async with self._engine.progress(request.urn, work.mask) as work.call.say:
                outputs = await self._run(handler.read(work.call), request.timeout)
        except Exception as error:
            await context.abort(grpc.StatusCode.UNKNOWN, work.mask(self._explain(error)))
        if outputs is None:
            return pb.ReadResponse()
        await self._tell_drift(work, outputs)
        return pb.ReadResponse(
            id=request.id,
            properties=work.state(outputs),
            inputs=request.inputs,
            refresh_before_update=handler.refresh,
        )

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> Empty:
        """Delete a resource."""
        handler = await self._handler(request.urn, context)
        work = _Work(handler, request.urn, request.old_inputs, request.id, request.properties, request.old_inputs)
        try:
            async with self._engine.progress(request.urn, work.mask) as work.call.say:
                await self._run(handler.delete(work.call), request.timeout)
        except Exception as error:
            await context.abort(grpc.StatusCode.UNKNOWN, work.mask(self._explain(error)))
        return Empty()

    # -- how an operation runs

    async def _handler(self, urn: str, context: Context) -> Handler:
        token = urn.split("::", 3)[2].split("$")[-1]
        if token not in self._handlers:
            served = ", ".join(sorted(self._handlers))
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{token}: this plugin serves only {served}")
        return self._handlers[token]

    async def _ensure(self, work: _Work, timeout_s: float, context: Context) -> Struct:
        """Return the outputs. On an error, abort with the state that exists, so that the stack records it."""
        try:
            async with self._engine.progress(work.call.urn, work.mask) as work.call.say:
                return work.state(await self._run(work.handler.ensure(work.call), timeout_s))
        except Exception as error:
            reason = work.mask(self._explain(error))
        left = await self._left_behind(work)
        if left is None:
            await context.abort(grpc.StatusCode.UNKNOWN, reason)
        return await _abort_partly_done(work, left, reason, context)

    async def _tell_changes(self, work: _Work) -> None:
        """Show at the resource which of its inputs differ, and how, until its own progress follows."""
        call = work.call
        found = input_changes(work.handler.inputs, call.old_outputs, call.old_inputs, call.inputs)
        if line := in_words(found, work.secrets):
            await self._engine.log(call.urn, work.mask(line))

    async def _tell_drift(self, work: _Work, outputs: Mapping[str, Any]) -> None:
        """Report each line once, whether the resource was read before or not."""
        for line in [line for words in work.handler.drift(outputs).values() for line in words]:
            if (work.call.urn, line) not in self._told:
                self._told.add((work.call.urn, line))
                await self._engine.log(work.call.urn, work.mask(line), lasting=True)

    async def _left_behind(self, work: _Work) -> Mapping[str, Any] | None:
        with contextlib.suppress(Exception):  # keep the first error, which says more than an error of this read
            return await work.handler.remains(work.call)
        return work.call.old_outputs or None

    async def _run(self, operation: Coroutine[Any, Any, R], timeout_s: float) -> R:
        """Run an operation to its end, for at most timeout_s (0: no limit), so that Cancel can find it."""
        task = asyncio.create_task(operation)
        self._running.add(task)
        try:
            async with asyncio.timeout(timeout_s or None):
                return await task
        except TimeoutError:
            if not task.cancelled():
                raise
            raise TimeoutError(f"not done within its timeout of {timeout_s:g} s") from None
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if here is not None and here.cancelling():  # the engine has ended, so that no answer is needed
                raise
            raise InterruptedByUserError("interrupted; the next `pulumi up` continues from here") from None
        finally:
            self._running.discard(task)

    def _explain(self, error: Exception) -> str:
        expected = (*self._package.expected_errors, InterruptedByUserError, TimeoutError)
        if isinstance(error, expected) and str(error):
            return printable_lines(str(error))
        if isinstance(error, OSError) and error.errno in _RUN_OUT:
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror}\n  hint: free some space or raise the limit, and run it again"
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__][-3:]
        place = "".join(traceback.format_list(frames))
        said = printable_lines(str(error))
        return f"{type(error).__name__}: {said}\n{place}this is a bug in {self._package.name}"


class _Work:
    """A call, with the names of its secret properties."""

    def __init__(
        self,
        handler: Handler,
        urn: str,
        inputs: Struct,
        resource_id: str = "",
        old_outputs: Struct | None = None,
        old_inputs: Struct | None = None,
    ) -> None:
        old_outputs, old_inputs = old_outputs or Struct(), old_inputs or Struct()
        table = {**handler.inputs, **handler.outputs}
        self.handler = handler
        self.inputs = inputs
        self.call = Call(urn, resource_id, decode(inputs), decode(old_inputs), decode(old_outputs))
        self.secrets = {name for name, row in table.items() if row.secret}
        self.secrets |= secret_names(inputs) | secret_names(old_inputs) | secret_names(old_outputs)
        known = {**self.call.old_inputs, **self.call.old_outputs, **self.call.inputs}
        self.mask = self.call.mask = masking(_texts([known.get(name) for name in self.secrets]))

    def state(self, outputs: Mapping[str, Any]) -> Struct:
        return encode({**self.call.inputs, **outputs}, self.secrets)

    def preview(self) -> Struct:
        """Return the inputs, and as unknown each output that the coming operation may change."""
        old = self.call.old_outputs
        settled = {name: row for name, row in self.handler.inputs.items() if row.settled}
        coming = {**self.handler.outputs, **settled}
        return self.state({name: old.get(name, UNKNOWN) if row.stable else UNKNOWN for name, row in coming.items()})

    def failure(self, failure: InputFailure) -> pb.CheckFailure:
        if top(failure.path) in self.secrets:  # the engine shows the value of a property that an error names
            return pb.CheckFailure(reason=f"{failure.path} {failure.reason}")
        return pb.CheckFailure(property=failure.path, reason=failure.reason)


def _texts(value: Any) -> list[str]:
    """Return the texts in a secret."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


def _whole(change: PropertyChange, texts: Collection[str]) -> PropertyChange:
    """Return the difference as the engine knows it: a text has no parts."""
    name = top(change.path)
    return PropertyChange(name, "update") if name in texts and name != change.path else change


def _difference(change: PropertyChange, replaces: list[str], of_input: bool) -> pb.PropertyDiff:
    name = f"{change.kind.upper()}{'_REPLACE' if of_input and change.path in replaces else ''}"
    return pb.PropertyDiff(kind=pb.PropertyDiff.Kind.Value(name), inputDiff=of_input)


async def _abort_partly_done(work: _Work, left: Mapping[str, Any], reason: str, context: Context) -> NoReturn:
    detail = pb.ErrorResourceInitFailed(
        id=work.call.id,
        properties=work.state(left),
        inputs=work.inputs,
        reasons=[reason],
        refresh_before_update=work.handler.refresh,
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(grpc.StatusCode.UNKNOWN, reason)


async def serve(package: Package, engine_address: str) -> None:
    """Serve until a signal arrives or the engine is gone."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=64))  # threads here wait; they do not compute
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)

    limits = [("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX)]
    server = grpc.aio.server(options=limits)
    servicer = PluginServer(package, engine_address)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)

    await _first(ended.wait(), _parent_gone())
    servicer.cancel()
    await server.stop(_GRACE_S)


async def _parent_gone() -> None:
    """Return when the engine was killed. Nothing else would end its plugins then."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(_PARENT_POLL_S)


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    _, late = await asyncio.wait([asyncio.create_task(wait) for wait in waits], return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
