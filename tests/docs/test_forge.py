"""Files of a forge, checked without one: workflows, templates, hooks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT
from tools.areas import AREAS

FORGE = ROOT / ".github"
WORKFLOWS = {file.stem: file for file in sorted((FORGE / "workflows").iterdir())}
ACTIONS = {"actions/checkout@v4", "actions/upload-artifact@v4"}
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WRITES = {("comment", "comment", "pull-requests")}
"""The only right to change something: workflow, job, scope."""


def workflow(name: str) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(WORKFLOWS[name].read_text())
    content["on"] = content.pop(True, content.get("on"))  # YAML 1.1 reads the key `on` as true
    return content


def steps(content: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in content["jobs"].values() for step in job["steps"]]


def unsafe(script: str) -> list[str]:
    """Return the expressions in a script: a forge pastes them into it as text, which can end a command."""
    return re.findall(r"\$\{\{.*?\}\}", script)


def unknown_programs(script: str) -> list[str]:
    """Return missing make targets and files of the repository that a script calls."""
    lines = re.findall(r"(?:^|[;&|]) *make ([^|&;\n]+)", script, re.MULTILINE)
    called = {word for line in lines for word in shlex.split(line) if "=" not in word}
    files = set(re.findall(r"(?<![\w/.-])((?:\.ci|tools)/[\w./-]+)", script))
    modules = {f"{name.replace('.', '/')}/__main__.py" for name in re.findall(r"python3 -m (tools[\w.]+)", script)}
    return sorted((called - TARGETS) | {name for name in files | modules if not (ROOT / name).exists()})


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_least_rights(name: str) -> None:
    """Rights are set for the whole workflow; only the commenting job may write."""
    content = workflow(name)
    assert content["permissions"] in ({}, {"contents": "read"})
    for job_name, job in content["jobs"].items():
        for scope, right in job.get("permissions", {}).items():
            assert right == "read" or (name, job_name, scope) in WRITES
        assert 0 < job["timeout-minutes"] <= 360
    assert "secrets" not in WORKFLOWS[name].read_text()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_no_text_of_others(name: str) -> None:
    """Text of a pull request reaches scripts in variables only, and its head is never checked out with rights."""
    content = workflow(name)
    events = [content["on"]] if isinstance(content["on"], str) else list(content["on"])
    assert set(events) <= {"push", "pull_request", "schedule", "workflow_dispatch", "workflow_run"}
    for step in steps(content):
        assert unsafe(step.get("run", "")) == []
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
            assert "head" not in str(step["with"].get("ref", ""))
        assert step.get("uses", "actions/checkout@v4") in ACTIONS


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_calls_what_exists(name: str) -> None:
    """Make targets, scripts and set-up modules are those of this repository."""
    assert [missing for step in steps(workflow(name)) for missing in unknown_programs(step.get("run", ""))] == []


def test_faults_of_a_workflow_are_found() -> None:
    assert unsafe('echo "${{ github.event.pull_request.title }}"') == ["${{ github.event.pull_request.title }}"]
    assert unknown_programs("make tset AREA=x\n. tools/none.sh && bash .ci/none.sh; python3 -m tools.none") == [
        ".ci/none.sh",
        "tools/none.sh",
        "tools/none/__main__.py",
        "tset",
    ]


def test_each_loop_has_its_workflow() -> None:
    """Check on each push, test on each pull request, every long area each night."""
    runs = {name: [step["run"] for step in steps(workflow(name)) if "run" in step] for name in WORKFLOWS}
    assert (workflow("check")["on"], runs["check"][-1]) == ("push", "make check")
    assert (workflow("test")["on"], runs["test"][-1]) == ("pull_request", ".ci/run")
    long = workflow("long")
    assert long["on"]["schedule"]
    assert long["jobs"]["long"]["strategy"]["matrix"]["area"] == list(AREAS)
    assert steps(long)[-1] == {"run": 'make test-long AREA="$AREA"', "env": {"AREA": "${{ matrix.area }}"}}


def test_reviews_follow_their_page() -> None:
    """The script is the page's, and the commenting job is separate from the reviewing one."""
    [script] = re.findall(
        r"## The script.*?```sh\n(.*?)```", (DOCS / "how-to" / "review-in-ci.md").read_text(), re.DOTALL
    )
    assert (ROOT / ".ci" / "review.sh").read_text().endswith(script)
    jobs = workflow("comment")["jobs"]
    assert "write" not in jobs["review"]["permissions"].values()
    assert not any("uses" in step or "tools" in step["run"] for step in jobs["comment"]["steps"])


def test_hooks_are_the_checks_of_lint() -> None:
    """Local hooks run in the project's environment with the commands of tools/lint; another hook checks commit
    subjects."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert all(hook["language"] == "system" for hook in hooks)
    [subject] = [hook for hook in hooks if hook.get("stages") == ["commit-msg"]]
    assert subject["entry"] == ".venv/bin/python -m tools.words --subject"
    hooks.remove(subject)
    assert all(hook["pass_filenames"] is False for hook in hooks)
    checks = re.findall(r"^check (.+)$", (ROOT / "tools" / "lint").read_text(), re.MULTILINE)
    assert [hook["name"] for hook in hooks] == checks
    for hook in hooks:
        words = shlex.split(hook["entry"])
        command = words[-1].partition("exec ")[2].split() if words[0] == "sh" else words
        assert " ".join([Path(command[0]).name, *command[1:]]) == hook["name"]


@pytest.mark.parametrize("form", sorted((FORGE / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda form: form.stem)
def test_an_issue_form_is_complete(form: Path) -> None:
    content = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert content == {"blank_issues_enabled": True}
        return
    assert content["name"]
    assert content["description"]
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields) > 0
