"""A declaration with many mistakes: all of them are reported at once, without consequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning.rules.images import OF_LOCK

PlanText = Callable[[str], Plan]
Path = tuple[str | int, ...]

WRONG = """\
version: 1
name: Test
cloud: aws
region: us-east-1
network: {cidr: 10.0.0.0/99}
pools:
  - {name: gpu, machine: p5, count: 40, purchase: owned, zone: eu-west-1a}
fabric: {oversubscription: 2}
storage:
  - {name: a, kind: fsx-lustre, tier: SCRATCH_2, capacity: 1300, mount: /a}
  - {name: b, kind: fsx-lustre, tier: PERSISTENT_2 SSD, mbps_per_tib: 300, capacity: 1200, mount: /a}
  - {name: c, kind: fsx-lustr, capacity: 1200, mount: /c}
  - {name: d, kind: directory, mount: /d}
  - {name: e, kind: fsx-lustre, tier: SCRATCH_2, capacity: x, mount: /e}
users: [{name: root, uid: 2000}]
training: {model: {layers: 10, hidden: 1001, heads: 10, vocabulary: 1000}, ranks: 9}
"""

SOUND = {
    "local": """\
version: 1
name: test
cloud: local
release: "2026.11"
network: {cidr: 10.77.0.0/16}
pools:
  - {name: gpu, machine: sim-h100, count: 8, count_min: 8, purchase: owned}
  - {name: cpu, machine: sim-cpu, count: 1}
  - {name: later, machine: sim-h100, count: 64, scheduling_only: true}
fabric: {kind: simulated, rail_rate_mbps: 100, leaf_nodes: 2, oversubscription: 2}
storage:
  - {name: shared, kind: directory, mount: /shared, protect: true}
users: [{name: alice, uid: 2001, accounts: [research]}]
scheduler:
  kind: slurm
  accounting: true
  topology: tree
  preemption: requeue
  queues:
    - {name: main, pools: [gpu, cpu], default: true, priority: normal}
    - {name: future, pools: [later]}
  priorities:
    - {name: normal, weight: 100}
    - {name: urgent, weight: 900, preempts: [normal]}
  accounts: [{name: research, share: 1}]
proof: {level: burn-in, budget_minutes: 20}
roll: {max_unavailable_percent: 50, jobs: requeue}
training:
  layout: tp
  tensor_parallel: 2
  ranks: 2
  batch: 32
  tracker: {kind: mlflow, url: "http://10.0.0.5:5000"}
  checkpoints: {directory: /shared/checkpoints, keep: 2}
""",
    "aws": """\
version: 1
name: test
cloud: aws
region: us-east-1
network: {cidr: 10.0.0.0/16, services_cidr: 172.30.0.0/16}
pools:
  - {name: gpu, machine: p5, count: 40, zone: us-east-1a}
  - {name: spare, machine: p5, count: 2, purchase: block, reservation: cr-0123456789abcdef0}
fabric: {kind: efa}
storage:
  - {name: a, kind: fsx-lustre, tier: PERSISTENT_2 SSD, mbps_per_tib: 250, capacity: 4800, metadata_iops: 12000,
     features: [compression], mount: /a}
  - {name: b, kind: fsx-lustre, tier: SCRATCH_2, capacity: 2400, mount: /b}
scheduler:
  kind: kubernetes
  pods_per_node: 60
  workloads_image: registry.example/ours@sha256:0000000000000000000000000000000000000000000000000000000000000000
training:
  precision: float8
  model: {parameters: 8B, tokens: 15T, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336,
          vocabulary: 128256, sequence: 8192}
""",
    "hosts": """\
version: 1
name: test
cloud: hosts
network: {cidr: 10.0.0.0/12, pods_cidr: 10.128.0.0/9, services_cidr: 172.30.0.0/16}
pools: [{name: gpu, machine: dgx-h100, count: 512}]
fabric: {leaf_nodes: 32}
storage: [{name: a, kind: directory, mount: /a}]
scheduler: {kind: kubernetes, topology: block}
""",
}


def test_all_at_once(plan_text_of: PlanText) -> None:
    """Problems of form and of meaning are in the order of the file."""
    with pytest.raises(DeclarationError) as error:
        plan_text_of(WRONG)
    said = str(error.value)
    assert [line.split(": ", 1)[1] for line in said.splitlines() if line.startswith("cluster.yaml:")] == [
        "name: 'Test' is not a legal name",
        "network.cidr: '10.0.0.0/99' is not an IPv4 address range",
        "pools[0].purchase: aws does not sell machines as owned",
        "pools[0].zone: eu-west-1a is no zone of us-east-1, where the cluster is: the name of a zone begins with that",
        "fabric.oversubscription: aws builds the fabric, so that it cannot be chosen",
        "storage[0].capacity: capacity 1300 GiB is not valid for Amazon FSx for Lustre SCRATCH_2: allowed are "
        "1200, 2400 and more in steps of 2400",
        "storage[1].mbps_per_tib: Amazon FSx for Lustre PERSISTENT_2 SSD does not come with 300 MB/s per TiB",
        "storage[1].mount: /a is mounted twice",
        "storage[2].kind: no file system is called 'fsx-lustr'",
        "storage[3].kind: nodes on aws share no disk, on which a directory could be",
        "storage[4].capacity: must be a whole number, not 'x'",
        "users[0].name: 'root' is an account of the system",
        "training.model.heads: hidden 1001 does not divide by heads 10: 1001 = 10 x 100 + 1",
        "training.ranks: pool gpu: 9 ranks a node, and p5 has 8 accelerators",
    ]
    assert said.endswith("14 problems in cluster.yaml: nothing was changed.")


@pytest.mark.parametrize(
    ("written", "instead", "only"),
    [
        ("region: us-east-1", "regoin: us-east-1", "regoin: there is no such key"),
        ("region: us-east-1", "region: [us-east-1]", "region: must be text, not a list"),
        ("count: 40", "count: 0", "pools[0].count: must be from 1 to 4096, not 0"),
        ("machine: p5, count: 40", "machine: p55, count: 40", "pools[0].machine: no machine is called 'p55'"),
        ("cidr: 10.0.0.0/16,", "cidr: 172.30.0.0/99,", "network.cidr: '172.30.0.0/99' is not an IPv4 address range"),
    ],
)
def test_nothing_that_follows(plan_text_of: PlanText, written: str, instead: str, only: str) -> None:
    """The region would be missing, or the pool of another size: consequences are unknown until the correction."""
    assert written in SOUND["aws"]
    with pytest.raises(DeclarationError) as error:
        plan_text_of(SOUND["aws"].replace(written, instead))
    assert [f"{each.path}: {each.message}" for each in error.value.problems] == [only]


@pytest.mark.parametrize("cloud", SOUND)
def test_one_mistake_is_one_problem(cloud: str) -> None:
    """Any single invalid value gives a single problem."""
    data = yaml.safe_load(SOUND[cloud])
    planning.plan(load_value(data, "test"))
    for path in leaves(data):
        with pytest.raises(DeclarationError) as error:
            planning.plan(load_value(broken(data, path), "test"))
        assert [each.path for each in error.value.problems] == [dotted(path)]


@pytest.mark.parametrize("cloud", SOUND)
def test_one_misspelled_key_is_one_problem(cloud: str) -> None:
    """The meaning of the key is unknown, so that no default is assumed."""
    data = yaml.safe_load(SOUND[cloud])
    for path in leaves(data):
        if isinstance(path[-1], str):
            with pytest.raises(DeclarationError) as error:
                planning.plan(load_value(misspelled(data, path), "test"))
            assert [each.path for each in error.value.problems] == [f"{dotted(path)}x"]


DAY = "2026-11-23"
BLOCK = "pools[0].purchase: pool gpu uses a block of capacity, and its name is missing (purchase.block)"
UNLOCKED = (
    "region: the image of its nodes in us-east-1 is not locked, and the newest one changes by itself (image.locked)"
)


def test_rules_come_along() -> None:
    """Findings of rules appear beside planning's, at their own fields, and not for wrong values."""
    data = yaml.safe_load(SOUND["aws"])
    data["pools"][0] |= {"purchase": "block"}
    data["pools"][1] |= {"zone": "us-east-1a"}
    data["storage"][1] |= {"capacity": 1300}
    with pytest.raises(DeclarationError) as error:
        planning.judged(load_value(data, "test"), None, DAY)
    said = sorted(f"{each.path}: {each.message}" for each in error.value.problems)
    assert said[0] == BLOCK
    assert said[1] == UNLOCKED
    assert [each.rpartition(" ")[2] for each in said[2:-1]] == ["(kubernetes.locked)"]
    assert said[-1].startswith("storage[1].capacity: capacity 1300 GiB is not valid for ")
    in_order = [each.message.rpartition(" ")[2] for each in error.value.problems]
    # findings that are no mistakes come last, at any line
    assert in_order[-2:] == ["(image.locked)", "(kubernetes.locked)"]
    with pytest.raises(DeclarationError) as error:
        planning.judged(load_value(data, "test"), None, DAY, OF_LOCK)
    assert {each.path for each in error.value.problems} == {"pools[0].purchase", "storage[1].capacity"}
    data["region"] = "eu-wset-1"
    with pytest.raises(DeclarationError) as error:
        planning.judged(load_value(data, "test"), None, DAY)
    assert not [each for each in OF_LOCK if each in str(error.value)]


@pytest.mark.parametrize("cloud", SOUND)
def test_a_mistake_makes_no_rule_say_no(cloud: str) -> None:
    """With any single invalid value, other findings equal those of the valid declaration."""
    data = yaml.safe_load(SOUND[cloud])
    _, findings = planning.judged(load_value(data, "test"), None, DAY)
    refused = {each.refusal for each in findings if each.outcome == "fail"}
    for path in leaves(data):
        with pytest.raises(DeclarationError) as error:
            planning.judged(load_value(broken(data, path), "test"), None, DAY)
        others = [each.message for each in error.value.problems if each.path != dotted(path)]
        assert {*others} <= refused


def leaves(data: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of leaves, and of the lists and mappings above them."""
    if path:
        yield path
    if isinstance(data, (dict, list)):
        for step, below in data.items() if isinstance(data, dict) else enumerate(data):
            yield from leaves(below, (*path, step))


def broken(data: Any, path: Path) -> Any:
    """Return the data with a value at the path that is valid nowhere."""
    changed, inside = copied(data, path)
    inside[path[-1]] = object()
    return changed


def misspelled(data: Any, path: Path) -> Any:
    changed, inside = copied(data, path)
    inside[f"{path[-1]}x"] = inside.pop(path[-1])
    return changed


def copied(data: Any, path: Path) -> tuple[Any, Any]:
    """Return a copy of the data, and the container of the value at the path."""
    changed = inside = deepcopy(data)
    for step in path[:-1]:
        inside = inside[step]
    return changed, inside


def dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
