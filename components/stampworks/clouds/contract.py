"""The contract of a cloud: protocols of its modules, against which mypy checks each module.

`Cloud` at the end of this file lists the parts. A cloud names its parts in its `__init__.py`; `registry.py` lists the
clouds. `components.py` has the parts that make resources with the engine. The parts in this file read or change a
running cluster or an account, and know nothing of the engine.
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
from stampworks.plan.rights import Right

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)


class Members(Protocol):
    """`members`: the running nodes, as the cloud lists them."""

    PATIENCE_S: float
    """Seconds to wait for missing nodes."""
    POLL_S: float
    """Seconds between polls."""

    def members(self, cluster: str, region: str) -> Roster:
        """List the running nodes with the host keys that the cloud knows. Change nothing.

        An empty roster means that no cluster runs.
        """

    def endings(self, cluster: str, region: str) -> tuple[Ending, ...]:
        """Return the end of each limited capacity that nodes run in."""

    def refusals(self, cluster: str, region: str, groups: Sequence[str]) -> tuple[Refusal, ...]:
        """Return the reasons why groups lack machines, and whether waiting helps."""

    def join(self, cluster: str, region: str, names: Mapping[str, Sequence[str]]) -> None:
        """Make started machines members, and replace dead ones if nothing else does.

        `names` are the permanent nodes of each group.
        """

    def retag(self, cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
        """Write these cost tags on running machines, and remove those in `gone`."""

    def misplaced(self, cluster: str, region: str, always: Mapping[str, Sequence[str]]) -> Sequence[str]:
        """List the nodes whose machine has to end."""

    def dismiss(self, cluster: str, region: str, always: Mapping[str, Sequence[str]], names: Iterable[str]) -> None:
        """End the machines of those nodes in `names` that are misplaced."""


class Renewal(Protocol):
    """`renewal`: outdated nodes, and new disks or machines for them."""

    @property
    def Failure(self) -> type[Exception]:  # noqa: N802
        """The error that these functions raise."""

    def outdated(self, plan: Plan, content: str) -> Mapping[str, str]:
        """Return the running nodes that are outdated or condemned, and why."""

    def renew(self, plan: Plan, content: str, names: Collection[str], progress: Callable[[str], None]) -> None:
        """Give these nodes new disks or machines."""

    def condemn(self, plan: Plan, names: Collection[str], why: str, machine: bool = False) -> None:
        """Condemn nodes, and their machines with `machine`; without a reason, undo it."""


class ElasticMembers(Protocol):
    """`members`, too: elastic nodes."""

    def end_elastic(self, cluster: str, region: str, group: str) -> Sequence[str]:
        """End the elastic nodes of a group, and return the names of those that are not gone yet."""


class PoolMembers(Protocol):
    """Optional part of `members`: pools whose nodes a managed Kubernetes starts."""

    def node_refusals(self, cluster: str, region: str, groups: Sequence[str]) -> tuple[Refusal, ...]:
        """Return the reasons why such pools lack machines."""


class JoinedRenewal(Protocol):
    """Optional part of `renewal`: nodes that are members of the toolkit's Kubernetes."""

    def take_in(
        self,
        plan: Plan,
        group: Group,
        names: Collection[str],
        labels: Mapping[str, Mapping[str, str]],
        capacity: Mapping[str, str],
        progress: Callable[[str], None],
    ) -> None:
        """Wait until these nodes run pods, after they were renewed and configured."""


class Access(Protocol):
    """`access`: access to the server of a Kubernetes."""

    def kubectl(self, cluster: str, region: str) -> tuple[str, ...]:
        """Return the start of a kubectl command; empty if no server runs."""

    def user_config(self, cluster: str, region: str, user: str) -> str:
        """Return a kubeconfig with only the user's own rights; empty if no server runs."""

    def remedy(self, why: str) -> str:
        """Return a hint for a server that could not be reached for this reason."""


class Doors(Protocol):
    """`door`: access for users; an administrator can enter the network of a cluster."""

    def target(self, cluster: str, member: Member) -> str:
        """Open a connection to the member's sshd, and return its ssh address."""


class Faults(Protocol):
    """`faults`: breaking a running cluster on purpose."""

    FAULTS: dict[str, Fault]

    def recorded(self, cluster: str) -> tuple[Injected, ...]:
        """Return the injected faults that were not cleared, in the best order to clear them."""

    def there(self, plan: Plan, one: Injected) -> bool | None:
        """Whether the fault exists now; None if that cannot be found out."""

    def inject(self, plan: Plan, one: Injected) -> None:
        """Inject a recorded fault."""

    def clear(self, plan: Plan, one: Injected) -> None:
        """Undo an injected fault; succeed if it is already gone."""


class AccountReader(Protocol):
    """`facts.account`: resources and limits of an account."""

    def read_account(
        self, plan: Plan, rights: Sequence[Right], deployer: str, say: Callable[[str], None]
    ) -> dict[str, Any]:
        """Read the account for a plan, and which of these rights the deployer has there; without a deployer, the
        caller.

        Raise UnansweredError if it does not answer.
        """


class CloudImage(Protocol):
    """An image that a cloud publishes."""

    @property
    def id(self) -> str:
        """The cloud's id of the image."""

    @property
    def name(self) -> str:
        """The publisher's name of the image."""

    @property
    def created(self) -> str:
        """The day, as 2026-11-02."""

    @property
    def architecture(self) -> str:
        """Architecture in the cloud's words."""

    @property
    def state(self) -> str:
        """State in the cloud's words."""

    @property
    def deprecated(self) -> str:
        """The day from which it is deprecated; empty for none."""


class Sessions(Protocol[A_co]):
    """`session`: the services of a region."""

    def Api(self, region: str) -> A_co:  # noqa: N802
        """Return a client for a region."""


class Images(Protocol[A_contra]):
    """`facts.images`: images that a cloud publishes."""

    def published(self, api: A_contra, parameter: str) -> str | None:
        """Return the present image of a parameter; None if the region has no such parameter."""

    def named(self, api: A_contra, owner: str, name: str) -> CloudImage | None:
        """Return the newest image of an owner with this name; None if the region has none."""

    def described(self, api: A_contra, ids: Iterable[str]) -> Mapping[str, CloudImage]:
        """Describe the images that exist."""


class Parts(Protocol[A_contra]):
    """`facts.parts`: add-ons of a managed Kubernetes."""

    def default_version(self, api: A_contra, addon: str, kubernetes: str) -> str | None:
        """Return the version that the cloud installs by default; None if it has none."""


@dataclass(frozen=True)
class Lookups(Generic[A]):
    """Lookups of `stampworks lock`."""

    session: Sessions[A]
    images: Images[A]
    parts: Parts[A]


class ImageBuilder(Protocol):
    """`first_boot`: user data of a machine that builds an image."""

    def builder_config(self, agent: str) -> str:
        """Return the user data of the instance on which Packer builds an image."""


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
    """Nodes that join a Kubernetes through their configuration."""

    make: Callable[[], JoinedMaker[Any]]
    renewal: Callable[[], JoinedRenewal]


@dataclass(frozen=True)
class Kubernetes:
    """The Kubernetes of a cloud. Its nodes are managed or joined."""

    server: Callable[[], ServerMaker[Any, Any]]
    access: Callable[[], Access]
    managed: ManagedPools | None = None
    joined: JoinedPools | None = None
    drivers: Callable[[], Drivers[Any]] | None = None


@dataclass(frozen=True)
class Cloud:
    """The parts of a cloud.

    Each is a function that imports it, so that its SDK is imported only for use. A cloud with `resources` can be
    rehearsed; with `members` and `renewal` in addition, it can be stamped. All others are optional abilities.
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
