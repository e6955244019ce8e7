"""A provider that answers by rules, asked as the engine asks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

import grpc
import pytest
from stampworks.rehearsal.ruled import Ruled
from stampworks.rehearsal.rules import ResourceRule, Rules
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import UNKNOWN, decode, encode, secret_names

URN = "urn:pulumi:dev::trial::made-up:a/role:Role::worker"
RULE = ResourceRule(
    id="{unique}",
    outputs={"name": "{unique}", "arn": "arn:{unique}", "version": 1},
    unique="name",
    counts=("version",),
    replaces=frozenset({"path"}),
)
RULES = Rules("made-up", {"made-up:a/role:Role": RULE}, functions={"made-up:a/getZone:getZone": {"zone": "a"}})


class Context:
    """Context of a call that may be aborted."""

    async def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        raise RuntimeError(f"{code.name}: {text}")


@pytest.fixture
def ruled() -> Ruled:
    return Ruled(lambda _: RULES, "1.2.3")


def answered(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(call)


def created(ruled: Ruled, preview: bool = False, urn: str = URN, secret: str = "", **inputs: Any) -> Any:
    properties = encode(inputs, [secret])
    request = pb.CreateRequest(urn=urn, properties=properties, preview=preview)
    return answered(ruled.Create(request, Context()))  # type: ignore[arg-type]


def difference(ruled: Ruled, before: dict[str, Any], after: dict[str, Any]) -> Any:
    request = pb.DiffRequest(urn=URN, old_inputs=encode(before), news=encode(after))
    return answered(ruled.Diff(request, Context()))  # type: ignore[arg-type]


def test_a_preview_knows_inputs_and_nothing_else(ruled: Ruled) -> None:
    shown = decode(created(ruled, preview=True, name="mine").properties)
    assert shown == {"name": "mine", "arn": UNKNOWN, "version": UNKNOWN}


def test_secrets_stay_secret(ruled: Ruled) -> None:
    made = created(ruled, secret="policy", policy="s3cret")
    assert secret_names(made.properties) == {"policy"}
    request = pb.UpdateRequest(urn=URN, olds=made.properties, news=encode({"policy": "other"}, ["policy"]))
    changed = answered(ruled.Update(request, Context()))  # type: ignore[arg-type]
    assert secret_names(changed.properties) == {"policy"}


def test_a_name_that_is_taken_is_refused_until_it_is_free(ruled: Ruled) -> None:
    """Remains of a crash under its name make the next creation fail; generated names do not collide."""
    made = created(ruled, name="mine")
    with pytest.raises(RuntimeError, match="rehearsed: there is a made-up:a/role:Role named mine already"):
        created(ruled, urn=f"{URN}2", name="mine")
    assert created(ruled).id != created(ruled).id
    answered(ruled.Delete(pb.DeleteRequest(urn=URN, id=made.id), Context()))  # type: ignore[arg-type]
    assert created(ruled, urn=f"{URN}2", name="mine").id == "mine"


def test_named_resource_is_deleted_before_its_replacement(ruled: Ruled) -> None:
    named = difference(ruled, {"path": "/", "name": "mine"}, {"path": "/x", "name": "mine"})
    assert (list(named.replaces), named.deleteBeforeReplace) == (["path"], True)
    assert not difference(ruled, {"path": "/"}, {"path": "/x"}).deleteBeforeReplace
    other = difference(ruled, {"tags": {"a": 1}}, {"tags": {"a": 2}})
    assert (list(other.replaces), list(other.diffs)) == ([], ["tags.a"])
    assert other.detailedDiff["tags.a"].inputDiff  # a path of the inputs, by which a preview finds the value
    assert difference(ruled, {"tags": {}}, {"tags": {}}).changes == pb.DiffResponse.DIFF_NONE


def test_an_update_counts_and_keeps_the_rest(ruled: Ruled) -> None:
    made = created(ruled, policy="a")
    request = pb.UpdateRequest(
        urn=URN, olds=made.properties, old_inputs=encode({"policy": "a"}), news=encode({"more": 1})
    )
    changed = decode(answered(ruled.Update(request, Context())).properties)  # type: ignore[arg-type]
    assert changed == {"name": made.id, "arn": f"arn:{made.id}", "version": 2, "more": 1}


def test_a_function_answers_by_its_rule_or_says_where_to_write_one(ruled: Ruled) -> None:
    request = pb.InvokeRequest(tok="made-up:a/getZone:getZone", args=encode({"like": "b"}))
    answer = answered(ruled.Invoke(request, Context()))  # type: ignore[arg-type]
    assert decode(getattr(answer, "return")) == {"zone": "a", "like": "b"}
    with pytest.raises(RuntimeError, match=r"made-up:a/getX:getX: a rehearsal asks no cloud.*\n.*rules/made-up\.yaml"):
        answered(ruled.Invoke(pb.InvokeRequest(tok="made-up:a/getX:getX"), Context()))  # type: ignore[arg-type]


def test_foreign_resource_can_be_looked_up(ruled: Ruled) -> None:
    found = answered(ruled.Read(pb.ReadRequest(urn=URN, id="theirs"), Context()))  # type: ignore[arg-type]
    assert (found.id, decode(found.properties)["version"]) == ("theirs", 1)


def test_inputs_that_the_sdk_has_no_name_for_are_refused_at_any_depth(ruled: Ruled) -> None:
    """Python's SDK passes wrong names in dictionaries on, and only a real provider would refuse them."""
    template = {"blockDeviceMappings": [{"ebs": {"volumeSize": 1}}, {"ebs": {"volumeSise": 1}}], "nmae": "x"}
    urn = "urn:pulumi:dev::trial::aws:ec2/launchTemplate:LaunchTemplate::gpu"
    checked = answered(ruled.Check(pb.CheckRequest(urn=urn, news=encode(template)), Context()))  # type: ignore[arg-type]
    assert sorted((each.property, each.reason) for each in checked.failures) == [
        (
            "blockDeviceMappings[1].ebs.volumeSise",
            "the SDK has no input 'volumeSise' here, did you mean 'volumeSize'?",
        ),
        ("nmae", "the SDK has no input 'nmae' here, did you mean 'name'?"),
    ]


@pytest.mark.parametrize(
    "inputs",
    [{"tags": {"any name": "x"}}, {"tags": UNKNOWN}, {"blockDeviceMappings": UNKNOWN}, {"blockDeviceMappings": []}],
)
def test_free_names_and_unknown_values_are_accepted(ruled: Ruled, inputs: dict[str, Any]) -> None:
    urn = "urn:pulumi:dev::trial::aws:ec2/launchTemplate:LaunchTemplate::gpu"
    checked = answered(ruled.Check(pb.CheckRequest(urn=urn, news=encode(inputs)), Context()))  # type: ignore[arg-type]
    assert not checked.failures


def test_inputs_whose_name_is_that_of_a_part_elsewhere(ruled: Ruled) -> None:
    """The SDK gives the inputs of such a type another name."""
    urn = "urn:pulumi:dev::trial::aws:s3/bucketServerSideEncryptionConfiguration:{}::b"
    urn = urn.format("BucketServerSideEncryptionConfiguration")
    for inputs, wrong in (({"rules": [{"bucketKeyEnabled": True}]}, []), ({"rule": {}}, ["rule"])):
        checked = answered(ruled.Check(pb.CheckRequest(urn=urn, news=encode(inputs)), Context()))  # type: ignore[arg-type]
        assert [each.property for each in checked.failures] == wrong
