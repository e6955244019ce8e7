"""Job files against a plan: every problem at its line, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.jobs import JobError, read_job, resolve
from stampworks.jobs.checks import problems
from stampworks.plan import Plan


def said(plan: Plan, folder: Path, text: str, user: str = "alice") -> str:
    """Return the text of all problems of a job file; empty if it has none."""
    file = folder / "job.yaml"
    file.write_text(text)
    source = read_job(file, {})
    found = [*source.problems, *problems(source, plan, user)]
    return str(JobError(found)) if found else ""


def test_all_at_once(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems of the form hide none against the plan."""
    monkeypatch.chdir(tmp_path)
    text = "nodez: 2\nqueue: mian\naccount: product\nenv: {A: 1}\nrun: true\nmounts: [data]\n"
    assert said(plan, tmp_path, text) == (
        "job.yaml:1:1: nodez: there is no such key\n"
        "    nodez: 2\n"
        "    ^\n"
        "  hint: did you mean 'nodes'?\n\n"
        "job.yaml:2:8: queue: cluster local has no queue 'mian'\n"
        "    queue: mian\n"
        "           ^\n"
        "  hint: did you mean 'main'?\n\n"
        "job.yaml:3:10: account: alice may not use account product\n"
        "    account: product\n"
        "             ^\n"
        "  hint: alice may use research\n\n"
        "job.yaml:4:10: env.A: must be text, not 1\n"
        "    env: {A: 1}\n"
        "             ^\n"
        '  hint: write it in quotes: "1"\n\n'
        "job.yaml:5:6: run: must be text, not true\n"
        "    run: true\n"
        "         ^\n"
        '  hint: write it in quotes: "true"\n\n'
        "job.yaml:6:10: mounts[0]: cluster local has no storage 'data'\n"
        "    mounts: [data]\n"
        "             ^\n"
        "  hint: there is only shared\n\n"
        "6 problems in job.yaml: nothing was changed."
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nodes: 5", "nodes: queue main has 4 nodes, not 5"),
        ("nodes: 0", "nodes: must be from 1 to 16384, not 0"),
        ("gpus_per_node: 9", "gpus_per_node: a node of queue main has 8 accelerators, not 9"),
        ("pool: cpu\nqueue: main", "pool: pool cpu is not in queue main, which has gpu"),
        ("pool: gpus", "pool: cluster local has no pool 'gpus'"),
        ("time_limit: 2h", "time_limit: 2h is more than the 60 minutes of queue main"),
        ("time_limit: 90", "time_limit: must be text, not 90"),
        ("time_limit: 90x", "time_limit: '90x' is not a time"),
        ("time_limit: 1m\ncheckpoint: {}", "checkpoint.grace: 60s leaves no time of the 60 s that the job has"),
        ("env: {NODE_RANK: '1'}", "env.NODE_RANK: NODE_RANK is set by the cluster"),
        ("env: {1A: '1'}", "'1A' is not the name of a variable"),
        ("secrets: [{name: A}, {name: A}]", "secrets[1].name: A is set twice"),
        ("checkpoint: {path: /tmp/x}", "checkpoint.path: /tmp/x is on no storage that all nodes see"),
        ("checkpoint: {signal: KILL}", "checkpoint.signal: must be TERM, INT, HUP, USR1 or USR2, not 'KILL'"),
        ("image: nvcr.io/nvidia/pytorch", "image: nodes of this cluster have no container engine that fetches images"),
        ("image: /shared/a.sqsh", "image: nodes of this cluster have no program that mounts a squashfs"),
        ("array: 4-2", "array: '4-2' has 0 tasks"),
        ("array: 0-2000", "array: '0-2000' has 2001 tasks"),
        ("name: A_b", "name: 'A_b' is not a legal name of a job"),
        ("run: ''", "run: is empty"),
        ("run: &a x", "run: 'run' is written twice"),
    ],
)
def test_one_problem(plan: Plan, tmp_path: Path, line: str, message: str) -> None:
    run = "" if line == "run: ''" else "run: x\n"
    found = said(plan, tmp_path, f"{run}{line}\n")
    assert message in found
    assert "  hint: " in found


def test_an_image_that_is_unpacked_needs_no_program(plan: Plan, tmp_path: Path) -> None:
    """Slurm itself starts a job from a folder on shared storage."""
    file = tmp_path / "job.yaml"
    file.write_text("run: x\nimage: /shared/images/mine\n")
    assert not problems(read_job(file, {}), plan, "alice")


def test_defaults_of_a_job(plan: Plan, tmp_path: Path) -> None:
    """Defaults are one whole node of the default queue, and the name of the file."""
    file = tmp_path / "Train Llama.yaml"
    file.write_text("run: hostname\n")
    source = read_job(file, {})
    assert not problems(source, plan, "alice")
    job = resolve(source, plan, "alice", "/shared/runs")
    assert (job.name, job.file.nodes, job.gpus, job.whole_nodes, job.queue.name) == ("train-llama", 1, 8, True, "main")
    assert job.folder == "/shared/runs/train-llama.alice"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a job file must be a mapping"),
        ("- a\n", "a job file must be a mapping"),
        ("a: [1\nb: 2\n", "is never closed"),
    ],
)
def test_no_job(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(JobError) as caught:
        read_job(file, {})
    assert message in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("run: x\n")
    with pytest.raises(JobError) as caught:
        read_job(tmp_path / "trian.yaml", {})
    assert "trian.yaml: does not exist\n  hint: did you mean 'train.yaml'?" in str(caught.value)
