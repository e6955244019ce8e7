"""The Kubernetes of an AWS cluster: EKS, its add-ons, and the nodes of each pool."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions
from pulumi_aws import cloudwatch, ec2, eks, iam

from stampworks.clouds.aws import bucket, tags
from stampworks.clouds.aws.first_boot import node_config
from stampworks.clouds.aws.network import Connections
from stampworks.clouds.aws.nodes import MARKETS, METADATA, SESSIONS, allowed, disks, encoded, nics, reserved
from stampworks.clouds.aws.place import assumed_by
from stampworks.plan import OVER_TCP, PROOF_TAINT, UNPROVEN_TAINT, AddOn, Group, Plan, Pods
from stampworks.schedulers import addons
from stampworks.schedulers.kubernetes import pool_labels
from stampworks.schedulers.topology.kubernetes import POOL

_LOG_DAYS = 30
_LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# Amazon EKS User Guide, "View Amazon EKS networking requirements for VPC and subnets": zones without control planes.
_WITHOUT_EKS = ("use1-az3", "usw1-az2", "cac1-az3")
_CAPACITY = {"spot": "SPOT", "block": "CAPACITY_BLOCK"}
_UNAVAILABLE_MAX = 100
"""Highest `max_unavailable` (Amazon EKS API Reference, NodegroupUpdateConfig, read 2026-11-24)."""
# The pods of the driver call AWS for all other pods (mountpoint-s3-csi-driver 57c6bedb, CONFIGURATION.md, "Driver-Level
# Credentials with EKS Pod Identity", read 2026-11-24).
_OF_BUCKETS, _ACCOUNT_OF_BUCKETS = "aws-mountpoint-s3-csi-driver", "s3-csi-driver-sa"
_MINIMAL = "update_strategy" in eks.NodeGroupUpdateConfigArgsDict.__annotations__
"""Whether the SDK can replace nodes without additional ones, for which there may be no capacity. Version 6.83
cannot."""


class ControlPlane(pulumi.ComponentResource):
    """The API server and the parts that it needs before it gets objects and pools.

    EKS encrypts its data with a key of AWS (Amazon EKS User Guide, "Default envelope encryption for all Kubernetes API
    Data", read 2026-11-24). With a key of the account, deleting the key would lose the cluster.
    """

    id: Output[str]
    address: Output[str]
    """Address of the server: a name that resolves to the cluster's network inside it, and to the public address
    outside, if it has one."""
    kubeconfig: Output[str]
    """Kubeconfig of the account that created the cluster. It gets a token from AWS at each call and holds no secret."""
    identity: Output[str]
    """Address of the server, which is unique. A cluster that is created again has the same name."""

    def __init__(self, name: str, plan: Plan, network: Connections, opts: ResourceOptions) -> None:
        place, protect = network.place, bool(opts.protect)
        # protect only the cluster, not the parts of this component
        after = ResourceOptions(depends_on=[network], protect=False)
        super().__init__("stampworks:aws:ControlPlane", name, None, ResourceOptions.merge(place.within(opts), after))
        self._name, self.plan, self.place = name, plan, place
        self._opts = place.within(ResourceOptions(parent=self))
        rules = self._reached()
        self.cluster = self._cluster(ResourceOptions.merge(self._opts, ResourceOptions(protect=protect)))
        agents = [self._addon("kube-proxy"), self._addon("eks-pod-identity-agent"), self._pods_network()]
        system = NodePool(
            f"{name}-{plan.controller.name}", self, plan.controller, self._child(depends_on=[*rules, *agents])
        )
        selector = {"nodeSelector": {POOL: plan.controller.name}}
        self._addon("coredns", self._child(depends_on=[system]), configuration_values=_text(selector))
        for driver in sorted({each.driver for each in plan.storage if each.driver}):
            self._driver(driver, system)
        for one in plan.scheduler.addons:
            if one.by == "cloud":
                self._watch(one, system)
        for user in plan.users:
            self._let_in(user.name)
        for admin in plan.scheduler.admins:
            self._let_do_everything(admin)
        self.id, self.address = self.cluster.id, self.cluster.endpoint
        self.identity = self.address
        self.kubeconfig = self._known().apply(lambda known: tags.kubeconfig(plan.region, *known))
        self.register_outputs({"kubeconfig": Output.secret(self.kubeconfig)})

    def node_config(self, group: Group) -> Output[str]:
        """Return the settings with which a member of a group joins."""
        plan = self.plan
        pods: Pods | None = plan.network.pods
        if pods is None:
            raise ValueError(f"{self._name}: the plan does not define the addresses of pods")
        unproven = group.role == "worker" and plan.proof.level != "none"
        kubelet = {
            "config": {"maxPods": pods.per_node},
            # Label and taint at registration: EKS would do it later, and until then pods would start on the node
            # (aws/containers-roadmap 1962, read 2026-11-24).
            "flags": [
                f"--node-labels={','.join(f'{key}={value}' for key, value in pool_labels(plan, group).items())}",
                *([f"--register-with-taints={UNPROVEN_TAINT}=:NoSchedule"] if unproven else []),
            ],
        }
        return self._known().apply(
            lambda known: node_config(
                pods.services_cidr,
                kubelet,
                *known,
                array=group.scratch is not None,
                rdma=bool(group.rails) and plan.fabric.kind not in OVER_TCP,
                as_asked=bool(group.machine.accelerators) and addons.named_to_runtime(plan),
            )
        )

    def _known(self) -> Output[list[str]]:
        """Return name, address and certificate of the server."""
        made = self.cluster
        return Output.all(made.name, made.endpoint, made.certificate_authority.apply(lambda one: one["data"]))

    def _reached(self) -> list[pulumi.Resource]:
        """Allow traffic between the server and the nodes in the cluster's network, and no other."""
        name, place = self._name, self.place
        self._group = place.security_group(name, "control-plane", "the server of Kubernetes", self._opts)
        there = place.allow(f"{name}-nodes-control-plane", place.nodes, self._group, self._opts)
        return [*there, *place.allow(f"{name}-control-plane-nodes", self._group, place.nodes, self._opts)]

    def _cluster(self, opts: ResourceOptions) -> eks.Cluster:
        name, plan, place = self._name, self.plan, self.place
        own = place.tags("control-plane")
        logs = cloudwatch.LogGroup(  # EKS would create it with unlimited retention
            f"{name}-control-plane",
            name=f"/aws/eks/{plan.name}/cluster",
            retention_in_days=_LOG_DAYS,
            tags=own,
            opts=self._opts,
        )
        role, attached = self._role("control-plane", "eks.amazonaws.com", ["AmazonEKSClusterPolicy"])
        elsewhere = place.elsewhere(
            f"{name}-control-plane", "control-plane", plan.network, self._opts, without=_WITHOUT_EKS
        )
        versions, pods = dict(plan.release.kubernetes), plan.network.pods
        ranges = plan.scheduler.api_from
        return eks.Cluster(
            name,
            name=plan.name,
            version=".".join(versions["kubernetes"].split(".")[:2]),
            role_arn=role.arn,
            vpc_config={
                "subnet_ids": [place.subnets["nodes"].id, elsewhere.id],
                "security_group_ids": [self._group.id],
                "endpoint_private_access": True,  # nodes always use the private endpoint; api_from opens the public one
                "endpoint_public_access": bool(ranges),
                "public_access_cidrs": [*ranges] or None,
            },
            kubernetes_network_config={"service_ipv4_cidr": pods.services_cidr if pods else None},
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": True},
            bootstrap_self_managed_addons=False,  # the add-ons below take their place
            enabled_cluster_log_types=[*_LOGS],
            upgrade_policy={"support_type": "EXTENDED"},  # an upgrade is a declared change; do not let EKS decide
            tags=own,
            # EKS keeps a cluster in its VPC (UpdateClusterConfig in botocore 1.44.5, read 2026-11-28). A replacement
            # has the same name, and comes after it.
            opts=ResourceOptions.merge(
                opts,
                ResourceOptions(
                    depends_on=[logs, *attached],
                    replace_on_changes=["vpcConfig.subnetIds"],
                    delete_before_replace=True,
                ),
            ),
        )

    def _pods_network(self) -> eks.Addon:
        """Install the pod network, with addresses as the plan counts them.

        Only this add-on has its role. It also enforces the network policies that separate the pods of teams.
        """
        role, attached = self._role(
            "pods-network", "pods.eks.amazonaws.com", ["AmazonEKS_CNI_Policy"], "sts:TagSession"
        )
        settings = {"enableNetworkPolicy": "true", "env": {"ENABLE_PREFIX_DELEGATION": "true"}}
        return self._addon(
            "vpc-cni",
            self._child(depends_on=attached),
            configuration_values=_text(settings),
            pod_identity_associations=[{"role_arn": role.arn, "service_account": "aws-node"}],
        )

    def _driver(self, driver: str, system: NodePool) -> None:
        """Install a CSI driver.

        The driver of buckets calls AWS to read and write objects. The others mount existing file systems, and need no
        rights in AWS.
        """
        after: list[pulumi.Resource] = [system]
        more: dict[str, Any] = {}
        if driver == _OF_BUCKETS:
            role, _ = self._role("buckets", "pods.eks.amazonaws.com", [], "sts:TagSession")
            arns, key = Output.all(*(each.arn for each in self.place.buckets)), self.place.key
            may = arns.apply(lambda found: bucket.may_use(found, key))
            after.append(iam.RolePolicy(f"{self._name}-buckets", role=role.id, policy=may, opts=self._opts))
            more = {"pod_identity_associations": [{"role_arn": role.arn, "service_account": _ACCOUNT_OF_BUCKETS}]}
        self._addon(driver, self._child(depends_on=after), **more)

    def _watch(self, one: AddOn, system: NodePool) -> None:
        """Install an add-on that watches all nodes, including those that are not proven yet.

        Its accelerator part has no tolerations by default (aws/eks-node-monitoring-agent 0040fd7a, values.yaml of its
        chart, read 2026-11-25). Without that part it would report such nodes as broken. No node group has automatic
        repair: EKS must not choose which node goes.
        """
        tolerated = [{"key": taint, "operator": "Exists"} for taint in (UNPROVEN_TAINT, PROOF_TAINT)]
        settings = {"dcgmAgent": {"tolerations": tolerated}}
        self._addon(f"eks-{one.name}", self._child(depends_on=[system]), configuration_values=_text(settings))

    def _addon(self, addon: str, opts: ResourceOptions | None = None, **settings: Any) -> eks.Addon:
        """Install an add-on in the locked version. Without a lock, as in rehearsals, use EKS's current default."""
        versions = {part.name: part.version for part in self.plan.scheduler.parts}
        return eks.Addon(
            f"{self._name}-{addon}",
            cluster_name=self.cluster.name,
            addon_name=addon,
            addon_version=versions.get(addon) or None,
            resolve_conflicts_on_update="OVERWRITE",  # an update is refused where someone has changed the settings
            tags=self.place.tags(addon),
            opts=opts or self._opts,
            **settings,
        )

    def _role(
        self, what: str, service: str, policies: Sequence[str], *more: str
    ) -> tuple[iam.Role, list[pulumi.Resource]]:
        """Return a role and its attachments.

        The attachments must exist before the role is used, and until it is no longer used.
        """
        name = f"{self._name}-{what}"
        role = iam.Role(
            name,
            assume_role_policy=assumed_by(service, *more),
            **self.place.role_terms(),
            tags=self.place.tags(what),
            opts=self._opts,
        )
        return role, attach(name, role, policies, self._opts)

    def _let_in(self, user: str) -> None:
        """Give a declared user access.

        The account decides who may assume the role with the user's name. In Kubernetes that is the declared user, who
        has only the rights of its team's role in the team's namespace.
        """
        name, own = f"{self._name}-{user}", self.place.tags(user)  # IAM allows 64 characters
        trusted, terms = self.cluster.arn.apply(_of_account), self.place.role_terms()
        role = iam.Role(name, assume_role_policy=trusted, **terms, tags=own, opts=self._opts)
        may = self.cluster.arn.apply(lambda arn: allowed([{"Action": "eks:DescribeCluster", "Resource": arn}]))
        iam.RolePolicy(name, role=role.id, policy=may, opts=self._opts)
        eks.AccessEntry(
            name,
            cluster_name=self.cluster.name,
            principal_arn=role.arn,
            user_name=user,
            tags=own,
            opts=self._opts,
        )

    def _let_do_everything(self, arn: str) -> None:
        """Give an administrator full access through EKS's own policy, which no Kubernetes object can revoke.

        The resource name has the digest of the ARN, so that it does not depend on the list. It has the ARN's last part
        for readers of a preview.
        """
        digest = hashlib.sha256(arn.encode()).hexdigest()[:8]
        name = f"{self._name}-admin-{arn.rpartition('/')[2]}-{digest}"
        entry = eks.AccessEntry(
            name,
            cluster_name=self.cluster.name,
            principal_arn=arn,
            tags=self.place.tags("admins"),
            opts=self._opts,
        )
        eks.AccessPolicyAssociation(
            name,
            cluster_name=self.cluster.name,
            principal_arn=entry.principal_arn,
            policy_arn=f"arn:{tags.partition(arn)}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            access_scope={"type": "cluster"},
            opts=self._opts,
        )

    def _child(self, **more: Any) -> ResourceOptions:
        return ResourceOptions.merge(self._opts, ResourceOptions(**more))


class NodePool(pulumi.ComponentResource):
    """Members of a group: a managed node group of fixed size, from the toolkit's launch template."""

    id: Output[str]
    generation: Output[str]
    """Generation of its nodes: the node group and the version of its launch template."""

    def __init__(self, name: str, control_plane: ControlPlane, group: Group, opts: ResourceOptions) -> None:
        place = control_plane.place
        super().__init__("stampworks:aws:NodePool", name, None, place.within(opts))
        self._name, self._place, self._group = name, place, group
        self._opts = place.within(ResourceOptions(parent=self))
        self._tags = {**place.tags(group.name), tags.GROUP: group.name}
        trusted, terms = assumed_by("ec2.amazonaws.com"), place.role_terms()
        role = iam.Role(name, assume_role_policy=trusted, **terms, tags=self._tags, opts=self._opts)
        attached = attach(name, role, ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"], self._opts)
        at_once = min(dict(control_plane.plan.roll.unavailable_max).get(group.name, 1), _UNAVAILABLE_MAX)
        sessions = allowed([{"Action": [*SESSIONS], "Resource": "*"}])
        attached += [iam.RolePolicy(f"{name}-sessions", role=role.id, policy=sessions, opts=self._opts)]
        template = self._template(control_plane.node_config(group))
        made = eks.NodeGroup(
            name,
            cluster_name=control_plane.cluster.name,
            node_role_arn=role.arn,
            subnet_ids=[place.subnets["nodes"].id],
            capacity_type=_CAPACITY.get(group.purchase, "ON_DEMAND"),
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config={"min_size": group.count, "max_size": group.count, "desired_size": group.count},
            update_config=_updates(at_once),
            tags=self._tags,
            opts=ResourceOptions.merge(
                self._opts, ResourceOptions(depends_on=attached, custom_timeouts=_patience(group.count, at_once))
            ),
        )
        self.id = made.id
        self.generation = Output.all(made.id, template.latest_version).apply(lambda both: "/".join(map(str, both)))
        self.register_outputs({})

    def _template(self, first_boot: Output[str]) -> ec2.LaunchTemplate:
        """Create the launch template.

        It leaves out the parameters that EKS sets: the subnet, the role, the spot options (Amazon EKS User Guide,
        "Customize managed nodes with launch templates", read 2026-11-24).
        """
        group, place, launch = self._group, self._place, self._group.launch
        if launch is None:
            raise ValueError(f"{self._name}: the plan does not define the start of nodes of {group.name}")
        together = None
        if launch.placed_together:
            together = ec2.PlacementGroup(self._name, strategy="cluster", tags=self._tags, opts=self._opts)
        return ec2.LaunchTemplate(
            self._name,
            instance_type=launch.instance_type,
            image_id=launch.image,
            update_default_version=True,
            metadata_options=METADATA,
            block_device_mappings=disks(launch, place.key),
            network_interfaces=nics(launch, place),
            placement={"group_name": together.name} if together else None,
            instance_market_options=MARKETS["block"] if group.purchase == "block" else None,
            capacity_reservation_specification=reserved(group.reservation),
            user_data=first_boot.apply(encoded),
            tag_specifications=[
                {"resource_type": kind, "tags": self._tags} for kind in ("instance", "network-interface", "volume")
            ],
            tags=self._tags,
            opts=self._opts,
        )


def attach(name: str, role: iam.Role, policies: Sequence[str], opts: ResourceOptions) -> list[pulumi.Resource]:
    """Attach policies of AWS to a role."""
    return [
        iam.RolePolicyAttachment(
            f"{name}-{policy}",
            role=role.name,
            policy_arn=Output.format("arn:{0}:iam::aws:policy/{1}", role.arn.apply(tags.partition), policy),
            opts=opts,
        )
        for policy in policies
    ]


def _updates(unavailable: int) -> eks.NodeGroupUpdateConfigArgsDict:
    """Return the update settings: nodes are replaced as many at a time as a roll allows."""
    found: eks.NodeGroupUpdateConfigArgsDict = {"max_unavailable": unavailable}
    if _MINIMAL:
        found["update_strategy"] = "MINIMAL"
    return found


def _patience(count: int, at_once: int) -> pulumi.CustomTimeouts:
    """Return the timeout of an update: an hour for each batch of nodes.

    EKS alone waits up to a quarter of an hour for the pods of a batch. The default is an hour for all batches
    (terraform-provider-aws, node_group.go, read 2026-11-26). After that the provider gives up while EKS continues.
    """
    return pulumi.CustomTimeouts(update=f"{-(-count // at_once)}h")


def _of_account(arn: str) -> str:
    """Return a trust policy for all principals that the account of a resource permits."""
    principal = {"AWS": f"arn:{tags.partition(arn)}:iam::{arn.split(':')[4]}:root"}
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def create(name: str, *, plan: Plan, network: Connections, opts: ResourceOptions) -> ControlPlane:
    """Create the control plane. Part of the contract of a cloud."""
    return ControlPlane(name, plan, network, opts)


def server(control_plane: ControlPlane) -> pulumi.Resource:
    """Return the resource whose removal ends all objects in the cluster."""
    return control_plane.cluster


def create_pool(name: str, *, control_plane: ControlPlane, group: Group, opts: ResourceOptions) -> NodePool:
    """Create a pool after the whole control plane: nodes need the pod network."""
    after = ResourceOptions(depends_on=[control_plane])
    return NodePool(name, control_plane, group, ResourceOptions.merge(opts, after))
