"""Options of programs: all faults are reported at once."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from validation import clocks, limits, options, pairs, storage
from validation.ranks import Cluster, Node


def refused(kind: type, given: Any) -> list[str]:
    with pytest.raises(options.OptionError) as refusal:
        options.read(kind, given, "it")
    return str(refusal.value).splitlines()


def test_options_become_types() -> None:
    """Lists are tuples, whole numbers are numbers."""
    given = {"nodes": [{"name": "a", "address": "10.0.0.1", "rails": ["10.1.0.1"]}], "rails": ["rail0"], "wait": 5}
    found = options.read(Cluster, given, "cluster")
    assert found == Cluster((Node("a", "10.0.0.1", ("10.1.0.1",)),), ("rail0",), wait=5.0)
    assert options.read(pairs.Options, {"rounds": [[["a", "b"]]]}, "pairs").rounds == ((("a", "b"),),)


def test_a_rail_on_which_a_node_has_no_address_is_not_measured() -> None:
    """InfiniBand has no address: only rails with addresses are found."""
    cluster = Cluster((Node("a", "10.0.0.1", ("", "10.1.0.1")),), ("rail0", "rail1"))
    assert cluster.rails_of("a") == {"rail1": "10.1.0.1"}


def test_everything_wrong_is_said_at_once() -> None:
    """The error has each position and a near name."""
    assert refused(storage.Options, {"byte": 1, "rounds": "3", "files": True, "directories": "/tmp"}) == [
        "it: knows no option 'byte': did you mean bytes?",
        "it.directories: must be a list, not a text",
        "it.rounds: must be a whole number, not a text",
        "it.files: must be a whole number, not true",
    ]


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (pairs.Options, [], "it: must be an object, not a list"),
        (pairs.Options, {"seconds": 0}, "it: bytes, seconds and wait must be more than 0"),
        (pairs.Options, {"rounds": [[["a"]]]}, "it.rounds[0][0]: must have 2 items, not 1"),
        (pairs.Options, {"rounds": [[["a", "b"], ["b", "c"]]]}, "it: rounds[0]: b cannot be in two places at once"),
        (clocks.Options, {"asks": 0}, "it: asks and wait must be more than 0"),
        (limits.Options, {"wait": None}, "it.wait: must be a number, not null"),
        (Cluster, {"port": 80}, "it: port must be 1024 to 65534, not 80"),
        (Cluster, {"nodes": [{"name": "a"}]}, "it.nodes[0]: lacks address"),
        (Cluster, {"nodes": [{"name": "a", "address": "b", "x": 1}]}, "it.nodes[0]: knows no option 'x': it has "),
    ],
)
def test_impossible_options_are_refused(kind: type, given: Any, words: str) -> None:
    """The error has position and reason."""
    [line] = refused(kind, given)
    assert line.startswith(words)


def test_options_come_as_text_or_as_a_file(tmp_path: Path) -> None:
    """A long list of nodes does not fit into a command."""
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"pairs": {}}))
    assert options.load(str(file)) == options.load('{"pairs": {}}') == {"pairs": {}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/no/where", "/no/where: cannot read the options: No such file or directory"),
        ("{", "the options: not JSON: "),
        ('{"pairs": {"seconds": NaN}}', "the options: not JSON: NaN is no number that can be measured"),
        ("{" * 100_000, "the options: not JSON: "),
    ],
)
def test_options_that_are_none(text: str, words: str) -> None:
    """The error has place and reason."""
    with pytest.raises(options.OptionError) as refusal:
        options.load(text)
    assert str(refusal.value).startswith(words)


def test_packed_options() -> None:
    """Options too long for an argument are packed; damaged, truncated and bomb-like ones are refused with an error."""

    def packed(content: bytes) -> str:
        return "packed:" + base64.b64encode(zlib.compress(content, 9)).decode()

    assert options.load(packed(b'{"pairs": {"seconds": 1.0}}')) == {"pairs": {"seconds": 1.0}}
    for text, why in (
        ("packed:%%", "not packed as they should be"),
        (packed(b"{}")[:-4], "not whole, or more than"),
        (packed(b" " * (options.BYTES_MAX + 1)), "not whole, or more than"),
        (packed(b"[]"), "must be a JSON object"),
    ):
        with pytest.raises(options.OptionError, match=why):
            options.load(text)
