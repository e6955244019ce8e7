"""The pod that reads the folders of runs: it has the declared volumes, and does not keep removed ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.operations import runs
from stampworks.operations.errors import InputError, OperationError
from stampworks.operations.kubernetes import door as kubernetes_door
from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError
from stampworks.plan import Plan

DATA = {"name": "data", "kind": "efs", "tier": "regional", "mount": "/data"}
HOME = {"name": "home", "kind": "efs", "tier": "regional", "mount": "/home"}
WHERE = "--namespace=stampworks-proof"


class Pods(KubernetesApi):
    """Pods that change to the requested state at once, and run the program locally."""

    def __init__(self) -> None:
        super().__init__("k", "aws", "us-west-2")
        self.pods: dict[str, Any] = {}
        self.told: list[str] = []
        self.starts, self.now = True, 1_800_000_000.0

    def listed(self, kinds: str, *more: str, limit_s: float = 0) -> list[dict[str, Any]]:  # noqa: ARG002
        assert (kinds, more) == ("pods", (WHERE, "--selector=stampworks/door"))
        return list(self.pods.values())

    def said(self, words: Sequence[str], given: str = "", limit_s: float = 0) -> str:  # noqa: ARG002
        self.told.append(" ".join(words))
        match words:
            case ["create", *_]:
                pod = json.loads(given)
                assert "stampworks/door" in pod["metadata"]["labels"]
                self.pods[pod["metadata"]["name"]] = {**pod, "status": {"phase": "Running"}}
            case ["delete", "pods", *names, _, "--ignore-not-found", "--force", "--grace-period=0"]:
                for name in names:
                    del self.pods[name]
            case ["wait", *_] if not self.starts:
                raise RefusedError("error: timed out waiting for the condition on pods", "")
            case ["get", "events", *_]:
                return json.dumps({"items": [{"message": "no node has room"}]})
            case ["exec", *_]:
                return "{}"
        return ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Pods:
    made = Pods()
    monkeypatch.setattr(KubernetesApi, "of", lambda *_: made)
    monkeypatch.setattr("time.time", lambda: made.now)
    return made


def planned(*storage: dict[str, str], image: str = "registry.example.com/workloads:1") -> Plan:
    declared = {
        "version": 1,
        "name": "k",
        "cloud": "aws",
        "region": "us-west-2",
        "pools": [{"name": "gpu", "machine": "p5en", "count": 2, "zone": "us-west-2b"}],
        "scheduler": {"kind": "kubernetes", "workloads_image": image},
        "storage": list(storage),
    }
    return planning.plan(load_value(declared, "test"))


def opened(server: Pods, plan: Plan) -> str:
    """The name of the pod that was asked."""
    kubernetes_door.ask(plan, 0, ["true"], 10)
    return next(line.split()[1] for line in reversed(server.told) if line.startswith("exec"))


def test_one_serves_all_who_declare_the_same(server: Pods) -> None:
    """The pod uses the id of the asking user, and no other."""
    name = opened(server, planned(DATA))
    server.told.clear()
    kubernetes_door.ask(planned(DATA), 2001, ["true"], 10)
    assert server.told == [
        f"wait --for=condition=Ready pod/{name} {WHERE} --timeout=300s",
        f"exec {name} --stdin {WHERE} -- setpriv --reuid=2001 --regid=2001 --clear-groups -- true",
    ]


def test_another_image_and_other_claims_have_another_one(server: Pods) -> None:
    """The earlier pod stays, because a user with another checkout may use it."""
    plans = (planned(DATA), planned(DATA, HOME), planned(DATA, image="registry.example.com/workloads:2"))
    names = [opened(server, plan) for plan in plans]
    assert len({*names}) == 3
    assert [opened(server, plan) for plan in plans] == names
    assert not [line for line in server.told if line.startswith("delete")]


def test_reader_changes_pods_before_its_pod_ends(server: Pods) -> None:
    """A reader that follows a run for hours changes to a new pod in time; others may still use the old one."""
    names, lasts_s, begun = list[str](), 0, 0.0
    for _ in range(180):
        server.now += 60
        if (name := opened(server, planned(DATA))) not in names:
            names.append(name)
            begun = server.now
            lasts_s = server.pods[name]["spec"]["activeDeadlineSeconds"]
        assert server.now - begun < lasts_s - 60
    assert len(names) > 3
    assert not [line for line in server.told if line.startswith("delete")]


@pytest.mark.parametrize("how", [{"phase": "Failed"}, {"phase": "Succeeded"}, {}])
def test_one_that_is_over_is_replaced(server: Pods, how: dict[str, str]) -> None:
    """The pod has ended, or is being deleted on a silent node."""
    name = opened(server, planned(DATA))
    if how:
        server.pods[name]["status"] = how
    else:
        server.pods[name]["metadata"]["deletionTimestamp"] = "2026-11-25T12:00:00Z"
    server.told.clear()
    assert opened(server, planned(DATA)) == name
    assert [line.split()[0] for line in server.told] == ["delete", "create", "wait", "exec"]


def test_a_bucket_holds_no_runs() -> None:
    """A bucket is never used as a folder, whatever is declared after it."""
    bucket = {"name": "corpus", "kind": "s3", "mount": "/corpus"}
    assert runs.folder_of_all(planned(DATA, bucket)) == "/data/runs"
    with pytest.raises(InputError) as caught:
        runs.folder_of_all(planned(bucket, DATA))
    assert str(caught.value) == (
        "storage[0]: a run needs a folder in corpus, a bucket, which cannot append to files\n"
        "  hint: declare a file system before it"
    )


def test_one_that_does_not_start_is_named(server: Pods) -> None:
    server.starts = False
    with pytest.raises(OperationError) as caught:
        kubernetes_door.ask(planned(DATA), 0, ["true"], 10)
    [name] = server.pods
    assert str(caught.value) == (
        "the pod that reads runs does not start within 300 s: no node has room\n"
        f"  hint: stampworks kubectl -- describe pod {name} {WHERE}"
    )


def test_all_are_closed_before_a_claim_goes(server: Pods) -> None:
    """Pods are deleted without waiting, before the claim that they mount."""
    kubernetes_door.close(server)
    assert server.told == [
        f"delete pods {WHERE} --selector=stampworks/door --ignore-not-found --grace-period=1 --wait=false",
        "delete jobs.batch --all-namespaces --selector=stampworks/files --ignore-not-found --wait=false",
    ]
