"""Random declarations on every cloud: each becomes a consistent plan, or located errors."""

from __future__ import annotations

import itertools
from collections import Counter
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, from_json, to_json
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text

from tests.planning.places import REGIONS

relaxed = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

KINDS = ["directory", *catalog.file_systems()]
TIERS = sorted({row.tier for row in catalog.file_system_tiers().values()} - {""})
NUMBERS = st.one_of(st.just(0), st.integers(1, 64), st.integers(1, 10**6), st.sampled_from([1200, 2400, 9600, 16384]))
RANGES = st.builds(
    lambda first, prefix: str(IPv4Network((f"10.{first}.0.0", prefix), strict=False)),
    st.integers(0, 255),
    st.integers(8, 28),
)


def some(strategies: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


@st.composite
def declarations(draw: st.DrawFn) -> dict[str, Any]:
    cloud = draw(st.sampled_from(sorted(CLOUDS)))
    own = [machine.name for machine in catalog.machines().values() if machine.cloud == cloud]
    machines = st.sampled_from(own or sorted(catalog.machines()))
    if draw(st.integers(0, 9)) == 0:
        machines = st.sampled_from(sorted(catalog.machines()))
    pool = st.fixed_dictionaries(
        {"machine": machines, "count": st.one_of(st.integers(1, 40), st.integers(1, 4096))},
        optional={
            "purchase": st.sampled_from(["owned", "on-demand", "spot", "reserved", "block"]),
            "zone": st.sampled_from(["a-1", "a-2"]),
            "reservation": st.just("cr-1"),
            "scheduling_only": st.booleans(),
            "count_min": st.one_of(st.integers(0, 4), st.integers(0, 4096)),
            "fallbacks": st.lists(
                st.sampled_from([{"purchase": "spot"}, {"purchase": "on-demand"}, {"purchase": "reserved"}]), max_size=3
            ),
        },
    )
    storage = st.fixed_dictionaries(
        {"kind": st.sampled_from(KINDS)},
        optional={
            "tier": st.sampled_from(TIERS),
            "capacity": NUMBERS,
            "mbps_per_tib": st.sampled_from([0, 40, 125, 250, 500, 1000, 7]),
            "throughput_mbps": NUMBERS,
            "read_cache_gib": NUMBERS,
            "metadata_iops": NUMBERS,
            "efa": st.booleans(),
            "features": st.lists(st.sampled_from(["backups", "compression", "root-squash"]), unique=True),
        },
    )
    pools = draw(st.lists(pool, min_size=1, max_size=4))
    storages = draw(st.lists(storage, max_size=2))
    model = some(
        {
            "parameters": st.integers(1, 10**13),
            "tokens": st.integers(1, 10**14),
            **{name: st.integers(1, 20_000) for name in ("layers", "hidden", "heads", "kv_heads", "sequence")},
        }
    )
    more = draw(
        some(
            {
                "region": st.sampled_from(["a-region", *REGIONS.values()]),
                "network": some(dict.fromkeys(("cidr", "pods_cidr", "services_cidr"), RANGES)),
                "fabric": some(
                    {
                        "kind": st.sampled_from(["simulated", "infiniband", "roce", "efa", "tcp"]),
                        "rail_rate_mbps": st.integers(0, 2000),
                        "leaf_nodes": st.integers(0, 64),
                        "spine_leaves": st.integers(0, 8),
                        "oversubscription": st.sampled_from([1, 2, 4]),
                    }
                ),
                "scheduler": some(
                    {
                        "kind": st.sampled_from(["slurm", "kubernetes"]),
                        "topology": st.sampled_from(["flat", "tree", "block"]),
                        "pods_per_node": st.integers(16, 110),
                    }
                ),
                "training": some(
                    {
                        "layout": st.sampled_from(["ddp", "fsdp", "hsdp", "tp"]),
                        "tensor_parallel": st.integers(1, 16),
                        "batch": st.integers(1, 10**6),
                        "model": model,
                    }
                ),
            }
        )
    )
    return {
        "version": 1,
        "name": "test",
        "cloud": cloud,
        "pools": [{**each, "name": f"p{number}"} for number, each in enumerate(pools)],
        "storage": [{**each, "name": f"s{n}", "mount": f"/data{n}"} for n, each in enumerate(storages)],
        **more,
    }


def holds_together(data: dict[str, Any]) -> None:
    try:
        plan = planning.plan(load_value(data, "test"))
    except DeclarationError as error:
        assert error.problems  # noqa: PT017  (a declaration may be good as well)
        assert all(problem.path and problem.message for problem in error.problems)  # noqa: PT017
        return
    assert from_json(Plan, to_json(plan)) == plan
    findings = planning.rules(plan, None)
    assert {finding.verdict for finding in findings} <= {"pass", "fail", "unknown"}
    assert all(finding.hint for finding in findings if finding.verdict == "fail")
    assert all(line.isprintable() for line in plan_text(plan, cost(plan), findings).split("\n"))
    networks = [IPv4Network(subnet.cidr) for subnet in plan.network.subnets]
    networks += [IPv4Network(rail.cidr) for rail in plan.fabric.rails if rail.cidr and not plan.network.subnets]
    if pods := plan.network.pods:
        networks += [IPv4Network(cidr) for cidr in (pods.cidr, pods.services_cidr) if cidr]
        assert pods.nodes_max >= sum(group.count for group in plan.running)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(networks, 2))
    assert all(subnet.room is None or subnet.room >= 0 for subnet in plan.network.subnets)
    for rail in plan.fabric.rails:  # ports are never oversubscribed beyond what is declared
        for trunk in rail.trunks:
            assert plan.fabric.leaf_nodes is not None
            assert plan.fabric.oversubscription is not None
            assert trunk.rate_mbps * plan.fabric.oversubscription >= plan.fabric.leaf_nodes * rail.rate_mbps
        carried = Counter[str]()
        for trunk in rail.trunks:
            carried[trunk.to] += trunk.rate_mbps
        assert not rail.core_trunks or {trunk.leaf for trunk in rail.core_trunks} == carried.keys()
        assert all(trunk.rate_mbps >= carried[trunk.leaf] for trunk in rail.core_trunks)
    assert all(each.value >= 0 and each.why for each in plan.expectations)
    for charge in cost(plan).charges:
        assert (charge.usd_per_hour_min is None) == (charge.usd_per_hour is None)
        assert 0 <= (charge.usd_per_hour_min or 0) <= (charge.usd_per_hour or 0)
    assert all(0 <= group.count_min <= group.count for group in plan.groups)
    assert not any(group.elastic for group in plan.groups if group.nodes)
    assert review("test", ReviewedStack("a", plan, findings), ReviewedStack("b", plan, findings)).changes == ()


@settings(relaxed, max_examples=150)
@given(declarations())
def test_random_declarations(data: dict[str, Any]) -> None:
    """Every failure is a located error."""
    holds_together(data)


@pytest.mark.long
@settings(relaxed, max_examples=10_000)
@given(declarations())
def test_ten_thousand_random_declarations(data: dict[str, Any]) -> None:
    """A longer run of the same."""
    holds_together(data)
