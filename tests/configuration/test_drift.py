"""Report of a look at a cluster: a line for each difference from the plan, and none for the rest."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from stampworks.configuration import CheckModeResult, TaskFailure, drift

RAIL = {"interface": "rail1", "address": "10.0.1.1", "rate_mbps": 200}
INVENTORY: dict[str, Any] = {
    "all": {
        "vars": {
            "storage_mounts": [{"source": "/exports/shared", "path": "/shared"}],
            "cluster_versions": {"debian": "13", "slurm": "24.11", "mariadb": "11.8"},
        },
        "hosts": {
            "head": {"node_rails": [], "node_machine": {"accelerators": 0, "cores": 16}},
            "gpu-001": {"node_rails": [RAIL], "node_machine": {"accelerators": 2, "cores": 16}},
            "gpu-002": {"node_rails": [RAIL], "node_machine": {"accelerators": 2, "cores": 16}},
        },
        "children": {
            "slurm_controller": {"hosts": {"head": {}}},
            "slurm_worker": {"hosts": {"gpu-001": {}, "gpu-002": {}}},
            "storage": {"hosts": {"head": {}, "gpu-001": {}, "gpu-002": {}}},
            "metrics": {"hosts": {"gpu-001": {}}},
        },
    }
}
SEEN = {"state": ["IDLE"], "reason": "", "cpus": 16, "gres": "gpu:h100:2(S:0-1)"}
FACTS: dict[str, Any] = {
    "head": {
        "services": {"slurmctld": True, "slurmd": False},
        "mounts": ["/", "/shared"],
        "interfaces": {},
        "accelerators": None,
        "packages": {"slurm-client": "24.11.5-4"},
        "built": {},
        "system": "debian 13.2",
        "python": "3.13.5",
        "clock_ahead_s": 4000.0,
        "slurm": {"gpu-001": SEEN, "gpu-002": SEEN},
    },
    "gpu-001": {
        "services": {"slurmctld": False, "slurmd": True, "metrics": True},
        "mounts": ["/", "/shared"],
        "interfaces": {"rail1": {"addresses": ["10.0.1.1"], "carrier": True, "rate_mbps": 200, "mtu_bytes": 1500}},
        "accelerators": [{"index": 0}, {"index": 1}],
        "packages": {"slurm-client": "24.11.5-4"},
        "built": {},
        "system": "debian 13.2",
        "python": "3.13.5",
        "clock_ahead_s": 4020.0,
    },
}
FACTS["gpu-002"] = copy.deepcopy(FACTS["gpu-001"])
HOSTS = ["head", "gpu-001", "gpu-002"]
MEANS = "and Slurm's daemons reject messages of a clock so far off"


def put(place: str, value: Any) -> dict[str, Any]:
    """The facts with another value at a place, written host/key/key; ... is for a place that is not there."""
    facts: dict[str, Any] = copy.deepcopy(FACTS)
    *way, last = place.split("/")
    inside = facts
    for key in way:
        inside = inside[key]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return facts


def said(facts: dict[str, Any]) -> list[str]:
    return drift.of_look(INVENTORY, HOSTS, CheckModeResult(facts=facts))


def test_a_cluster_that_is_as_planned_has_no_drift() -> None:
    """The output is empty: otherwise every preview would have a message."""
    assert said(FACTS) == []


def test_a_slurm_that_was_built_is_of_the_version_that_its_tag_says() -> None:
    """Some systems have no packages of Slurm."""
    facts = put("gpu-001/built", {"slurm": "slurm-24-11-7-1"})
    del facts["gpu-001"]["packages"]["slurm-client"]
    assert said(facts) == []


def test_a_rail_without_address_needs_none() -> None:
    """A rail of InfiniBand has none, but its device is checked."""
    inventory = copy.deepcopy(INVENTORY)
    inventory["all"]["hosts"]["gpu-001"]["node_rails"][0]["address"] = ""
    without = put("gpu-001/interfaces/rail1/addresses", [])
    assert drift.of_look(inventory, HOSTS, CheckModeResult(facts=without)) == []
    down = put("gpu-001/interfaces/rail1/carrier", False)
    assert drift.of_look(inventory, HOSTS, CheckModeResult(facts=down)) == ["runtime: gpu-001: rail1 is down"]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("gpu-002/services/slurmd", False, "gpu-002: slurmd does not run"),
        ("gpu-001/services/metrics", ..., "gpu-001: metrics does not run"),
        ("head/services/slurmctld", False, "head: slurmctld does not run"),
        ("gpu-001/mounts", ["/"], "gpu-001: /shared is not mounted"),
        ("gpu-001/interfaces/rail1", ..., "gpu-001: rail1 is missing"),
        ("gpu-001/interfaces/rail1/carrier", False, "gpu-001: rail1 is down"),
        ("gpu-001/interfaces/rail1/rate_mbps", 40, "gpu-001: rail1 runs at 40 of 200 Mb/s"),
        ("gpu-001/interfaces/rail1/rate_mbps", None, "gpu-001: unknown: the rate of rail1"),
        (
            "gpu-001/interfaces/rail1/addresses",
            [],
            "gpu-001: rail1 has no address, the plan says 10.0.1.1",
        ),
        (
            "gpu-001/interfaces/rail1/addresses",
            ["10.0.1.9"],
            "gpu-001: rail1 has 10.0.1.9, the plan says 10.0.1.1",
        ),
        ("gpu-001/accelerators", [{"index": 0}], "gpu-001: 1 of 2 accelerators answer"),
        ("gpu-001/accelerators", None, "gpu-001: unknown: how many accelerators it has"),
        ("gpu-001/packages/slurm-client", ..., "gpu-001: slurm is not installed"),
        ("gpu-001/packages/slurm-client", "1:23.2-1", "gpu-001: slurm is 23.2-1, and the release has 24.11"),
        ("gpu-001/built", {"slurm": "slurm-23-2-7-1"}, "gpu-001: slurm is 23.2.7.1, and the release has 24.11"),
        ("gpu-001/system", "debian 12.9", "gpu-001: debian is 12.9, and the release has 13"),
        ("gpu-001/system", "ubuntu 24.04", "gpu-001: debian is not installed"),
        ("head/slurm/gpu-002", ..., "gpu-002: Slurm does not know it"),
        (
            "head/slurm/gpu-002",
            {**SEEN, "state": ["DOWN", "NOT_RESPONDING"], "reason": "Not responding"},
            "gpu-002: Slurm says down+not_responding: Not responding",
        ),
        ("head/slurm/gpu-002", {**SEEN, "gres": "gpu:h100:1"}, "gpu-002: Slurm counts 1 of 2 accelerators"),
        ("head/slurm/gpu-002", {**SEEN, "cpus": 8}, "gpu-002: Slurm counts 8 of 16 CPUs"),
        ("gpu-002/clock_ahead_s", 4600.0, f"gpu-002: its clock is 10 minutes ahead of head's, {MEANS}"),
        ("gpu-002/clock_ahead_s", 3960.0, f"gpu-002: its clock is 1 minute behind head's, {MEANS}"),
        ("gpu-001/clock_ahead_s", None, "gpu-001: unknown: its report of its clock cannot be read"),
        ("head/slurm", None, "head: unknown: Slurm does not report its nodes"),
    ],
)
def test_each_thing_that_is_otherwise_is_said_once(place: str, value: Any, words: str) -> None:
    """Node and difference appear once, and nothing else is blamed."""
    assert said(put(place, value)) == [f"runtime: {words}"]


@pytest.mark.parametrize("state", ["IDLE", "DOWN"])
def test_a_node_that_somebody_drained_is_no_drift(state: str) -> None:
    """An operator's drain and its effects are not to be undone."""
    drained = {**SEEN, "state": [state, "DRAIN"], "reason": "new fans"}
    assert said(put("head/slurm/gpu-002", drained)) == []


@pytest.mark.parametrize("garbage", [None, "", "/shared", 7, -1.5, True, [], [None], {}, {"rail1": []}, "\x1b[31m"])
@pytest.mark.parametrize("fact", ["services", "mounts", "interfaces", "packages", "system"])
def test_unreadable_answers_are_unknown(fact: str, garbage: Any) -> None:
    """Any or no answer of a node is reported, and the rest is still compared."""
    for facts in (put(f"gpu-001/{fact}", garbage), put(f"gpu-001/{fact}", ...)):
        facts["gpu-001"]["accelerators"] = [{"index": 0}]
        found = said(facts)
        assert len(found) > 1, "the garbage went by without a word"
        assert "runtime: gpu-001: 1 of 2 accelerators answer" in found
        assert all(line.startswith("runtime: gpu-001: ") and line.isprintable() for line in found)


@pytest.mark.parametrize("garbage", [None, "all fine", 0, [], {}, {"gpu-002": "idle"}, {"gpu-002": {"state": 1}}])
def test_answers_of_slurm_are_not_trusted(garbage: Any) -> None:
    """A missing answer of Slurm about a node does not mean that the node is healthy."""
    found = said(put("head/slurm", garbage))
    assert found
    assert all("unknown" in line or "does not know it" in line for line in found)


@pytest.mark.parametrize("facts", [None, "idle", [], {}])
def test_a_node_that_says_nothing_of_itself_is_unknown(facts: Any) -> None:
    """Missing facts do not count as right."""
    found = said({**FACTS, "gpu-001": facts})
    assert found
    assert all(line.startswith("runtime: gpu-001: unknown: ") for line in found)


def test_the_layers_and_what_could_not_be_seen() -> None:
    """Changes by a playbook, answers of nodes, and silent nodes are each reported once."""
    facts = put("gpu-001/services/slurmd", False)
    found = CheckModeResult(
        drift=(("gpu-001", "slurmd does not run"), ("gpu-001", "/etc/hosts differs"), ("head", "/etc/hosts differs")),
        facts={name: facts[name] for name in ("head", "gpu-001")},
        failures=(
            TaskFailure("gpu-002", "", "No route\nto host"),
            TaskFailure("head", "base : Make the users", "no python"),
        ),
    )
    assert drift.of_look(INVENTORY, HOSTS, found) == [
        "system: gpu-001, head: /etc/hosts differs",
        "system: gpu-002: unknown: it cannot be reached: No route to host",
        "system: head: unknown from base : Make the users on: no python",
        "runtime: gpu-001: slurmd does not run",
    ]


def test_nodes_that_are_not_up_are_unknown() -> None:
    """A dead node, or a whole missing room, is reported in a line without failure."""
    assert drift.of_look(INVENTORY, (), CheckModeResult()) == [
        "runtime: gpu-[001-002], head: unknown: the node is not up"
    ]
    assert drift.of_look(INVENTORY, HOSTS[:2], CheckModeResult(facts=FACTS)) == [
        "runtime: gpu-002: unknown: the node is not up",
    ]


def test_a_look_that_did_not_come_to_its_end_is_unknown() -> None:
    """All other findings of it are unknown."""
    assert drift.of_look(INVENTORY, HOSTS, CheckModeResult(facts=FACTS, broken="stopped after 10 minutes")) == [
        "system: gpu-[001-002], head: unknown: the check was interrupted: stopped after 10 minutes"
    ]


def test_nodes_that_drift_alike_are_one_line() -> None:
    """The number of nodes and the order of looks do not matter."""
    names = [f"gpu-{number:03}" for number in range(64, 0, -1)]
    assert drift.lines("system", [(name, "/etc/motd differs") for name in names]) == [
        "system: gpu-[001-064]: /etc/motd differs"
    ]


def test_words_are_bounded_whoever_says_them() -> None:
    """A node controls neither the length nor the number of lines, nor the terminal."""
    (line,) = drift.lines("runtime", [("gpu-001", "\x1b[2Jrail1\r\n" + "x" * 10_000)])
    assert line.startswith("runtime: gpu-001: [2Jrail1 xxx")
    assert len(line) < 300
    many = drift.lines("system", [("gpu-001", f"/etc/{number} differs") for number in range(100)])
    assert len(many) == drift.LINES_MAX + 1
    assert many[-1] == "system: and 60 more of this kind"
