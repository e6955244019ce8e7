"""Recorder before a provider, called as the engine does: the attempts it refuses, and the last of them."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc
import pytest
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.rules import rules_of, token_of
from stampworks.rehearsal.scenario import InjectedFailure
from stampworks.wire.protocol import provider_pb2 as pb

AWS, NOBODY = (f"urn:pulumi:dev::trial::{token}::net" for token in ("aws:ec2/vpc:Vpc", "made-up:a:B"))
LAST = rules_of("aws").attempts


class Context:
    """Context of a call that may be aborted."""

    async def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        raise RuntimeError(f"{code.name}: {text}")


async def create(recording: Recording, urn: str) -> None:
    async def made(request: pb.CreateRequest, context: Any) -> pb.CreateResponse:
        return pb.CreateResponse(id="net-1")

    async def provider(details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(made)

    details: Any = SimpleNamespace(method="/pulumirpc.ResourceProvider/Create")
    handler = await recording.intercept_service(provider, details)
    await handler.unary_unary(pb.CreateRequest(urn=urn), Context())


@pytest.mark.parametrize(
    ("urn", "times", "refused"), [(AWS, 3, 3), (AWS, LAST - 1, LAST - 1), (AWS, LAST, LAST), (AWS, 1000, LAST)]
)
def test_a_provider_tries_again_as_often_as_it_is_documented_to(urn: str, times: int, refused: int) -> None:
    throttled(urn, times, refused, there=times < LAST)


def test_a_provider_of_which_nobody_says_that_it_tries_again_gives_up_at_once() -> None:
    throttled(NOBODY, 4, 1, there=False)


def throttled(urn: str, times: int, refused: int, there: bool) -> None:
    recording = Recording({token_of(urn): 0}, lambda: None, None)  # attempts take no time here
    recording.begin(InjectedFailure("throttle", name="net", times=times))
    text = "UNKNOWN: rehearsed throttle: told to try later until the last attempt"
    with contextlib.nullcontext() if there else pytest.raises(RuntimeError, match=text):
        asyncio.run(create(recording, urn))
    assert recording.world.hit == [urn] * refused
    assert [*recording.world.there] == [(urn, "net-1")] * there
    assert recording.world.creates == 1, "an attempt is no creation"
