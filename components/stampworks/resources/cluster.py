"""Resources that every cloud's clusters have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output

from stampworks import plan
from stampworks.resources.base import Resource


class Keyring(Resource):
    """The secrets of one cluster: made once, and never again while the cluster lives."""

    token = "stampworks:cluster:Keyring"  # noqa: S105

    cluster: Output[str]
    ssh_public_key: Output[str]
    ssh_private_key: Output[str]
    slurm_key: Output[str]
    database_password: Output[str]

    def __init__(self, name: str, *, cluster: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, {"cluster": cluster}, opts)


class Roster(Resource):
    """Waits until all members of all groups are there, and says who they are."""

    token = "stampworks:cluster:Roster"  # noqa: S105

    cluster: Output[str]
    cloud: Output[str]
    groups: Output[Any]
    reach: Output[Any]
    user: Output[str]
    identity_file: Output[str]
    members: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        cloud: Input[str],
        groups: Input[Sequence[Input[Mapping[str, Any]]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Each group is {name, count, generation}; another generation: members are others, or were restarted."""
        super().__init__(name, {"cluster": cluster, "cloud": cloud, "groups": groups}, opts)

    @property
    def data(self) -> Output[plan.Roster]:
        """The roster as the type that the rest of the toolkit reads."""
        fields = ("cluster", "cloud", "reach", "user", "identity_file", "members")
        whole: Output[dict[str, Any]] = Output.all(**{field: getattr(self, field) for field in fields})
        return whole.apply(lambda data: plan.from_dict(plan.Roster, data))


class Playbook(Resource):
    """Runs a playbook on the members of a roster, again whenever anything it depends on has changed."""

    token = "stampworks:cluster:Playbook"  # noqa: S105

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
        inputs = {
            "playbook": playbook,
            "inventory": inventory,
            "roster": roster,
            "digest": digest,
            "roles": roles,
            "secrets": Output.secret(secrets),
            "timeout_minutes": timeout_minutes,
            "drain_timeout_minutes": drain_timeout_minutes,
        }
        super().__init__(name, inputs, opts)
