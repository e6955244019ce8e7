"""The toolkit's own resources, rehearsed: real tables, and hands that touch nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from stampworks.plan import Roster, from_dict
from stampworks.provider.handler import Call, Handler
from stampworks.provider.handlers import PACKAGE
from stampworks.rehearsal import own

GROUP = {
    "name": "gpu",
    "count": 2,
    "nodes": [
        {"name": f"gpu-00{number}", "address": f"10.0.0.{number}", "rail_addresses": [f"10.1.0.{number}"]}
        for number in (1, 2)
    ],
}
INPUTS: Mapping[str, Any] = {"group": GROUP, "groups": [{"name": "gpu", "count": 2, "template": "a", "generation": ""}]}


@pytest.fixture
def hands() -> Mapping[str, Handler]:
    return {handler.token.split(":")[-1]: handler for handler in own.package().handlers}


def outputs(handler: Handler, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return asyncio.run(handler.ensure(Call("", "", inputs)))


def test_every_resource_has_the_real_table_and_answers_all_of_its_outputs(hands: Mapping[str, Handler]) -> None:
    for real in PACKAGE.handlers:
        handler = hands[real.token.split(":")[-1]]
        assert (handler.inputs, handler.outputs, handler.refresh) == (real.inputs, real.outputs, real.refresh)
        made = outputs(handler, INPUTS)
        assert set(real.outputs) <= set(made)
        assert dict(handler.drift(made)) == {}
        assert asyncio.run(handler.read(Call("", "", INPUTS, old_outputs=made))) == made


def test_keys_and_proofs_are_obviously_none(hands: Mapping[str, Handler]) -> None:
    assert outputs(hands["Keyring"], {}) == {
        "sshPublicKey": "rehearsed: no key",
        **dict.fromkeys(("sshPrivateKey", "slurmKey", "databasePassword"), "rehearsed: no secret"),
    }
    proof = outputs(hands["Qualification"], {})
    assert (proof["verdict"], proof["certificate"]) == ("unknown", "rehearsed: nothing was measured")


def roster(hands: Mapping[str, Handler], *groups: Mapping[str, Any]) -> Roster:
    made = outputs(hands["Roster"], {"groups": groups})
    assert made.pop("endings") == []
    return from_dict(Roster, {"cluster": "c", "cloud": "x", "identity_file": made.pop("identityFile"), **made})


def test_members_are_those_of_the_plan(hands: Mapping[str, Handler]) -> None:
    outputs(hands["LocalGroup"], INPUTS)
    cpu = {"name": "cpu", "names": [f"cpu-{number:03d}" for number in range(1, 401)], "count": 300}
    found = roster(hands, {"name": "gpu", "names": ["gpu-001", "gpu-002"], "count": 2}, cpu)
    assert [one.name for one in found.members[:3]] == ["gpu-001", "gpu-002", "cpu-001"]
    assert found.members[1].address == "10.0.0.2"
    assert found.members[1].rail_addresses == ("10.1.0.2",)
    addresses = {one.address for one in found.members}
    assert len(addresses) == 302
    assert all(address.startswith(("198.18.", "10.0.0.")) for address in addresses)


def test_a_roll_makes_other_nodes_and_the_next_look_sees_them(hands: Mapping[str, Handler]) -> None:
    before = outputs(hands["LocalGroup"], INPUTS)["generation"]
    first = outputs(hands["Roll"], INPUTS)["groups"][0]["generation"]
    again = outputs(hands["Roll"], INPUTS)["groups"][0]["generation"]
    assert before == first == again
    another = {"groups": [{**INPUTS["groups"][0], "template": "b"}]}
    rolled = outputs(hands["Roll"], another)["groups"][0]["generation"]
    assert rolled != first
    assert outputs(hands["LocalGroup"], INPUTS)["generation"] == rolled
    assert roster(hands, GROUP).members[0].instance == "rehearsed-1"


def test_the_real_package_is_as_it_was(hands: Mapping[str, Handler]) -> None:
    assert not set(hands.values()) & set(PACKAGE.handlers)
    assert dataclasses.replace(own.package(), handlers=()) == dataclasses.replace(PACKAGE, handlers=())
