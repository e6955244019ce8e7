"""The contract of a cloud: the functions that its modules have, as protocols that mypy holds each module against.

`Cloud` at the end of this file lists the parts. A cloud says in its `__init__.py` which of them it has; `registry.py`
lists the clouds. The first half are parts that make resources with the engine, the second half parts that ask or change
a cluster while it runs and know nothing of the engine.

A part returns resources of its own types, and takes those of its cloud's other parts: `network.create` takes the place
that `place.create` of the same cloud has returned. Type variables stand for these types. `Place`, `Network` and so on
say what the assembly in `cluster/` may do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from stampworks.clouds.faults import Fault, Injected
from stampworks.plan import (
    Driven,
    Ending,
    Group,
    Mount,
    Plan,
    Rail,
    Refusal,
    Release,
    Roster,
    Scheduler,
    Storage,
    Volume,
)
from stampworks.plan import Network as PlannedNetwork

if TYPE_CHECKING:
    from pulumi import CustomResource, Input, Output, Resource, ResourceOptions

    from stampworks.resources import Keyring

    class Place(Resource):
        """The surroundings of all other resources of a cluster."""

    class Network(Resource):
        """The network that nodes are in."""

    class Stored(Resource):
        """A file system, or the way to it."""

    class Disk(Resource):
        """A disk that outlives its node."""

    class NodeGroup(Resource):
        """The members of one group."""

        generation: Input[str]
        """Another text when a member is another one; empty where the engine does not know the members."""

    class ControlPlane(Resource):
        """The server of a Kubernetes."""

        id: Output[str]
        address: Output[str]
        kubeconfig: Output[str]
        identity: Output[str]
        """Another text for another server alone: all objects are made anew with it."""

    class Database(Resource):
        """The server of a database."""

        address: Output[str]


class HasGeneration(Protocol):
    """A group of nodes, or a pool of a managed Kubernetes."""

    @property
    def generation(self) -> Input[str]: ...


class HasAddress(Protocol):
    """The server of a database."""

    @property
    def address(self) -> Output[str]: ...


class IsServer(Protocol):
    """The server of a Kubernetes."""

    @property
    def id(self) -> Output[str]: ...
    @property
    def address(self) -> Output[str]: ...
    @property
    def kubeconfig(self) -> Output[str]: ...
    @property
    def identity(self) -> Output[str]: ...


P = TypeVar("P", bound="Resource")
N = TypeVar("N", bound="Resource")
S = TypeVar("S", bound="Resource")
D = TypeVar("D", bound="Resource")
G = TypeVar("G", bound=HasGeneration)
C = TypeVar("C", bound=IsServer)
A = TypeVar("A")
P_co = TypeVar("P_co", bound="Resource", covariant=True)
P_contra = TypeVar("P_contra", contravariant=True)
N_co = TypeVar("N_co", bound="Resource", covariant=True)
N_contra = TypeVar("N_contra", contravariant=True)
S_contra = TypeVar("S_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
G_co = TypeVar("G_co", bound=HasGeneration, covariant=True)
G_contra = TypeVar("G_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
B_co = TypeVar("B_co", bound=HasAddress, covariant=True)
A_co = TypeVar("A_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)


class PlaceMaker(Protocol[P_co]):
    """`place`: comes first and goes last, with whatever a killed `up` has left and no state knows of."""

    def create(self, name: str, *, plan: Plan, opts: ResourceOptions) -> P_co: ...

    def cost_tags(self, plan: Plan) -> Mapping[str, str]:
        """Tags by which a bill tells the costs of this cluster; none where nobody sends a bill."""


class NetworkMaker(Protocol[P_contra, N_co]):
    """`network`: the network of nodes, with the rails that the plan numbers."""

    def create(
        self,
        name: str,
        *,
        cluster: str,
        place: P_contra,
        network: PlannedNetwork,
        rails: Sequence[Rail],
        keyring: Keyring,
        opts: ResourceOptions,
    ) -> N_co: ...


class NodesMaker(Protocol[N_contra, D_contra, G_co]):
    """`nodes`: a group of nodes for each pool, for the head and for login nodes."""

    def create(
        self,
        name: str,
        *,
        cluster: str,
        network: N_contra,
        group: Group,
        rails: Sequence[Rail],
        release: Release,
        content: str,
        volumes: Sequence[D_contra],
        drain_timeout_minutes: int,
        opts: ResourceOptions,
    ) -> G_co:
        """Make a group; leave nodes alone that run and are outdated. `content` is a digest of what the installation of
        the image does."""

    def template(self, group: Group, leaf_nodes: int | None, release: Release, content: str) -> str:
        """Return a text that changes with everything that nodes can only boot with."""


class StorageMaker(Protocol[P_contra, S]):
    """`storage`: file systems that nodes mount."""

    def create(
        self,
        name: str,
        *,
        cluster: str,
        place: P_contra,
        storage: Storage,
        repository: Resource | None,
        opts: ResourceOptions,
    ) -> S:
        """Make a file system. `repository` is the storage of this cluster that it shows, if it shows one."""

    def mount(self, storage: Storage, made: S) -> Input[Mount]:
        """Say how nodes mount it."""


class VolumeMaker(Protocol[P_contra, D]):
    """`storage`, too: disks that outlive the node that they are attached to."""

    def create_volume(
        self,
        name: str,
        *,
        cluster: str,
        place: P_contra,
        group: Group,
        volume: Volume,
        protect: bool,
        opts: ResourceOptions,
    ) -> D: ...

    def serial(self, volume: D) -> Input[str]:
        """Return the serial number by which the node finds the disk; empty where the node boots with it."""


@dataclass(frozen=True)
class Resources(Generic[P, N, S, D, G]):
    """The parts that a cluster of any scheduler is made with."""

    place: PlaceMaker[P]
    network: NetworkMaker[P, N]
    nodes: NodesMaker[N, D, G]
    storage: StorageMaker[P, S]
    volumes: VolumeMaker[P, D]


class ElasticMaker(Protocol[P_contra, G_contra]):
    """`nodes`, too: nodes that start and end with the work."""

    def let_start(
        self, name: str, *, controller: G_contra, groups: Sequence[G_contra], opts: ResourceOptions
    ) -> Resource:
        """Let the controller start and end nodes of these groups."""

    def publish(self, name: str, *, place: P_contra, file: Output[str], opts: ResourceOptions) -> None:
        """Put the bundle with which such nodes configure themselves where they find it."""


class DatabaseMaker(Protocol[P_contra, B_co]):
    """`database`: the database of the accounting, where the cloud runs it."""

    def create(
        self,
        name: str,
        *,
        cluster: str,
        place: P_contra,
        network: PlannedNetwork,
        scheduler: Scheduler,
        password: Input[str],
        opts: ResourceOptions,
    ) -> B_co: ...

    def authorities(self, region: str) -> str:
        """Return the address at which the authorities are published that vouch for its certificate."""


class ServerMaker(Protocol[N_contra, C]):
    """`scheduler`: the server of a Kubernetes."""

    def create(self, name: str, *, plan: Plan, network: N_contra, opts: ResourceOptions) -> C: ...

    def server(self, control_plane: C) -> Resource:
        """Return the resource that takes all objects of the server along when it goes."""


class PoolMaker(Protocol[C_contra, G_co]):
    """`scheduler`, too: pools whose nodes the cloud itself makes, names and joins to its Kubernetes."""

    def create_pool(self, name: str, *, control_plane: C_contra, group: Group, opts: ResourceOptions) -> G_co: ...


class JoinedMaker(Protocol[C_contra]):
    """`scheduler`, too: nodes that are made members of a Kubernetes of ours, and simulated ones."""

    def create_simulated(
        self,
        name: str,
        *,
        cluster: str,
        control_plane: C_contra,
        group: Group,
        labels: Mapping[str, Mapping[str, str]],
        capacity: Mapping[str, str],
        drain_timeout_minutes: int,
        opts: ResourceOptions,
    ) -> Resource:
        """Make the nodes of a pool for scheduling only."""

    def create_joined(
        self,
        name: str,
        *,
        cluster: str,
        control_plane: C_contra,
        group: Group,
        generation: Input[str],
        labels: Mapping[str, Mapping[str, str]],
        capacity: Mapping[str, str],
        proven: bool,
        drain_timeout_minutes: int,
        opts: ResourceOptions,
    ) -> CustomResource:
        """Make configured nodes of a pool members that run pods."""

    def bootstrap(self, control_plane: C_contra) -> Input[str]:
        """Return the secret with which a node joins."""


class Drivers(Protocol[S_contra]):
    """`storage`, too: file systems that a driver brings into pods."""

    def driven(self, storage: Storage, made: S_contra, region: str) -> Output[Driven]:
        """Say how the driver finds the file system."""


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


class Faults(Protocol):
    """`faults`: breaking a running cluster on purpose."""

    FAULTS: dict[str, Fault]

    def recorded(self, cluster: str) -> tuple[Injected, ...]:
        """List injected faults that were not cleared, in the order in which they are best cleared."""

    def there(self, plan: Plan, one: Injected) -> bool | None:
        """Say whether the fault is there now; None where nobody can tell."""

    def inject(self, plan: Plan, one: Injected) -> None: ...

    def clear(self, plan: Plan, one: Injected) -> None: ...


class Account(Protocol):
    """`facts.account`: what an account has and allows."""

    def read_account(self, plan: Plan, progress: Callable[[str], None]) -> dict[str, Any]:
        """Read it for a plan; UnansweredError where nothing is answered."""


class Image(Protocol):
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

    def described(self, api: A_contra, ids: Iterable[str]) -> Mapping[str, Image]:
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


AnyResources: TypeAlias = "Resources[Any, Any, Any, Any, Any]"
"""Those of a cloud that is only known when a program runs."""


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
    account: Callable[[], Account] | None = None
    lookups: Callable[[], Lookups[Any]] | None = None
    image_builder: Callable[[], ImageBuilder] | None = None
    faults: Callable[[], Faults] | None = None
