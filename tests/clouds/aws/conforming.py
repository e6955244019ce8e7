"""Answers of AWS to the conformance suite: which types take tags, and which resources are public."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

from tests.rehearsed import Rehearsed


def takes_tags(kind: str) -> bool:
    """Whether the SDK's class has them."""
    module, name = kind.removeprefix("aws:").split(":")
    # the package, not its own module: parts of a package that are loaded later would lack it
    found = getattr(importlib.import_module(f"pulumi_aws.{module.partition('/')[0]}"), name)
    return "tags" in inspect.signature(found._internal_init).parameters


def public(made: Rehearsed) -> list[str]:
    """Return rules, addresses, buckets and servers that are reachable from outside; the egress is outbound only."""
    return [*_reachable(made), *_open_buckets(made)]


def _reachable(made: Rehearsed) -> Iterator[str]:
    by_flag = {"Subnet": "mapPublicIpOnLaunch", "Instance": "associatePublicIpAddress"}
    for kind, flag in (*by_flag.items(), ("Instance", "publiclyAccessible")):
        yield from (f"{kind} with {flag}" for each in made.of(kind) if each.get(flag, kind == "Subnet"))
    for each in made.of("SecurityGroupIngressRule"):
        yield from (f"rule that admits {each[key]}" for key in ("cidrIpv4", "cidrIpv6") if key in each)
    for each in made.of("Cluster"):
        if each["vpcConfig"]["endpointPublicAccess"]:
            yield "public endpoint of EKS"
    for each in made.of("DefaultSecurityGroup"):
        if each["ingress"] or each["egress"]:
            yield "default security group with rules"


def _open_buckets(made: Rehearsed) -> Iterator[str]:
    ways = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    closed = {each["bucket"] for each in made.of("BucketPublicAccessBlock") if all(each[way] for way in ways)}
    if len(closed) < len(made.of("Bucket")):
        yield f"{len(made.of('Bucket'))} buckets, of which {len(closed)} are closed"
