"""Resources of clusters on every cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output

from stampworks import plan, properties
from stampworks.resources.base import Resource


class Keyring(Resource):
    """The secrets of one cluster, made once for its lifetime."""

    table = properties.KEYRING

    cluster: Output[str]
    ssh_public_key: Output[str]
    ssh_private_key: Output[str]
    slurm_key: Output[str]
    database_password: Output[str]

    def __init__(self, name: str, *, cluster: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, locals(), opts)


class ElasticNodes(Resource):
    """The elastic nodes of a group. Deleting this ends those that are left."""

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
    """Renews, in waves, nodes that run on an earlier image or were condemned."""

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
        """Take the inputs.

        Each group is {name, template, generation}; nodes with another template are renewed. The plan is JSON text. The
        playbook is {name, roles, checks, timeoutMinutes}. `secrets` may contain the key that signs certificates, as
        `signing_key`.
        """
        super().__init__(name, locals(), opts)


class Roster(Resource):
    """Waits until all groups have their members, and lists them."""

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
        """Take the inputs.

        The groups are JSON text, each {name, names, count}. Another generation of a group means that its members
        changed or restarted.
        """
        super().__init__(name, locals(), opts)

    @property
    def data(self) -> Output[plan.Roster]:
        """Return the roster as the type that the rest of the toolkit reads."""
        fields = ("cluster", "cloud", "reach", "user", "identity_file", "members", "region", "proxy")
        whole: Output[dict[str, Any]] = Output.all(**{field: getattr(self, field) for field in fields})
        # an earlier version left out properties that have a default now
        known = whole.apply(lambda data: {name: value for name, value in data.items() if value is not None})
        return known.apply(lambda data: plan.from_dict(plan.Roster, data))


class KubernetesNodes(Resource):
    """Waits until each group has its nodes in a Kubernetes whose cloud creates them, and lists them."""

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
        """Take the inputs. Each group is {name, count, generation}. Another generation means another template of its
        nodes."""
        super().__init__(name, locals(), opts)

    @property
    def data(self) -> Output[plan.Roster]:
        """Return the roster as the type that the other rooms read. Users do not log in to these nodes."""
        whole: Output[Any] = Output.all(self.cluster, self.cloud, self.region, self.members)

        def roster(known: Any) -> plan.Roster:
            cluster, cloud, region, members = known
            them = tuple(plan.from_dict(plan.Member, each) for each in members)
            return plan.Roster(cluster, cloud, (), "", "", them, region)

        return whole.apply(roster)


class KubernetesQueues(Resource):
    """Refuses to remove a team or a queue while gangs are in it."""

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
        """Take the inputs. `queues` has the queues of each team by name, and the target of each."""
        super().__init__(name, locals(), opts)


class KubernetesServer(Resource):
    """Waits until a new server answers, or until a time limit. After that the next request reports the reason."""

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
        """Take the inputs. `server` is unique for each server."""
        super().__init__(name, locals(), opts)


class Playbook(Resource):
    """Runs a playbook on the members of a roster, and again whenever one of its inputs has changed."""

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
        """Take the inputs.

        The inventory is Ansible's, as JSON text. `digest` stands for the content of all playbooks and roles. `roles`
        are the user's own: {name, path from the program's folder, variables as JSON text}.
        """
        super().__init__(name, locals(), opts)


class SigningKey(Resource):
    """The key that signs the certificates of this stack."""

    table = properties.SIGNING_KEY

    cluster: Output[str]
    public_key: Output[str]
    private_key: Output[str]

    def __init__(self, name: str, *, cluster: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, locals(), opts)


class Qualification(Resource):
    """Measures the members of a roster against their plan. Dependent resources wait until they have passed."""

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
        """Take the inputs. `subject` is the part of the plan that a proof depends on, as JSON text. `programs` is a
        digest of the programs that measure."""
        super().__init__(name, locals(), opts)
