"""Measure whether rails and trunks carry the planned rate of a real all-reduce.

Over a trunk narrower than a rail, a ring has lost a tenth of a pair's rate, with 16 MiB and with 64: the plan models
links, not how ranks wait for each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stampworks.qualification import Result, read

from bench.rows import Row, measured
from bench.stack import NAME, Stack, stack

BYTES = 16 << 20
RUNS = 3
OVERSUBSCRIPTIONS = (1, 2, 4)
SMALL = {"RUNS": 1, "OVERSUBSCRIPTIONS": (1,)}
POINT_TO_POINT_SHARE = 0.92
"""Part of a pair's point-to-point rate that an all-reduce of the two has to reach."""
ERROR_MAX_PERCENT = 10
RAIL_MBPS = 200
PROGRAMS = "PYTHONPATH=/usr/local/lib/stampworks/workloads"


def rows() -> list[Row]:
    return [row for oversubscription in OVERSUBSCRIPTIONS for row in rows_for(oversubscription)]


def rows_for(oversubscription: int) -> list[Row]:
    with stack(4, rate_mbps=RAIL_MBPS, leaf_nodes=2, oversubscription=oversubscription) as found:
        found.up()
        plan = json.loads(found.run("stampworks", "plan", "--stack", NAME, "--json"))
        nodes = [node["name"] for group in plan["groups"] if group["role"] == "worker" for node in group["nodes"]]
        orders = {"allreduce_busbw": nodes, "worst_order.allreduce_busbw": [nodes[0], nodes[2], nodes[1], nodes[3]]}
        rows = [] if oversubscription > 1 else [_two_ranks(found, plan, nodes[:2])]
        for name, order in orders.items():
            [predicted] = [each["value"] for each in plan["expectations"] if each["name"] == f"rail0.{name}_gbs_max"]
            reached = [_all_reduce(_start(found, plan, order, ["collectives"])) for _ in range(RUNS)]
            how = "good" if order == nodes else "bad"
            errors = [100 * abs(each / predicted - 1) for each in reached]
            what = f"all-reduce against the plan, trunks {oversubscription}:1, {how} order of ranks: error"
            rows.append(measured(what, "%", errors, ERROR_MAX_PERCENT))
    return rows


def _two_ranks(found: Stack, plan: Mapping[str, Any], nodes: Sequence[str]) -> Row:
    """Run both measurements together, so that other load affects both."""
    ratios = []
    for _ in range(RUNS):
        results = _start(found, plan, nodes, ["pairs", "collectives"])
        pairs = [v.value / 8 for r in results for v in r.values if v.quantity == "pair_bandwidth" and v.rail == "rail0"]
        ratios.append(min(pairs) / _all_reduce(results))
    return measured("point to point against all-reduce of two ranks, 16 MiB", "", ratios, 1 / POINT_TO_POINT_SHARE)


def _all_reduce(results: Sequence[Result]) -> float:
    [busbw] = [v.value for r in results for v in r.values if v.quantity == "all_reduce_busbw" and v.rail == "rail0"]
    return busbw


def _start(found: Stack, plan: Mapping[str, Any], order: Sequence[str], programs: Sequence[str]) -> list[Result]:
    planned = {node["name"]: node for group in plan["groups"] for node in group["nodes"]}
    options = {
        "pairs": {"rounds": [[list(order[:2])]]},
        "collectives": {"bytes": [BYTES], "rails": ["rail0"], "order": list(order), "seconds": 1.0, "wait": 60.0},
        "cluster": {
            "nodes": [
                {"name": name, "address": planned[name]["address"], "rails": planned[name]["rail_addresses"]}
                for name in order
            ],
            "rails": [rail["interface"] for rail in plan["fabric"]["rails"]],
        },
    }
    options = {name: given for name, given in options.items() if name in (*programs, "cluster")}
    run = ["stampworks", "run", "--stack", NAME, "--nodes", str(len(order)), "--", "env", PROGRAMS, "python3", "-m"]
    heard = read(found.run(*run, "validation", *programs, "--options", json.dumps(options)))
    if heard.unreadable or any(result.problems for result in heard.results):
        raise SystemExit(f"the programs did not measure: {heard}")
    return list(heard.results)
