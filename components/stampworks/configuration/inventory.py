"""The Ansible inventory of a cluster: a pure function of plan, roster and scheduler files.

Each role has a group of the same name, and runs on the hosts of the group. Power and logs run wherever they may be on,
and stop earlier services without settings. Variables that several roles read are named cluster_... or node_..., all
others after their role. Each is set only in this file.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from stampworks import catalog
from stampworks.catalog.roles import OWN_ROLES_BEFORE, ROLES
from stampworks.catalog.system_names import SYSTEM_GROUPS, SYSTEM_USERS
from stampworks.configuration.own import check_programs, host_checks
from stampworks.plan import (
    OVER_EFA,
    OVER_TCP,
    UNPROVEN_TAINT,
    WORKLOADS_IMAGE,
    Attached,
    Ending,
    Group,
    Member,
    Plan,
    Release,
    Roster,
    Source,
    log_group,
    template_name,
    to_dict,
)
from stampworks.text.reasons import UNPROVEN, prefix, written

PACKAGES_PORT = 8000
PACKAGES_DIRECTORY = "/exports/.packages"
PYTHON = "/usr/bin/python3"
PAUSE_IMAGE = "localhost/stampworks/pause:1"
PAUSE: Mapping[str, Any] = {"copies": ["/bin/busybox"], "command": ["/bin/busybox", "sleep", "infinity"]}
_MERGED = {each: f"usr/{each}" for each in ("bin", "lib", "lib64", "sbin")}
WORKLOADS: Mapping[str, Any] = {
    "copies": ["/etc/alternatives", "/etc/ld.so.cache", "/etc/passwd", "/etc/group"],
    "directories": ["dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var"],
    "links": _MERGED,
    "command": [],
}
"""Contents of a pod's image in addition to the node's programs, which the pod sees below /usr."""
CONTAINERS = "/var/lib/enroot"
AUTHORIZED_KEYS = "/etc/ssh/authorized_keys.d"
SYSTEMS: Mapping[str, str] = {"debian": "apt", "ubuntu": "apt", "amzn": "dnf"}
"""Operating systems by the name of their part in a release, and their package managers."""
HARDWARE_ROLES = tuple(role for role in ROLES if role.is_hardware)
LUSTRE_MODULES = "lustre-client-modules"
"""Prefix of packages with Lustre's module, whose version they have. Amazon Linux includes it in its kernel package."""


def inventory(
    plan: Plan,
    roster: Roster,
    scheduler_files: Mapping[str, str],
    check_texts: Mapping[str, str] = MappingProxyType({}),
    content: str = "",
    attached: Attached = Attached(),  # noqa: B008  (frozen)
    partial: bool = False,
    endings: Sequence[Ending] = (),
) -> dict[str, Any]:
    """Return Ansible's YAML inventory structure, in a stable order.

    `content` is the install_digest of the roles. A partial run is for some of the hosts, and waits for no others.
    """
    groups = {group.name: group for group in plan.groups}
    ends = block_ends(plan, endings)
    hosts = {
        member.name: host(plan, groups[member.group], roster, member) | ends.get(member.group, {})
        for member in roster.members
    }
    roles = {role: names for role, names in members_by_role(plan, roster, attached).items() if names}
    variables = role_variables(plan, roster, scheduler_files) | installation(plan.release, content)
    variables |= _storage_variables(plan.release, attached)
    if attached.database:  # the password comes with the secrets, as for our own database
        variables["slurm_accounting_database"] = attached.database
        variables["slurm_accounting_authorities"] = attached.database_authorities
    variables |= check_programs(plan.extras, check_texts)
    variables["slurm_controller_ready_nodes"] = [] if partial else roles.get("slurm_worker", [])
    return {
        "all": {
            "vars": connection(roster) | cluster(plan, roster) | variables,
            "hosts": hosts,
            "children": {role: {"hosts": {name: {} for name in names}} for role, names in roles.items()},
        }
    }


def image_inventory(release: Release, roster: Roster, packages_source: str, content: str) -> dict[str, Any]:
    """Return the inventory of playbooks/image.yml: a builder and the release, without a cluster.

    A role that only some releases' images have, such as the database, is on if the release has packages for it. A role
    of hardware is on if any pool needs it.
    """
    variables = installation(release, content) | {
        "base_packages_source": packages_source,
        **hardware_variables(release),
        **(client_variables(release) if release.clients else {}),
    }
    hosts = {member.name: {**_reached(roster, member), "node_host_key": member.host_key} for member in roster.members}
    roles = [*(role for role, _ in release.packages), *(each.name for each in release.hardware)]
    roles = [role for role in roles if role != "storage" or release.clients]
    # otherwise the stand-in for the driver's tool would be found before the tool itself
    groups = ["image", *(role for role in roles if role != "accelerator" or not release.hardware)]
    children: dict[str, Any] = {group: {"hosts": {name: {} for name in hosts}} for group in groups}
    return {"all": {"vars": connection(roster) | variables, "hosts": hosts, "children": children}}


def installation(release: Release, content: str) -> dict[str, Any]:
    """Return the variables that all nodes of a release share, with a digest of their installation."""
    packages = sorted({name for _, names in release.packages for name in names})
    text = json.dumps([content, packages])
    digest = hashlib.sha256(text.encode()).hexdigest() if content else ""
    return {"base_manager": manager(release), "base_packages": packages, "image_content": digest}


def system(release: Release) -> tuple[str, str]:
    """Return the operating system of the nodes, and its version."""
    return next((part, version) for part, version in release.versions if part in SYSTEMS)


def manager(release: Release) -> str:
    """Return the package manager of a release's system."""
    return SYSTEMS[system(release)[0]]


def connection(roster: Roster) -> dict[str, Any]:
    """Return the variables by which Ansible reaches the hosts."""
    through = f"-o {shlex.quote(f'ProxyCommand={shlex.join(roster.proxy)}')}"
    return {
        "ansible_user": roster.user,
        "ansible_ssh_private_key_file": roster.identity_file,
        **({"ansible_ssh_common_args": through} if roster.proxy else {}),
        # looking for an interpreter costs a round trip on every node
        "ansible_python_interpreter": PYTHON,
    }


def cluster(plan: Plan, roster: Roster) -> dict[str, Any]:
    """Return the variables that all roles read: names, members and addresses of the cluster."""
    members = [
        {
            "name": member.name,
            "address": member.address,
            "rail_addresses": list(member.rail_addresses),
            "host_key": member.host_key,
        }
        for member in roster.members
    ]
    return {
        "cluster_name": plan.name,
        "cluster_release": plan.release.name,
        "cluster_versions": dict(plan.release.versions),
        "cluster_members": members,
    }


def host(plan: Plan, group: Group, roster: Roster, member: Member) -> dict[str, Any]:
    """Return the variables of one host: its group, machine and rails."""
    rails = zip(plan.fabric.rails, member.rail_addresses, strict=False)  # a machine may have fewer NICs than rails
    return {
        **_reached(roster, member),
        "node_group": group.name,
        "node_role": group.role,
        "node_instance": member.instance,
        "node_address": member.address,
        "node_host_key": member.host_key,
        "node_machine": to_dict(group.machine),
        "node_rails": [
            {
                "index": rail.index,
                "interface": rail.interface,
                "address": address,
                "cidr": rail.cidr,
                "rate_mbps": rail.rate_mbps,
            }
            for rail, address in rails
            # a port without an address has the name that its driver gives it, as all EFA ports do
            if address and plan.fabric.kind != "efa"
        ],
        **({"lustre_efa_interfaces": group.storage_interfaces} if group.storage_interfaces else {}),
        **({"node_scratch": to_dict(group.scratch)} if group.scratch else {}),
        **host_checks(plan.extras, group.name),
    }


def _reached(roster: Roster, member: Member) -> dict[str, Any]:
    """Return the address at which Ansible reaches a host, and its port if that is another one."""
    host = roster.host(member)
    if not host.startswith("ssh://"):
        return {"ansible_host": host}
    parts = urlsplit(host)
    return {"ansible_host": parts.hostname, "ansible_port": parts.port}


def block_ends(plan: Plan, endings: Sequence[Ending]) -> dict[str, dict[str, str]]:
    """Return the time from which machines of each group's capacity block end, in a variable.

    Machines of a reservation that is no block go on when it ends.
    """
    nodes = catalog.cloud_nodes().get(plan.cloud)
    if not nodes or not isinstance(nodes.block_ends_early_minutes, int):
        return {}
    blocks = {offer.reservation for pool in plan.pools for offer in pool.offers if offer.purchase == "block"}
    early = timedelta(minutes=nodes.block_ends_early_minutes)
    return {
        each.group: {"interruptions_ends": f"{datetime.fromisoformat(each.at) - early:%Y-%m-%dT%H:%MZ}"}
        for each in endings
        if each.at and each.reservation in blocks
    }


def served(plan: Plan) -> bool:
    """Whether nodes get packages from the head, because the cluster's own network has no egress."""
    return not plan.network.egress


def members_by_role(plan: Plan, roster: Roster, attached: Attached) -> dict[str, list[str]]:
    """Return the members of each role in the order of the registry. The plan decides on the roles for hardware."""
    groups = {group.name: group for group in plan.groups}
    chosen = selections(plan, roster, attached)
    equipped = {
        software.name: [member.name for member in roster.members if software.name in groups[member.group].hardware]
        for software in plan.release.hardware
    }
    own = {
        role.name: [member.name for member in roster.members if member.group in role.groups]
        for role in plan.extras.roles
    }
    members: dict[str, list[str]] = {}
    for role in ROLES:
        if role.name == OWN_ROLES_BEFORE:
            members |= own
        if role.is_hardware and role.name in equipped:
            members[role.name] = equipped[role.name]
        elif role.members in chosen:
            members[role.name] = chosen[role.members]
    return members


def selections(plan: Plan, roster: Roster, attached: Attached) -> dict[str, list[str]]:
    """Return the members that a role can be for, by the names of the registry."""
    groups = {group.name: group for group in plan.groups}
    everyone = [member.name for member in roster.members]
    head = [member.name for member in roster.members if groups[member.group].role == "controller"]
    logins = [member.name for member in roster.members if groups[member.group].role == "login"]
    workers = [member.name for member in roster.members if groups[member.group].role == "worker"]
    by_scheduler = {plan.scheduler.traits.worker_role: workers}
    machines = {member.name: groups[member.group].machine for member in roster.members}
    accounting = head if plan.scheduler.accounting else []
    noting = {role.name for role in HARDWARE_ROLES if role.has_modules or role.may_reboot}
    noting &= {software.name for software in plan.release.hardware}
    rebooting = {member.name for member in roster.members if noting.intersection(groups[member.group].hardware)}
    rebooting |= {name for client in plan.release.clients if client.name == "lustre" for name in everyone}
    over_efa = [member.name for member in roster.members if groups[member.group].storage_interfaces]
    # These roles need instance credentials. On other clouds they stop the services that ran before.
    nodes = catalog.cloud_nodes().get(plan.cloud)
    with_rights = everyone if nodes and nodes.rights_from_address is True else []
    return {
        "everyone": everyone,
        "with rights": with_rights,
        "with a directory": everyone if plan.directory else [],
        "head": head,
        "head that serves packages": head if served(plan) else [],
        "head with disks": head if attached.disks else [],
        "head with accounting": accounting,
        "head with its own database": [] if attached.database else accounting,
        "head with rights": head if with_rights else [],
        "login nodes": logins,
        "head and login nodes": [*head, *logins],
        "workers": workers,
        "Slurm workers": by_scheduler.get("slurm_worker", []),
        "Slurm workers with notices": by_scheduler.get("slurm_worker", [])
        if nodes and nodes.announces_interruptions is True
        else [],
        "Kubernetes workers": by_scheduler.get("kubernetes_node", []),
        "simulated accelerators": [
            name for name in workers if machines[name].simulated and machines[name].accelerators
        ],
        "rails": [member.name for member in roster.members if member.rail_addresses],
        "addressed rails": [member.name for member in roster.members if any(member.rail_addresses)],
        "Lustre over EFA": over_efa if any(mount.type == "lustre" for mount in attached.mounts) else [],
        "may reboot": [name for name in everyone if name in rebooting],
    }


def role_variables(plan: Plan, roster: Roster, scheduler_files: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables of the toolkit's roles; each name begins with the name of its role."""
    return {
        "validate_system": " ".join(system(plan.release)),
        "packages_directory": PACKAGES_DIRECTORY,
        "packages_port": PACKAGES_PORT,
        "base_packages_source": packages_source(plan, roster) if served(plan) else "",
        **user_variables(plan),
        **directory_variables(plan),
        **_expected_software(plan.release),
        **(
            {"validate_image_parts": {each.name: dict(each.packages) for each in plan.image_parts}}
            if plan.image_parts
            else {}
        ),
        **hardware_variables(plan.release),
        **_container_variables(plan),
        "collectives_environment": collectives_environment(plan),
        **torch_variables(plan.release),
        **({"logs_group": log_group(plan.name), "logs_region": plan.region} if plan.logs.days else {}),
        **(
            kubernetes_variables(plan)
            if plan.scheduler.traits.runs_pods
            else _slurm_variables(plan, roster, scheduler_files)
        ),
    }


def packages_source(plan: Plan, roster: Roster) -> str:
    """Return the package source of nodes without egress: the head, or the packages in the node's image."""
    head = next((member for member in roster.members if member.group == plan.controller.name), None)
    where = f"http://{head.address}:{PACKAGES_PORT}" if head else f"file:{PACKAGES_DIRECTORY}"
    if manager(plan.release) == "dnf":
        return f"[stampworks]\nname=Stampworks\nbaseurl={where}\ngpgcheck=0"
    return f"Types: deb\nURIs: {where}\nSuites: ./\nTrusted: yes"


def kubernetes_variables(plan: Plan) -> dict[str, Any]:
    """Return the variables of nodes that run pods.

    On a machine made of namespaces / is an overlay already, so containerd copies files there.
    """
    pods, of_namespaces = plan.network.pods, any(pool.machine.simulated for pool in plan.pools)
    return {
        "kubernetes_node_snapshotter": "native" if of_namespaces else "overlayfs",
        **({"kubernetes_node_pods_max": pods.per_node} if pods else {}),
        "kubernetes_node_images": {PAUSE_IMAGE: dict(PAUSE), WORKLOADS_IMAGE: dict(WORKLOADS)},
        "kubernetes_node_pause": PAUSE_IMAGE,
        "kubernetes_node_dns": plan.network.gateway,
        "kubernetes_node_taints": [{"key": UNPROVEN_TAINT, "effect": "NoSchedule"}]
        if plan.proof.level != "none"
        else [],
    }


def _slurm_variables(plan: Plan, roster: Roster, scheduler_files: Mapping[str, str]) -> dict[str, Any]:
    controller_files = {name: text for name, text in scheduler_files.items() if name != "slurmdbd.conf"}
    variables: dict[str, Any] = {
        "slurm_controller_files": controller_files,
        "slurm_controller_own_reason": prefix("stampworks"),
        "slurm_controller_new_reason": "" if plan.proof.level == "none" else written(UNPROVEN),
        "slurm_controller_state": plan.scheduler.queue_directory,
        "slurm_worker_administrator": roster.user,
        **power_variables(plan),
        **({"base_names_follow": True} if any(pool.elastic_nodes for pool in plan.pools) else {}),
    }
    return variables | (_accounting_variables(plan, scheduler_files) if plan.scheduler.accounting else {})


def _storage_variables(release: Release, attached: Attached) -> dict[str, Any]:
    return {
        **client_variables(release),
        "storage_mounts": [to_dict(each) for each in attached.mounts],
        "volumes_disks": [to_dict(each) for each in attached.disks],
        "health_mounts": [each.path for each in attached.mounts],
    }


def client_variables(release: Release) -> dict[str, Any]:
    """Return the clients of file systems. Lustre's client has a kernel module unless the kernel's package brings it."""
    brought = {each.name: dict(each.packages) for each in release.clients}
    modules = [version for name, version in brought.get("lustre", {}).items() if name.startswith(LUSTRE_MODULES)]
    return {
        "storage_packages": {name: version for packages in brought.values() for name, version in packages.items()},
        "storage_lustre": next(iter(modules), ""),
    }


def hardware_variables(release: Release) -> dict[str, Any]:
    """Return the versions of hardware-dependent packages, which come only from the release."""
    brought = {each.name: dict(each.packages) for each in release.hardware}
    variables: dict[str, Any] = {f"{role}_packages": packages for role, packages in brought.items()}
    variables |= {f"{each.name}_source": _source_variable(each.source) for each in release.hardware if each.source}
    variables |= {
        f"{role.name}_kernel": release.kernel for role in HARDWARE_ROLES if role.has_modules and role.name in brought
    }
    others = {name: version for name, version in brought.get("torch", {}).items() if name != "torch"}
    variables |= python_of("torch", others)
    return variables | ({"kernel_version": release.kernel} if "kernel" in brought else {})


def python_of(role: str, packages: Mapping[str, str]) -> dict[str, Any]:
    """Return the interpreter and the packages of a role's Python environment; empty if it uses the suite's Python.

    The first package brings the interpreter.
    """
    if not packages:
        return {}
    return {f"{role}_python": f"/usr/bin/{next(iter(packages))}", f"{role}_python_packages": dict(packages)}


def _source_variable(source: Source) -> dict[str, Any]:
    return to_dict(source) | {"command": list(source.command), "makes": list(source.makes)}


def user_variables(plan: Plan) -> dict[str, Any]:
    """Return the users, their groups, their home folders and their login keys."""
    return {
        "base_users": [{"name": user.name, "uid": user.uid, "home": user.home} for user in plan.users],
        "base_groups": [
            {
                "name": team.name,
                "gid": team.gid,
                "users": [user.name for user in plan.users if team.name in user.groups],
            }
            for team in plan.teams
        ],
        "homes_users": [{"path": user.home, "uid": user.uid} for user in plan.users if user.home],
        "homes_groups": [{"path": team.folder, "gid": team.gid} for team in plan.teams if team.folder],
        "access_users": [user.name for user in plan.users if user.keys or user.keyless],
        "access_files": [
            {"path": f"{AUTHORIZED_KEYS}/{user.name}", "content": "".join(f"{key}\n" for key in user.keys)}
            for user in plan.users
            if user.keys
        ],
    }


def directory_variables(plan: Plan) -> dict[str, Any]:
    """Return the directory settings of SSSD; empty without a directory. The password of `bind` comes with the
    secrets."""
    if (directory := plan.directory) is None:
        return {}
    # A declared user is never an entry of the directory with the same name.
    reserved = sorted({*SYSTEM_USERS, *SYSTEM_GROUPS, *(user.name for user in plan.users)})
    return {
        "access_directory": True,
        "directory_uri": directory.uri,
        "directory_base": directory.base,
        "directory_start_tls": directory.start_tls,
        "directory_authorities": directory.ca,
        "directory_bind": directory.bind,
        "directory_schema": {"names": "rfc2307", "entries": "rfc2307bis"}[directory.group_members],
        "directory_access_groups": list(directory.access_groups),
        "directory_ids": [directory.id_min, directory.id_max],
        "directory_homes": directory.homes,
        "directory_reserved_users": reserved,
        "directory_reserved_groups": sorted({*reserved, *(team.name for team in plan.teams)}),
    }


def torch_variables(release: Release) -> dict[str, Any]:
    """Return the folder where the suite's Python finds additional packages, one of which its torch needs."""
    versions = dict(release.versions)
    if "torch" not in versions:
        return {}
    return {"workloads_packages": f"/usr/local/lib/python{versions['python']}/dist-packages"}


def _container_variables(plan: Plan) -> dict[str, Any]:
    if "containers" not in {software.name for software in plan.release.hardware}:
        return {}
    folders = [
        {"path": f"{CONTAINERS}/{user.name}", "directory": True, "owner": user.name, "mode": "0700"}
        for user in plan.users
    ]
    return {"containers_directory": CONTAINERS, "containers_folders": folders}


def _expected_software(release: Release) -> dict[str, Any]:
    if not release.hardware:
        return {}
    unversioned = {role.name for role in HARDWARE_ROLES if not role.versioned}
    software = {each.name: dict(each.packages) for each in release.hardware if each.name not in unversioned}
    return {"validate_software": software, "validate_kernel": release.kernel}


def power_variables(plan: Plan) -> dict[str, Any]:
    """Return the settings of the programs that start and end elastic nodes; empty if there are none."""
    pools = {
        pool.name: {
            "nodes": [node.name for node in pool.elastic_nodes],
            "offers": [{"name": each.name, "template": template_name(plan.name, pool, each)} for each in pool.offers],
        }
        for pool in plan.pools
        if pool.elastic_nodes
    }
    directory = f"{plan.scheduler.state_directory}/power"
    settings = {"cluster": plan.name, "region": plan.region, "directory": directory, "pools": pools}
    return {"power_settings": settings} if pools else {}


def _accounting_variables(plan: Plan, scheduler_files: Mapping[str, str]) -> dict[str, Any]:
    scheduler, people = plan.scheduler, plan.directory
    return {
        "database_directory": f"{scheduler.state_directory}/database",
        "slurm_accounting_configuration": scheduler_files["slurmdbd.conf"],
        "slurm_accounting_preempt_mode": scheduler.preemption,
        "slurm_accounting_priorities": [
            {"name": each.name, "weight": each.weight, "preempts": list(each.preempts)} for each in scheduler.priorities
        ],
        "slurm_accounting_accounts": [
            {
                "name": each.name,
                "users": list(each.users),
                "share": each.share,
                "accelerators_max": each.accelerators_max,
            }
            for each in scheduler.accounts
        ],
        "slurm_accounting_members": {people.account: list(people.access_groups)} if people and people.account else {},
        "slurm_accounting_default_accounts": {each.name: each.accounts[0] for each in plan.users if each.accounts},
        "slurm_controller_awaits": ["127.0.0.1:6819"],
    }


def collectives_environment(plan: Plan) -> dict[str, str]:
    """Return the environment that makes collectives use the rails instead of the first NIC, which is slow.

    It is empty for InfiniBand: plans do not know a driver's device names, and NCCL prefers InfiniBand by itself. EFA is
    used through libfabric, by a plugin that knows the layout of each machine and chooses the rest.
    """
    if plan.fabric.kind == "efa":
        return dict(OVER_EFA)
    interfaces = [rail.interface for rail in plan.fabric.rails]
    if not interfaces or plan.fabric.kind not in OVER_TCP:
        return {}
    return {
        "GLOO_SOCKET_IFNAME": ",".join(interfaces),  # collectives take them in turn
        "NCCL_IB_DISABLE": "1",  # rails are plain Ethernet: looking for InfiniBand costs NCCL seconds
        "NCCL_SOCKET_IFNAME": ",".join(interfaces),
    }
