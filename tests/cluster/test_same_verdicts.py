"""The same scenario on a real Slurm and a real Kubernetes, with the same nodes, racks, blocks and jobs.

The table in docs/reference/kubernetes-objects.md has the results: --regenerate writes it again.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.kubernetes import KubernetesStack, gang
from tests.cluster.stack import ROOT
from tests.playbooks.conftest import Cluster, plan_of, stamped
from tests.project import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NODES, LEAF_NODES, SPINE_LEAVES = 64, 8, 4
PAGE = ROOT / "docs" / "reference" / "kubernetes-objects.md"
FABRIC = {"leaf_nodes": LEAF_NODES, "spine_leaves": SPINE_LEAVES}
HEADER = "| a job that wants | Slurm | Kubernetes |\n| --- | --- | --- |\n"


@dataclass(frozen=True)
class Case:
    what: str
    nodes: int
    starts: int
    """Number of racks in which it starts; 0 if it does not start."""
    one_rack: bool = False
    accelerators: int = 8
    queue: str = ""
    out: tuple[int, ...] = ()
    """Nodes that are drained meanwhile, by number."""


ONE_OF_EACH = tuple(range(1, NODES + 1, LEAF_NODES))
RACK_OF_EACH = (*range(1, 9), *range(57, 65))
CASES = (
    Case("one node", 1, 1),
    Case("8 nodes, in one rack", 8, 1, one_rack=True),
    Case("8 nodes, close to each other", 8, 1),
    Case("9 nodes, in one rack of 8", 9, 0, one_rack=True),
    Case("9 nodes, close to each other", 9, 2),
    Case("16 nodes, close to each other", 16, 2),
    Case("32 nodes, close to each other", 32, 4),
    Case("24 nodes, close to each other, while a rack of each block is drained", 24, 3, out=RACK_OF_EACH),
    Case("all 64 nodes", 64, 8),
    Case("65 nodes of 64", 65, 0),
    Case("9 GPUs of a node that has 8", 1, 0, accelerators=9),
    Case("a queue that nobody has declared", 1, 0, queue="fast"),
    Case("7 nodes, in one rack, while one of each rack is drained", 7, 1, one_rack=True, out=ONE_OF_EACH),
    Case("8 nodes, in one rack, while one of each rack is drained", 8, 0, one_rack=True, out=ONE_OF_EACH),
    Case("57 nodes, while 8 of 64 are drained", 57, 0, out=ONE_OF_EACH),
    Case("8 nodes, in one rack, while the first rack is drained", 8, 1, one_rack=True, out=tuple(range(1, 9))),
)


@dataclass(frozen=True)
class Verdict:
    racks: int
    blocks: int
    words: str = ""
    """Why it does not start."""

    @property
    def cell(self) -> str:
        blocks = f"{self.blocks} blocks" if self.blocks > 1 else "one block"
        racks = f"in {self.racks} racks of {blocks}" if self.racks > 1 else "in one rack"
        return f"starts, {racks}" if self.racks else f"does not start: {self.words}"

    @classmethod
    def of(cls, nodes: list[str]) -> Verdict:
        racks = {(int(node.removeprefix("gpu-")) - 1) // LEAF_NODES for node in nodes}
        return cls(len(racks), len({rack // SPINE_LEAVES for rack in racks}))


@pytest.fixture(scope="module")
def on_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pools = [
        {"name": "own", "machine": "sim-cpu", "count": 1},
        {"name": "gpu", "machine": "sim-h100", "count": NODES, "scheduling_only": True},
    ]
    scheduler = {"topology": "tree", "drain_timeout_minutes": 1}
    plan = plan_of(f"t{uuid.uuid4().hex[:8]}", pools=pools, scheduler=scheduler, fabric=FABRIC)
    with stamped(plan, tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture(scope="module")
def on_kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    stack = KubernetesStack.of(tmp_path_factory.mktemp("kubernetes"), f"v{os.getpid()}", NODES, LEAF_NODES)
    stack.up()
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


def test_both_say_the_same(on_slurm: Cluster, on_kubernetes: KubernetesStack, pytestconfig: pytest.Config) -> None:
    rows = ""
    for case in CASES:
        slurm, kubernetes = of_slurm(on_slurm, case), of_kubernetes(on_kubernetes, case)
        racks, blocks = case.starts, -(-case.starts // SPINE_LEAVES)
        for verdict in (slurm, kubernetes):
            assert (verdict.racks, verdict.blocks) == (racks, blocks), f"{case.what}: {slurm}, {kubernetes}"
        rows += f"| {case.what} | {slurm.cell} | {kubernetes.cell} |\n"
    text = PAGE.read_text()
    before, _, after = text.partition(HEADER)
    shown = re.match(r"(?:\|.*\n)*", after)[0]  # type: ignore[index]  # matches anything
    if pytestconfig.getoption("--regenerate"):
        PAGE.write_text(before + HEADER + rows + after[len(shown) :])
    else:
        assert shown == rows


def named(numbers: tuple[int, ...]) -> list[str]:
    return [f"gpu-{number:03d}" for number in numbers]


def of_slurm(cluster: Cluster, case: Case) -> Verdict:
    """Return the nodes on which the job would start. It is not started: nothing on these nodes could run it."""
    out = ",".join(named(case.out))
    if out:
        cluster.shell("head", f"scontrol update nodename={out} state=drain reason=out")
    options = f"--nodes {case.nodes} --gres gpu:{case.accelerators} {'--switches 1' if case.one_rack else ''}"
    queue = case.queue or "scheduling-only"
    said = cluster.shell("head", f"sbatch --test-only --exclusive -p {queue} {options} --wrap hostname 2>&1 || true")
    if out:
        cluster.shell("head", f"scontrol update nodename={out} state=resume")
    found = re.search(r"on nodes (\S+)", said)
    if not found:
        return Verdict(0, 0, plain(said.splitlines()[-1].rpartition(": ")[2]))
    nodes = cluster.shell("head", f"scontrol show hostnames {found[1]}").split()
    assert len(nodes) == case.nodes
    return Verdict.of(nodes)


def of_kubernetes(stack: KubernetesStack, case: Case) -> Verdict:
    if case.out:
        stack.stampworks("drain", *named(case.out), "--reason", "out")
    job = gang("job", "research", case.nodes, queue=case.queue or "main", required=case.one_rack)
    container = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["nvidia.com/gpu"] = str(case.accelerators)
    stack.submit(job)
    wait_for(lambda: "job" in stack.gangs() and stack.gangs()["job"]["why"] != "not judged yet", 60)
    found = stack.gangs()["job"]
    stack.clear()
    if case.out:
        stack.stampworks("return", *named(case.out))
    if found["state"] == "waiting":
        return Verdict(0, 0, plain(found["why"].replace(stack.cluster, "CLUSTER")))
    assert len(found["nodes"]) == case.nodes
    return Verdict.of(found["nodes"])


def plain(said: str) -> str:
    """Return text for a cell of a table."""
    return said.replace("|", "/").strip().rstrip(".")
