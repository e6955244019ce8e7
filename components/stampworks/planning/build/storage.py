"""File systems of a plan: whether they can be created as declared, and their performance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.declaration import Storage as Declared
from stampworks.declaration.values import DIRECTORY
from stampworks.declaration.wording import alternatives, only
from stampworks.physics import checkpoints
from stampworks.physics.bounds import Bound, rounded
from stampworks.plan import Expectation, Group, Storage, traits_of
from stampworks.planning.build import existing, file_systems, hosts
from stampworks.planning.build.file_systems import Delivered, Options
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices, Managed

REPOSITORIES = {"fsx-lustre": "s3", "azure-managed-lustre": "blob"}
"""The protocol of the storage that a kind's feature data-repository shows."""
EXPIRES = ("s3",)
"""Kinds whose objects can expire."""
EXPIRY = ("expire_days", "expire_folder")
"""Fields that determine which objects expire."""
WITHOUT_SUBNET = ("s3", "blob", "gcs", "local")
"""Protocols without addresses in the cluster's range: object stores, and disks of the nodes."""


def build(declaration: Declaration, choices: Choices, notes: Notes) -> tuple[Storage, ...]:
    """Return the declared storage, with a problem at each impossible option."""
    for index, storage in enumerate(declaration.storage):
        notes.step(_check, f"storage[{index}]", storage, declaration, choices, notes)
        notes.step(_check_repository, f"storage[{index}]", storage, declaration, notes)
        notes.step(_check_expiry, f"storage[{index}]", storage, notes)
        notes.step(existing.check_storage, f"storage[{index}]", storage, declaration, choices, notes)
    managed = choices.runs(declaration.scheduler.kind)
    return tuple(_driven(_planned(each, notes), managed, notes) for each in declaration.storage)


def _driven(planned: Storage, managed: Managed | None, notes: Notes) -> Storage:
    """Add the CSI driver if the cloud creates the pods' nodes."""
    if managed is None or not (driver := managed.drivers.get(planned.kind)):
        return planned
    why = f"the add-on of {managed.what} that brings {planned.kind} into pods, where a team's claim has this name"
    notes.reason(f"storage.{planned.name}.driver", why)
    return replace(planned, driver=driver)


def _planned(declared: Declared, notes: Notes) -> Storage:
    """Add the tier when the throughput alone determines it."""
    planned = Storage(**{name: getattr(declared, name) for name in Declared.model_fields})
    row = None if declared.kind == DIRECTORY or declared.tier else file_systems.resolve(options(declared))
    if row is None or len({each.tier for each in catalog.tiers_of(declared.kind)}) == 1:
        return planned
    why = f"no other tier of {declared.kind} has {declared.mbps_per_tib} MB/s a TiB"
    notes.reason(f"storage.{declared.name}.tier", why)
    return replace(planned, tier=row.tier)


def _check(path: str, storage: Declared, declaration: Declaration, choices: Choices, notes: Notes) -> None:
    cloud = declaration.cloud
    if storage.kind == DIRECTORY:
        _check_directory(path, storage, declaration, choices, notes)
    elif choices.storage == DIRECTORY:
        problem = f"{storage.kind} does not exist on {cloud}, whose nodes share the disk of one machine"
        notes.problem(f"{path}.kind", problem, f"write kind: {DIRECTORY}")
    elif choices.launches and not catalog.file_systems()[storage.kind].clouds:
        problem = f"{storage.kind} cannot be made on {cloud} yet"
        notes.problem(f"{path}.kind", problem, only(sorted(_kinds_of(cloud, choices))))
    else:
        for finding in file_systems.check(options(storage), cloud):
            if finding.verdict == "fail":
                notes.problem(f"{path}.{finding.option}", finding.text, finding.hint)


def _check_directory(path: str, storage: Declared, declaration: Declaration, choices: Choices, notes: Notes) -> None:
    """Refuse options of a directory: it is as large and as fast as its disk. Hosts share one already."""
    shared, cloud = hosts.listed(declaration), declaration.cloud
    if shared and not storage.existing.startswith("/"):
        problem = f"{storage.name} is a directory that all machines share, and its path on them is not written"
        notes.problem(f"{path}.existing" if storage.existing else path, problem, "write it, like existing: /mnt/nfs")
    for name, value in storage.given().items():
        if value and name not in ("name", "kind", "mount", "protect", "homes", *["existing"] * shared):
            problem = "a directory has no such setting: it takes space of the disk below it"
            notes.problem(f"{path}.{name}", problem, "take it out")
    if choices.storage == "file systems":
        notes.problem(
            f"{path}.kind",
            f"nodes on {cloud} share no disk, on which a directory could be",
            only(sorted(_kinds_of(cloud, choices))),
        )


def _check_repository(path: str, storage: Declared, declaration: Declaration, notes: Notes) -> None:
    """Require a repository that is a declared storage, or a foreign bucket."""
    asked, wanted, protocol = "data-repository" in storage.features, storage.repository, REPOSITORIES.get(storage.kind)
    kinds = catalog.file_systems()
    here = [each.name for each in declaration.storage if each.kind in kinds and kinds[each.kind].protocol == protocol]
    place = ["a place like s3://bucket/data"] if protocol == "s3" else []
    hint = f"write {alternatives([*map(repr, here), *place])}" if here or place else "declare a storage for it"
    if asked and protocol and not wanted:
        notes.problem(f"{path}.repository", "the feature data-repository needs the repository to show", hint)
    elif wanted and not asked:
        problem = f"it shows {wanted} only with its feature data-repository"
        notes.problem(f"{path}.repository", problem, "add data-repository to its features")
    elif asked and protocol and wanted not in here and not ("://" in wanted and place):
        notes.problem(f"{path}.repository", f"{storage.kind} cannot show '{wanted}'", hint)


def _check_expiry(path: str, storage: Declared, notes: Notes) -> None:
    """Check the expiry of objects. Directories are skipped: another check refuses every option that they lack."""
    if storage.kind == DIRECTORY:
        return
    for name in EXPIRY:
        if getattr(storage, name) and storage.kind not in EXPIRES:
            problem = f"{storage.kind} deletes nothing by itself"
            notes.problem(f"{path}.{name}", problem, f"take it out, or declare a storage of kind {EXPIRES[0]} for it")
    if storage.expire_folder and not storage.expire_days and storage.kind in EXPIRES:
        problem = f"expire_folder {storage.expire_folder} needs expire_days"
        notes.problem(f"{path}.expire_folder", problem, "write expire_days, or take expire_folder out")


def expiring(before: Storage, after: Storage) -> str:
    """Describe the objects that expire although they would have stayed; empty for none."""
    sooner = after.expire_days and (after.expire_days < before.expire_days or not before.expire_days)
    wider = after.expire_days and not after.expire_folder.startswith(before.expire_folder)
    if not sooner and not wider:
        return ""
    where = f"below {after.expire_folder} of" if after.expire_folder else "in"
    return f"what was written {where} {after.name} more than {after.expire_days} days ago"


def _kinds_of(cloud: str, choices: Choices) -> Iterator[str]:
    """Return the kinds of file systems for a cloud. A user's own servers are included unless the toolkit creates
    everything that nodes mount."""
    kinds = catalog.file_systems().values()
    return (kind.name for kind in kinds if cloud in kind.clouds or not (kind.clouds or choices.launches))


def subnet_addresses(storage: Declared, reserved: int) -> int | catalog.Unknown:
    """Return the addresses that a storage takes from the subnet of file systems; object stores and local disks take
    none."""
    kind = catalog.file_systems().get(storage.kind)
    if kind is None or kind.protocol in WITHOUT_SUBNET or storage.existing:
        return 0
    found = catalog.file_system_subnets().get(storage.kind)
    return found.addresses(storage.capacity, reserved) if found else catalog.UNKNOWN


def reached(groups: Sequence[Group], declaration: Declaration, notes: Notes) -> tuple[Group, ...]:
    """Add the number of NICs that a node uses for file systems over EFA. A file system limits the connections of all
    nodes."""
    equipped = traits_of(declaration.scheduler.kind).equips_nodes
    asked = next((options(each) for each in declaration.storage if each.efa and equipped), None)
    takes = catalog.efa_clients().get(asked.kind) if asked else None
    if asked is None or takes is None:
        return tuple(groups)
    wanted = {group.name: _interfaces(group, asked, takes) for group in groups}
    nodes = sum(group.count for group in groups if wanted[group.name])
    most = takes.connections // max(nodes, 1)
    made = []
    for group in groups:
        given = min(wanted[group.name], most)
        if given < wanted[group.name]:
            why = f"{takes.connections} connections that {asked.kind} takes for {nodes} nodes, instead of "
            notes.reason(f"groups.{group.name}.storage_interfaces", f"{why}{wanted[group.name]} each")
        made.append(replace(group, storage_interfaces=given))
    return tuple(made)


def _interfaces(group: Group, asked: Options, takes: catalog.EfaClients) -> int:
    """Return the NICs that nodes of the group use when there are few nodes."""
    machine = catalog.machines()[group.machine.name]
    if group.role != "worker" or not file_systems.over_efa(asked, machine):
        return 0
    return min(takes.interfaces.get(machine.name, takes.interfaces_else), catalog.known_nics(machine))


def options(storage: Storage | Declared) -> Options:
    """Return the catalog options of a storage. Over EFA some kinds require metadata IOPS; undeclared, the cloud chooses
    them."""
    plain = _options(storage)
    row = file_systems.resolve(plain) if storage.efa and not storage.metadata_iops else None
    automatic = row is not None and row.metadata_automatic is True
    return replace(plain, metadata_iops="automatic") if automatic else plain


def _options(storage: Storage | Declared) -> Options:
    return Options(
        kind=storage.kind,
        tier=storage.tier or None,
        mbps_per_tib=storage.mbps_per_tib or None,
        capacity=storage.capacity or None,
        throughput_mbps=storage.throughput_mbps or None,
        read_cache_gib=storage.read_cache_gib or None,
        metadata_iops=storage.metadata_iops or None,
        efa=storage.efa,
        features=storage.features,
    )


@dataclass(frozen=True)
class Mounted:
    """A file system as nodes see it; nodes are given as pairs (machine, count)."""

    options: Options
    delivered: Delivered

    def reads(self, nodes: Sequence[tuple[catalog.Machine, int]]) -> Bound:
        """Return the rate at which these nodes together read, in GB/s."""
        return self._reached(self.delivered.read, nodes)

    def writes(self, nodes: Sequence[tuple[catalog.Machine, int]]) -> Bound:
        """Return the rate at which these nodes together write, in GB/s."""
        return self._reached(self.delivered.write, nodes)

    def _reached(self, rate: Bound | catalog.Unknown, nodes: Sequence[tuple[catalog.Machine, int]]) -> Bound:
        clients = [(count, file_systems.client_most(self.options, machine)) for machine, count in nodes]
        return checkpoints.reachable(rate, clients)


def mounted(storage: Storage, groups: Sequence[Group], cloud: str) -> Mounted:
    """Mount over EFA when nodes use interfaces for it, otherwise over TCP. The performance of a directory is
    unknown."""
    asked = options(storage)
    known = file_systems.delivered(asked, cloud) if storage.kind != DIRECTORY else file_systems.NOTHING_KNOWN
    over_efa = asked.efa and any(group.storage_interfaces for group in groups)
    return Mounted(replace(asked, efa=over_efa), known)


def expect(storages: Sequence[Storage], groups: Sequence[Group], cloud: str) -> Iterator[Expectation]:
    """Expect the sustained rates of each file system that its vendor publishes, and the rate of one node of each
    pool."""
    for storage in storages:
        if storage.kind == DIRECTORY:
            continue
        found = mounted(storage, groups, cloud)
        bounds = {"read": found.delivered.read, "write": found.delivered.write}
        for group in groups:
            if group.role == "worker":
                machine = catalog.machines()[group.machine.name]
                bounds[f"{group.name}.client"] = file_systems.client(found.options, machine)
        for name, bound in bounds.items():
            if isinstance(bound, Bound):
                yield Expectation(f"{storage.name}.{name}_gbs", rounded(bound.value), "GB/s", bound.why)


def of_checkpoints(storages: Sequence[Storage], groups: Sequence[Group], directory: str, cloud: str) -> Mounted | None:
    """Return the storage of checkpoints. Without a directory it is the first one, with the run's folder; None when none
    is declared."""
    above = (each for each in storages if directory == each.mount or directory.startswith(f"{each.mount}/"))
    one = next(above if directory else iter(storages), None)
    return mounted(one, groups, cloud) if one else None
