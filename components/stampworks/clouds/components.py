"""Protocols of the modules of a cloud that create resources with the engine.

A part returns resources of its own types, and takes those of its cloud's other parts: `network.create` takes the result
of `place.create` of the same cloud. Type variables stand for these types. `Place`, `Network` and so on define their use
by the assembly in `cluster/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from stampworks.plan import Driven, Group, Mount, Plan, Rail, Release, Scheduler, Storage, Volume
from stampworks.plan import Network as PlannedNetwork

if TYPE_CHECKING:
    from pulumi import CustomResource, Input, Output, Resource, ResourceOptions

    from stampworks.resources import Keyring

    class Place(Resource):
        """The surroundings of all other resources of a cluster."""

    class Network(Resource):
        """The network that nodes are in."""

    class Stored(Resource):
        """A file system, or its mount target."""

    class Disk(Resource):
        """A disk that outlives its node."""

    class NodeGroup(Resource):
        """The members of one group."""

        generation: Input[str]
        """Identity of the members, which changes with any of them; empty if the engine does not know the members."""

    class ControlPlane(Resource):
        """The server of a Kubernetes."""

        id: Output[str]
        address: Output[str]
        kubeconfig: Output[str]
        identity: Output[str]
        """Identity of the server. All objects are created again when it changes."""

    class Database(Resource):
        """The server of a database."""

        address: Output[str]


class HasGeneration(Protocol):
    """A group of nodes, or a pool of a managed Kubernetes."""

    @property
    def generation(self) -> Input[str]:
        """The identity of the members, which changes with any of them."""


class HasAddress(Protocol):
    """The server of a database."""

    @property
    def address(self) -> Output[str]:
        """The address at which nodes reach it."""


class IsServer(Protocol):
    """The server of a Kubernetes."""

    @property
    def id(self) -> Output[str]:
        """The cloud's name of the control plane."""

    @property
    def address(self) -> Output[str]:
        """The URL of the API server."""

    @property
    def kubeconfig(self) -> Output[str]:
        """The kubeconfig by which the toolkit reaches the server."""

    @property
    def identity(self) -> Output[str]:
        """The identity of the server. All objects are created again when it changes."""


P = TypeVar("P", bound="Resource")
N = TypeVar("N", bound="Resource")
S = TypeVar("S", bound="Resource")
D = TypeVar("D", bound="Resource")
G = TypeVar("G", bound=HasGeneration)
C = TypeVar("C", bound=IsServer)
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


class PlaceMaker(Protocol[P_co]):
    """`place`: created first and deleted last, with everything that a killed `up` has left outside of any state."""

    def create(self, name: str, *, plan: Plan, opts: ResourceOptions) -> P_co:
        """Create the place of a cluster."""

    def cost_tags(self, plan: Plan) -> Mapping[str, str]:
        """Return the tags that assign costs to this cluster; empty if the cloud is free."""


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
    ) -> N_co:
        """Create the network in a place."""


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
        """Make a group. Leave outdated nodes that run alone.

        `content` is a digest of the effect of the image's installation.
        """

    def template(self, group: Group, leaf_nodes: int | None, release: Release, content: str) -> str:
        """Return a text that changes with every setting that nodes get only at boot."""


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
        """Make a file system. `repository` is the cluster's own storage that it shows, if any."""

    def mount(self, storage: Storage, made: S) -> Input[Mount]:
        """Return how nodes mount it."""


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
    ) -> D:
        """Create a volume that outlives the node which mounts it."""

    def serial(self, volume: D) -> Input[str]:
        """Return the serial number by which the node finds the disk; empty if the node boots with it."""


@dataclass(frozen=True)
class Resources(Generic[P, N, S, D, G]):
    """Parts that clusters of any scheduler need."""

    place: PlaceMaker[P]
    network: NetworkMaker[P, N]
    nodes: NodesMaker[N, D, G]
    storage: StorageMaker[P, S]
    volumes: VolumeMaker[P, D] | None
    """None where plans have no volumes."""


class ElasticMaker(Protocol[P_contra, G_contra]):
    """`nodes`, too: nodes that start and end with the work."""

    def let_start(
        self, name: str, *, controller: G_contra, groups: Sequence[G_contra], opts: ResourceOptions
    ) -> Resource:
        """Let the controller start and end nodes of these groups."""

    def publish(self, name: str, *, place: P_contra, file: Output[str], opts: ResourceOptions) -> None:
        """Upload the bundle with which such nodes configure themselves."""


class DatabaseMaker(Protocol[P_contra, B_co]):
    """`database`: the database of the accounting, if the cloud runs it."""

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
    ) -> B_co:
        """Create the database of the accounting."""

    def authorities(self, region: str) -> str:
        """Return the URL of the authorities that sign the database's certificate."""


class ServerMaker(Protocol[N_contra, C]):
    """`scheduler`: the server of a Kubernetes."""

    def create(self, name: str, *, plan: Plan, network: N_contra, opts: ResourceOptions) -> C:
        """Create the control plane."""

    def server(self, control_plane: C) -> Resource:
        """Return the resource whose removal ends all objects of the server."""


class PoolMaker(Protocol[C_contra, G_co]):
    """Optional part of `scheduler`: pools whose nodes the cloud itself creates, names and joins to its Kubernetes."""

    def create_pool(self, name: str, *, control_plane: C_contra, group: Group, opts: ResourceOptions) -> G_co:
        """Create the nodes of a pool."""


class JoinedMaker(Protocol[C_contra]):
    """Optional part of `scheduler`: nodes that join the toolkit's Kubernetes, and simulated ones."""

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
        """Make the simulated nodes of a pool for scheduling only."""

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
    """`storage`, too: file systems that a CSI driver mounts in pods."""

    def driven(self, storage: Storage, made: S_contra, region: str) -> Output[Driven]:
        """Return the file system as its driver knows it."""


AnyResources: TypeAlias = "Resources[Any, Any, Any, Any, Any]"
"""Parts of a cloud that is known only at run time."""
