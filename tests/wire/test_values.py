"""Values survive the wire unchanged, and differences are found at their places."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from stampworks.wire.values import UNKNOWN, changes, decode, encode, is_known, secret_names

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def struct(**values: Any) -> Struct:
    made = Struct()
    made.update(values)
    return made


def test_data_comes_back_as_it_was() -> None:
    """Text, numbers, booleans, lists and mappings survive a round trip."""
    data = {"text": "a", "whole": 3, "part": 2.5, "yes": True, "list": [1, ["b"], {"c": []}], "map": {"x": {}}}
    assert decode(encode(data)) == data


def test_whole_doubles_become_integers() -> None:
    """The engine knows doubles only; 3.0 is 3 here, and truth is not a number."""
    decoded = decode(struct(count=3.0, ratio=0.5, on=True, nested={"rates": [200.0]}))
    assert decoded == {"count": 3, "ratio": 0.5, "on": True, "nested": {"rates": [200]}}
    assert type(decoded["count"]) is int
    assert decoded["on"] is True


def test_members_without_a_value_are_left_out() -> None:
    """Null and absent are the same, in both directions."""
    assert decode(struct(a=None, b={"c": None, "d": 1})) == {"b": {"d": 1}}
    assert decode(struct(a={SIGNATURE: SECRET, "value": None}, b={SIGNATURE: SECRET})) == {}
    assert "a" not in encode({"a": None}).fields


def test_an_unknown_value_keeps_its_mark() -> None:
    """A preview's unknown is UNKNOWN in here and the engine's own sentinel out there."""
    decoded = decode(struct(id=UNKNOWN_TEXT, deep=[{"x": UNKNOWN_TEXT}]))
    assert decoded == {"id": UNKNOWN, "deep": [{"x": UNKNOWN}]}
    assert encode(decoded).fields["id"].string_value == UNKNOWN_TEXT


@pytest.mark.parametrize(("value", "known"), [({"a": [1]}, True), ({"a": [{"b": UNKNOWN}]}, False), (UNKNOWN, False)])
def test_is_known_looks_all_the_way_down(value: Any, known: bool) -> None:
    """An unknown leaf makes the whole value unknown."""
    assert is_known(value) is known


def test_secrets_are_unwrapped_and_remembered() -> None:
    """Handlers meet plain values; which members hold a secret is known by name, at any depth."""
    sent = struct(key={SIGNATURE: SECRET, "value": "k"}, deep=[{"x": {SIGNATURE: SECRET, "value": 1}}], open="o")
    assert decode(sent) == {"key": "k", "deep": [{"x": 1}], "open": "o"}
    assert secret_names(sent) == {"key", "deep"}


def test_secrets_are_wrapped_on_the_way_out() -> None:
    """A member that is named secret cannot leave in the clear."""
    encoded = encode({"key": "k", "open": "o"}, secrets={"key", "absent"})
    assert encoded.fields["key"].struct_value.fields[SIGNATURE].string_value == SECRET
    assert encoded.fields["open"].string_value == "o"
    assert set(encoded.fields) == {"key", "open"}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "update")]),
        ({"a": 1}, {"b": 2}, [("a", "delete"), ("b", "add")]),
        ({"g": {"nodes": [{"n": "x"}]}}, {"g": {"nodes": [{"n": "y"}]}}, [("g.nodes[0].n", "update")]),
        ({"l": [1, 2]}, {"l": [1]}, [("l[1]", "delete")]),
        ({"l": [1]}, {"l": [1, 2, 3]}, [("l[1]", "add"), ("l[2]", "add")]),
        ({"m": {"gpu-001": 1}}, {"m": {"gpu-001": 2}}, [('m["gpu-001"]', "update")]),
        ({"a": 1}, {"a": UNKNOWN}, [("a", "update")]),
        ({"a": [1]}, {"a": {"b": 1}}, [("a", "update")]),
        ({"a": 1}, {"a": True}, [("a", "update")]),
    ],
)
def test_changes_name_the_place(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    """Each difference has the path in the engine's form."""
    assert [(change.path, change.kind) for change in changes(old, new)] == found
