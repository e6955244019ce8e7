"""Assembly: from a plan to a cluster."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import Output, ResourceOptions

from stampworks import configuration, qualification
from stampworks.cluster import clouds, directory, kubernetes
from stampworks.cluster.approval import review_change
from stampworks.cluster.disk_space import check_disk_space
from stampworks.cluster.plugin import check_plugin, check_programs
from stampworks.cluster.stack import plan_of_declaration
from stampworks.declaration import Declaration
from stampworks.plan import Attached, Driven, Ending, Group, Plan, fingerprint, from_dict, settled, to_dict
from stampworks.plan import Disk as AttachedDisk
from stampworks.plan import Roster as RosterData
from stampworks.resources import Keyring, KubernetesNodes, Playbook, Qualification, Roll, Roster, SigningKey
from stampworks.schedulers import kubernetes as scheduling

if TYPE_CHECKING:
    from stampworks.clouds.components import ControlPlane, Database, Disk, Network, NodeGroup, Place, Stored

_PLAYBOOK, _PLAYBOOK_MINUTES = "site.yml", 60


_NodeFacts = tuple[Plan, RosterData, Mapping[str, str], Mapping[str, str], str, Attached]
OUTPUTS = (
    *("name", "head", "nodes", "use", "ssh", "logins", "inventory", "mounts", "cost_tags", "endings"),
    *("fingerprint", "verdict", "certificate", "verification_key", "kubeconfig"),
)


def _group_generation(name: str, generations: Mapping[str, str] | None) -> str:
    """Return the generation of a group; empty after an `up` of a version that did not record it."""
    return (generations or {}).get(name, "")


def _known_endings(ready: Output[Any], endings: Output[Any]) -> Output[list[dict[str, str]]]:
    """Return the known endings; empty after an `up` of a version that did not ask for them."""
    return Output.all(ready, endings).apply(lambda both: list(both[1] or ()))


def _logins(plan: Plan, roster: RosterData) -> dict[str, str]:
    from stampworks.operations.logins import login_commands  # takes long to import, and only a cluster needs it

    return login_commands(plan, roster)


def _login(roster: RosterData) -> str:
    from stampworks import operations  # takes long to import, and only a cluster needs it

    return shlex.join(operations.ssh_command(roster, operations.head(roster).name))


def _written(plan: Plan) -> str:
    """A plan as the state keeps it: reasons are for people."""
    return json.dumps(to_dict(replace(plan, reasons=())))


class Cluster(pulumi.ComponentResource):
    """A GPU training cluster as planned, on any cloud."""

    plan: Plan
    name: Output[str]
    head: Output[str]
    """The controller's address, inside the cluster's own network."""
    nodes: Output[int]
    """Number of nodes that take jobs."""
    use: Output[str]
    """A command to begin with."""
    ssh: Output[str]
    """Command that logs in to the head with the user's own copy of the key, which `stampworks ssh` fetches itself."""
    logins: Output[dict[str, str]]
    """Command with which each user with declared keys logs in, by name."""
    inventory: Output[str]
    """Inventory of the cluster for Ansible, as JSON."""
    mounts: Output[dict[str, str]]
    """Locations of its file systems, by mount point on the nodes."""
    cost_tags: Output[dict[str, str]]
    """Tags that assign costs to this cluster; empty if the cloud is free."""
    endings: Output[list[dict[str, str]]]
    """Capacity bought for a limited time, whose nodes end with it: group, reservation, end, or why the end is
    unknown."""
    fingerprint: Output[str]
    """Digest of the settings shared with siblings, from the last stamp."""
    verdict: Output[str]
    """Verdict of the proof: pass, or `unknown` if none is declared. Any other verdict fails the `up`."""
    certificate: Output[str]
    """The signed proof, as JSON; empty if none is declared."""
    verification_key: Output[str]
    """Public key with which `stampworks verify` checks the certificate; empty if no proof is declared."""
    kubeconfig: Output[str]
    """Credentials of the administrator of its Kubernetes; empty for another scheduler."""

    def __init__(self, name: str, what: Plan | Declaration, opts: ResourceOptions | None = None) -> None:
        """Stamp a stack's plan, or a declaration made in Python, which is judged and planned here."""
        check_plugin()
        plan = settled(what if isinstance(what, Plan) else plan_of_declaration(what, f"Cluster({name!r})"))
        cloud = clouds.load(plan)
        check_programs(plan)
        check_disk_space(plan)
        review_change(name, plan, alone=isinstance(what, Plan))
        super().__init__("stampworks:cluster:Cluster", name, None, opts)
        # A cluster that is declared in Python has no stack file that the command line could read.
        self._where = pulumi.get_stack() if isinstance(what, Plan) else "plan.json"
        self.plan, self._base, self._cloud = plan, name, cloud
        self._content = configuration.install_digest()  # reads every role: do it once, and not for each group
        self.verdict, self.certificate, self.verification_key = map(Output.from_input, ("unknown", "", ""))
        # Children's names are part of every stack's state: a change here replaces clusters, unless it carries an alias.
        keyring = Keyring(name, cluster=plan.name, opts=self._child(protect=plan.scheduler.protect))
        place = self._cloud.place.create(name, plan=plan, opts=self._child())
        network = self._cloud.network.create(
            name,
            cluster=plan.name,
            place=place,
            network=plan.network,
            rails=plan.fabric.rails,
            keyring=keyring,
            opts=self._child(),
        )
        if plan.scheduler.traits.control_plane:
            self._register_kubernetes(place, network)
        else:
            self._register_slurm(place, network, keyring)

    def _register_slurm(self, place: Place, network: Network, keyring: Keyring) -> None:
        plan = self.plan
        # Nodes are created after the storage that they mount, and deleted before it, so that none writes to it during
        # its deletion.
        storage = self._storage(place)
        volumes = self._volumes(plan.controller, place)
        database = self._database(place, keyring)
        # All others depend on the head: any change of them, for example a drain, needs its scheduler.
        before = [*storage.values(), *database]
        # without a volume the scheduler's state is on the head itself
        kept = {"protect": True} if plan.scheduler.protect and not plan.controller.volumes else {}
        controller = self._group(plan.controller, network, volumes, depends_on=before, **kept)
        groups = {plan.controller: controller}
        for group in (*plan.pools, *plan.login):
            groups[group] = self._group(group, network, [], depends_on=[controller])
        may: list[pulumi.Resource] = []
        if elastic := [groups[pool] for pool in plan.pools if pool.elastic]:
            opts = self._child()
            may = [clouds.elastic(plan).let_start(self._base, controller=controller, groups=elastic, opts=opts)]
        signing_key = self._signing_key()
        self._attached = self._attached_storage(storage, volumes, database)
        roll = self._roll(groups, self._secrets(keyring), signing_key)
        roster = self._roster(groups, roll)
        playbook = self._playbook(roster, self._secrets(keyring), may)
        if elastic:
            # The bundle describes the head, so it comes after it. A node that is faster waits for the bundle.
            file = self._known(roster).apply(lambda known: self._bundle(*known))
            clouds.elastic(plan).publish(self._base, place=place, file=file, opts=self._child(depends_on=[playbook]))
        self._prove(roll.certificate, roster, [playbook], signing_key)
        # The cluster can be used when it is proven, not before.
        ready = Output.all(self._proof.id, roster.data).apply(lambda both: both[1])
        self.head = ready.apply(
            lambda data: next(one.address for one in data.members if one.group == plan.controller.name)
        )
        self.ssh = ready.apply(_login)
        self.logins = ready.apply(lambda data: _logins(plan, data))
        self.inventory = Output.all(ready, playbook.inventory).apply(lambda both: str(both[1]))
        self.mounts = Output.all(ready, self._attached).apply(
            lambda both: {each.path: each.source for each in both[1].mounts}
        )
        self.endings = _known_endings(ready, roster.endings)
        self.use = Output.from_input(f"stampworks run -s {self._where} -- hostname")
        self.kubeconfig = Output.from_input("")
        self._register(ready)

    def _register_kubernetes(self, place: Place, network: Network) -> None:
        plan, maker = self.plan, clouds.server(self.plan)
        storage = self._storage(place)
        control_plane = kubernetes.control_plane(self, self._base, plan, maker, network)
        driven = {
            each.name: clouds.drivers(plan).driven(each, storage[each.name], plan.region)
            for each in plan.storage
            if each.driver
        }
        of_proofs = kubernetes.assemble(self, self._base, plan, maker, control_plane, driven)
        self._attached = self._attached_storage(storage, [], [])
        ready: Output[Any] = control_plane.id
        self.endings = Output.from_input([])
        if plan.managed:
            nodes = self._managed(control_plane, storage, driven, of_proofs)
            ready = self._proof.id
            self.endings = _known_endings(ready, nodes.endings)
        elif plan.pools:
            self._join(control_plane, network, storage, of_proofs)
            ready = self._proof.id
        self.kubeconfig = Output.secret(control_plane.kubeconfig)
        self.head = Output.all(ready, control_plane.address).apply(lambda both: str(both[1]))
        self.use = Output.from_input(f"stampworks kubectl -s {self._where} -- get nodes")
        self.ssh = self.inventory = Output.from_input("")
        self.logins = Output.from_input({})
        self.mounts = self._attached.apply(lambda found: {each.path: each.source for each in found.mounts})
        self._register(ready)

    def _managed(
        self,
        control_plane: ControlPlane,
        storage: Mapping[str, Stored],
        driven: Mapping[str, Output[Driven]],
        proofs: Sequence[pulumi.Resource],
    ) -> KubernetesNodes:
        """Create nodes that the cloud itself joins to its Kubernetes, and their proof."""
        plan, before = self.plan, [*storage.values()]
        made = {
            group: clouds.pools(plan).create_pool(
                f"{self._base}-{group.name}",
                control_plane=control_plane,
                group=group,
                opts=self._child(depends_on=before),
            )
            for group in plan.pools
        }
        nodes = KubernetesNodes(
            self._base,
            cluster=plan.name,
            cloud=plan.cloud,
            region=plan.region,
            groups=[
                {"name": group.name, "count": group.count, "generation": pool.generation}
                for group, pool in made.items()
            ],
            # volume claims of proofs exist only if pods start from an image
            claims={name: found.apply(lambda one: one.handle) for name, found in driven.items()}
            if plan.scheduler.workloads_image
            else {},
            opts=self._child(depends_on=list(made.values())),
        )
        self._prove("", nodes, [nodes], self._signing_key(), *proofs)
        return nodes

    def _join(
        self,
        control_plane: ControlPlane,
        network: Network,
        storage: Mapping[str, Stored],
        proofs: Sequence[pulumi.Resource],
    ) -> None:
        """Create nodes that run pods: start, configure, join and prove them."""
        plan, labels = self.plan, scheduling.node_labels(self.plan)
        of, before = clouds.joined(plan), [*storage.values(), control_plane]
        groups = {group: self._group(group, network, [], depends_on=before) for group in plan.pools}
        signing_key, secrets = self._signing_key(), {"kubernetes_bootstrap": of.bootstrap(control_plane)}
        roll = self._roll(groups, secrets, signing_key)
        roster = self._roster(groups, roll)
        playbook = self._playbook(roster, secrets)
        joined = [
            of.create_joined(
                f"{self._base}-{group.name}",
                cluster=plan.name,
                control_plane=control_plane,
                group=group,
                generation=roll.generations.apply(partial(_group_generation, group.name)),
                labels=labels,
                capacity=scheduling.capacity(group),
                proven=signing_key is not None,
                drain_timeout_minutes=plan.scheduler.drain_timeout_minutes,
                opts=self._child(depends_on=[playbook]),
            )
            for group in groups
        ]
        self._prove(roll.certificate, roster, [playbook, *joined], signing_key, *proofs)

    def _child(self, **more: Any) -> ResourceOptions:
        return ResourceOptions(parent=self, **more)

    def _storage(self, place: Place) -> dict[str, Stored]:
        made: dict[str, Stored] = {}
        # file systems before the repositories that refer to them
        for one in sorted(self.plan.storage, key=lambda each: bool(each.repository)):
            made[one.name] = self._cloud.storage.create(
                f"{self._base}-{one.name}",
                cluster=self.plan.name,
                place=place,
                storage=one,
                repository=made.get(one.repository),
                opts=self._child(),
            )
        return made

    def _database(self, place: Place, keyring: Keyring) -> list[Database]:
        """Create the accounting database, if the cloud runs it."""
        plan = self.plan
        if plan.scheduler.database == "head":
            return []
        made = clouds.database(plan).create(
            f"{self._base}-accounting",
            cluster=plan.name,
            place=place,
            network=plan.network,
            scheduler=plan.scheduler,
            password=keyring.database_password,
            opts=self._child(),
        )
        return [made]

    def _attached_storage(
        self, storage: Mapping[str, Stored], volumes: Sequence[Disk], databases: Sequence[Database]
    ) -> Output[Attached]:
        """Return the locations at which nodes find storage, volumes and databases."""
        of, plan = self._cloud, self.plan
        mounts = Output.all(*(of.storage.mount(each, storage[each.name]) for each in plan.storage))
        serials = Output.all(*(clouds.volumes(plan).serial(each) for each in volumes))
        paths = [each.mount for each in plan.controller.volumes] if volumes else []
        hosts = Output.all(*(each.address for each in databases))
        return Output.all(mounts, serials, hosts).apply(
            lambda found: Attached(
                tuple(found[0]),
                tuple(AttachedDisk(serial, path) for serial, path in zip(found[1], paths, strict=True) if serial),
                "".join(found[2]),
                clouds.database(plan).authorities(plan.region) if databases else "",
            )
        )

    def _volumes(self, group: Group, place: Place) -> list[Disk]:
        return [
            clouds.volumes(self.plan).create_volume(
                f"{self._base}-{group.name}-{volume.name}",
                cluster=self.plan.name,
                place=place,
                group=group,
                volume=volume,
                protect=self.plan.scheduler.protect,
                opts=self._child(),
            )
            for volume in group.volumes
        ]

    def _group(self, group: Group, network: Network, volumes: Sequence[Disk], **more: Any) -> NodeGroup:
        plan = self.plan
        return self._cloud.nodes.create(
            f"{self._base}-{group.name}",
            cluster=plan.name,
            network=network,
            group=group,
            rails=plan.fabric.rails_of(group),
            release=plan.release,
            content=self._content,
            volumes=volumes,
            drain_timeout_minutes=plan.scheduler.drain_timeout_minutes,
            opts=self._child(**more),
        )

    def _roll(
        self,
        groups: Mapping[Group, NodeGroup],
        secrets: Mapping[str, pulumi.Input[str]],
        signing_key: SigningKey | None,
    ) -> Roll:
        plan, content = self.plan, self._content
        return Roll(
            self._base,
            cluster=plan.name,
            cloud=plan.cloud,
            groups=[
                {
                    "name": group.name,
                    "generation": resource.generation,
                    "template": self._cloud.nodes.template(group, plan.fabric.leaf_nodes, plan.release, content),
                }
                for group, resource in groups.items()
            ],
            plan=_written(plan),
            content=content,
            playbook={
                "name": _PLAYBOOK,
                "roles": configuration.own_roles(plan.extras),
                "checks": dict(configuration.check_texts(plan.extras, Path.cwd())),
                "timeoutMinutes": _PLAYBOOK_MINUTES,
                "attached": self._attached.apply(to_dict),
            },
            programs=configuration.programs_digest(),
            fingerprint=fingerprint(plan),
            secrets={**secrets, **({"signing_key": signing_key.private_key} if signing_key else {})},
            opts=self._child(depends_on=list(groups.values())),
        )

    def _roster(self, groups: Iterable[Group], roll: Roll) -> Roster:
        plan = self.plan
        return Roster(
            self._base,
            cluster=plan.name,
            cloud=plan.cloud,
            region=plan.region,
            groups=json.dumps(
                [
                    {"name": group.name, "names": [node.name for node in group.nodes], "count": group.count_min}
                    for group in groups
                ]
            ),
            # pass it as a whole: Pulumi searches each output taken by itself for cycles
            generations=roll.generations,
            tags=self._cloud.place.cost_tags(plan) or None,
            drain_timeout_minutes=plan.scheduler.drain_timeout_minutes,
            opts=self._child(),
        )

    def _secrets(self, keyring: Keyring) -> dict[str, pulumi.Input[str]]:
        ours = {"slurm_key": keyring.slurm_key, "database_password": keyring.database_password}
        return {**ours, **directory.secrets(self.plan)}

    def _playbook(
        self, roster: Roster, secrets: Mapping[str, pulumi.Input[str]], after: Sequence[pulumi.Resource] = ()
    ) -> Playbook:
        return Playbook(
            self._base,
            playbook=_PLAYBOOK,
            inventory=self._known(roster).apply(lambda known: self._inventory(*known)),
            roster=roster.data.apply(to_dict),
            digest=configuration.content_digest(self.plan.extras, Path.cwd()),
            roles=configuration.own_roles(self.plan.extras),
            secrets=secrets,
            timeout_minutes=_PLAYBOOK_MINUTES,
            drain_timeout_minutes=self.plan.scheduler.drain_timeout_minutes,
            opts=self._child(depends_on=[*after]),
        )

    def _known(self, roster: Roster) -> Output[Any]:
        """Return the members, with their attached devices and the end of their capacity."""
        endings = roster.endings.apply(lambda found: [from_dict(Ending, each) for each in found or ()])
        return Output.all(roster.data, self._attached, endings)

    def _inventory(self, roster: RosterData, attached: Attached, endings: Sequence[Ending]) -> str:
        return json.dumps(configuration.inventory(*self._facts(roster, attached), endings=endings))

    def _bundle(self, roster: RosterData, attached: Attached, endings: Sequence[Ending]) -> str:
        return str(configuration.bundle_file(*self._facts(roster, attached), Path.cwd(), endings))

    def _facts(self, roster: RosterData, attached: Attached) -> _NodeFacts:
        """Return the facts about nodes for their configuration."""
        from stampworks.operations.schedulers import port_of  # takes long to import: only if there is one

        plan, checks = self.plan, configuration.check_texts(self.plan.extras, Path.cwd())
        files = port_of(plan.scheduler.kind).files(plan, roster)
        return plan, roster, files, checks, self._content, attached

    def _signing_key(self) -> SigningKey | None:
        """Make the signing key of a cluster that is proven."""
        proven = self.plan.proof.level != "none" and bool(self.plan.pools)
        return SigningKey(self._base, cluster=self.plan.name, opts=self._child()) if proven else None

    def _prove(
        self,
        rolled: pulumi.Input[str],
        roster: Roster | KubernetesNodes,
        configured: Sequence[pulumi.CustomResource],
        key: SigningKey | None,
        *after: pulumi.Resource,
    ) -> None:
        """Register the proof, on which all outputs of the cluster depend."""
        plan = self.plan
        self._proof = configured[-1]
        if not key:
            return
        proof = Qualification(
            self._base,
            subject=json.dumps(to_dict(qualification.subject_of(plan, scheduling.claims(plan)))),
            roster=roster.data.apply(to_dict),
            programs=configuration.programs_digest(),
            rolled=rolled,
            fingerprint=fingerprint(plan),
            signing_key=key.private_key,
            opts=self._child(depends_on=[*configured, *after]),
        )
        self._proof = proof
        self.verdict, self.certificate, self.verification_key = proof.verdict, proof.certificate, key.public_key

    def _register(self, ready: Output[Any]) -> None:
        """Register the outputs that every cluster has."""
        plan = self.plan
        self.name = Output.from_input(plan.name)
        self.nodes = Output.from_input(sum(pool.count for pool in plan.pools))
        self.cost_tags = Output.from_input(dict(self._cloud.place.cost_tags(plan)))
        self.fingerprint = ready.apply(lambda _: fingerprint(plan))
        outputs = {name: getattr(self, name) for name in OUTPUTS}
        if plan.managed or not plan.stamped:  # otherwise the command line finds the stamped plan with the roll
            outputs["plan"] = ready.apply(lambda _: _written(plan))
        self.register_outputs(outputs)
