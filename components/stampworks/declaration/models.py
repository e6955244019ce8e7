"""The declaration: what a person writes about a cluster, and what becomes of the cluster when they change it.

Each field has a description, which doubles as the hint of an error message, and a change policy. Of a list, the policy
says what adding or removing an entry does; of a section, it is the strictest of its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from stampworks.catalog import Cloud
from stampworks.declaration.errors import AbsentError
from stampworks.declaration.values import (
    AccountName,
    Cidr,
    ContainerImage,
    Count,
    Directory,
    Email,
    Experiment,
    MachineName,
    MigProfile,
    Mount,
    Name,
    OwnCheck,
    OwnRole,
    PoolName,
    QueueName,
    Region,
    ReleaseName,
    Repository,
    Reservation,
    StorageKind,
    StorageTier,
    TagName,
    TagValue,
    Url,
    UserName,
    Whole,
    Zone,
)

VERSION: Final = 1

Change = Literal["in place", "roll", "replace", "refuse"]
CHANGE_KEY = "x-change"

IN_PLACE: Final[dict[str, Any]] = {CHANGE_KEY: "in place"}
"""The running cluster takes it up; jobs go on."""
ROLL: Final[dict[str, Any]] = {CHANGE_KEY: "roll"}
"""Node by node: drain, change, prove again, return."""
REPLACE: Final[dict[str, Any]] = {CHANGE_KEY: "replace"}
"""What it describes is taken down and made anew."""
REFUSE: Final[dict[str, Any]] = {CHANGE_KEY: "refuse"}
"""Data or state would be lost, so that it takes another cluster, or a migration by hand."""

# YAML has lists where a frozen model has tuples; everything inside them is as strict as elsewhere.
FromList = Strict(False)

Feature = Literal["backups", "compression", "root-squash", "data-repository", "hdd-read-cache"]


class Section(BaseModel):
    """A part of the declaration: frozen, with no unknown keys, and no value taken for another type.

    One that a Python program makes is judged when the whole declaration is there, not before: then everything that is
    wrong comes out together, as it does for a file, and each problem by its path.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    if not TYPE_CHECKING:  # to a type checker, every field is an argument, and there

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise AbsentError(name)
            return super().__getattr__(name)

        def __init__(self, /, **given: Any) -> None:
            fields = type(self).model_fields.items()
            defaults = {name: field.get_default() for name, field in fields if not field.is_required()}
            object.__setattr__(self, "__dict__", defaults | given)
            object.__setattr__(self, "__pydantic_fields_set__", set(given))
            object.__setattr__(self, "__pydantic_extra__", None)
            object.__setattr__(self, "__pydantic_private__", None)

        __init__.__pydantic_base_init__ = True  # so that pydantic, which knows what it has judged, goes without it

    def given(self) -> dict[str, Any]:
        """What was given, and not the defaults; parts of it may be sections in turn."""
        return {name: value for name, value in self.__dict__.items() if name in self.model_fields_set}


class Network(Section):
    """Addresses."""

    cidr: Cidr = Field(
        default="10.77.0.0/16",
        description="The private IPv4 range that all addresses of the cluster come from.",
        json_schema_extra=REPLACE,
    )
    egress: Literal["", "nat", "none"] = Field(
        default="",
        description="How nodes of a cloud reach the world: nat, or none but the services of the cloud; "
        "without it, nat where nodes have private addresses.",
        json_schema_extra=IN_PLACE,
    )
    card_addresses: bool = Field(
        default=False,
        description="On aws: whether each network card of the fabric has an address, as IP over all of them and images "
        "without EFA-only interfaces need; else a node has one.",
        json_schema_extra=ROLL,
    )
    pods_cidr: Cidr = Field(
        default="10.240.0.0/12",
        description="On Kubernetes: the private IPv4 range of pods, apart from the others; "
        "on aws they have addresses of the subnet of nodes instead.",
        json_schema_extra=REFUSE,
    )
    services_cidr: Cidr = Field(
        default="172.20.0.0/16",
        description="On Kubernetes: the private IPv4 range of its services, apart from the others.",
        json_schema_extra=REFUSE,
    )


class Fallback(Section):
    """Another way to buy nodes, tried while there are none to be had as the pool says."""

    purchase: Literal["on-demand", "spot", "reserved", "block"] = Field(
        description="How they are paid for then.", json_schema_extra=IN_PLACE
    )
    reservation: Reservation = Field(
        default="",
        description="What the cloud calls the capacity that was bought before, for purchase: reserved or block.",
        json_schema_extra=IN_PLACE,
    )


class Pool(Section):
    """Nodes of one machine."""

    name: PoolName = Field(
        description="What the pool and its nodes (<pool>-001, ...) are called.", json_schema_extra=REPLACE
    )
    machine: MachineName = Field(description="The catalog's name of the machine.", json_schema_extra=REPLACE)
    count: int = Field(
        ge=1,
        le=4096,
        description="How many nodes the pool has at most; for none, take the pool out.",
        json_schema_extra=IN_PLACE,
    )
    count_min: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="How many of them always run; the others start and stop with the work. Without it, all do.",
        json_schema_extra=IN_PLACE,
    )
    purchase: Literal["", "owned", "on-demand", "spot", "reserved", "block"] = Field(
        default="",
        description="How its machines are paid for; without it, as the cloud sells them to everybody.",
        json_schema_extra=REPLACE,
    )
    zone: Zone = Field(
        default="",
        description="The cloud's zone that its nodes are in; without it, the cloud chooses.",
        json_schema_extra=REPLACE,
    )
    reservation: Reservation = Field(
        default="",
        description="What the cloud calls the capacity that was bought before, for purchase: reserved or block.",
        json_schema_extra=REPLACE,
    )
    fallbacks: Annotated[tuple[Fallback, ...], FromList] = Field(
        default=(),
        description="How else nodes that start with the work are bought, in this order, "
        "while there are none to be had as the pool says.",
        json_schema_extra=IN_PLACE,
    )
    scheduling_only: bool = Field(
        default=False,
        description="Whether only the scheduler knows its nodes: `sbatch --test-only` places jobs on them, none runs.",
        json_schema_extra=REPLACE,
    )


class Fabric(Section):
    """The switches and links between the GPUs."""

    kind: Literal["", "simulated", "infiniband", "roce", "efa", "tcp"] = Field(
        default="",
        description="What the fabric speaks; without it, what the machines' NICs do.",
        json_schema_extra=REPLACE,
    )
    rail_rate_mbps: int = Field(
        default=0,
        ge=0,
        le=1_600_000,
        description="What one rail of one simulated node carries, in Mb/s (megabits a second); 0 is 200.",
        json_schema_extra=IN_PLACE,
    )
    leaf_nodes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="How many nodes of a pool share a leaf switch; 0 is 2 on simulated machines, and as many as the "
        "switches of the machines' NICs join on real ones. A cloud's fabric is its own.",
        json_schema_extra=ROLL,
    )
    oversubscription: Annotated[Literal[1, 2, 4], Whole] = Field(
        default=1,
        description="How many times the rails of a full leaf exceed its trunk; 1 for none.",
        json_schema_extra=IN_PLACE,
    )


class Storage(Section):
    """A file system that every node mounts."""

    name: Name = Field(description="What the file system is called.", json_schema_extra=REFUSE)
    kind: StorageKind = Field(
        description="What kind of file system it is: a directory, or one of the catalog's.", json_schema_extra=REFUSE
    )
    tier: StorageTier = Field(
        default="",
        description="Which of its tiers, as its vendor calls it; not needed where kind and throughput leave only one.",
        json_schema_extra=REFUSE,
    )
    capacity: int = Field(
        default=0,
        ge=0,
        le=2**40,
        description="How large it is, in GiB (GB where its vendor sells GB); 0 where it grows by itself.",
        json_schema_extra=IN_PLACE,
    )
    mbps_per_tib: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="What throughput each TiB brings, in MB/s, where it is bought with the capacity.",
        json_schema_extra=IN_PLACE,
    )
    throughput_mbps: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="What throughput the whole has, in MB/s, where it is bought by itself.",
        json_schema_extra=IN_PLACE,
    )
    read_cache_gib: int = Field(
        default=0,
        ge=0,
        le=2**40,
        description="How large its read cache is, where one is declared.",
        json_schema_extra=IN_PLACE,
    )
    metadata_iops: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="How many metadata operations a second it has, where they are bought; 0 for what comes with it.",
        json_schema_extra=IN_PLACE,
    )
    efa: bool = Field(default=False, description="Whether nodes reach it over EFA.", json_schema_extra=REFUSE)
    features: Annotated[tuple[Feature, ...], FromList] = Field(
        default=(),
        description="What else it has: backups, compression, root-squash, data-repository, hdd-read-cache.",
        json_schema_extra=REFUSE,
    )
    repository: Repository = Field(
        default="",
        description="What its feature data-repository shows: the name of a storage here, or a place like s3://bucket/data.",
        json_schema_extra=IN_PLACE,
    )
    mount: Mount = Field(description="Where the nodes mount it: an absolute path.", json_schema_extra=ROLL)
    protect: bool = Field(
        default=True,
        description="Whether its removal is refused until this says false.",
        json_schema_extra=IN_PLACE,
    )


class Tag(Section):
    """A word by which somebody finds in a bill what belongs together."""

    name: TagName = Field(description="What the tag is called.", json_schema_extra=IN_PLACE)
    value: TagValue = Field(description="What it says.", json_schema_extra=IN_PLACE)


class Budget(Section):
    """What a cluster may cost, and who is told in time."""

    monthly_usd: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="What it may cost a month, in US dollars; 0 for no limit. What a plan costs is judged by it.",
        json_schema_extra=IN_PLACE,
    )
    notify: Annotated[tuple[Email, ...], FromList] = Field(
        default=(),
        max_length=10,
        description="Who gets mail: when most of it is spent, and before a block of capacity ends.",
        json_schema_extra=IN_PLACE,
    )


class Logs(Section):
    """What nodes say, kept where it outlives them."""

    days: int | None = Field(
        default=None,
        ge=0,
        le=3653,
        description="For how long the cloud keeps what nodes say; 0 for not at all, without it 30 where it can.",
        json_schema_extra=IN_PLACE,
    )


class User(Section):
    """A person who may log in and submit jobs."""

    name: UserName = Field(description="The login.", json_schema_extra=REPLACE)
    uid: int = Field(
        ge=1000,
        le=60000,
        description="The numeric id, the same on every node and in every file they own.",
        json_schema_extra=REFUSE,
    )
    accounts: Annotated[tuple[AccountName, ...], FromList] = Field(
        default=(),
        description="The accounts their jobs may be charged to; the first is used when a job names none.",
        json_schema_extra=IN_PLACE,
    )


class Queue(Section):
    """Where jobs wait for the nodes of some pools."""

    name: QueueName = Field(description="What the queue is called.", json_schema_extra=REPLACE)
    pools: Annotated[tuple[PoolName, ...], FromList] = Field(
        min_length=1, description="The pools whose nodes run its jobs.", json_schema_extra=IN_PLACE
    )
    default: bool = Field(
        default=False,
        description="Whether it takes the jobs that name no queue; exactly one queue does.",
        json_schema_extra=IN_PLACE,
    )
    time_limit_minutes: int = Field(
        default=0,
        ge=0,
        le=525_600,
        description="How long a job may run, in minutes; 0 for no limit.",
        json_schema_extra=IN_PLACE,
    )
    priority: Name = Field(
        default="",
        description="The priority its jobs get when they ask for none.",
        json_schema_extra=IN_PLACE,
    )


class Priority(Section):
    """How urgent a job is, and whom it may push aside."""

    name: Name = Field(description="What the priority is called.", json_schema_extra=REPLACE)
    weight: int = Field(
        ge=0, le=1_000_000, description="The higher, the sooner a job starts.", json_schema_extra=IN_PLACE
    )
    preempts: Annotated[tuple[Name, ...], FromList] = Field(
        default=(),
        description="The priorities whose running jobs make room for jobs of this one.",
        json_schema_extra=IN_PLACE,
    )


class Account(Section):
    """Who a job is charged to."""

    name: AccountName = Field(description="What the account is called.", json_schema_extra=REPLACE)
    share: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Its part of the cluster in proportion to the shares of the other accounts.",
        json_schema_extra=IN_PLACE,
    )
    accelerators_max: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How many accelerators its jobs may hold at one time; 0 for no limit.",
        json_schema_extra=IN_PLACE,
    )


class AddOns(Section):
    """On Kubernetes: what it is extended by, each at the version of the release."""

    installer: Literal["helm", "none"] = Field(
        default="helm",
        description="Who installs what the cloud does not bring: Helm, as releases of Pulumi's plugin, or nobody, "
        "and `stampworks addons` says what to install.",
        json_schema_extra=IN_PLACE,
    )
    node_feature_discovery: bool | None = Field(
        default=None,
        description="Whether Node Feature Discovery labels nodes; without a word, where an operator needs it.",
        json_schema_extra=IN_PLACE,
    )
    gpu_operator: bool | None = Field(
        default=None,
        description="Whether NVIDIA's GPU operator runs; without a word, where nodes have accelerators of NVIDIA.",
        json_schema_extra=IN_PLACE,
    )
    gpu_driver: bool | None = Field(
        default=None,
        description="Whether the GPU operator brings driver and container toolkit; "
        "without a word, where the image of nodes does not.",
        json_schema_extra=IN_PLACE,
    )
    mig_strategy: Literal["single", "mixed"] = Field(
        default="single",
        description="How parts of an accelerator are counted: as accelerators, or each kind by itself.",
        json_schema_extra=REPLACE,
    )
    mig_profile: MigProfile = Field(
        default="all-disabled",
        description="Into which parts the GPU operator divides every accelerator (MIG), as in all-1g.10gb.",
        json_schema_extra=REPLACE,
    )
    network_operator: bool | None = Field(
        default=None,
        description="Whether NVIDIA's network operator runs; without a word, where the fabric is infiniband or roce.",
        json_schema_extra=IN_PLACE,
    )
    efa_device_plugin: bool | None = Field(
        default=None,
        description="Whether pods can have NICs of EFA; without a word, where the fabric is efa.",
        json_schema_extra=IN_PLACE,
    )
    kueue: bool | None = Field(
        default=None,
        description="Whether Kueue runs; without a word it does, for all queues are its objects.",
        json_schema_extra=REFUSE,
    )
    jobset: bool | None = Field(
        default=None,
        description="Whether JobSet runs; without a word it does, for every run is one.",
        json_schema_extra=REFUSE,
    )
    trainer: bool | None = Field(
        default=None,
        description="Whether Kubeflow Trainer runs; without a word it does not.",
        json_schema_extra=IN_PLACE,
    )
    mpi_operator: bool | None = Field(
        default=None,
        description="Whether Kubeflow's MPI operator is part of it, which everywhere but on `local` is "
        "installed by hand; without a word it is not.",
        json_schema_extra=IN_PLACE,
    )
    metrics_server: bool | None = Field(
        default=None,
        description="Whether `kubectl top` says what nodes and pods use; without a word it does where nodes are real.",
        json_schema_extra=IN_PLACE,
    )


class Scheduler(Section):
    """Who decides which job runs where and when."""

    kind: Literal["slurm", "kubernetes"] = Field(
        default="slurm", description="What runs the jobs.", json_schema_extra=REFUSE
    )
    accounting: bool = Field(
        default=False,
        description="Whether who used what is recorded; accounts need it.",
        json_schema_extra=IN_PLACE,
    )
    database: Literal["head", "managed"] = Field(
        default="head",
        description="Who runs the database of the accounting: the head or the cloud. Records stay where they are.",
        json_schema_extra=REFUSE,
    )
    topology: Literal["flat", "tree", "block"] = Field(
        default="tree",
        description="What the scheduler knows of the fabric when it chooses nodes.",
        json_schema_extra=IN_PLACE,
    )
    preemption: Literal["off", "requeue", "cancel"] = Field(
        default="off",
        description="What happens to a running job that has to make room for a more urgent one.",
        json_schema_extra=IN_PLACE,
    )
    login_nodes: int = Field(
        default=0,
        ge=0,
        le=16,
        description="On Slurm: how many nodes (login-001, ...) there are to log in to and submit jobs from, beside the "
        "head; they have its machine, and run no jobs.",
        json_schema_extra=IN_PLACE,
    )
    # Kubernetes is made for no more than 110 (its documentation, "Considerations for large clusters"), and no cloud's
    # own one is known to refuse 16.
    pods_per_node: int = Field(
        default=110,
        ge=16,
        le=110,
        description="On Kubernetes: how many pods a node runs at most; fewer take fewer addresses on aws and google.",
        json_schema_extra=ROLL,
    )
    workloads_image: ContainerImage = Field(
        default="",
        description="On Kubernetes of a cloud: the image of `workloads/Containerfile` in a registry that nodes reach, "
        "by its digest; proofs and runs start from it.",
        json_schema_extra=IN_PLACE,
    )
    drain_timeout_minutes: int = Field(
        default=10,
        ge=1,
        le=10_080,
        description="How long a change waits for the jobs of a node it needs, in minutes.",
        json_schema_extra=IN_PLACE,
    )
    protect: bool = Field(
        default=True,
        description="Whether removal of the queue, the accounting and the keys is refused until this says false.",
        json_schema_extra=IN_PLACE,
    )
    queues: Annotated[tuple[Queue, ...], FromList] = Field(
        default=(),
        description="Where jobs wait; without any, one queue 'main' has all pools that run jobs.",
        json_schema_extra=IN_PLACE,
    )
    priorities: Annotated[tuple[Priority, ...], FromList] = Field(
        default=(), description="How urgent jobs can be.", json_schema_extra=IN_PLACE
    )
    accounts: Annotated[tuple[Account, ...], FromList] = Field(
        default=(), description="Who jobs are charged to.", json_schema_extra=IN_PLACE
    )
    addons: AddOns = Field(
        default=AddOns(), description="On Kubernetes: what it is extended by.", json_schema_extra=REFUSE
    )


class Role(Section):
    """An Ansible role of your own: a folder with tasks/main.yml. It runs before the nodes take jobs."""

    path: OwnRole = Field(
        description="Its folder, from the folder of this file; the folder's name is the role's name.",
        json_schema_extra=IN_PLACE,
    )
    groups: Annotated[tuple[str, ...], FromList] = Field(
        default=(),
        description="The pools, head or login, whose nodes get it; without any, all nodes.",
        json_schema_extra=IN_PLACE,
    )
    variables: dict[str, Any] = Field(
        default={},
        description="What the role is told: data of any shape, never a template. Each name begins with the role's.",
        json_schema_extra=IN_PLACE,
    )


class Check(Section):
    """A look of your own at whether a node is well: a script that prints a line and exits 0 (well) or 1 (not well)."""

    path: OwnCheck = Field(
        description="Its file, from the folder of this file; its name without an ending is the check's name.",
        json_schema_extra=IN_PLACE,
    )
    pools: Annotated[tuple[PoolName, ...], FromList] = Field(
        default=(), description="The pools whose nodes it looks at; without any, all pools.", json_schema_extra=IN_PLACE
    )
    timeout_seconds: int = Field(
        default=10,
        ge=1,
        le=30,
        description="After how many seconds without an answer the check could not tell, which is not well.",
        json_schema_extra=IN_PLACE,
    )


class Extras(Section):
    """What a cluster has that Stampworks does not know of."""

    roles: Annotated[tuple[Role, ...], FromList] = Field(
        default=(),
        description="Ansible roles of your own, in their order; what one did stays when it is taken out.",
        json_schema_extra=IN_PLACE,
    )
    checks: Annotated[tuple[Check, ...], FromList] = Field(
        default=(),
        description="Checks of your own; a node that one of them finds not well takes no jobs.",
        json_schema_extra=IN_PLACE,
    )


class Proof(Section):
    """How the finished cluster is measured against its plan; `up` is through when it has passed."""

    level: Literal["none", "quick", "standard", "burn-in"] = Field(
        default="standard",
        description="How much is measured: nothing, each node alone, nodes and fabric together, all of it longer.",
        json_schema_extra=IN_PLACE,
    )
    budget_minutes: int = Field(
        default=0,
        ge=0,
        le=10_080,
        description="How long it may take, in minutes; what was not measured by then is unknown, which is no pass. "
        "A burn-in takes all of it. 0 is 10, and 240 for a burn-in.",
        json_schema_extra=IN_PLACE,
    )
    failed_nodes_max: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="How many nodes may fail and be held back while `up` still passes.",
        json_schema_extra=IN_PLACE,
    )


class Roll(Section):
    """How nodes that run get what they can only boot with, a new release for one: in waves, each within one leaf."""

    max_unavailable_percent: int = Field(
        default=25,
        ge=1,
        le=100,
        description="How many of a pool's nodes may be out of service at once, in percent; one always may.",
        json_schema_extra=IN_PLACE,
    )
    jobs: Literal["wait", "requeue"] = Field(
        default="wait",
        description="What happens to jobs on a node whose turn has come: they end first, or start anew elsewhere.",
        json_schema_extra=IN_PLACE,
    )


class Tracker(Section):
    """Who else is told how a run goes. What it wants to know of its user stands in the environment of the job."""

    kind: Literal["files", "mlflow", "wandb"] = Field(
        default="files",
        description="What keeps the values: a file in the run's folder, MLflow, or Weights & Biases.",
        json_schema_extra=IN_PLACE,
    )
    url: Url = Field(default="", description="Where its server is; MLflow needs it.", json_schema_extra=IN_PLACE)
    experiment: Experiment = Field(
        default="stampworks",
        description="What the tracker calls all runs of this cluster together.",
        json_schema_extra=IN_PLACE,
    )


class Checkpoints(Section):
    """Where runs save what they have learned."""

    directory: Directory = Field(
        default="",
        description="A directory on a mounted storage, below which each run has its own; without it, the run's folder.",
        json_schema_extra=IN_PLACE,
    )
    keep: int = Field(
        default=3, ge=1, le=1000, description="How many of the newest are kept.", json_schema_extra=IN_PLACE
    )


class Model(Section):
    """What is to be trained: a decoder-only transformer. What is left out is worked out, or unknown."""

    parameters: Count = Field(
        default=0,
        description="How many parameters it has, as in 8B; 0 to count those of its shape.",
        json_schema_extra=IN_PLACE,
    )
    tokens: Count = Field(
        default=0,
        description="How many tokens it is trained on, as in 15T; 0 for those of the steps.",
        json_schema_extra=IN_PLACE,
    )
    layers: int = Field(
        default=0, ge=0, le=10_000, description="How many layers; 0: unknown.", json_schema_extra=IN_PLACE
    )
    hidden: int = Field(
        default=0, ge=0, le=10_000_000, description="How wide a layer is; 0: unknown.", json_schema_extra=IN_PLACE
    )
    heads: int = Field(
        default=0, ge=0, le=100_000, description="How many heads attention has; 0: unknown.", json_schema_extra=IN_PLACE
    )
    kv_heads: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="How many heads keys and values have; 0: as many as attention.",
        json_schema_extra=IN_PLACE,
    )
    head: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How wide a query and a key of one head are; 0: the width of a layer by its heads.",
        json_schema_extra=IN_PLACE,
    )
    value_head: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How wide a value of one head is; 0: as a key.",
        json_schema_extra=IN_PLACE,
    )
    kv_rank: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How wide that is of which latent attention makes keys and values; 0: it makes them of the input.",
        json_schema_extra=IN_PLACE,
    )
    query_rank: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How wide that is of which latent attention makes queries; 0: it makes them of the input.",
        json_schema_extra=IN_PLACE,
    )
    rotary: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How much of a key all heads of latent attention share; head counts it, too.",
        json_schema_extra=IN_PLACE,
    )
    ffn: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="How wide a feed-forward layer is inside; 0: 8/3 of the width with a gate, 4 times without.",
        json_schema_extra=IN_PLACE,
    )
    vocabulary: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="How many tokens there are; 0: unknown.",
        json_schema_extra=IN_PLACE,
    )
    sequence: int = Field(
        default=0, ge=0, le=100_000_000, description="Tokens of a sample; 0: unknown.", json_schema_extra=IN_PLACE
    )
    gated: bool = Field(
        default=True, description="Whether its feed-forward layers have a gate.", json_schema_extra=IN_PLACE
    )
    tied: bool = Field(
        default=False,
        description="Whether the last layer has the weights of the first one.",
        json_schema_extra=IN_PLACE,
    )
    experts: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How many experts each layer has, with those that all tokens use; 0: none.",
        json_schema_extra=IN_PLACE,
    )
    experts_per_token: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Through how many of them a token passes.",
        json_schema_extra=IN_PLACE,
    )
    dense_layers: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="How many layers, the first ones, have a feed-forward layer for all tokens instead of experts.",
        json_schema_extra=IN_PLACE,
    )
    dense_ffn: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="How wide that feed-forward layer is inside.",
        json_schema_extra=IN_PLACE,
    )
    active: Count = Field(
        default=0,
        description="Through how many parameters a token passes, as in 37B; 0 for all, or those of its experts.",
        json_schema_extra=IN_PLACE,
    )


class Training(Section):
    """What `stampworks submit training` takes where nobody says it; `--set` says it for one run."""

    layout: Literal["ddp", "fsdp", "hsdp", "tp"] = Field(
        default="fsdp",
        description="How a model is spread over ranks: copied, split, split within a node, or split in each layer.",
        json_schema_extra=IN_PLACE,
    )
    tensor_parallel: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Among how many ranks the layout tp splits each layer.",
        json_schema_extra=IN_PLACE,
    )
    precision: Literal["auto", "float32", "bfloat16", "float8"] = Field(
        default="auto",
        description="What most of the arithmetic is done in; auto: bfloat16 where there is an accelerator for it.",
        json_schema_extra=IN_PLACE,
    )
    ranks: int = Field(
        default=0,
        ge=0,
        le=64,
        description="How many ranks a node has; 0 for one with each accelerator, or one where there is none.",
        json_schema_extra=IN_PLACE,
    )
    steps: int = Field(
        default=100, ge=1, le=100_000_000, description="How many steps a run has.", json_schema_extra=IN_PLACE
    )
    batch: int = Field(
        default=16,
        ge=1,
        le=100_000_000,
        description="How many samples a step has, of all ranks together; a declared model has one a copy or more.",
        json_schema_extra=IN_PLACE,
    )
    tracker: Tracker = Field(
        default=Tracker(), description="Who else is told how a run goes.", json_schema_extra=IN_PLACE
    )
    checkpoints: Checkpoints = Field(
        default=Checkpoints(), description="Where checkpoints lie, and how many of them.", json_schema_extra=IN_PLACE
    )
    model: Model = Field(
        default=Model(),
        description="What the cluster is for: with it, the plan says whether it fits, and how long it takes.",
        json_schema_extra=IN_PLACE,
    )


class Declaration(Section):
    """A training cluster, as a person declares it."""

    extends: str = Field(
        default="",
        description="A base file, relative to this one: mappings are merged with it, everything else replaces it.",
        json_schema_extra=IN_PLACE,
    )
    version: Annotated[Literal[1], Whole] = Field(
        description="The version of this format: 1.", json_schema_extra=IN_PLACE
    )
    name: Name = Field(
        description="What the cluster is called; another name is another cluster.", json_schema_extra=REFUSE
    )
    cloud: Cloud = Field(description="Where the cluster is stamped.", json_schema_extra=REFUSE)
    region: Region = Field(
        default="",
        description="The cloud's region; a cloud that has regions needs one.",
        json_schema_extra=REFUSE,
    )
    release: ReleaseName = Field(
        default="",
        description='The catalog\'s name of the software release, in quotes ("2026.11"); without it, the newest.',
        json_schema_extra=ROLL,
    )
    tags: Annotated[tuple[Tag, ...], FromList] = Field(
        default=(),
        description="What bills are read by, as owner or cost-centre: on all that a cloud makes for the cluster.",
        json_schema_extra=IN_PLACE,
    )
    budget: Budget = Field(
        default=Budget(), description="What it may cost, and who is told in time.", json_schema_extra=IN_PLACE
    )
    logs: Logs = Field(default=Logs(), description="What nodes say, kept apart from them.", json_schema_extra=IN_PLACE)
    network: Network = Field(
        default=Network(), description="Which addresses the cluster takes.", json_schema_extra=REFUSE
    )
    pools: Annotated[tuple[Pool, ...], FromList] = Field(
        min_length=1,
        description="The nodes, by machine and use; a new pool goes behind the others, for addresses follow the order.",
        json_schema_extra=IN_PLACE,
    )
    fabric: Fabric = Field(default=Fabric(), description="The network between the GPUs.", json_schema_extra=REPLACE)
    storage: Annotated[tuple[Storage, ...], FromList] = Field(
        default=(),
        description="File systems that every node mounts; a protected one cannot be taken out.",
        json_schema_extra=IN_PLACE,
    )
    users: Annotated[tuple[User, ...], FromList] = Field(
        default=(), description="The people who may log in and submit jobs.", json_schema_extra=IN_PLACE
    )
    scheduler: Scheduler = Field(
        default=Scheduler(), description="What runs the jobs, and by which rules.", json_schema_extra=REFUSE
    )
    proof: Proof = Field(
        default=Proof(), description="How it is proven before anything may rely on it.", json_schema_extra=IN_PLACE
    )
    roll: Roll = Field(default=Roll(), description="How nodes that run are made anew.", json_schema_extra=IN_PLACE)
    training: Training = Field(
        default=Training(),
        description="What a training run takes where nobody says it.",
        json_schema_extra=IN_PLACE,
    )
    extras: Extras = Field(default=Extras(), description="Roles and checks of your own.", json_schema_extra=IN_PLACE)
