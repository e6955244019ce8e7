"""`stampworks topology`: every form of a stack's topology, as its user gets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.cli import exits, stacks
from stampworks.cli.main import main
from stampworks.cli.topology import FORMS
from stampworks.schedulers import topology
from stampworks.schedulers.topology import kubernetes, ranks, slurm

STACKS = Path(__file__).resolve().parents[2] / "stacks"


def said(capsys: pytest.CaptureFixture[str], form: str, stack: str = "local") -> str:
    assert main(["topology", str(STACKS / f"Pulumi.{stack}.yaml"), "--as", form]) == exits.FINE
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_every_form_is_of_the_stack(capsys: pytest.CaptureFixture[str]) -> None:
    """Each form parses back to the model of the plan."""
    made = topology.of_plan(stacks.plan_of("local"))
    assert topology.from_text(said(capsys, "json")) == made
    assert slurm.read_tree(said(capsys, "slurm-tree"), made.levels) == made
    assert slurm.read_tree_yaml(said(capsys, "slurm-tree-yaml"), made.levels) == made
    assert slurm.read_block(said(capsys, "slurm-block")) == slurm.read_block_yaml(said(capsys, "slurm-block-yaml"))
    assert kubernetes.read_labels(said(capsys, "labels"), made.levels)["gpu-003"] == ("leaf1-2",)
    assert kubernetes.read_kueue(said(capsys, "kueue")) == (("topology.stampworks/leaf",), ("gpu",))
    assert kubernetes.read_volcano(said(capsys, "volcano"), made.levels) == made
    nodes = ["gpu-001", "gpu-002", "gpu-003", "gpu-004"]
    assert list(ranks.read_slurm_hostfile(said(capsys, "slurm-hostfile"))) == nodes
    assert list(ranks.read_mpi_hostfile(said(capsys, "mpi-hostfile"))) == nodes
    assert list(ranks.read_rankfile(said(capsys, "rankfile"))) == nodes
    told = ranks.read_environment(said(capsys, "nccl"))
    assert (told["NCCL_SOCKET_IFNAME"], told["NCCL_CROSS_NIC"]) == ("rail0,rail1", "0")


def test_infiniband_is_not_turned_off_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rails with RDMA do not use sockets."""
    file = tmp_path / "cluster.yaml"
    file.write_text("version: 1\nname: a\ncloud: hosts\npools:\n  - {name: gpu, machine: dgx-h100, count: 4}\n")
    assert main(["topology", str(file), "--as", "nccl"]) == 0
    assert capsys.readouterr().out == "NCCL_CROSS_NIC=0\n"


def test_blocks_are_as_the_scheduler_was_declared(capsys: pytest.CaptureFixture[str]) -> None:
    """The same sizes that the cluster's own topology.conf has."""
    assert slurm.read_block(said(capsys, "slurm-block", "local-accounting")).sizes == (2,)


@pytest.mark.parametrize("form", FORMS)
def test_a_cluster_without_a_fabric(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Forms for schedulers are refused; the model and an order of ranks exist."""
    file = tmp_path / "cluster.yaml"
    file.write_text("version: 1\nname: a\ncloud: local\npools:\n  - {name: cpu, machine: sim-cpu, count: 2}\n")
    code = main(["topology", str(file), "--as", form])
    captured = capsys.readouterr()
    if form in ("json", "slurm-hostfile", "mpi-hostfile", "rankfile"):
        assert (code, captured.err) == (exits.FINE, "")
        assert "cpu-001" in captured.out
    else:
        assert (code, captured.out) == (exits.NO, "")
        assert captured.err.startswith("no node of a has a place in the network\n  hint: ")
