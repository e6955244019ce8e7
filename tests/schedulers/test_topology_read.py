"""Real Slurm reads the topologies, prints them again, and places jobs by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from stampworks.schedulers import topology
from stampworks.schedulers.topology import Topology, ranks, slurm
from stampworks.text.names import fold

pytestmark = pytest.mark.cluster

CONF = """\
ClusterName=test
SlurmctldHost=head(198.51.100.2)
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmctldParameters=idle_on_node_suspend
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/{plugin}
PrivateData=cloud
MaxNodeCount=16384
ResumeProgram=/usr/bin/true
SuspendProgram=/usr/bin/true
ProctrackType=proctrack/linuxproc
NodeName={nodes} NodeAddr=198.51.100.3 CPUs=16 State=CLOUD
PartitionName=main Nodes=ALL Default=YES State=UP SuspendTime=30
"""
Ask = Callable[[Topology, str, str, str], str]


@pytest.fixture(scope="module")
def ask(slurmctld: Callable[[Mapping[str, str], str], str]) -> Ask:
    """Return the output of commands to a slurmctld with a topology.conf, errors included."""

    def say(made: Topology, plugin: str, conf: str, commands: str) -> str:
        nodes = fold([place.node for place in made.places], ",")
        files = {
            "slurm.conf": CONF.format(plugin=plugin, nodes=nodes),
            "cgroup.conf": "CgroupPlugin=disabled\n",
            "topology.conf": conf,
        }
        complaints = "grep -E 'fatal:|error: .*(switch|block|topology)' /var/log/slurmctld.log"
        return slurmctld(files, f"{commands}\n{complaints}\ntrue")

    return say


def tiers(levels: dict[str, int], nodes: int, name: str = "gpu-{:04d}") -> Topology:
    """Return a topology with this many nodes per domain of each level."""
    return topology.of_places(
        tuple(levels),
        {
            name.format(number): tuple(f"{level}{number // size + 1}" for level, size in levels.items())
            for number in range(nodes)
        },
    )


@pytest.mark.parametrize(
    "made",
    [
        tiers({"leaf": 2}, 6),
        tiers({"unit": 256, "leaf": 32}, 2048),
        tiers({"core": 1024, "unit": 256, "leaf": 32}, 2048),
        topology.of_places(("leaf",), {"gpu-1": ("leaf1",), "gpu-2": ("leaf1",), "cpu-1": ()}),
        # names as given by a cloud: numbers of any width, without sequences
        tiers({"unit": 256, "leaf": 32}, 2048, "ip-10-0-{0}7-9{0}"),
        topology.of_places(("spine", "leaf"), {"a1": ("3e30", "RACK 1"), "a01": ("3e30", "nn-12345678901234567")}),
    ],
    ids=["one-leaf-level", "two-tiers", "three-tiers", "unplaced", "scattered", "odd-names"],
)
def test_a_tree_is_read_as_it_was_meant(ask: Ask, made: Topology) -> None:
    """Every switch has the nodes and switches that it has in the model, and no node is lost."""
    said = ask(made, "tree", slurm.tree(made), "scontrol show topology")
    assert slurm.read_tree(said, made.levels) == made


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        (tiers({"leaf": 2}, 6), (2,)),
        (tiers({"leaf": 18}, 36), (18,)),
        (tiers({"unit": 256, "leaf": 32}, 2048), (32, 256)),
        (tiers({"core": 1024, "unit": 256, "leaf": 32}, 2048), (32, 256, 1024)),
        (tiers({"core": 24, "unit": 6, "leaf": 2}, 48), (2, 24)[:1]),
    ],
    ids=["small", "nvlink", "two-sizes", "three-sizes", "no-power-of-two"],
)
def test_blocks_are_read_as_they_were_meant(ask: Ask, made: Topology, sizes: tuple[int, ...]) -> None:
    """Every block has its nodes, and blocks are joined as in an outer domain of the model."""
    assert slurm.block_sizes(made) == sizes
    said = ask(made, "block", slurm.block(made), "scontrol show topology")
    read = slurm.read_block(said)
    assert read == slurm.read_block(slurm.block(made))
    joined = {row.split("Nodes=")[1].split()[0] for row in said.splitlines() if row.startswith("AggregatedBlock")}
    outer = [made.domains(level) for level in range(len(made.levels) - len(sizes), len(made.levels) - 1)]
    assert joined >= {fold(nodes, ",") for domains in outer for nodes in domains.values()}


def test_jobs_are_placed_by_it(ask: Ask) -> None:
    """A job that requests one switch gets one, or an error if none is large enough."""
    made = tiers({"unit": 256, "leaf": 32}, 2048)
    tests = "sbatch --test-only --switches=1 --nodes={} --wrap=true || true"
    said = ask(made, "tree", slurm.tree(made), "\n".join(map(tests.format, (32, 33)))).splitlines()
    assert "on nodes gpu-[0000-0031] in partition main" in said[0]
    assert said[1] == "allocation failure: Requested node configuration is not available"


def test_slurm_lists_nodes_by_name(ask: Ask) -> None:
    """Their order in slurm.conf does not matter: if names do not follow leaves, a hostfile is needed."""
    made = topology.of_places(("leaf",), {f"gpu-{number}": (f"leaf{number % 2}",) for number in range(8)})
    said = ask(made, "tree", slurm.tree(made), "sbatch --test-only --nodes=8 --wrap=true")
    assert "on nodes gpu-[0-7] in partition main" in said
    assert ranks.order(made)[:4] == ("gpu-0", "gpu-2", "gpu-4", "gpu-6")
