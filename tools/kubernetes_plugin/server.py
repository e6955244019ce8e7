# ruff: noqa: ARG002, N802 (the protocol names these methods and their arguments)
"""The engine's calls, answered with server-side apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct
from stampworks.wire.protocol import plugin_pb2, provider_pb2_grpc
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import UNKNOWN, changes, decode, encode, is_known, secret_names

from .api import Api, ApiError, Manifest

VERSION = "4.34.2"
"""Version of the real plugin: the SDK requests no other."""

_NAMES = ("metadata.name", "metadata.namespace")
"""Fields that identify an object; another version is the same object."""
_IDENTIFIER = "clusterIdentifier"
_LATER = {"uid": UNKNOWN, "resourceVersion": UNKNOWN, "creationTimestamp": UNKNOWN}
_INVALID, _NOT_FOUND = 422, 404

R = TypeVar("R")
Context = grpc.ServicerContext


def _spoken(method: Callable[..., R]) -> Callable[..., R]:
    """Raise errors of the Kubernetes server with its message."""

    @wraps(method)
    def call(self: Server, request: Any, context: Context) -> R:
        try:
            return method(self, request, context)
        except ApiError as error:
            _refuse(context, str(error))

    return call


class Server(provider_pb2_grpc.ResourceProviderServicer):
    """The calls of the engine. Names and types are the protocol's."""

    def __init__(self) -> None:
        self._api: Api | None = None

    def Handshake(self, request: pb.ProviderHandshakeRequest, context: Context) -> pb.ProviderHandshakeResponse:
        """Accept secrets as values of their own."""
        return pb.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: plugin_pb2.PluginAttach, context: Context) -> Empty:
        """Do nothing: the engine attaches only for debugging."""
        return Empty()

    def Cancel(self, request: Empty, context: Context) -> Empty:
        """Do nothing: each request to the server ends by itself."""
        return Empty()

    def GetPluginInfo(self, request: Empty, context: Context) -> plugin_pb2.PluginInfo:
        """Return the version that the real plugin would have."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: pb.GetSchemaRequest, context: Context) -> pb.GetSchemaResponse:
        """Return a schema without resources: their types are known by token."""
        return pb.GetSchemaResponse(schema='{"name": "kubernetes"}')

    def CheckConfig(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        """Accept any configuration."""
        return pb.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        """Compare configurations: another identifier is another cluster, whose objects are all created anew; other
        changes keep them."""
        old, new = decode(request.old_inputs), decode(request.news)
        changed = _IDENTIFIER in old and _IDENTIFIER in new and old[_IDENTIFIER] != new[_IDENTIFIER]
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if old != new else pb.DiffResponse.DIFF_NONE,
            replaces=[_IDENTIFIER] if changed else [],
        )

    def Configure(self, request: pb.ConfigureRequest, context: Context) -> pb.ConfigureResponse:
        """Keep the kubeconfig, which a first preview does not know yet."""
        config = decode(request.args).get("kubeconfig")
        # A first preview does not know the kubeconfig yet.
        self._api = Api(config) if isinstance(config, str) and config else None
        return pb.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    @_spoken
    def Check(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        """Refuse kinds that this stand-in does not serve, and objects without a name."""
        manifest = decode(request.news)
        token = request.urn.split("::")[2].split("$")[-1]
        if token.endswith(("Patch", "List")) or not {"apiVersion", "kind"} <= manifest.keys():
            _refuse(context, f"{token}: the stand-in for the plugin of Kubernetes does not serve it")
        if "name" not in manifest.get("metadata", {}):
            failure = pb.CheckFailure(property="metadata.name", reason="the stand-in makes no names up: write one")
            return pb.CheckResponse(failures=[failure])
        return pb.CheckResponse(inputs=request.news)

    @_spoken
    def Diff(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        """Compare manifests; a change of a name or of an immutable object replaces it."""
        old, new = decode(request.old_inputs), decode(request.news)
        found = list(changes(old, new))
        replaces = [each.path for each in found if each.path in _NAMES]
        if found and not replaces and self._immutable(new):
            replaces = [each.path for each in found]
        detailed = {
            each.path: pb.PropertyDiff(
                kind=pb.PropertyDiff.Kind.Value(f"{each.kind.upper()}{'_REPLACE' if each.path in replaces else ''}"),
                inputDiff=True,
            )
            for each in found
        }
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if found else pb.DiffResponse.DIFF_NONE,
            diffs=sorted({each.path.replace("[", ".").split(".")[0] for each in found}),
            replaces=replaces,
            deleteBeforeReplace=bool(replaces),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    def _immutable(self, manifest: Manifest) -> bool:
        """Whether the server would refuse the change for the existing object."""
        if self._api is None or not is_known(manifest):
            return False
        try:
            self._api.apply(manifest, dry_run=True)
        except ApiError as error:
            return error.code == _INVALID and "immutable" in str(error)
        return False

    @_spoken
    def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Apply a manifest; in a preview only ask the server for the result."""
        manifest = decode(request.properties)
        secret = _secrets(manifest, request.properties)
        if request.preview:
            return pb.CreateResponse(properties=encode(self._previewed(manifest), secret))
        made = self._connected().apply(manifest)
        return pb.CreateResponse(id=_identity(manifest), properties=encode(_outputs(made), secret))

    @_spoken
    def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Apply a changed manifest; in a preview only ask the server for the result."""
        manifest = decode(request.news)
        secret = _secrets(manifest, request.news)
        if request.preview:
            return pb.UpdateResponse(properties=encode(self._previewed(manifest), secret))
        return pb.UpdateResponse(properties=encode(_outputs(self._connected().apply(manifest)), secret))

    def _previewed(self, manifest: Manifest) -> Manifest:
        """Return the object that the server would create; the manifest itself if the server cannot be reached yet."""
        shown = manifest
        if self._api is not None and is_known(manifest):
            try:
                shown = _outputs(self._api.apply(manifest, dry_run=True))
            except ApiError as error:
                # The object's namespace or kind may be created by the same update, and the replaced object may still
                # exist.
                if error.code != _NOT_FOUND and "immutable" not in str(error):
                    raise
        return {**shown, "metadata": {**shown["metadata"], **_LATER}}

    @_spoken
    def Read(self, request: pb.ReadRequest, context: Context) -> pb.ReadResponse:
        """Return the object as it is now, with the declared fields only; empty if it is gone."""
        inputs = decode(request.inputs) or decode(request.properties)
        found = self._connected().get(inputs)
        if found is None:
            return pb.ReadResponse()
        secret = _secrets(inputs, request.inputs)
        now = encode(_projected(inputs, found), secret)
        return pb.ReadResponse(id=request.id, inputs=now, properties=encode(_outputs(found), secret))

    @_spoken
    def Delete(self, request: pb.DeleteRequest, context: Context) -> Empty:
        """Delete the object, and succeed if it is already gone."""
        self._connected().delete(decode(request.old_inputs) or decode(request.properties))
        return Empty()

    def _connected(self) -> Api:
        if self._api is None:
            raise ApiError(0, "no kubeconfig: the stand-in asks no cluster that nobody has named")
        return self._api


def _identity(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return "/".join(filter(None, [metadata.get("namespace", ""), metadata["name"]]))


def _outputs(found: Manifest) -> Manifest:
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return {**found, "metadata": metadata}


def _projected(declared: Any, found: Any) -> Any:
    """Return the declared part of an object, so that values set by others make no difference."""
    if isinstance(declared, Mapping) and isinstance(found, Mapping):
        return {key: _projected(value, found[key]) for key, value in declared.items() if key in found}
    if isinstance(declared, list) and isinstance(found, list) and len(declared) == len(found):
        return [_projected(one, other) for one, other in zip(declared, found, strict=True)]
    return found


def _secrets(manifest: Manifest, wire: Struct) -> set[str]:
    of_kind = {"data", "stringData"} if manifest["kind"] == "Secret" else set()
    return of_kind | secret_names(wire)


def _refuse(context: Context, text: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError  # abort has raised
