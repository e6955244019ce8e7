"""Providers of a rehearsal in this process: a local server for each plugin."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import grpc

from stampworks.provider.server import PluginServer
from stampworks.rehearsal import own
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.ruled import Ruled
from stampworks.rehearsal.rules import rules_of, without_sdk
from stampworks.rehearsal.sdks import sdks
from stampworks.wire.protocol import provider_pb2_grpc

R = TypeVar("R")
_MESSAGE_BYTES_MAX = 400 << 20  # the engine's own limit
_GRACE_S = 1.0


def packages() -> dict[str, str]:
    """Return the packages that answer in a rehearsal, with the version that each program needs of its plugin."""
    return {**without_sdk(), **{name: sdk.version for name, sdk in sdks().items()}}


def _plugins() -> dict[str, str]:
    """Return the plugins of these packages with their versions. Several packages can share one bridge."""
    return {**without_sdk(), **{sdk.plugin: sdk.version for sdk in sdks().values()}}


class Servers:
    """A thread for servers, which can be started one after the other."""

    def __enter__(self) -> Servers:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextlib.contextmanager
    def serving(self, recording: Recording) -> Iterator[Mapping[str, int]]:
        """Start servers for a world without resources. Yield the port of each plugin."""
        servers, ports = self._wait(_start(recording))
        try:
            yield ports
        finally:
            self._wait(_stop(servers))

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _start(recording: Recording) -> tuple[list[grpc.aio.Server], dict[str, int]]:
    ours = own.package()
    servicers: dict[str, provider_pb2_grpc.ResourceProviderServicer] = {
        name: Ruled(rules_of, version) for name, version in _plugins().items()
    }
    servicers[ours.name] = PluginServer(ours, "")
    servers, ports = [], {}
    for name, servicer in servicers.items():
        options = [("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX)]
        server = grpc.aio.server(interceptors=[recording], options=options)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
        ports[name] = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers.append(server)
    return servers, ports


async def _stop(servers: list[grpc.aio.Server]) -> None:
    await asyncio.gather(*(server.stop(_GRACE_S) for server in servers))
