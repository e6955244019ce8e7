# ruff: noqa: ARG002, N802 (the protocol names these methods and their arguments)
"""A provider of any package that answers by rules and touches nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from stampworks.declaration.wording import shown, similar
from stampworks.rehearsal.refusals import Living, refused_plan
from stampworks.rehearsal.rules import ResourceRule, Rules, token_of
from stampworks.rehearsal.sdks import unknown_inputs
from stampworks.wire.plugin import Plugin
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import UNKNOWN, changes, decode, encode, secret_names

Context = grpc.aio.ServicerContext[Any, Any]


class Ruled(Plugin):
    """Provider of a package, or a bridge of several. The rules have all its knowledge of types."""

    def __init__(self, rules_of: Callable[[str], Rules], version: str) -> None:
        super().__init__(version)
        self._rules_of = rules_of
        self._created: Counter[str] = Counter()
        """Resources that were ever created for a URN. Each has another identity."""
        self._names: dict[tuple[str, str], str] = {}
        """Id for each unique name in use, by type and name."""
        self._living = Living({})

    def _rules(self, token: str) -> Rules:
        return self._rules_of(token.partition(":")[0])

    def _rule(self, token: str) -> ResourceRule:
        return self._rules(token).rule(token) or ResourceRule()

    async def Parameterize(self, request: pb.ParameterizeRequest, context: Context) -> pb.ParameterizeResponse:
        """Become another package, as a bridge does for the parameter in an SDK."""
        return pb.ParameterizeResponse(name=request.value.name, version=request.value.version)

    # -- functions

    async def Invoke(self, request: pb.InvokeRequest, context: Context) -> pb.InvokeResponse:
        """Answer a function of the package by its rule."""
        answer: dict[str, Any] = {"return": await self._answer(request.tok, decode(request.args), context)}
        return pb.InvokeResponse(**answer)

    async def Call(self, request: pb.CallRequest, context: Context) -> pb.CallResponse:
        """Answer a method of a resource by its rule."""
        answer: dict[str, Any] = {"return": await self._answer(request.tok, decode(request.args), context)}
        return pb.CallResponse(**answer)

    async def _answer(self, token: str, arguments: Mapping[str, Any], context: Context) -> Struct:
        rules = self._rules(token)
        if token not in rules.functions:
            await context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"{token}: a rehearsal asks no cloud, and no rule has the answer of this function\n"
                f"  hint: write an answer below functions: in {rules.file}",
            )
        return encode({**rules.functions[token], **arguments})

    # -- one resource

    async def Check(self, request: pb.CheckRequest, context: Context) -> pb.CheckResponse:
        """Refuse inputs that the SDK has no name for, as a real provider does."""
        wrong = [
            pb.CheckFailure(property=path, reason=_unknown(name, near))
            for path, name, near in unknown_inputs(token_of(request.urn), decode(request.news))
        ]
        return pb.CheckResponse(inputs=request.news, failures=wrong)

    async def Diff(self, request: pb.DiffRequest, context: Context) -> pb.DiffResponse:
        """Compare inputs; the rule says which changes replace the resource."""
        rule = self._rule(token_of(request.urn))
        before, after = decode(request.old_inputs), decode(request.news)
        if error := refused_plan(rule.refuses, before, after):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"the provider plans no such change: {error}")
        found = list(changes(before, after))
        replaces = [each.path for each in found if rule.replacing(each.path, before, after)]
        detailed = {}
        for each in found:
            kind = f"{each.kind.upper()}{'_REPLACE' if each.path in replaces else ''}"
            detailed[each.path] = pb.PropertyDiff(kind=pb.PropertyDiff.Kind.Value(kind), inputDiff=True)
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if found else pb.DiffResponse.DIFF_NONE,
            diffs=[each.path for each in found],
            replaces=replaces,
            # as providers do if the new resource cannot have the name of the old one
            deleteBeforeReplace=bool(replaces and rule.unique and after.get(rule.unique)),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Create a resource with the outputs of its rule; a name that must be unique is refused twice."""
        token, inputs = token_of(request.urn), decode(request.properties)
        secrets = secret_names(request.properties)
        if request.preview:
            coming = dict.fromkeys(self._rules(token).computed(token), UNKNOWN)
            return pb.CreateResponse(properties=encode({**coming, **inputs}, secrets))
        self._created[request.urn] += 1
        identity, outputs = self._rules(token).outputs(request.urn, self._created[request.urn], inputs)
        name = outputs.get(self._rule(token).unique)
        if (token, name) in self._names:
            text = f"rehearsed: there is a {token} named {name} already"
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, text)
        await self._keep(token, identity, outputs, context)
        if name:
            self._names[(token, name)] = identity
        return pb.CreateResponse(id=identity, properties=encode(outputs, secrets))

    async def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Keep the outputs, except counts of updates. No documentation says which others change."""
        rule = self._rule(token_of(request.urn))
        news, before = decode(request.news), decode(request.old_inputs)
        kept = {name: value for name, value in decode(request.olds).items() if name not in before}
        for name in rule.counts:
            kept[name] = UNKNOWN if request.preview else kept.get(name, 0) + 1
        secrets = secret_names(request.news) | secret_names(request.olds)
        if not request.preview:
            await self._keep(token_of(request.urn), request.id, {**kept, **news}, context)
        return pb.UpdateResponse(properties=encode({**kept, **news}, secrets))

    async def _keep(self, token: str, identity: str, outputs: Mapping[str, Any], context: Context) -> None:
        """Keep the resource as it is now, unless the cloud refuses that."""
        rule = self._rule(token)
        if error := self._living.refused(rule.refuses, token, identity, outputs):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"rehearsed: {error}")
        self._living.resources[(token, identity)] = outputs

    async def Read(self, request: pb.ReadRequest, context: Context) -> pb.ReadResponse:
        """Return the properties in the state. For a resource that a program looks up by its id, answer by the rules."""
        properties = request.properties
        if not properties.fields:
            _, outputs = self._rules(token_of(request.urn)).outputs(request.urn, 1, decode(request.inputs))
            properties = encode({**outputs, "id": request.id})
        return pb.ReadResponse(id=request.id, properties=properties, inputs=request.inputs)

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> Empty:
        """Forget the resource and its unique name."""
        here = token_of(request.urn), request.id
        self._names = {key: identity for key, identity in self._names.items() if (key[0], identity) != here}
        self._living.resources.pop(here, None)
        return Empty()


def _unknown(name: str, known: Sequence[str]) -> str:
    near = similar(name, known)
    return f"the SDK has no input {shown(name)} here{f', did you mean {shown(near)}?' if near else ''}"
