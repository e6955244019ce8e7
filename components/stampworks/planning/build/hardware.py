"""Choose the roles for a group's hardware, by machine, release and file systems."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from stampworks import catalog
from stampworks.catalog.roles import ROLES
from stampworks.declaration import Declaration
from stampworks.plan import Group, Release, Scratch, Software, Source, traits_of
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Managed

KERNEL = "kernel"
"""The role that installs the release's own kernel, on all nodes."""
SLURM = "slurm_build"
"""The role that builds the release's Slurm, on all nodes."""
FABRICS = {"efa": "efa", "infiniband": "infiniband", "roce": "infiniband"}
"""The registry's name of the hardware, by the protocol of the NICs."""
SCRATCH = "/scratch"
"""Mount point of the local disks on every node that has some."""


def equipped(groups: Sequence[Group], release: Release, declaration: Declaration, notes: Notes) -> tuple[Group, ...]:
    """Add the hardware roles to each group, in the order of the release.

    On Kubernetes there are none: the node's image or an operator brings the software for the hardware.
    """
    if not traits_of(declaration.scheduler.kind).equips_nodes:
        return _with_image_scratch(groups, CLOUDS[declaration.cloud].managed, notes)
    row = catalog.releases()[release.name]
    real = [group for group in groups if not group.machine.simulated and group.role != "scheduling only"]
    machines = {group.name: catalog.machines()[group.machine.name] for group in groups}
    bare_metal = CLOUDS[declaration.cloud].bare_metal
    of_machine = {
        group.name: {*_machine_hardware(machines[group.name], row, bool(group.rails), bare_metal(group.machine.name))}
        for group in real
    }
    everywhere = {"releases"}
    if any("accelerators" in hardware for hardware in of_machine.values()):
        everywhere.add("containers")  # On all nodes: a node that submits jobs must know the options, too
    there = _parts(row, declaration.cloud)
    made = []
    for group in groups:
        hardware = of_machine[group.name] | everywhere if group in real else set()
        wanted = {role.name for role in ROLES if role.members in hardware}
        brought = {role for role, software in row.hardware.items() if software.packages} | there.keys()
        absent = [role for role in row.hardware if role in wanted and role not in brought]
        if absent:
            why = f"without {', '.join(absent)}: release {release.name} has no package of it for {release.suite}"
            notes.reason(f"groups.{group.name}.hardware", why)
        roles = tuple(role for role in row.hardware if role in wanted and role not in absent)
        scratch = _scratch(machines[group.name]) if "scratch" in roles else None
        made.append(replace(group, hardware=roles, scratch=scratch))
    own = [group.name for group in made if group.scratch]
    for index, storage in enumerate(declaration.storage):
        if own and f"{storage.mount}/".startswith(f"{SCRATCH}/"):
            what = f"{SCRATCH} is what nodes of {', '.join(own)} make of the disks inside them"
            notes.problem(f"storage[{index}].mount", what, "mount it elsewhere, at /data for example")
    return tuple(made)


def _with_image_scratch(groups: Sequence[Group], managed: Managed | None, notes: Notes) -> tuple[Group, ...]:
    """Add, for nodes that the cloud makes, the array that their image creates from local disks."""
    if managed is None:
        return tuple(groups)
    made = []
    for group in groups:
        scratch = _scratch(catalog.machines()[group.machine.name], managed.scratch)
        if scratch:
            why = f"nodes of {managed.what} make one array of the disks inside: {managed.scratch_why}"
            notes.reason(f"groups.{group.name}.scratch", why)
        made.append(replace(group, scratch=scratch))
    return tuple(made)


def _scratch(row: catalog.Machine, path: str = SCRATCH) -> Scratch | None:
    """Return the local disks; None when their number is unknown, because a missing disk could not be detected."""
    disks, model = row.local_nvme.count, catalog.scratch_model(row)
    return Scratch(path, model, disks) if model and isinstance(disks, int) and disks else None


def _machine_hardware(
    row: catalog.Machine, release: catalog.Release, on_fabric: bool, bare_metal: bool
) -> Iterator[str]:
    """Yield the hardware of a machine that roles are for, by the names of the registry."""
    with_driver = row.accelerator in release.accelerators
    if with_driver:
        yield "accelerators"
        # an NVLink domain of several nodes has its switches and their managers outside of the nodes
        switched = catalog.accelerators()[row.accelerator].links == "switched" and row.nvlink_nodes == 1
        if switched and row.accelerators > 1:
            yield "switched accelerators"
    if on_fabric and isinstance(row.nic, str) and row.nic and (nic := catalog.nics()[row.nic]).protocol in FABRICS:
        yield FABRICS[nic.protocol]
        if bare_metal and with_driver:
            yield "bare metal"  # on virtual machines the hypervisor decides how devices reach each other
    if _scratch(row):
        yield "disks"


def image_parts(release: Release, groups: Sequence[Group], declaration: Declaration) -> tuple[Software, ...]:
    """Return the parts of the release's vendor image, if any group boots it."""
    parts = _parts(catalog.releases()[release.name], declaration.cloud)
    if not any(parts.keys() & {*group.hardware} for group in groups):
        return ()
    return tuple(Software(role, tuple(of_role.items())) for role, of_role in parts.items())


def _parts(row: catalog.Release, cloud: str) -> Mapping[str, Mapping[str, str]]:
    return row.vendor_images[cloud].parts if cloud in row.vendor_images else {}


def equipment(release: Release, groups: Sequence[Group], declaration: Declaration) -> Release:
    """Add the software that any group or file system needs to the release."""
    row = catalog.releases()[release.name]
    needed = {role for group in groups for role in group.hardware}
    there = _parts(row, declaration.cloud)
    mounted = {catalog.file_systems()[each.kind].mount for each in declaration.storage}
    if not traits_of(declaration.scheduler.kind).equips_nodes:
        mounted = set()
    return replace(
        release,
        kernel=row.kernel if needed.intersection(("driver", KERNEL)) else "",
        hardware=_brought(row.hardware, needed, row.sources, there),
        clients=_brought(row.clients, mounted, {}),
    )


def _brought(
    rows: Mapping[str, catalog.Software],
    needed: Collection[str],
    sources: Mapping[str, catalog.Source],
    there: Collection[str] = (),
) -> tuple[Software, ...]:
    return tuple(
        Software(name, tuple(row.packages.items()), _built(sources[name]) if name in sources else None)
        for name, row in rows.items()
        if name in needed and (row.packages or name in there)
    )


def _built(row: catalog.Source) -> Source:
    return Source(row.name, row.repository, row.tag, row.commit, row.command, row.makes)
