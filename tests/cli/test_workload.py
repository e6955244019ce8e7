"""`stampworks lint` says where in the file a workload does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: mine, namespace: research, labels: {kueue.x-k8s.io/queue-name: fast}}
spec:
  template:
    spec:
      containers:
        - name: main
          resources:
            limits: {nvidia.com/gpu: 16}
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return file


def lint(file: Path, *more: str) -> int:
    return main(["lint", str(file), "-s", "local-k8s", *more])


def test_each_finding_has_its_line_and_what_to_do(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(file) == exits.NO
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:3:54: error workload.queue: metadata.labels.kueue.x-k8s.io/queue-name: no queue is called 'fast'",
        "  hint: there are main, gpu",
        f"{file}:9:11: error workload.size: spec.template.spec.containers[0].resources: 16 of nvidia.com/gpu, and no "
        "node that it may be on has more than 8",
        "  hint: ask for 8 at most, and for more pods",
        "2 errors, 0 warnings",
    ]


def test_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(file, "--json") == exits.NO
    found = json.loads(capsys.readouterr().out)["remarks"]
    assert [(one["id"], one["line"], one["column"]) for one in found] == [
        ("workload.queue", 3, 54),
        ("workload.size", 9, 11),
    ]


def test_lists_and_several_documents_are_looked_at_one_by_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists as kubectl prints them and files with several documents are supported."""
    indented = "".join(f"    {line}\n" for line in JOB.splitlines())
    file.write_text(f"# nothing\n---\nkind: List\nitems:\n  -\n{indented}---\n{JOB}---\nkind: ConfigMap\n")
    assert lint(file) == exits.NO
    places = [line.split(":")[1] for line in capsys.readouterr().out.splitlines() if " error " in line]
    assert places == ["8", "14", "20", "26"]


def test_fitting_workloads_pass(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fits = JOB.replace("fast", "main").replace("16", "8")
    file.write_text(fits.replace("labels: {", "labels: {kueue.x-k8s.io/priority-class: normal, "))
    assert lint(file) == exits.FINE
    assert capsys.readouterr().out == "0 errors, 0 warnings\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "FILE:1:5 is not YAML\n  hint: kubectl would refuse it, too\n"),
        (
            "a: &one [1]\nb: *one\n",
            "FILE:2:4: an alias, which is not read here\n  hint: write its value out\n",
        ),
    ],
)
def test_unreadable_manifests(file: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    file.write_text(text)
    assert lint(file) == exits.WRONG_INPUT
    assert capsys.readouterr().err == said.replace("FILE", str(file))


def test_slurm_has_other_workloads(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(file), "-s", "local"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "the scheduler of cluster local is Slurm, and this command checks workloads of Kubernetes\n"
        "  hint: choose another stack: -s STACK\n"
    )
