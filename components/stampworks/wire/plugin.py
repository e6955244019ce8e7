# ruff: noqa: ARG002, N802 (the protocol names these methods and their arguments)
"""Requests that an engine sends to every plugin before it asks for a resource."""

from __future__ import annotations

from typing import Any

from google.protobuf.empty_pb2 import Empty

from stampworks.wire.protocol import plugin_pb2, provider_pb2_grpc
from stampworks.wire.protocol import provider_pb2 as pb


class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    """A plugin without settings. It accepts any configuration."""

    def __init__(self, version: str) -> None:
        self._version = version

    async def Handshake(self, request: pb.ProviderHandshakeRequest, context: Any) -> pb.ProviderHandshakeResponse:
        """Accept secrets as values of their own."""
        return pb.ProviderHandshakeResponse(accept_secrets=True)

    async def Attach(self, request: plugin_pb2.PluginAttach, context: Any) -> Empty:
        """Do nothing: the engine attaches only for debugging."""
        return Empty()

    async def GetPluginInfo(self, request: Empty, context: Any) -> plugin_pb2.PluginInfo:
        """Return the version of the package."""
        return plugin_pb2.PluginInfo(version=self._version)

    async def CheckConfig(self, request: pb.CheckRequest, context: Any) -> pb.CheckResponse:
        """Accept any configuration."""
        return pb.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: pb.DiffRequest, context: Any) -> pb.DiffResponse:
        """Report no change: no configuration replaces a resource."""
        return pb.DiffResponse(changes=pb.DiffResponse.DIFF_NONE)

    async def Configure(self, request: pb.ConfigureRequest, context: Any) -> pb.ConfigureResponse:
        """Support secrets and previews."""
        return pb.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    async def Cancel(self, request: Empty, context: Any) -> Empty:
        """Do nothing; providers with long operations override this."""
        return Empty()
