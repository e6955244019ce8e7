"""Any message of the engine becomes plain data, or an error that describes it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stampworks.provider.handlers import PACKAGE
from stampworks.provider.server import Context, PluginServer
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import UNKNOWN, decode, encode, is_known, secret_names

relaxed = settings(deadline=None, derandomize=True, max_examples=60)

SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
# the wire has only doubles: use integers that these represent exactly
PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)

NAMES = sorted({name for handler in PACKAGE.handlers for name in handler.inputs})
# Marks of the protocol, whole and broken: without a value, with another one, inside of each other.
MARKED: st.SearchStrategy[dict[str, Any]] = st.sampled_from([SECRET, UNKNOWN_TEXT, "0", 5, None, {}]).flatmap(
    lambda mark: st.fixed_dictionaries({SIGNATURE: st.just(mark)}, optional={"value": TEXT | st.none() | st.floats()})
)
GARBAGE = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXT | st.just(UNKNOWN_TEXT) | MARKED,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT, inner, max_size=3)
        | st.fixed_dictionaries({SIGNATURE: st.just(SECRET), "value": inner})
    ),
    max_leaves=8,
)


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


@st.composite
def structs(draw: st.DrawFn) -> Struct:
    """Inputs with the right names and any values; some are damaged, if they can still be parsed."""
    whole = struct(draw(st.dictionaries(st.sampled_from(NAMES) | TEXT.filter(bool), GARBAGE, max_size=6)))
    data = bytearray(whole.SerializeToString())
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    try:
        return Struct.FromString(bytes(data))
    except DecodeError:  # the engine could not have sent this message
        assume(False)
        raise


def is_plain(value: Any) -> bool:
    """Return whether data has neither wrappers nor members without a value."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and item is not None and is_plain(item) for name, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or value is UNKNOWN or isinstance(value, (bool, int, float, str))


@relaxed
@given(st.dictionaries(TEXT, PLAIN, max_size=4), st.sets(TEXT, max_size=3))
def test_any_data_comes_back(data: dict[str, Any], secrets: set[str]) -> None:
    """Data is unchanged, and exactly the secrets are marked."""
    secrets |= set(list(data)[:1])
    sent = encode(data, secrets)
    assert decode(Struct.FromString(sent.SerializeToString())) == data
    assert secret_names(sent) == secrets & data.keys()


@relaxed
@given(structs())
def test_any_struct_is_plain_data(sent: Struct) -> None:
    """Code behind the wire gets plain data, which can be sent back."""
    found = decode(sent)
    assert is_plain(found), found
    assert decode(encode(found)).keys() == found.keys()
    assert is_known(found) in (True, False)


@relaxed
@given(st.sampled_from(PACKAGE.handlers), structs(), structs())
def test_any_inputs_are_refused_in_words(handler: Any, news: Struct, olds: Struct) -> None:
    """Each resource describes the problems, and finds relevant differences from before."""
    urn = f"urn:pulumi:test::test::{handler.token}::one"

    async def ask() -> tuple[pb.CheckResponse, pb.DiffResponse]:
        server, context = PluginServer(PACKAGE, ""), cast(Context, None)
        checked = await server.Check(pb.CheckRequest(urn=urn, news=news), context)
        return checked, await server.Diff(pb.DiffRequest(urn=urn, news=news, old_inputs=olds), context)

    checked, differing = asyncio.run(ask())
    missing = {name for name, row in handler.inputs.items() if row.required} - decode(news).keys()
    assert missing <= {failure.reason.split(" ")[0] for failure in checked.failures}
    assert all(failure.reason for failure in checked.failures)
    silent = {name for name, row in handler.inputs.items() if row.silent}
    now, before = ({k: v for k, v in decode(each).items() if k not in silent} for each in (news, olds))
    assert bool(differing.diffs) or now == before
