"""Readers of text from nodes or users of Slurm and Kubernetes give an answer or refuse, within a time limit."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.cli.status import text
from stampworks.operations import UnknownError, remote
from stampworks.operations.job import Job
from stampworks.operations.kubernetes import status as kubernetes_status
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.operations.kubernetes.jobs import KubernetesJobs
from stampworks.operations.slurm import client as slurm
from stampworks.plan import Member, Roster

from tests.operations.kubernetes.standin import gang
from tests.operations.kubernetes.test_jobs import run
from tests.operations.kubernetes.test_nodes import on_eks, watched
from tests.operations.kubernetes.test_status import planned, queue

relaxed = settings(deadline=None, derandomize=True, max_examples=50)
much = settings(deadline=None, max_examples=20_000)

ROSTER = Roster("c", "local", (), "root", "/key", (Member("head", "head", "1", "10.0.0.1", (), "ssh-ed25519 AAAA"),))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(["name", "state", "reason", "gres", "gres_used", "job_id", "user_name", "nodes", "comment"])
ITEMS = st.lists(st.dictionaries(KEYS, VALUES | st.sampled_from(["gpu-[001-003]", "gpu:h100:8(S:0-1)", 7]), max_size=8))
HOSTLISTS = st.text("ag-,[]0123456789 ", max_size=40)


def answered(answer: str) -> None:
    """The two questions, of a head that gives this answer to both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "ask", lambda *_, **__: answer)
        for ask in (slurm.nodes, slurm.jobs):
            with contextlib.suppress(UnknownError):
                ask(ROSTER)


@relaxed
@given(ITEMS)
def test_any_items(items: list[object]) -> None:
    """Nodes and jobs of any kind."""
    answered(json.dumps({"nodes": items, "jobs": items}))


@pytest.mark.long
@much
@given(ITEMS | VALUES)
def test_any_items_at_length(items: object) -> None:
    """Long lists of arbitrary objects parse without an error."""
    answered(json.dumps({"nodes": items, "jobs": items}))


@relaxed
@given(st.text(max_size=200) | VALUES.map(json.dumps))
def test_any_answer(answer: str) -> None:
    """Text that is no JSON, or other JSON than Slurm's."""
    answered(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 200_000,
        '{"nodes":' * 100_000,
        '{"nodes": [{"name": ' + "9" * 10_000 + "}]}",
        '{"nodes": NaN}',
        "\x00",
        "null",
    ],
    ids=["deep", "deeper", "huge", "nan", "null-byte", "null"],
)
def test_answers_that_parsers_choke_on(answer: str) -> None:
    """Deeper and larger than a parser likes."""
    answered(answer)


@relaxed
@given(HOSTLISTS)
def test_any_hostlist(text: str) -> None:
    """Every list of hosts has few names, or is refused."""
    with contextlib.suppress(UnknownError):
        assert len(slurm.expand(text)) <= 65536


@pytest.mark.parametrize(
    "text",
    [
        "a" + "[0-9]" * 12,
        "a" + "[0-99999]" * 4,
        "a[0-" + "9" * 5000 + "]",
        "a[" + "1," * 100_000 + "1]",
        "[" * 50_000,
        "a[0-9" * 20_000,
        ",".join(["a[0-9]" * 3000]),
        "a[" + "0" * 100_000 + "1-2]",
    ],
    ids=["product", "large-product", "long-number", "many", "open", "open-ranges", "deep", "zeros"],
)
def test_hostlists_that_would_never_end(text: str) -> None:
    """A list of billions of names, or with endless nesting, takes time in proportion to its length."""
    began = time.process_time()
    with contextlib.suppress(UnknownError):
        slurm.expand(text)
    assert time.process_time() - began < 60, "minutes or for ever, not seconds"


def test_jobs_that_hold_too_much() -> None:
    """Many short lists of many nodes each are refused before they fill the memory."""
    job = {"job_id": 1, "user_name": "a", "nodes": "a[0-65535]"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "ask", lambda *_, **__: json.dumps({"jobs": [job] * 1000}))
        patch.setattr(slurm, "_NAMES_MAX", 200_000)
        with pytest.raises(UnknownError, match="jobs that hold more than 200000 nodes"):
            slurm.jobs(ROSTER)


@relaxed
@given(st.text("gpu:h10(),;-S", max_size=60))
def test_any_gres(text: str) -> None:
    """A number of GPUs, or not known."""
    found = slurm.gpus(text)
    assert found is None or found >= 0


@pytest.mark.parametrize("text", ["(" * 1_000_000, "gpu:" + "9" * 5000, "gpu:h100:" + "9" * 5000])
def test_gres_that_would_never_end(text: str) -> None:
    """Such values are unknown, and are rejected at once."""
    assert slurm.gpus(text) in (None, 0)


PLANS = (planned(), on_eks())
WHOLE = [
    watched("gpu-001", taints=["stampworks/unproven"]),
    watched("gpu-002", out=True, held="person bob: cable"),
    queue(PLANS[0], "research", "1k"),
    gang("first", "gpu-001"),
    run("first", replicatedJobs=[{"replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2}}}]),
    run("theirs", ownerReferences=[{"apiVersion": "trainer.kubeflow.org/v1", "kind": "TrainJob", "name": "theirs"}]),
    {
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "research", "labels": {"jobset.sigs.k8s.io/jobset-name": "first"}},
        "status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]},
    },
]
"""At least one correct object of each kind."""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return all parts of an object, each with its parent and key."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """Remove some parts of an object, and replace others with any value."""
    made = {"items": copy.deepcopy(WHOLE)}
    for _ in range(draw(st.integers(1, 4))):
        there = list(places(made))
        if there:
            inside, key = there[draw(st.integers(0, len(there) - 1))]
            if draw(st.booleans()):
                del inside[key]
            else:
                inside[key] = draw(VALUES)
    return made


def kubernetes_answered(answer: str) -> None:
    """Run `status`, `jobs` and `cancel` against a server that gives this answer to every request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KubernetesApi, "said", lambda *_, **__: answer)
        for plan in PLANS:
            scheduler = KubernetesJobs(plan, ROSTER)
            with contextlib.suppress(UnknownError):
                text(kubernetes_status.status(plan))
            with contextlib.suppress(UnknownError):
                scheduler.jobs()
            for name in ("first", "theirs"):
                with contextlib.suppress(UnknownError):
                    scheduler.cancel(Job(name, "training", "running", f"research/{name}", "root", (), 1, None, ""))


@relaxed
@given(spoilt())
def test_any_objects(items: Any) -> None:
    """Nodes, queues, gangs and runs with anything in them."""
    kubernetes_answered(json.dumps(items))


@pytest.mark.long
@much
@given(spoilt())
def test_any_objects_at_length(items: Any) -> None:
    """Parse long lists of arbitrary Kubernetes objects."""
    kubernetes_answered(json.dumps(items))


@relaxed
@given(st.text(max_size=200) | VALUES.map(json.dumps) | VALUES.map(lambda items: json.dumps({"items": items})))
def test_any_answer_of_kubectl(answer: str) -> None:
    """Text that is no JSON, or no list of objects."""
    kubernetes_answered(answer)


def test_whole_objects_are_read() -> None:
    """Correct objects are read, so that the test of damaged ones is meaningful."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KubernetesApi, "said", lambda *_, **__: json.dumps({"items": WHOLE}))
        found = kubernetes_status.status(PLANS[0])
        assert ([each.used for each in found.teams], [each.name for each in found.gangs]) == ([1000, 0], ["first"])
        assert [(each.name, each.state, each.wanted) for each in KubernetesJobs(PLANS[0], ROSTER).jobs()] == [
            ("first", "finished", 2),
            ("theirs", "waiting", 0),
        ]
