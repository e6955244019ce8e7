"""The contract of a cloud: the functions that its modules have, as protocols that mypy holds each module against.

`Cloud` at the end of this file lists the parts. A cloud says in its `__init__.py` which of them it has; `registry.py`
lists the clouds. `components.py` has the parts that make resources with the engine. Those of this file ask or change a
cluster while it runs, or an account, and know nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from stampworks.clouds.components import (
    AnyResources,
    DatabaseMaker,
    Drivers,
    ElasticMaker,
    JoinedMaker,
    PoolMaker,
    ServerMaker,
)
from stampworks.clouds.faults import Fault, Injected
from stampworks.plan import Ending, Group, Member, Plan, Refusal, Roster

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)


class Members(Protocol):
    """`members`: the nodes that run now, asked of the cloud."""

    PATIENCE_S: float
    """Seconds for which missing nodes may still come."""
    POLL_S: float
    """Seconds between two looks."""

    def members(self, cluster: str, region: str) -> Roster:
        """List the nodes that run, dead ones left out, with the host keys that the cloud knows; change nothing. No
        members means that no cluster runs."""

    def endings(self, cluster: str, region: str) -> tuple[Ending, ...]:
        """Say when capacity ends that nodes are in."""

    def refusals(self, cluster: str, region: str, groups: Sequence[str]) -> tuple[Refusal, ...]:
        """Say why groups have not got their machines, and whether waiting helps."""

    def join(self, cluster: str, region: str, names: Mapping[str, Sequence[str]]) -> None:
        """Make members of what was started, and start what has died, where nothing else does. `names` are the nodes of
        each group that always run."""

    def retag(self, cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
        """Write these cost tags on machines that run, and remove those that are gone."""

    def misplaced(self, cluster: str, region: str, always: Mapping[str, Sequence[str]]) -> Sequence[str]:
        """List nodes whose machine has to go."""

    def dismiss(self, cluster: str, region: str, always: Mapping[str, Sequence[str]], names: Iterable[str]) -> None:
        """End the machines of these nodes that have to go."""


class Renewal(Protocol):
    """`renewal`: nodes that run on something that is no longer declared, and new disks or machines for them."""

    @property
    def Failure(self) -> type[Exception]:  # noqa: N802
        """The error that these functions end with."""

    def outdated(self, plan: Plan, content: str) -> Mapping[str, str]:
        """Return the running nodes that were made from something else or were given up, and why."""

    def renew(self, plan: Plan, content: str, names: Collection[str], progress: Callable[[str], None]) -> None:
        """Make these nodes anew."""

    def condemn(self, plan: Plan, names: Collection[str], why: str, machine: bool = False) -> None:
        """Give nodes up, with `machine` their machines as well; without a reason, no longer."""


class ElasticMembers(Protocol):
    """`members`, too: elastic nodes."""

    def end_elastic(self, cluster: str, region: str, group: str) -> Sequence[str]:
        """End the elastic nodes of a group, and return the names of those that are still there."""


class PoolMembers(Protocol):
    """`members`, too: pools whose nodes a managed Kubernetes starts."""

    def node_refusals(self, cluster: str, region: str, groups: Sequence[str]) -> tuple[Refusal, ...]:
        """Say why such pools have not got their machines."""


class JoinedRenewal(Protocol):
    """`renewal`, too: nodes that are members of a Kubernetes of ours."""

    def take_in(
        self,
        plan: Plan,
        group: Group,
        names: Collection[str],
        labels: Mapping[str, Mapping[str, str]],
        capacity: Mapping[str, str],
        progress: Callable[[str], None],
    ) -> None:
        """Wait until these nodes, which have been made anew and configured, run pods."""


class Access(Protocol):
    """`access`: the way to the server of a Kubernetes."""

    def kubectl(self, cluster: str, region: str) -> tuple[str, ...]:
        """Return the beginning of a command that asks the server; nothing where none runs."""

    def remedy(self, why: str) -> str:
        """Say what to do where the server was not heard for this reason."""


class Doors(Protocol):
    """`door`: ways in for users, where an administrator steps into the network of a cluster."""

    def target(self, cluster: str, member: Member) -> str:
        """Open a way to the member's sshd; return what ssh connects to."""


class Faults(Protocol):
    """`faults`: breaking a running cluster on purpose."""

    FAULTS: dict[str, Fault]

    def recorded(self, cluster: str) -> tuple[Injected, ...]:
        """List injected faults that were not cleared, in the order in which they are best cleared."""

    def there(self, plan: Plan, one: Injected) -> bool | None:
        """Say whether the fault is there now; None where nobody can tell."""

    def inject(self, plan: Plan, one: Injected) -> None: ...

    def clear(self, plan: Plan, one: Injected) -> None: ...


class AccountReader(Protocol):
    """`facts.account`: what an account has and allows."""

    def read_account(self, plan: Plan, progress: Callable[[str], None]) -> dict[str, Any]:
        """Read it for a plan; UnansweredError where nothing is answered."""


class CloudImage(Protocol):
    """An image that a cloud publishes."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def created(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def deprecated(self) -> str: ...


class Sessions(Protocol[A_co]):
    """`session`: the services of a region."""

    def Api(self, region: str) -> A_co: ...  # noqa: N802


class Images(Protocol[A_contra]):
    """`facts.images`: images that a cloud publishes."""

    def published(self, api: A_contra, parameter: str) -> str | None:
        """Return the image that a parameter names now; None where the region has no such parameter."""

    def described(self, api: A_contra, ids: Iterable[str]) -> Mapping[str, CloudImage]:
        """Describe those of the images that are there."""


class Parts(Protocol[A_contra]):
    """`facts.parts`: what a managed Kubernetes is made of."""

    def default_version(self, api: A_contra, addon: str, kubernetes: str) -> str | None:
        """Return the version that the cloud takes where nobody names one; None where it has none."""


@dataclass(frozen=True)
class Lookups(Generic[A]):
    """What `stampworks lock` looks up."""

    session: Sessions[A]
    images: Images[A]
    parts: Parts[A]


class ImageBuilder(Protocol):
    """`first_boot`: what a machine that an image is made on boots with."""

    def builder_config(self, agent: str) -> str: ...


@dataclass(frozen=True)
class Elastic:
    """Nodes that start and end with the work."""

    make: Callable[[], ElasticMaker[Any, Any]]
    members: Callable[[], ElasticMembers]


@dataclass(frozen=True)
class ManagedPools:
    """Nodes that a cloud itself joins to its Kubernetes."""

    make: Callable[[], PoolMaker[Any, Any]]
    members: Callable[[], PoolMembers]


@dataclass(frozen=True)
class JoinedPools:
    """Nodes that join a Kubernetes by their configuration."""

    make: Callable[[], JoinedMaker[Any]]
    renewal: Callable[[], JoinedRenewal]


@dataclass(frozen=True)
class Kubernetes:
    """The Kubernetes of a cloud; its nodes come in one of two ways."""

    server: Callable[[], ServerMaker[Any, Any]]
    access: Callable[[], Access]
    managed: ManagedPools | None = None
    joined: JoinedPools | None = None
    drivers: Callable[[], Drivers[Any]] | None = None


@dataclass(frozen=True)
class Cloud:
    """The parts of a cloud. Each is a function that imports it, so that an SDK is imported when it is used.

    A cloud with `resources` can be rehearsed; one with `members` and `renewal`, too, can be stamped. All others are
    optional abilities.
    """

    resources: Callable[[], AnyResources]
    members: Callable[[], Members] | None = None
    renewal: Callable[[], Renewal] | None = None
    kubernetes: Kubernetes | None = None
    elastic: Elastic | None = None
    database: Callable[[], DatabaseMaker[Any, Any]] | None = None
    account: Callable[[], AccountReader] | None = None
    lookups: Callable[[], Lookups[Any]] | None = None
    image_builder: Callable[[], ImageBuilder] | None = None
    faults: Callable[[], Faults] | None = None
    doors: Callable[[], Doors] | None = None
