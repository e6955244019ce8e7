"""States of resources that a cloud refuses, as the rules of a package have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Literal

Kind = Literal["apart", "alone", "together", "stays", "without", "kept"]


@dataclass(frozen=True)
class RefusedState:
    """A state that the cloud refuses, and its error.

    A path is an input, or an output of the resource whose id the input has: subnetId.vpcId.
    """

    kind: Kind
    """apart: ranges must not overlap. alone: no two resources have these values. together: all have these values.
    stays: an update changes none of them. without: none of them is set. kept: inputs that the provider keeps if a
    program removes them, and refuses unless other inputs have certain values."""
    paths: tuple[str, ...]
    error: str
    within: str = ""
    """Path whose value resources must share to be compared; empty for all resources of the type."""
    unless: Mapping[str, Any] = field(default_factory=dict)


def refused_plan(states: tuple[RefusedState, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the error with which a provider refuses to plan a change; empty if it plans it."""
    for state in states:
        kept = state.kind == "kept" and any(path in before and path not in after for path in state.paths)
        if kept and any(after.get(name) != value for name, value in state.unless.items()):
            return state.error
    return ""


@dataclass(frozen=True)
class Living:
    """Existing resources of a package, by type and id, with their outputs."""

    resources: dict[tuple[str, str], Mapping[str, Any]]

    def refused(self, states: tuple[RefusedState, ...], token: str, id_: str, outputs: Mapping[str, Any]) -> str:
        """Return the error for a resource that would have these outputs; empty if none applies."""
        others = [known for key, known in self.resources.items() if key[0] == token and key[1] != id_]
        before = self.resources.get((token, id_))
        found = (state for state in states if self._applies(state, before, others, outputs))
        return next((state.error for state in found), "")

    def _applies(
        self,
        state: RefusedState,
        before: Mapping[str, Any] | None,
        others: list[Mapping[str, Any]],
        outputs: Mapping[str, Any],
    ) -> bool:
        if state.kind == "kept":  # refused before anything is made
            return False
        if state.kind == "stays":
            return before is not None and self._values(state, before) != self._values(state, outputs)
        if state.kind == "without":
            return any(self._values(state, outputs))
        return any(self._conflict(state, other, outputs) for other in self._compared(state, others, outputs))

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
