"""Existing parts in words: untouched parts of a plan and a review, and parts that two stacks share."""

from __future__ import annotations

from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.views.comparison import ComparedSide, comparison_data, comparison_text, verdict
from stampworks.views.existing import SHARED, UNTOUCHED, lines
from stampworks.views.review import review_data, review_markdown

from tests.planning.accounts import plan_of
from tests.planning.test_existing import NODES, SG_NODES, VPC
from tests.planning.test_terms import EFS, FSX, plan


def test_a_plan_lists_them() -> None:
    said = lines(plan(), 100)
    assert said[0] == UNTOUCHED
    assert ["network", VPC] in [line.split() for line in said]
    assert lines(plan_of(), 100) == []


def test_a_review_lists_them() -> None:
    """A change on either side lists them: a destroyed stack leaves them, too."""
    gone = review("one", ReviewedStack("a", plan()), ReviewedStack("b", None))
    text = review_markdown(gone)
    assert f"**{UNTOUCHED}**\n\n- network: `{VPC}`\n" in text
    assert f"- storage shared: `{EFS}`\n" in text
    assert {"part": "storage data", "id": FSX} in review_data(gone)["existing"]
    own = review("one", ReviewedStack("a", plan_of()), ReviewedStack("b", None))
    assert UNTOUCHED not in review_markdown(own)


def test_two_stacks_in_one_network() -> None:
    """The stacks are equal, and their effect on each other is described."""
    a, b = ComparedSide("one", plan()), ComparedSide("two", plan(name="other"))
    assert verdict(a, b) == "equal"
    text = comparison_text(a, b)
    [shared] = [block for block in text.split("\n\n") if block.startswith(SHARED)]
    said = [line.strip() for line in shared.splitlines()[1:]]
    assert f"network {VPC}: both are in it" in said
    assert f"subnet nodes {NODES}: one takes 17 of its addresses, and two 17" in said
    assert f"security group nodes {SG_NODES}: what has it in one reaches what has it in two" in said
    assert f"storage data {FSX}: one and two mount the same files" in said
    assert {each["id"] for each in comparison_data(a, b)["shared"]} >= {VPC, NODES, FSX}


def test_stacks_with_networks_of_their_own_share_nothing() -> None:
    a, b = ComparedSide("one", plan_of()), ComparedSide("two", plan())
    assert SHARED not in comparison_text(a, b)
    assert comparison_data(a, b)["shared"] == []
