"""Teams and queues of a Kubernetes cannot be removed while gangs use them. See tests/cluster for a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from stampworks.operations import BusyError
from stampworks.operations.errors import UnknownError
from stampworks.operations.kubernetes import client as kubernetes
from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError
from stampworks.operations.kubernetes.queues import in_what_goes, keep
from stampworks.provider.handler import Call
from stampworks.provider.handlers import kubernetes_server
from stampworks.provider.handlers.kubernetes_queues import KubernetesQueues

from tests.operations.kubernetes.standin import StandIn

MAIN = {"main": "k-research-main", "default": "k-research-main"}
BOTH = {"research": MAIN, "product": {"main": "k-product-main"}}


def cohort(team: str, cluster: str = "k") -> Any:
    return {"kind": "Cohort", "metadata": {"name": f"{cluster}-{team}"}, "spec": {"parentName": cluster}}


def gang(name: str, team: str = "research", queue: str = "main", led: str = "main", **said: bool) -> Any:
    """Return an admitted gang."""
    return {
        "kind": "Workload",
        "metadata": {"name": f"jobset-{name}-1", "namespace": team, "ownerReferences": [{"name": name}]},
        "spec": {"queueName": queue},
        "status": {
            "conditions": [{"type": kind, "status": str(value)} for kind, value in said.items()],
            "admission": {"clusterQueue": f"k-{team}-{led}"},
        },
    }


@pytest.fixture
def server() -> StandIn:
    found = StandIn()
    found.others = [
        *(cohort("research"), cohort("product"), cohort("theirs", "k2"), cohort("k2-more", "k")),
        gang("a", Admitted=True),
        gang("b"),
        gang("c", queue="default", Admitted=True),
        gang("d", Admitted=True, Finished=True),
        gang("e", "product", Admitted=True),
        gang("f", "theirs", Admitted=True),
    ]
    return found


def test_unchanged_queues_block_nothing(server: StandIn) -> None:
    keep(server, BOTH)


@pytest.mark.parametrize(
    ("queues", "found"),
    [
        ({"research": MAIN}, ["run product/e: is at work, and its team product goes with its namespace"]),
        (
            {**BOTH, "research": {"train": "k-research-main", "default": "k-research-main"}},
            ["run research/a: is at work, and its queue main goes", "run research/b: waits, and its queue main goes"],
        ),
        (
            {**BOTH, "research": dict.fromkeys(MAIN, "k-research-train")},
            [
                "run research/a: is at work, and what queue main led to goes",
                "run research/c: is at work, and what queue default led to goes",
            ],
        ),
    ],
    ids=["a team", "a queue", "what queues lead to"],
)
def test_gangs_in_removed_queues_are_named(server: StandIn, queues: Any, found: list[str]) -> None:
    """A gang that has ended, or is of another cluster in the same Kubernetes, is none of them."""
    assert in_what_goes(server, queues) == found


def test_nothing_goes_while_gangs_are_in_it(server: StandIn) -> None:
    """The message has their number, and some of them."""
    server.others += [gang(f"g{number:02}", "product") for number in range(11)]
    with pytest.raises(BusyError) as caught:
        keep(server, {"research": MAIN})
    first, *lines, last, hint = str(caught.value).splitlines()
    assert first == "gangs are in a team or a queue that is to be removed: nothing was removed"
    assert lines[0] == "  run product/e: is at work, and its team product goes with its namespace"
    assert len(lines) == 10
    assert last == "  ... (12 in all)"
    assert hint == (
        "  hint: wait for them, or cancel them (stampworks cancel RUN, or stampworks kubectl -- delete jobset NAME "
        "--namespace TEAM); then pulumi up"
    )


def test_before_there_is_a_kueue_nothing_can_go(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other refusal is none to pass over."""

    def refuses(what: str) -> None:
        def listed(*_: str, **__: Any) -> Any:
            raise RefusedError(f"the Kubernetes of cluster k refused: {what}", "stampworks status")

        monkeypatch.setattr(server, "listed", listed)

    refuses('error: the server doesn\'t have a resource type "cohorts"')
    keep(server, {})
    refuses("Error from server (Forbidden): cohorts.kueue.x-k8s.io is forbidden")
    with pytest.raises(RefusedError, match="Forbidden"):
        keep(server, {})


def call(queues: Any) -> Call:
    return Call("urn", "local/k", {"cluster": "k", "cloud": "local", "region": "", "queues": queues})


def test_an_up_refuses_and_a_look_says_it(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """An `up` that failed after its approval has removed nothing: the next one checks again."""
    monkeypatch.setattr(kubernetes_server, "KubernetesApi", lambda *_: server)
    assert asyncio.run(KubernetesQueues().ensure(call(BOTH))) == {"drift": []}
    with pytest.raises(BusyError, match="run product/e"):
        asyncio.run(KubernetesQueues().ensure(call({"research": MAIN})))
    found = asyncio.run(KubernetesQueues().read(call({"research": MAIN})))
    assert found == {"drift": ["cloud: run product/e: is at work, and its team product goes with its namespace"]}
    assert KubernetesQueues().drift(found) == found


def test_unreachable_server_skips_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be reachable from the cluster's network only; an `up` that needs it fails."""

    def listed(*_: str, **__: Any) -> Any:
        raise UnknownError("the Kubernetes of cluster k does not answer", "pulumi up repairs it")

    monkeypatch.setattr(KubernetesApi, "listed", listed)
    said: list[str] = []
    look = call(BOTH)
    look.say = said.append
    assert asyncio.run(KubernetesQueues().read(look)) == {"drift": []}
    assert said == ["its gangs cannot be listed: the Kubernetes of cluster k does not answer"]
    with pytest.raises(UnknownError):
        asyncio.run(KubernetesQueues().ensure(look))


def test_a_server_that_is_new_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cloud reports it before it answers. Later requests do not wait."""
    monkeypatch.setattr(kubernetes, "reach", lambda *_: ("kubectl",))
    now, answers_at, said = [0.0], 12.0, list[str]()

    def asked(_: KubernetesApi, words: Sequence[str], **__: Any) -> str:
        assert words[1] == "--raw=/readyz"
        if now[0] < answers_at:
            raise UnknownError("the Kubernetes of cluster k does not answer", "wait")
        return "ok"

    monkeypatch.setattr(KubernetesApi, "said", asked)
    monkeypatch.setattr("stampworks.operations.kubernetes.client.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        "stampworks.operations.kubernetes.client.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    KubernetesApi("k", "local", "").awaited(said.append)
    assert said == ["waiting: the Kubernetes of cluster k does not answer"] * 3
    answers_at = 10_000.0
    with pytest.raises(UnknownError, match="does not answer"):
        KubernetesApi("k", "local", "").awaited(said.append)
    assert 300 < now[0] < 400


def test_a_server_that_is_not_heard_fails_nothing(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources without requests are created, such as nodes that lead to the server; the next request gives the
    reason."""

    def awaited(_: Any) -> None:
        raise UnknownError("the Kubernetes of cluster k does not answer", "ask from elsewhere")

    monkeypatch.setattr(server, "awaited", awaited)
    monkeypatch.setattr(kubernetes_server, "KubernetesApi", lambda *_: server)
    said: list[str] = []
    of = {"cluster": "k", "cloud": "local", "region": "", "server": "one"}
    assert asyncio.run(kubernetes_server.KubernetesServer().ensure(Call("urn", "", of, say=said.append))) == {}
    assert said == ["the Kubernetes of cluster k does not answer"]
