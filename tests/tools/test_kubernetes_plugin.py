"""Cluster of a provider, as both plugins for Kubernetes see it: the stand-in, and Pulumi's own."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator

import grpc
import pytest
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.protocol import provider_pb2_grpc
from stampworks.wire.values import UNKNOWN, encode

from tests.cluster.kubernetes import OWN, STAND_IN

IDENTIFIER = "clusterIdentifier"
URN = "urn:pulumi:test::test::pulumi:providers:kubernetes::test"
NOBODY = "127.0.0.1:1"
"""An address at which no engine listens and none is asked."""


@pytest.fixture(
    scope="module", params=[STAND_IN, pytest.param(OWN, marks=pytest.mark.long)], ids=["stand-in", "pulumi"]
)
def plugin(request: pytest.FixtureRequest) -> Iterator[provider_pb2_grpc.ResourceProviderStub]:
    argv = [str(request.param / "pulumi-resource-kubernetes"), NOBODY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
            yield provider_pb2_grpc.ResourceProviderStub(channel)
        process.terminate()


def config(port: int, authority: str) -> str:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "admin", "user": {}}],
            "contexts": [{"name": "admin", "context": {"cluster": "cluster", "user": "admin"}}],
            "current-context": "admin",
        }
    )


BEFORE, RENEWED, MOVED = config(6443, "first"), config(6443, "second"), config(7443, "first")


@pytest.mark.parametrize(
    ("before", "after", "replaced"),
    [
        ({IDENTIFIER: "a", "kubeconfig": BEFORE}, {IDENTIFIER: "a", "kubeconfig": RENEWED}, []),
        ({IDENTIFIER: "a", "kubeconfig": BEFORE}, {IDENTIFIER: "a", "kubeconfig": MOVED}, []),
        ({IDENTIFIER: "a", "kubeconfig": BEFORE}, {IDENTIFIER: "a", "kubeconfig": UNKNOWN}, []),
        ({"kubeconfig": BEFORE}, {IDENTIFIER: "a", "kubeconfig": BEFORE}, []),
        ({"kubeconfig": BEFORE}, {IDENTIFIER: UNKNOWN, "kubeconfig": BEFORE}, []),
        ({IDENTIFIER: "a", "kubeconfig": BEFORE}, {IDENTIFIER: "b", "kubeconfig": RENEWED}, [IDENTIFIER]),
        ({IDENTIFIER: "a", "kubeconfig": BEFORE}, {IDENTIFIER: UNKNOWN, "kubeconfig": UNKNOWN}, [IDENTIFIER]),
    ],
    ids=["renewed", "moved", "not known yet", "of earlier", "of earlier, and not known yet", "another", "made anew"],
)
def test_a_cluster_stays_itself_as_long_as_its_identifier_does(
    plugin: provider_pb2_grpc.ResourceProviderStub, before: dict[str, str], after: dict[str, str], replaced: list[str]
) -> None:
    """Another authority or port replaces no object; another cluster replaces all."""
    old = encode(before)
    told = plugin.DiffConfig(pb.DiffRequest(urn=URN, olds=old, old_inputs=old, news=encode(after)))
    assert told.changes == pb.DiffResponse.DIFF_SOME
    assert [each for each in told.replaces if each == IDENTIFIER] == replaced
    assert bool(told.replaces) == bool(replaced)
