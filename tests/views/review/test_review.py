"""A review as a page: its content, and text of the change stays text."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.changes.review import Reach, Review, Sibling
from stampworks.cli.errors import FIELDS
from stampworks.declaration import load_value
from stampworks.plan import Plan
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.cost import MONTH_HOURS
from stampworks.planning.rules.findings import Finding
from stampworks.views.quoted import LENGTH_MAX, prose, quoted
from stampworks.views.review import review_json, review_lines, review_markdown, unreadable_markdown

from tests.planning.test_fingerprint import PLAN, changed, planned

HOSTILE = (
    "@team",
    "#123",
    "owner/repo#1",
    "GH-12",
    "deadbeef1234567",
    "deadbeefcafe",
    "[a](http://example.org)",
    "![a](https://example.org/a.png)",
    "http://example.org",
    "www.example.org",
    "somebody@example.org",
    "<img src=x onerror=alert(1)>",
    "<!-- hidden",
    "</details><script>",
    "a|b",
    "a\\|b",
    "\\",
    "\\`",
    "`@team`",
    "``` @team ```",
    "` @team",
    "**bold** _it_ ~no~",
    "a\n# heading",
    "a\r\n\r\n- item @team",
    "a\u2028b",
    "\x1b[31mred\x07",
    "\u202eright to left",
    "\u200bnothing",
    "&lt;b&gt; &#64;team",
    ":smile:",
    "$x$",
    "1. one",
    "- one",
    "> one",
    "===",
    "| --- |",
    "@" * 5000,
)
MARKUP = re.compile(r"</?details>|<summary>Consequences \(\d+\)</summary>|\*\*|^### |^- |^\d+\. |\| ---(?= \|)")
TEXT = re.compile(r"[A-Za-z0-9 .,;:()|+%=/'\u2705\u274c\u2754\u2026?-]*")
"""Characters that a page may have outside of code, besides its own markup."""


def outside(page: str) -> list[str]:
    """Return the lines of a page outside of code."""
    return [MARKUP.sub("", re.sub(r"`[^`]+`", "", line)) for line in page.split("\n")]


def check_page(page: str) -> None:
    assert page.isascii() or all(each.isprintable() or each == "\n" for each in page)
    for line, bare in zip(page.split("\n"), outside(page), strict=True):
        assert TEXT.fullmatch(bare), line
        assert not re.search(r"www\.|://|\b[0-9a-fA-F]{7,}\b|\b[A-Z]+-\d", bare), line
    tables = [line for line in page.split("\n") if line.startswith("|")]
    for before, line in itertools.pairwise(tables):
        if re.fullmatch(r"(\| --- )+\|", line):
            assert before.count("|") == line.count("|")
    assert all(line.endswith("|") for line in tables)


def hostile(text: str) -> Review:
    """Return a review in which every text of a plan, a rule or a name is this text."""
    pool = dataclasses.replace(PLAN.pools[0], name=text, machine=dataclasses.replace(PLAN.pools[0].machine, name=text))
    nodes = tuple(dataclasses.replace(node, name=f"{text}{index}") for index, node in enumerate(pool.nodes))
    head = dataclasses.replace(
        PLAN,
        name=text,
        groups=(*PLAN.groups[:1], dataclasses.replace(pool, nodes=nodes), *PLAN.groups[2:]),
        release=dataclasses.replace(PLAN.release, name=text),
        storage=(dataclasses.replace(PLAN.storage[0], name=text, mount=text),),
        users=(dataclasses.replace(PLAN.users[0], name=text, accounts=(text,)),),
        training=dataclasses.replace(PLAN.training, tracker=dataclasses.replace(PLAN.training.tracker, url=text)),
        expectations=(dataclasses.replace(PLAN.expectations[0], name=f"{text}.{text}", unit=text),),
    )
    found = Finding(text, "unknown", f"{text} is so, {text}", text)
    sides = (
        ReviewedStack(text, PLAN, (), {}),
        ReviewedStack(text, head, (found, dataclasses.replace(found, verdict="fail")), {}),
    )
    return review(text, *sides, siblings=(Sibling(text, "fail", 1, 1),), unknown=(text,))


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_change_is_more_than_text(text: str) -> None:
    """Text of any origin gives no link, image or mention, and cannot leave its cell or line."""
    check_page(review_markdown(hostile(text)))
    check_page(unreadable_markdown(text, [dict.fromkeys(FIELDS, text)]))
    gone = hostile(text)
    check_page(review_markdown(review(text, ReviewedStack(text, _only(gone)), ReviewedStack(text, None))))


def _only(found: Review) -> Plan:
    storage = tuple(each.difference.b for each in found.changes if each.written.startswith("storage["))
    return dataclasses.replace(PLAN, storage=tuple(each for each in storage if each))


@pytest.mark.parametrize("text", HOSTILE)
def test_lines_for_a_terminal_are_lines(text: str) -> None:
    """No text of a change ends a line, or is obeyed by a terminal; many changes are counted."""
    lines = review_lines(hostile(text))
    assert len(lines) > 3
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_programs_get_text_as_it_is(text: str) -> None:
    """JSON has no markup, and no character that a terminal would obey."""
    found = review_json(hostile(text))
    assert found.isascii()
    assert json.loads(found)["stack"] == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", "`a`"),
        ("", "-"),
        (" ", "-"),
        ("a`b|c", r"`a\x60b\x7cc`"),
        ("a\nb", r"`a\nb`"),
        ("x" * 500, f"`{'x' * (LENGTH_MAX - 1)}\N{HORIZONTAL ELLIPSIS}`"),
    ],
)
def test_values_are_code(text: str, shown: str) -> None:
    """A backtick cannot end them, and they fit into a cell."""
    assert quoted(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("4 x 100 Mb/s = 400 Mb/s, so it fits", "4 x 100 Mb/s = 400 Mb/s, so it fits"),
        ("run `stampworks facts` (again)", "run `stampworks facts` (again)"),
        ("write fabric.rail_rate_mbps: 16 or less", "write `fabric.rail_rate_mbps`: 16 or less"),
        ("ask @team, or (see #1)", "ask `@team`, or (see `#1`)"),
        ("1. one", "`1`. one"),
    ],
)
def test_sentences_stay_readable(text: str, shown: str) -> None:
    """Words are plain text; text that a forge could interpret is code."""
    assert prose(text) == shown


def pages(path: str, value: Any) -> str:
    return review_markdown(
        review("one", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", planned(changed(path, value)), (), {}))
    )


def test_nothing_changes_in_three_lines() -> None:
    """A page without changes says so."""
    found = review_markdown(review("one", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", PLAN, (), {})))
    assert found == "### ✅ Review of stack `one`: pass\n\n**Nothing changes.**\n\nFrom `a` to `b`.\n"


def test_a_change_in_place() -> None:
    """The headline has the most important result, the table the declared change."""
    lines = pages("pools[].count", 6).splitlines()
    assert lines[2] == "**1 change, in place. No node restarts, 2 nodes join. Cost: not priced.**"
    assert "| `pools[gpu].count` | `4` | `6` | in place | jobs go on |" in lines
    assert "1 node joins." in pages("pools[].count", 5)


def test_a_change_that_rolls() -> None:
    """The number of stopped nodes is shown with the change."""
    lines = pages("fabric.leaf_nodes", 4).splitlines()
    assert lines[2].startswith("**1 change, by rolling. 6 nodes restart.")
    assert "| `fabric.leaf_nodes` | `2` | `4` | roll | nodes in waves; 6 nodes restart |" in lines


def test_the_most_severe_change_comes_first() -> None:
    """A refused change is not to be missed among others."""
    data = changed("storage[].kind", "directory")
    data["storage"][0]["name"] = "data"
    data["pools"][0]["count"] = 5
    page = review_markdown(review("one", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", planned(data), (), {})))
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows[0].startswith("| `storage[shared]` | `directory at /shared` | - | refuse | it is protected")
    assert "❌" in page


def test_a_large_change_fits_into_a_comment() -> None:
    """Forges take 65,536 characters; omitted lines are counted, and are in the JSON."""
    data = changed("pools[].count", 1000)
    data["users"] = [{"name": f"user{number}", "uid": 4000 + number} for number in range(2000)]
    large = review("one", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", planned(data), (), {}))
    page = review_markdown(large)
    assert len(page) < 30_000
    assert "... and 1963 more in the JSON." in page
    assert len(json.loads(review_json(large))["changes"]) == 2003


def test_least_and_most_are_tables_of_their_own() -> None:
    """The guaranteed rate does not appear below the largest one."""
    names = ("gpu.allreduce_busbw_gbs_max", "gpu.allreduce_busbw_gbs_min", "training.gpu.step_seconds_max")
    reach = tuple(Reach(each, "-", number, number + 1) for number, each in enumerate(names))
    page = review_markdown(
        dataclasses.replace(review("one", ReviewedStack("a", PLAN), ReviewedStack("b", PLAN)), expectations=reach)
    )
    most, least = page.index("expected at most"), page.index("broken below")
    assert most < page.index("gbs_max") < least < page.index("gbs_min")
    assert page.index("gbs_min") < page.index("training of the declared model") < page.index("seconds_max")


def test_a_rule_that_is_silent_says_nothing_now() -> None:
    """Its earlier text is marked as such."""
    old = Finding("some.rule", "fail", "too many", "take some out")
    page = review_markdown(review("one", ReviewedStack("a", PLAN, (old,)), ReviewedStack("b", PLAN)))
    [row] = [line for line in page.splitlines() if "some.rule" in line]
    assert "| resolved; before: too many |" in row
    assert "take some out" not in row


def usd_of_nodes(count: int) -> float:
    """Return the costs of so many nodes of p5 an hour, each with its disk."""
    node, disk = catalog.price("aws", "p5", "us-east-1", "on-demand"), catalog.part_price("aws", "disk", "us-east-1")
    assert isinstance(node, catalog.Price)
    assert isinstance(disk, catalog.PartPrice)
    return round(count * (node.usd_per_hour + 200 * disk.usd / MONTH_HOURS), 6)


def test_known_part_of_the_cost_is_shown() -> None:
    """Storage without a price does not hide the price of nodes."""
    storage = {"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_1", "capacity": 1200, "mount": "/data"}

    def on_aws(count: int, **more: Any) -> ReviewedStack:
        pool = {"name": "gpu", "machine": "p5", "count": count}
        fields = {"cloud": "aws", "region": "us-east-1", "network": {"cidr": "10.0.0.0/16"}, "pools": [pool], **more}
        return ReviewedStack(f"{count}", planning.plan(load_value({"version": 1, "name": "test", **fields}, "test")))

    known = review("test", on_aws(2), on_aws(4))
    assert known.usd_per_hour == known.known_usd_per_hour == pytest.approx(usd_of_nodes(2), abs=1e-5)
    both = review("test", on_aws(2), on_aws(4, storage=[storage]))
    assert (both.usd_per_hour, both.unpriced) == (None, ("storage data",))
    said = f"Cost: +{usd_of_nodes(2):.2f} USD an hour without storage data, whose prices are not all known."
    assert said in review_markdown(both)
    assert "Cost: unknown." in review_markdown(review("test", on_aws(2), on_aws(2, storage=[storage])))


def test_a_price_that_is_known_only_before_or_after_is_no_difference() -> None:
    """Reserved nodes at an unknown price cost nothing more when the price is known."""
    reserved = {"purchase": "reserved", "reservation": "cr-1"}

    def side(count: int, **bought: str) -> ReviewedStack:
        pools = [
            {"name": "gpu", "machine": "p5", "count": 16, **bought},
            {"name": "more", "machine": "p5", "count": count},
        ]
        fields = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools}
        return ReviewedStack(f"{count}", planning.plan(load_value(fields, "test")))

    for before, after in ((side(1, **reserved), side(2)), (side(1), side(2, **reserved))):
        found = review("test", before, after)
        assert (found.usd_per_hour, found.unpriced) == (None, ("pool gpu",))
        assert found.known_usd_per_hour == found.known_usd_per_hour_min == pytest.approx(usd_of_nodes(1), abs=1e-5)
        cost = json.loads(review_json(found))["cost"]
        assert cost["known_difference_usd_per_hour"] == pytest.approx(usd_of_nodes(1), abs=1e-5)
    assert "Cost: unknown." in review_markdown(review("test", side(1, **reserved), side(1)))


def test_new_entries_have_descriptions() -> None:
    """Each entry of a new stack has a short description."""
    page = review_markdown(review("one", ReviewedStack("a", None), ReviewedStack("b", PLAN, (), {})))
    assert "| `storage[shared]` | - | `directory at /shared` | create | made |" in page
    assert "| `scheduler.queues[main]` | - | `of gpu, cpu, by default` | create | made |" in page
    alice = "| `users[alice]` | - | `uid 2001 of research` | create | access: alice may submit jobs, and log in with "
    assert f"{alice}`SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk` (`alice@laptop`) |" in page
    assert "| `users[bob]` | - | `uid 2002` | create | access: bob may submit jobs |" in page
    assert "| `groups[nlp]` | - | `gid 3001` | create | made |" in page


def test_many_nodes_on_premises_are_ranges() -> None:
    """Names are folded to ranges, and common properties of rails appear once."""

    def side(count: int) -> ReviewedStack:
        pools = [{"name": "gpu", "machine": "dgx-h100", "count": count}]
        told = {"version": 1, "name": "test", "cloud": "hosts", "network": {"cidr": "10.0.0.0/8"}, "pools": pools}
        return ReviewedStack("it", planning.plan(load_value(told, "test")), contents={})

    lines = review_markdown(review("test", side(30), side(4096))).splitlines()
    assert "- `leaf1-1` node: `gpu-[001-030]` in base, `gpu-[001-032]` in head" in lines
    assert "- `rail[0-7]` trunk to `leaf1-[1-128]`: only in head" in lines


def test_negligible_difference_has_no_row() -> None:
    found = review(
        "test", ReviewedStack("a", PLAN, (), {}), ReviewedStack("b", planned(changed("pools[].count", 5)), (), {})
    )
    reach = (Reach("gpu.a_gbs", "GB/s", 398.8, 398.7), Reach("gpu.b_gbs", "GB/s", 398.8, 398.5))
    page = review_markdown(dataclasses.replace(found, expectations=reach))
    assert "`gpu b_gbs (GB/s)` | 398.8 | 398.5 | -0.1% |" in page
    assert "a_gbs" not in page


def test_uncounted_costs_are_listed() -> None:
    """A change of it is no change of the sum, and not nothing."""

    def side(count: int, egress: str) -> ReviewedStack:
        pools = [{"name": "gpu", "machine": "p5", "count": count}]
        fields = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools}
        network = {"cidr": "10.0.0.0/16", "egress": egress}
        return ReviewedStack(egress, planning.plan(load_value({**fields, "network": network}, "test")))

    grown = review("test", side(2, "nat"), side(4, "nat"))
    assert "Not counted: each GB that passes through the NAT gateway; traffic" in review_markdown(grown)
    closed = review("test", side(2, "nat"), side(2, "none"))
    said = json.loads(review_json(closed))["cost"]
    assert "each GB that passes through the NAT gateway" in said["not_counted_before"]
    assert said["not_counted_before"] != said["not_counted_after"]
    same = dataclasses.replace(closed, before=dataclasses.replace(closed.before, charges=closed.after.charges))
    assert "Cost: the same, without uncounted items." in review_markdown(same)
