"""Findings of rules about plans."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.plan import Plan
from stampworks.planning import Facts, Finding, rules
from stampworks.planning.rules import registry
from stampworks.planning.rules.rule import Rule

relaxed = settings(deadline=None)  # the machine's load says nothing about the code

GPU = {"name": "gpu", "machine": "sim-h100", "count": 4}


def loopback(plan: Plan, facts: Facts | None) -> tuple[Finding, ...]:
    """Return the findings of that rule."""
    return tuple(finding for finding in rules(plan, facts) if finding.id == "fabric.loopback")


def test_loopback_with_room(plan_of: Any) -> None:
    """All rails at once and as much again fit."""
    assert loopback(plan_of(pools=[GPU]), Facts(loopback_mbps=3200)) == (
        Finding(
            "fabric.loopback",
            "pass",
            "8 simulated links x 200 Mb/s x 2 for headroom = 3200 Mb/s, and this machine carries 3200 Mb/s",
            "",
        ),
    )


def test_loopback_without_room(plan_of: Any) -> None:
    """The arithmetic is shown, and the rate that would fit."""
    assert loopback(plan_of(pools=[GPU]), Facts(loopback_mbps=3199)) == (
        Finding(
            "fabric.loopback",
            "fail",
            "8 simulated links x 200 Mb/s x 2 for headroom = 3200 Mb/s, but this machine carries 3199 Mb/s",
            "write fabric.rail_rate_mbps: 199 or less, or take nodes out; was the machine busy? `stampworks facts` "
            "measures again",
            "fabric.rail_rate_mbps",
        ),
    )


def test_loopback_without_room_at_any_rate(plan_of: Any) -> None:
    """A rate of zero is not advised."""
    (finding,) = loopback(plan_of(pools=[GPU]), Facts(loopback_mbps=15))
    assert (finding.verdict, finding.hint) == ("fail", "take nodes out: not even 1 Mb/s a rail would fit for 8 links")


@pytest.mark.parametrize("facts", [None, Facts(loopback_mbps=None)])
def test_loopback_that_nobody_measured(plan_of: Any, facts: Facts | None) -> None:
    """A missing measurement is unknown and never passes."""
    assert loopback(plan_of(pools=[GPU]), facts) == (
        Finding(
            "fabric.loopback",
            "unknown",
            "8 simulated links x 200 Mb/s x 2 for headroom = 3200 Mb/s, and the capacity of this machine was "
            "not measured",
            "run `stampworks facts`",
        ),
    )


def test_a_pool_in_no_queue(plan_of: Any) -> None:
    """Its nodes would idle although queues are declared."""
    pools = [{**GPU, "name": "gpu", "count": 4}, {"name": "prep", "machine": "sim-cpu", "count": 2}]
    queues = [{"name": "main", "pools": ["gpu"], "default": True}]
    [one] = [
        each for each in rules(plan_of(pools=pools, scheduler={"queues": queues}), None) if each.id == "pools.queue"
    ]
    assert one == Finding(
        "pools.queue",
        "fail",
        "pool prep is in no queue: its nodes take no jobs",
        "write it into the pools of a queue: main",
        "pools[1]",
        "warning",
        "prep",
    )
    assert not [each for each in rules(plan_of(pools=pools), None) if each.id == "pools.queue"]


def test_loopback_of_a_cluster_without_rails(plan_of: Any) -> None:
    """A cluster without traffic fits any machine, measured or not."""
    (finding,) = loopback(plan_of(pools=[{"name": "prep", "machine": "sim-cpu", "count": 4}]), None)
    assert (finding.verdict, finding.text) == ("pass", "the plan has no simulated rails")


@relaxed
@given(
    counts=st.tuples(st.integers(1, 9), st.integers(1, 9)), rate=st.integers(1, 2000), measured=st.integers(1, 50_000)
)
def test_the_advised_rate_is_the_highest_that_passes(
    counts: tuple[int, int], rate: int, measured: int, plan_of: Any
) -> None:
    """The hint leads to a pass, and gives nothing away."""
    machines = ("sim-h100", "sim-a100-small")
    pools = [
        {"name": f"pool{index}", "machine": machine, "count": count}
        for index, (machine, count) in enumerate(zip(machines, counts, strict=True))
    ]

    def verdict(rail_rate_mbps: int) -> Finding:
        (finding,) = loopback(plan_of(pools=pools, fabric={"rail_rate_mbps": rail_rate_mbps}), Facts(measured))
        return finding

    finding = verdict(rate)
    if advised := re.search(r"rail_rate_mbps: (\d+)", finding.hint):
        assert verdict(int(advised[1])).verdict == "pass"
        assert verdict(int(advised[1]) + 1).verdict == "fail"
    assert (finding.verdict == "pass") == (rate * 2 * (2 * counts[0] + counts[1]) <= measured)


@pytest.mark.parametrize("rule", registry.RULES, ids=lambda rule: rule.check.__name__)
def test_a_check_takes_what_its_record_says(rule: Rule) -> None:
    """Arguments are the plan, and facts and date if the record asks for them; no argument is unused."""
    assert [*inspect.signature(rule.check).parameters] == ["plan", *rule.needs]


def test_every_check_has_a_record() -> None:
    """Each public function of the room that yields findings is in the registry once."""
    here = registry.__name__.rpartition(".")[0]
    folder = importlib.import_module(here).__path__
    modules = [importlib.import_module(f"{here}.{each.name}") for each in pkgutil.iter_modules(folder)]
    checks = [
        value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        if value.__annotations__.get("return") == "Iterator[Finding]"
    ]
    assert sorted(each.__qualname__ for each in checks) == sorted(rule.check.__qualname__ for rule in registry.RULES)
