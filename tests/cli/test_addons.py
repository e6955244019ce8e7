"""`stampworks addons`: the installer of each add-on, and the data for a manual installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main
from stampworks.declaration import load_file
from stampworks.planning import plan
from stampworks.schedulers import addons

DECLARATION = """\
version: 1
name: test
cloud: azure
region: eastus
pools: [{name: gpu, machine: ND96isr_H100_v5, count: 2}]
scheduler: {kind: kubernetes, addons: {installer: none, mpi_operator: true}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(DECLARATION)
    return file


def said(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> str:
    assert main(["addons", str(file), *options]) == exits.FINE
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_manual_add_ons_are_listed_with_their_command(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Add-ons are listed in the order of their dependencies, each at the version of the release."""
    table, _, by_hand = said(capsys, file).partition("To install by hand")
    assert table.startswith("Add-ons\n")
    commands = [line.strip() for line in by_hand.splitlines()[1:]]
    assert commands[1] == (
        "helm upgrade --install gpu-operator gpu-operator --repo https://helm.ngc.nvidia.com/nvidia --version v26.3.3 "
        "--namespace gpu-operator --create-namespace --values -"
    )
    assert [each.split()[3] for each in commands if each.startswith("helm")] == [
        *("node-feature-discovery", "gpu-operator", "network-operator", "kueue", "jobset", "metrics-server")
    ]
    assert [each for each in commands if not each.startswith("helm")] == [
        "kubectl apply --server-side -f "
        "https://raw.githubusercontent.com/kubeflow/mpi-operator/v0.8.0/deploy/v2beta1/mpi-operator.yaml"
    ]
    file.write_text(DECLARATION.replace("installer: none, mpi_operator: true", ""))
    assert "To install by hand" not in said(capsys, file)


def test_values_and_objects_are_those_of_the_plan(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = plan(load_file(file))
    for one in made.scheduler.addons:
        if one.chart:
            assert json.loads(said(capsys, file, "--values", one.name)) == addons.values(made, one)
    beside = [each for one in made.scheduler.addons for each in addons.objects(one)]
    assert json.loads(said(capsys, file, "--objects"))["items"] == beside != []


@pytest.mark.parametrize(
    ("edit", "options", "text"),
    [
        (("", ""), ("--values", "nothing"), "cluster test has no add-on nothing\n  hint: these are: node-feature-"),
        (("", ""), ("--values", "mpi-operator"), "mpi-operator has no published chart, and so no values"),
        (("kind: kubernetes, addons: {installer: none, mpi_operator: true}", "kind: slurm"), (), "has no add-ons"),
    ],
)
def test_refuses_requests_without_an_answer(
    edit: tuple[str, str], options: tuple[str, ...], text: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace(*edit))
    assert main(["addons", str(file), *options]) == exits.WRONG_INPUT
    assert text in capsys.readouterr().err
