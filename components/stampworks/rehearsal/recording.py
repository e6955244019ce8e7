"""Recording in front of each rehearsed provider: calls, resulting resources, and injected failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

import grpc

from stampworks.rehearsal.rules import name_of, rules_of, token_of
from stampworks.rehearsal.scenario import InjectedFailure
from stampworks.wire.values import UNKNOWN, decode, secret_names

_SAID = {
    "stock-out": "rehearsed stock-out: the cloud has no capacity now",
    "quota": "rehearsed quota: the limit of the account is reached",
}
_PAUSE_S = 0.05
"""Seconds after an attempt without a declared latency. A real provider waits longer each time, up to minutes."""
_RECORDED = frozenset({"Create", "Update", "Read", "Delete", "Invoke", "Call"})


@dataclass
class World:
    """The resources that would exist, independent of any state."""

    there: dict[tuple[str, str], None] = field(default_factory=dict)
    """URN and id of each resource, in the order of creation."""
    creates: int = 0
    hit: list[str] = field(default_factory=list)
    """URN of each attempted creation that met the failure."""


class Recording(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # at run time it is no generic type
    """Interceptor that sees each call before its provider."""

    def __init__(self, latency: Mapping[str, float], kill: Callable[[], None], record: TextIO | None) -> None:
        self.world = World()
        self._latency, self._kill, self._record = latency, kill, record
        self._failure: InjectedFailure | None = None

    def begin(self, failure: InjectedFailure | None) -> None:
        """Inject this failure from now on."""
        self._failure, self.world.creates, self.world.hit = failure, 0, []

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """Wrap the calls to be recorded; others pass unchanged. gRPC calls this."""
        handler = await continuation(details)
        name = details.method.rpartition("/")[2]
        if name not in _RECORDED:
            return handler

        async def called(request: Any, context: Any) -> Any:
            self._note(name, request)
            if name != "Create" or request.preview:
                response = await handler.unary_unary(request, context)
            else:
                response = await self._create(request, context, handler.unary_unary)
            if name == "Delete":
                self.world.there.pop((request.urn, request.id), None)
            return response

        return grpc.unary_unary_rpc_method_handler(
            called,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    async def _create(self, request: Any, context: Any, create: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        self.world.creates += 1
        token = token_of(request.urn)
        failure = self._failure if self._failure and self._failure.hits(request.urn) else None
        if failure and failure.kind == "throttle":
            await self._throttled(failure.times, request.urn, context)
        elif failure:
            self.world.hit.append(request.urn)
        await asyncio.sleep(self._latency.get(token, 0))
        if failure and failure.kind in _SAID:
            await context.abort(grpc.StatusCode.UNKNOWN, _SAID[failure.kind])
        response = await create(request, context)
        self.world.there[(request.urn, response.id)] = None
        if failure and failure.kind == "crash":
            self._failure = None
            self._kill()  # the resource exists, and no engine records it
        return response

    async def _throttled(self, times: int, urn: str, context: Any) -> None:
        """Refuse this many attempts, or all of the provider's."""
        token = token_of(urn)
        attempts = rules_of(token.partition(":")[0]).attempts
        for _ in range(min(times, attempts)):
            self.world.hit.append(urn)
            await asyncio.sleep(self._latency.get(token, _PAUSE_S))
        if times >= attempts:
            await context.abort(grpc.StatusCode.UNKNOWN, "rehearsed throttle: told to try later until the last attempt")

    def _note(self, call: str, request: Any) -> None:
        token = getattr(request, "tok", "") or token_of(request.urn)
        if self._record is None:
            return
        sent = next((getattr(request, name) for name in ("args", "news", "properties") if hasattr(request, name)), None)
        hidden = secret_names(sent) if sent else frozenset()
        values = {key: "[secret]" if key in hidden else value for key, value in decode(sent).items()} if sent else {}
        line: dict[str, Any] = {"call": call, "type": token}
        if not hasattr(request, "tok"):
            line |= {"name": name_of(request.urn), "urn": request.urn}
            line |= {"preview": bool(getattr(request, "preview", False))}
        self._record.write(json.dumps({**line, "values": values}, default=_unknown) + "\n")


def _unknown(value: Any) -> str:
    if value is UNKNOWN:
        return "[unknown]"
    raise TypeError(f"{type(value).__name__} is not on the wire")
