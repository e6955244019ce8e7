"""Resources that every cloud's clusters have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output

from stampworks import plan, properties
from stampworks.resources.base import Resource


class Keyring(Resource):
    """The secrets of one cluster: made once, and never again while the cluster lives."""

    table = properties.KEYRING

    cluster: Output[str]
    ssh_public_key: Output[str]
    ssh_private_key: Output[str]
    slurm_key: Output[str]
    database_password: Output[str]

    def __init__(self, name: str, *, cluster: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, locals(), opts)


class ElasticNodes(Resource):
    """The nodes of a group that start and stop by themselves: what is left of them ends when this is deleted."""

    table = properties.ELASTIC_NODES

    cluster: Output[str]
    cloud: Output[str]
    region: Output[str]
    group: Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        region: Input[str],
        group: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class Roll(Resource):
    """Makes nodes anew, in waves, that run on an earlier image or were given up."""

    table = properties.ROLL

    cluster: Output[str]
    cloud: Output[str]
    groups: Output[Any]
    plan: Output[str]
    content: Output[str]
    playbook: Output[Any]
    programs: Output[str]
    fingerprint: Output[str]
    secrets: Output[Any]
    generations: Output[Any]
    certificate: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        groups: Input[Sequence[Input[Mapping[str, Any]]]],
        plan: Input[str],
        content: Input[str],
        playbook: Input[Mapping[str, Any]],
        programs: Input[str],
        fingerprint: Input[str],
        secrets: Input[Mapping[str, Input[str]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Each group is {name, template, generation}; nodes with another template are made anew. The plan is JSON text.

        The playbook is {name, roles, checks, timeoutMinutes}; secrets may have the key that certificates are signed
        with, as `signing_key`.
        """
        super().__init__(name, locals(), opts)


class Roster(Resource):
    """Waits until all members of all groups are there, and says who they are."""

    table = properties.ROSTER

    cluster: Output[str]
    cloud: Output[str]
    region: Output[str]
    groups: Output[str]
    generations: Output[Any]
    tags: Output[Any]
    drain_timeout_minutes: Output[int]
    reach: Output[Any]
    proxy: Output[Any]
    user: Output[str]
    identity_file: Output[str]
    members: Output[Any]
    endings: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        region: Input[str],
        groups: Input[str],
        generations: Input[Mapping[str, Input[str]] | None],
        tags: Input[Mapping[str, Input[str]] | None],
        drain_timeout_minutes: Input[int],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """The groups are JSON text, each {name, names, count}.

        Another generation of one: its members are others, or were restarted.
        """
        super().__init__(name, locals(), opts)

    @property
    def data(self) -> Output[plan.Roster]:
        """The roster as the type that the rest of the toolkit reads."""
        fields = ("cluster", "cloud", "reach", "user", "identity_file", "members", "region", "proxy")
        whole: Output[dict[str, Any]] = Output.all(**{field: getattr(self, field) for field in fields})
        # an earlier version of the toolkit left out what has a default now
        known = whole.apply(lambda data: {name: value for name, value in data.items() if value is not None})
        return known.apply(lambda data: plan.from_dict(plan.Roster, data))


class KubernetesNodes(Resource):
    """Waits until each group has its nodes in a Kubernetes whose cloud makes them, and says who they are."""

    table = properties.KUBERNETES_NODES

    cluster: Output[str]
    cloud: Output[str]
    region: Output[str]
    groups: Output[Any]
    claims: Output[Any]
    members: Output[Any]
    drift: Output[Any]
    endings: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        region: Input[str],
        groups: Input[Sequence[Input[Mapping[str, Any]]]],
        claims: Input[Mapping[str, Input[str]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Each group is {name, count, generation}; another generation: its nodes are made from something else."""
        super().__init__(name, locals(), opts)

    @property
    def data(self) -> Output[plan.Roster]:
        """The roster as the type that the rest of the toolkit reads: nobody logs in to these nodes."""
        whole: Output[Any] = Output.all(self.cluster, self.cloud, self.region, self.members)

        def roster(known: Any) -> plan.Roster:
            cluster, cloud, region, members = known
            them = tuple(plan.from_dict(plan.Member, each) for each in members)
            return plan.Roster(cluster, cloud, (), "", "", them, region)

        return whole.apply(roster)


class KubernetesQueues(Resource):
    """Refuses to have a team or a queue go while gangs are in it."""

    table = properties.KUBERNETES_QUEUES

    cluster: Output[str]
    cloud: Output[str]
    region: Output[str]
    queues: Output[Any]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        region: Input[str],
        queues: Input[Mapping[str, Mapping[str, str]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Of each team its queues, by name, and what each leads to."""
        super().__init__(name, locals(), opts)


class KubernetesServer(Resource):
    """Is there when a new server answers, or when nobody has heard it for long: whoever asks it next says why."""

    table = properties.KUBERNETES_SERVER

    cluster: Output[str]
    cloud: Output[str]
    region: Output[str]
    server: Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        region: Input[str],
        server: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """The server is what no other one has."""
        super().__init__(name, locals(), opts)


class Playbook(Resource):
    """Runs a playbook on the members of a roster, again whenever anything it depends on has changed."""

    table = properties.PLAYBOOK

    playbook: Output[str]
    inventory: Output[str]
    roster: Output[Any]
    digest: Output[str]
    roles: Output[Any]
    secrets: Output[Any]
    timeout_minutes: Output[int]
    drain_timeout_minutes: Output[int]
    changed: Output[int]
    hosts: Output[int]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        playbook: Input[str],
        inventory: Input[str],
        roster: Input[Mapping[str, Any]],
        digest: Input[str],
        roles: Input[Sequence[Mapping[str, str]]],
        secrets: Input[Mapping[str, Input[str]]],
        timeout_minutes: Input[int] = 60,
        drain_timeout_minutes: Input[int] = 0,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """The inventory is Ansible's, as JSON text; digest stands for the content of all playbooks and roles.

        The roles are the user's own: {name, path from the program's folder, variables as JSON text}.
        """
        super().__init__(name, locals(), opts)


class SigningKey(Resource):
    """The key by which certificates are known to be this stack's."""

    table = properties.SIGNING_KEY

    cluster: Output[str]
    public_key: Output[str]
    private_key: Output[str]

    def __init__(self, name: str, *, cluster: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, locals(), opts)


class Qualification(Resource):
    """Measures the members of a roster against their plan; what depends on it waits until they have passed."""

    table = properties.QUALIFICATION

    subject: Output[str]
    roster: Output[Any]
    programs: Output[str]
    rolled: Output[str]
    fingerprint: Output[str]
    signing_key: Output[str]
    verdict: Output[str]
    certificate: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        subject: Input[str],
        roster: Input[Mapping[str, Any]],
        programs: Input[str],
        rolled: Input[str],
        fingerprint: Input[str],
        signing_key: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """The subject is what a proof depends on, as JSON text, `programs` stands for the content of what measures."""
        super().__init__(name, locals(), opts)
