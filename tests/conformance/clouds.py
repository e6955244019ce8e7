"""Clouds of the registry, as the conformance suite meets them: an entry for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clouds.aws import conforming as aws
from tests.clouds.hosts import conforming as hosts
from tests.clouds.local import conforming as local
from tests.cluster.stack import Stack
from tests.rehearsed import Rehearsed


@dataclass(frozen=True)
class Conforming:
    """One cloud: stacks that are rehearsed, what only it can tell of their resources, and a running cluster."""

    stacks: tuple[str, ...]
    """Stacks of this repository: the first is rehearsed in every run, the others in the long campaign. The scenario of
    each (tests/clouds/CLOUD/changes/STACK.yaml) changes a count; the first protects something, and one has a crash."""
    takes_tags: Callable[[str], bool]
    """Whether resources of a type can have tags or labels."""
    public: Callable[[Rehearsed], list[str]]
    """Resources that can be reached from outside of the cluster."""
    running: str = ""
    """The fixture of a running cluster (tests/conformance/conftest.py), which is `on_stack` where `stack` is given;
    empty where the cloud cannot be stamped."""
    stack: Callable[[Path, str], Stack] | None = None
    """Makes a stack in a folder, with the name of its cluster, that the real engine can stamp on this machine."""
    secrets: frozenset[str] = frozenset()
    """Types of the cloud's own resources that hold secrets."""
    lost: frozenset[str] = frozenset()
    """Types of which a killed `up` leaves one that no later `up` finds. The rehearsal tells its id."""


CONFORMING: Mapping[str, Conforming] = {
    "aws": Conforming(
        stacks=("aws-p6-b200-block", "aws-dev-g6", "aws-p5", "aws-p5en-eks", "aws-p5en-reservation"),
        takes_tags=aws.takes_tags,
        public=aws.public,
        running="on_aws",
        secrets=frozenset({"aws:ssm/parameter:Parameter"}),
        lost=frozenset({"aws:fsx/lustreFileSystem:LustreFileSystem"}),
    ),
    "hosts": Conforming(
        stacks=("hosts-lab", "hosts-lambda"),
        takes_tags=hosts.takes_tags,
        public=hosts.public,
        running="on_hosts",
    ),
    "local": Conforming(
        stacks=("local",),
        takes_tags=local.takes_tags,
        public=local.public,
        running="on_stack",
        stack=Stack.make,
    ),
}
