"""Which host becomes which node."""

from __future__ import annotations

import dataclasses

from stampworks.clouds.hosts.choice import choose
from stampworks.clouds.hosts.marks import HostState, Mark, mark_of
from stampworks.plan import Host

CLAIM = "stack lab of project test, claim 1"


def host(number: int) -> Host:
    return Host(f"203.0.113.{number}", 22, f"10.0.0.{number}", "ssh-ed25519 AAAA", f"{number:032x}", "gpu", "", ())


def free(number: int) -> HostState:
    return HostState(host(number), started="boot-1")


def silent(number: int) -> HostState:
    return HostState(host(number), "no answer within 20 s")


def node(number: int, name: str, commission: str = "1", **changes: str) -> HostState:
    mark = Mark("lab", CLAIM, "gpu", name, commission, "made")
    return HostState(host(number), mark=dataclasses.replace(mark, **changes), started="boot-1")


def chosen(names: list[str], *listed: HostState, gone: tuple[HostState, ...] = ()) -> dict[str, object]:
    """Return the choice with hosts by their last number."""
    found = choose(CLAIM, "gpu", names, listed, gone)

    def numbers(states: tuple[HostState, ...]) -> list[str]:
        return [each.host.address.rpartition(".")[2] for each in states]

    named = {name: numbers((state,))[0] for name, state in found.nodes.items()}
    return {
        "nodes": named,
        "new": sorted(found.new),
        "leaving": numbers(found.leaving),
        "stale": numbers(found.stale),
        "missing": list(found.missing),
    }


def test_free_hosts_get_names_in_their_order() -> None:
    """The rest is the reserve."""
    found = chosen(["a", "b"], free(1), free(2), free(3))
    assert found == {"nodes": {"a": "1", "b": "2"}, "new": ["a", "b"], "leaving": [], "stale": [], "missing": []}


def test_a_host_keeps_its_name() -> None:
    """Another order of the list renames no node."""
    found = chosen(["a", "b"], node(3, "b"), free(1), node(2, "a"))
    assert found == {"nodes": {"a": "2", "b": "3"}, "new": [], "leaving": [], "stale": [], "missing": []}


def test_the_reserve_replaces_a_silent_host() -> None:
    """A silent host is no node, and gets no name either."""
    found = chosen(["a", "b", "c"], node(1, "a"), silent(2), free(3))
    assert found == {"nodes": {"a": "1", "b": "3"}, "new": ["b"], "leaving": [], "stale": [], "missing": ["c"]}


def test_a_host_that_comes_back_late_is_stale() -> None:
    """Another one has its name, and keeps it."""
    found = chosen(["a"], node(1, "a", "1"), node(2, "a", "2"))
    assert (found["nodes"], found["stale"], found["leaving"]) == ({"a": "2"}, ["1"], [])


def test_hosts_that_leave() -> None:
    """Nodes that are not declared, and hosts that are not listed."""
    found = chosen(["a"], node(1, "a"), node(2, "b"))
    assert (found["nodes"], found["leaving"]) == ({"a": "1"}, ["2"])
    found = chosen(["a"], free(2), gone=(node(1, "a"),))
    assert (found["nodes"], found["new"], found["leaving"]) == ({"a": "2"}, ["a"], ["1"])


def test_hosts_of_others_are_left_alone() -> None:
    """Those of another stack, of another group, and those that are refused."""
    others = (node(1, "a", claim="other"), node(2, "a", group="cpu"), node(3, ""))
    found = chosen(["a"], *others)
    assert found == {"nodes": {}, "new": [], "leaving": [], "stale": [], "missing": ["a"]}


def test_a_mark_is_read_as_it_was_written() -> None:
    """A file that is none is refused."""
    state = node(1, "a")
    assert state.mark is not None
    assert mark_of(state.mark.text) == state.mark
    for text in ("{}", "[]", '{"cluster": 1}', "x", state.mark.text[:-1] + ', "more": "x"}'):
        try:
            mark_of(text)
        except ValueError:
            continue
        raise AssertionError(text)
