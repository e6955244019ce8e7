"""States of resources that a cloud refuses, as the rules of a package have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Literal

Kind = Literal["apart", "alone", "together", "stays"]


@dataclass(frozen=True)
class RefusedState:
    """A state that the cloud refuses, and its error.

    A path is an input, or an output of the resource whose id the input has: subnetId.vpcId.
    """

    kind: Kind
    """apart: ranges must not overlap. alone: no two resources have these values. together: all have these values.
    stays: an update changes none of them."""
    paths: tuple[str, ...]
    error: str
    within: str = ""
    """Path whose value resources must share to be compared; empty for all resources of the type."""


@dataclass(frozen=True)
class Living:
    """Resources of one package that exist, by type and id, with their outputs."""

    resources: dict[tuple[str, str], Mapping[str, Any]]

    def refused(self, states: tuple[RefusedState, ...], token: str, id_: str, outputs: Mapping[str, Any]) -> str:
        """Return the error for a resource that would have these outputs; empty if none applies."""
        others = [known for key, known in self.resources.items() if key[0] == token and key[1] != id_]
        before = self.resources.get((token, id_))
        for state in states:
            if state.kind == "stays":
                if before is not None and self._values(state, before) != self._values(state, outputs):
                    return state.error
                continue
            for other in self._compared(state, others, outputs):
                if self._conflict(state, other, outputs):
                    return state.error
        return ""

    def _compared(
        self, state: RefusedState, others: list[Mapping[str, Any]], outputs: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        mine = self._value(state.within, outputs) if state.within else None
        for other in others:
            if not state.within or (mine is not None and self._value(state.within, other) == mine):
                yield other

    def _conflict(self, state: RefusedState, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        left, right = self._values(state, one), self._values(state, other)
        if None in left or None in right:  # unset, or of a resource that the stack only uses
            return False
        if state.kind == "apart":
            return ip_network(left[0]).overlaps(ip_network(right[0]))
        return (left == right) is (state.kind == "alone")

    def _values(self, state: RefusedState, outputs: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(self._value(path, outputs) for path in state.paths)

    def _value(self, path: str, outputs: Mapping[str, Any]) -> Any:
        first, _, rest = path.partition(".")
        value = outputs.get(first)
        if not rest or value is None:
            return value
        if isinstance(value, Mapping):
            return self._value(rest, value)
        return next((known.get(rest) for key, known in self.resources.items() if key[1] == value), None)
