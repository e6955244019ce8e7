"""Tags that a cloud does not allow are refused before anything is created."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from stampworks import planning
from stampworks.clouds.aws import tags
from stampworks.declaration import DeclarationError, load_value
from stampworks.declaration.values import TAG_PATTERN
from stampworks.plan import Plan
from stampworks.planning.clouds.aws import LAUNCHES

ELASTIC: Any = {"count_min": 0}
WITH_A_SLASH = [{"name": "owner", "value": "a/b"}, {"name": "team/owner", "value": "a"}]


def planned(declared: list[dict[str, str]], cloud: str = "aws", machine: str = "p5", **pool: Any) -> Plan:
    pools = [{"name": "gpu", "machine": machine, "count": 2, **pool}, {"name": "more", "machine": machine, "count": 2}]
    data = {"version": 1, "name": "test", "cloud": cloud, "pools": pools, "tags": declared}
    return planning.plan(load_value({**data, "region": "us-east-1"} if cloud == "aws" else data, "test"))


def refused(declared: list[dict[str, str]], **pool: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(DeclarationError) as error:
        planned(declared, **pool)
    return [(each.path, each.message, each.hint) for each in error.value.problems]


def numbered(count: int) -> list[dict[str, str]]:
    return [{"name": f"tag{number}", "value": "x"} for number in range(count)]


def test_a_name_that_nodes_cannot_read() -> None:
    """Elastic nodes read their tags, and AWS would start none of them; on all others a slash is legal."""
    text = "nodes of gpu that do not always run read their own tags, whose names must not contain / in its name"
    assert refused(WITH_A_SLASH, **ELASTIC) == [("tags[1].name", text, "write it without /")]
    assert [each.name for each in planned(WITH_A_SLASH).tags] == ["owner", "team/owner"]


def test_names_that_are_one_to_the_roles_of_aws() -> None:
    """IAM would refuse both, after the network was created."""
    declared = [{"name": each, "value": "x"} for each in ("owner", "team", "Owner")]
    hint = "tags[0] has this name already, for names of tags differ by more than capitals; keep one"
    assert refused(declared) == [("tags[2].name", "a second tag is called 'Owner'", hint)]
    [(path, message, _)] = refused([{"name": "name", "value": "x"}])
    assert (path, message) == ("tags[0].name", "'name' is not the name of a tag")


def test_so_many_fit_beside_ours() -> None:
    """AWS allows 50; elsewhere tags are not counted."""
    assert len(planned(numbered(41), **ELASTIC).tags) == 41
    text = "there are 43 tags, and room for 41: AWS allows 50 on a resource, and Stampworks uses 9 on a node"
    assert refused(numbered(43)) == [("tags", text, "take 2 out")]
    assert len(planned(numbered(51), cloud="local", machine="sim-h100").tags) == 51


def test_nodes_have_no_other_tags_of_ours() -> None:
    own = [value for value in vars(tags).values() if isinstance(value, str) and value.startswith("stampworks:")]
    assert LAUNCHES.tags_max + len({*own, "Name"}) == 50


def test_every_other_character_of_a_name_can_be_read() -> None:
    """AWS's message for another character: tag keys must match this."""
    legal = {char for char in string.printable if re.fullmatch(TAG_PATTERN, f"a{char}")}
    assert {char for char in legal if not re.fullmatch(r"[0-9a-zA-Z\-_+=,.@:]", char)} == {*LAUNCHES.tags_unread}
