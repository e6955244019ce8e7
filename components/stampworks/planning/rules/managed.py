"""Managed Kubernetes: its version, its API server, its proof, its storage and its images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stampworks.plan import UNPROVEN_TAINT, Plan, Storage
from stampworks.planning.build.launching import minor
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Managed
from stampworks.planning.rules.findings import Finding

BESIDES = "images of Kueue and other programs of the cluster come from public registries"


def managed(plan: Plan, today: str | None) -> Iterator[Finding]:
    """The cloud's Kubernetes has the version, an API server that answers, an image for proofs, drivers and other
    images."""
    if (own := CLOUDS[plan.cloud].runs(plan.scheduler.kind)) is None:
        return
    yield from _version(plan, own, today)
    yield _api(plan, own)
    if plan.pools:
        yield _proof(plan, own)
    for index, one in enumerate(plan.storage):
        yield from _storage(one, f"storage[{index}]", own)
    if plan.network.egress == "none":
        text = (
            f"whether pods find their images without a way to the internet: {BESIDES}, and nodes reach "
            f"{own.registries} alone"
        )
        hint = "copy them into a registry of the account, or write egress: nat"
        yield Finding("kubernetes.images", "unknown", text, hint, "network.egress")


def _api(plan: Plan, own: Managed) -> Finding:
    """Judge whether the caller of an `up` reaches the API server, although the same `up` creates its network."""
    id_, place, ranges = "kubernetes.api", "scheduler.api_from", plan.scheduler.api_from
    if ranges:
        return Finding(id_, "pass", public(ranges), "", place)
    text = (
        f"whether the machine that runs `up` reaches the server of {own.what}: it has no public address, and the first "
        "`up` makes the network that reaches it"
    )
    hint = (
        f"write the public ranges that you connect from, as in api_from: [203.0.113.0/24]; {own.page} says "
        "how to do without"
    )
    return Finding(id_, "unknown", text, hint, place)


def public(ranges: Sequence[str]) -> str:
    """Describe the effect of these ranges."""
    if not ranges:
        return "its server has no public address, and only the cluster's network reaches it"
    return f"its server has a public address, which answers {' and '.join(ranges)} only"


def _storage(one: Storage, place: str, own: Managed) -> Iterator[Finding]:
    """Judge whether pods can mount a storage in the declared way."""
    id_ = "kubernetes.storage"
    if not one.driver:
        text = f"{one.name} is made, but pods cannot mount it: {own.what} has no driver for {one.kind}"
        hint = "add its driver and a PersistentVolume; `pulumi stack output mounts` says where it is"
        yield Finding(id_, "fail", text, hint, place, "warning", one.name)
    elif one.efa:
        text = f"{one.name} is declared with EFA, but pods reach it over TCP: {own.without_fabric}"
        hint = "take efa out, or accept the throughput of TCP"
        yield Finding(id_, "fail", text, hint, f"{place}.efa", "warning", one.name)
    else:
        text = f"{one.name} comes into pods by {one.driver}, as a claim of its name in each team's namespace"
        yield Finding(id_, "pass", text, "", place, subject=one.name)


def _proof(plan: Plan, own: Managed) -> Finding:
    """Judge whether there is an image with the toolkit's programs, which the nodes lack."""
    id_, place, image = "kubernetes.proof", "scheduler.workloads_image", plan.scheduler.workloads_image
    build = "build one (workloads/Containerfile), put it where nodes reach it, and write its name and digest"
    if not image and plan.proof.level == "none":
        text = (
            f"nodes of {own.what} lack the programs of Stampworks, and no image with them is declared: no run can start"
        )
        return Finding(id_, "fail", text, build, place, "warning")
    if not image:
        text = (
            f"nodes of {own.what} lack the programs of Stampworks, and no image with them is declared: no "
            "node would be "
            f"measured, and each would keep the taint {UNPROVEN_TAINT}"
        )
        return Finding(id_, "fail", text, f"{build}; or proof: {{level: none}}, and nodes take pods unproven", place)
    if "@sha256:" not in image:
        text = f"{image} is a tag that can move, and nodes that have pulled it keep the old image"
        return Finding(id_, "fail", text, "write its digest behind it: NAME@sha256:...", place, "warning")
    return Finding(id_, "pass", f"proofs and runs start from {image.rpartition('@')[0]}, by its digest", "", place)


def _version(plan: Plan, own: Managed, today: str | None) -> Iterator[Finding]:
    """Judge the version of Kubernetes by the dates on which its support ends."""
    version, id_ = minor(plan.release), "kubernetes.version"
    source = f"({own.versions_source})"
    if (support := own.versions.get(version)) is None:
        text = f"whether {own.what} has Kubernetes {version} of release {plan.release.name}: it is not among {source}"
        yield Finding(id_, "unknown", text, f"ask {plan.cloud}, or take another release", "release")
        return
    text = f"{own.what} has Kubernetes {version} in standard support until {support.standard} {source}"
    if today is None:
        yield Finding(id_, "unknown", f"{text}, and no date of today was given", "", "release")
    elif today[:10] >= support.extended:
        text = f"{own.what} supported Kubernetes {version} until {support.extended}, and upgrades it by itself {source}"
        yield Finding(id_, "fail", text, "take a release with a newer one", "release")
    elif today[:10] >= support.standard:
        text = f"{text}, and until {support.extended} in extended support, which costs more"
        yield Finding(id_, "fail", text, "take a release with a newer one", "release", "warning")
    else:
        yield Finding(id_, "pass", text, "", "release")
