"""What can be said of a Kubernetes that a cloud runs."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.plan import UNPROVEN_TAINT, Plan, Storage
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Managed
from stampworks.planning.findings import Facts, Finding
from stampworks.planning.launching import minor

BESIDES = "what Kueue and other programs of the cluster run as comes from registries of the world"


def managed(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Whether it has the version, what becomes of the proof, and where images come from."""
    if (own := CLOUDS[plan.cloud].runs(plan.scheduler.kind)) is None:
        return
    yield from _version(plan, own, facts.as_of)
    if plan.proof.level != "none" and plan.pools:
        text = (
            f"nothing measures nodes of {own.what} yet: each keeps the taint {UNPROVEN_TAINT}, and takes no pods until "
            "somebody gives it back by force"
        )
        hint = "write level: none, and nodes take pods unproven; or `stampworks return NODE --force` for each"
        yield Finding("kubernetes.proof", "fail", text, hint, "proof.level", "warning")
    for index, one in enumerate(plan.storage):
        yield from _storage(one, f"storage[{index}]", own)
    if plan.network.egress == "none":
        text = f"whether pods find their images without a way out: {BESIDES}, and nodes reach {own.registries} alone"
        hint = "copy them into a registry of the account, or write egress: nat"
        yield Finding("kubernetes.images", "unknown", text, hint, "network.egress")


def _storage(one: Storage, place: str, own: Managed) -> Iterator[Finding]:
    """Whether it comes into pods, and on the way that is declared."""
    id_ = "kubernetes.storage"
    if not one.driver:
        text = f"{one.name} is made, and nothing brings it into pods: {own.what} has no driver for {one.kind}"
        hint = "add its driver and a PersistentVolume; `pulumi stack output mounts` says where it is"
        yield Finding(id_, "fail", text, hint, place, "warning", one.name)
    elif one.efa:
        text = f"{one.name} is to be reached over EFA, and pods reach it over TCP: {own.without_fabric}"
        hint = "take efa out, or count on what a node reaches over TCP"
        yield Finding(id_, "fail", text, hint, f"{place}.efa", "warning", one.name)
    else:
        text = f"{one.name} comes into pods by {one.driver}, as a claim of its name in each team's namespace"
        yield Finding(id_, "pass", text, "", place, subject=one.name)


def _version(plan: Plan, own: Managed, as_of: str | None) -> Iterator[Finding]:
    version, id_ = minor(plan.release), "kubernetes.version"
    source = f"({own.versions_source})"
    if (support := own.versions.get(version)) is None:
        text = f"whether {own.what} has Kubernetes {version} of release {plan.release.name}: it is not among {source}"
        yield Finding(id_, "unknown", text, f"ask {plan.cloud}, or take another release", "release")
        return
    text = f"{own.what} has Kubernetes {version} in standard support until {support.standard} {source}"
    if as_of is None:
        yield Finding(id_, "unknown", f"{text}, and nobody said what day it is", "", "release")
    elif as_of[:10] >= support.extended:
        text = (
            f"{own.what} supported Kubernetes {version} until {support.extended}, and makes another one of it {source}"
        )
        yield Finding(id_, "fail", text, "take a release with a newer one", "release")
    elif as_of[:10] >= support.standard:
        text = f"{text}, and until {support.extended} in extended support, which costs more"
        yield Finding(id_, "fail", text, "take a release with a newer one", "release", "warning")
    else:
        yield Finding(id_, "pass", text, "", "release")
