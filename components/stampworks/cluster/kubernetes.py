"""Assemble a cluster whose scheduler is Kubernetes: the parts that every cloud shares.

Objects are resources of Pulumi's Kubernetes plugin, by their type tokens and without its SDK: importing its classes
would take a second of every preview, and they have no place for fields beside an object's spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import Output

from stampworks.cluster import clouds
from stampworks.plan import PROOF_NAMESPACE, Account, AddOn, Driven, Plan
from stampworks.resources import KubernetesQueues, KubernetesServer
from stampworks.schedulers import addons, kubernetes
from stampworks.schedulers.kubernetes import Manifest
from stampworks.schedulers.topology.kubernetes import KUEUE

if TYPE_CHECKING:
    from stampworks.clouds.components import ControlPlane, Network, ServerMaker

PLUGIN = "4.34.2"
"""The version of Pulumi's plugin for Kubernetes."""


def control_plane(
    parent: pulumi.Resource, base: str, plan: Plan, server: ServerMaker[Network, ControlPlane], network: Network
) -> ControlPlane:
    """Make the cloud's Kubernetes, with a kubeconfig and an identity."""
    return server.create(
        base,
        plan=plan,
        network=network,
        opts=pulumi.ResourceOptions(parent=parent, protect=plan.scheduler.protect),  # all jobs and queues are in it
    )


def assemble(
    parent: pulumi.Resource,
    base: str,
    plan: Plan,
    maker: ServerMaker[Network, ControlPlane],
    control_plane: ControlPlane,
    driven: Mapping[str, Output[Driven]],
) -> list[pulumi.Resource]:
    """Configure the control plane with nodes for scheduling only and the cluster's objects, claims of file systems
    among them. Return the objects that proofs need."""
    labels = kubernetes.node_labels(plan)
    for group in plan.scheduling_only:
        clouds.joined(plan).create_simulated(
            f"{base}-{group.name}",
            cluster=plan.name,
            control_plane=control_plane,
            group=group,
            labels=labels,
            capacity=kubernetes.capacity(group),
            drain_timeout_minutes=plan.scheduler.drain_timeout_minutes,
            opts=pulumi.ResourceOptions(parent=parent),
        )
    # Unless it is marked as secret, every preview and the state would show it.
    kubeconfig: Output[str] = Output.secret(control_plane.kubeconfig)
    settings = {
        "kubeconfig": kubeconfig,
        # Without it, a new authority or port would count as another Kubernetes, and every object would be replaced.
        "clusterIdentifier": control_plane.identity,
    }
    server, manifests = maker.server(control_plane), kubernetes.objects(plan)
    where: dict[str, Any] = {"cluster": plan.name, "cloud": plan.cloud, "region": plan.region}
    # The plugin asks once: a server that does not answer then counts as out of reach for all objects of the same `up`
    # (pulumi-kubernetes 4.32, provider.go, clusterUnreachable).
    heard = KubernetesServer(
        base, **where, server=control_plane.identity, opts=pulumi.ResourceOptions(parent=parent, depends_on=[server])
    )
    provider = pulumi.ProviderResource(
        "kubernetes", base, settings, pulumi.ResourceOptions(parent=parent, version=PLUGIN, depends_on=[heard])
    )
    kept = KubernetesQueues(  # before any object is changed or deleted
        base,
        **where,
        queues=kubernetes.queues(manifests),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[heard]),
    )
    opts = pulumi.ResourceOptions(parent=parent, provider=provider, depends_on=[kept], deleted_with=server)
    installed = releases(base, plan, opts)
    kinds = [installed[name] for name in _OF_QUEUES if name in installed]
    objects = _objects(base, manifests, pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=kinds)))
    of_proofs = [made for name, made in objects.items() if name == ("Namespace", PROOF_NAMESPACE)]
    for team in kubernetes.claimants(plan):
        within = objects["Namespace", team.name]
        after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[within]))
        for name, found in driven.items():
            made = _claim(base, plan, team, name, found, after)
            of_proofs += made if team.name == PROOF_NAMESPACE else []
    return of_proofs


_OF_QUEUES = ("kueue", "jobset")
"""Add-ons whose objects the cluster creates: their webhooks must answer before."""
_ANSWERS_S = 900
"""Time limit for such an add-on in seconds: its first node may still be starting."""


def releases(base: str, plan: Plan, opts: pulumi.ResourceOptions) -> dict[str, pulumi.Resource]:
    """Return the Helm releases by name, each with the objects beside its chart.

    They are installed one after the other: a webhook that does not answer yet would refuse the objects of the others.
    """
    made: dict[str, pulumi.Resource] = {}
    last: list[pulumi.Resource] = []
    for one in plan.scheduler.addons:
        if one.by != "helm":
            continue
        named = {one.name: (_RELEASE, _release(plan, one))}
        named |= {
            f"{each['kind'].lower()}-{each['metadata']['name']}": (_token(each), each) for each in addons.objects(one)
        }
        for name, (token, inputs) in named.items():
            after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=last))
            last = [pulumi.CustomResource(token, f"{base}-{name}", inputs, after)]
            made[name] = last[0]
    return made


_RELEASE = "kubernetes:helm.sh/v3:Release"


def _release(plan: Plan, one: AddOn) -> dict[str, Any]:
    chart, repository = addons.chart(one)
    waited = one.name in _OF_QUEUES
    return {
        "name": one.name,
        "chart": chart,
        "version": one.version,
        "namespace": one.namespace,
        "createNamespace": True,
        **({"repositoryOpts": {"repo": repository}} if repository else {}),
        "values": addons.values(plan, one),
        # Operators start pods only once nodes exist, and a proof shows whether they work.
        "skipAwait": not waited,
        **({"timeout": _ANSWERS_S} if waited else {}),
        "compat": "true",  # as the SDK sends it
    }


def _objects(
    base: str, manifests: Sequence[Manifest], opts: pulumi.ResourceOptions
) -> dict[tuple[str, str], pulumi.Resource]:
    """Register a resource for each object, after the objects that it needs, or that must be deleted after it. Return
    the objects outside of any namespace, by kind and name."""
    made: dict[tuple[str, str], pulumi.Resource] = {}
    for manifest in manifests:
        kind, metadata = manifest["kind"], manifest["metadata"]
        within = metadata.get("namespace", "")
        after = pulumi.ResourceOptions(depends_on=[made[one] for one in kubernetes.refers_to(manifest)])
        if kind == "LocalQueue":  # Pulumi's plugin does not know that Kueue refuses this change
            after.replace_on_changes, after.delete_before_replace = ["spec.clusterQueue"], True
        if manifest["apiVersion"] == KUEUE:
            after.aliases = [pulumi.Alias(type_=_token({**manifest, "apiVersion": _KUEUE_BEFORE}))]
        # Names are part of every stack's state: a change here replaces the object, unless it carries an alias.
        name = "-".join(filter(None, [base, kind.lower(), within, metadata["name"]]))
        resource = pulumi.CustomResource(_token(manifest), name, manifest, pulumi.ResourceOptions.merge(opts, after))
        if not within:
            made[kind, metadata["name"]] = resource
    return made


_KUEUE_BEFORE = "kueue.x-k8s.io/v1beta1"
"""API version of objects made with Kueue 0.14 in old states. It is the same object, and is not replaced."""


def _claim(
    base: str, plan: Plan, team: Account, name: str, found: Output[Driven], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Register a team's volume and its claim, after the file system whose id they contain."""
    both = found.apply(partial(kubernetes.driven, plan, team, name))
    called: dict[str, dict[str, Any]] = {
        "PersistentVolume": {"name": both[0]["metadata"]["name"]},
        "PersistentVolumeClaim": {"name": name, "namespace": team.name},
    }
    made: list[pulumi.Resource] = []
    for index, (kind, metadata) in enumerate(called.items()):
        inputs = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {**metadata, "labels": kubernetes.OURS},
            "spec": both[index]["spec"],
        }
        token, named = f"kubernetes:core/v1:{kind}", f"{base}-{kind.lower()}-{team.name}-{name}"
        made.append(pulumi.CustomResource(token, named, inputs, opts))
    return made


def _token(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
