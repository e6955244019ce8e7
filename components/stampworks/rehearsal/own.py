"""The toolkit's own resources in a rehearsal: the real tables, checks and differences, and handlers that do nothing."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from stampworks import plan
from stampworks.provider.handler import Call, Handler, Package
from stampworks.provider.handlers import PACKAGE
from stampworks.wire.values import said

NO_KEY = "rehearsed: no key"
NO_SECRET = "rehearsed: no secret"  # noqa: S105
"""Value of every secret output, so that a leak can be found."""
_ADDRESSES = ipaddress.IPv4Network("198.18.0.0/15")  # RFC 2544: for tests between two devices, and routed nowhere


class PlannedNodes:
    """Planned members of the cluster."""

    def __init__(self) -> None:
        self._planned: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._templates: dict[str, Any] = {}
        self._rolls: Counter[str] = Counter()

    def stamp(self, group: Mapping[str, Any]) -> str:
        """Record the members of a planned group, and return their generation."""
        self._planned[group["name"]] = group["nodes"]
        return self.generation(group)

    def roll(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """Give new instances to groups whose nodes run on an earlier template."""
        for group in groups:
            before = self._templates.setdefault(group["name"], group["template"])
            if before != group["template"]:
                self._templates[group["name"]] = group["template"]
                self._rolls[group["name"]] += 1

    def generation(self, group: Mapping[str, Any]) -> str:
        """Return the generation of a group; empty if its cloud's group does not list its members."""
        name = group["name"]
        if name not in self._planned:
            return ""
        return plan.generation({node["name"]: self._instance(name) for node in self._planned[name]})

    def rolled(self, group: str) -> str:
        """Return the generation after the last roll, which differs when members changed."""
        return self._instance(group)

    def members(self, groups: Sequence[Mapping[str, Any]]) -> Iterator[plan.Member]:
        """Yield a member for each counted node, with names of the plan where it has them."""
        number = 0
        for group in groups:
            named = self._planned.get(group["name"], ())
            for index in range(group["count"]):
                number += 1
                node = named[index] if index < len(named) else {"name": group["names"][index]}
                yield plan.Member(
                    name=node["name"],
                    group=group["name"],
                    instance=self._instance(group["name"]),
                    address=node.get("address", str(_ADDRESSES[number])),
                    rail_addresses=tuple(node.get("rail_addresses", ())),
                    host_key="ssh-ed25519 rehearsed",
                )

    def _instance(self, group: str) -> str:
        return f"rehearsed-{self._rolls[group]}"


class Rehearsed(Handler):
    """Base of rehearsed handlers. It precedes the real handler of its type, and uses its table."""

    nodes: PlannedNodes

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:  # noqa: ARG002
        """Report no drift: nothing drifts between two rehearsed runs. Other outputs say that nothing was proven."""
        return {}

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Return outputs in the form of the real ones."""
        return {**call.old_outputs, **self.answers(call.inputs)}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return outputs in the form of the real ones."""
        kept = {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}
        return {**kept, **(self.answers(call.inputs) if call.inputs else {})}

    async def delete(self, call: Call) -> None:
        """Do nothing: nothing was created."""

    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return all outputs. Subclasses have values for some; the others are obvious placeholders."""
        texts = {"string": "rehearsed", "integer": 0, "array": []}
        return {name: NO_SECRET if row.secret else texts[row.kind] for name, row in self.outputs.items()}


class _Keys(Rehearsed):
    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return {name: NO_SECRET if row.secret else NO_KEY for name, row in self.outputs.items()}


class _Group(Rehearsed):
    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"generation": self.nodes.stamp(inputs["group"]), "drift": []}


class _Roll(Rehearsed):
    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.nodes.roll(inputs["groups"])
        groups = [{**group, "generation": self.nodes.generation(group)} for group in inputs["groups"]]
        generations = {group["name"]: self.nodes.rolled(group["name"]) for group in groups}
        return {"groups": groups, "generations": generations, "certificate": "", "drift": []}


class _Roster(Rehearsed):
    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        members = [dataclasses.asdict(one) for one in self.nodes.members(said(inputs["groups"]))]
        for one in members:
            one["rail_addresses"] = list(one["rail_addresses"])
        way = {"reach": ["false", "rehearsed"], "proxy": [], "user": "rehearsed", "identityFile": "/rehearsed"}
        return {**way, "members": members, "endings": []}


class _KubernetesNodes(Rehearsed):
    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        groups = [
            {**group, "names": [f"{group['name']}-{number}" for number in range(int(group["count"]))]}
            for group in inputs["groups"]
        ]
        members = [dataclasses.asdict(one) for one in self.nodes.members(groups)]
        return {"members": members, "drift": [], "endings": []}


class _Qualification(Rehearsed):
    def answers(self, inputs: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return {"verdict": "unknown", "certificate": "rehearsed: nothing was measured", "drift": []}


_HANDS = {
    "stampworks:cluster:Keyring": _Keys,
    "stampworks:cluster:SigningKey": _Keys,
    "stampworks:hosts:HostGroup": _Group,
    "stampworks:local:LocalGroup": _Group,
    "stampworks:cluster:Roll": _Roll,
    "stampworks:cluster:Roster": _Roster,
    "stampworks:cluster:KubernetesNodes": _KubernetesNodes,
    "stampworks:cluster:Qualification": _Qualification,
}
"""Handlers whose answers are more than placeholders."""


def package() -> Package:
    """Return the toolkit's own package for a world without resources."""
    nodes = PlannedNodes()
    return dataclasses.replace(PACKAGE, handlers=tuple(_rehearsed(real, nodes) for real in PACKAGE.handlers))


def _rehearsed(real: Handler, nodes: PlannedNodes) -> Handler:
    hands = _HANDS.get(real.token, Rehearsed)
    made = type(f"Rehearsed{type(real).__name__}", (hands, type(real)), {"nodes": nodes})
    return cast(Handler, made())
