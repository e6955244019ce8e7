"""The roles of our playbooks, in their only list. Each has a folder in playbooks/roles and a play in site.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEMBERS: Mapping[str, str] = {
    "all hosts": "all",
    "everyone": "all",
    "with rights": "all, where machines have rights in an account",
    "with a directory": "all, when a directory is declared",
    "head": "head",
    "head that serves packages": "head, where nodes have no route out",
    "head with disks": "head, on a cloud",
    "head with accounting": "head, when accounting is declared",
    "head with its own database": "head, when accounting is declared and no cloud runs its database",
    "head with rights": "head, where it has rights in an account",
    "login nodes": "login nodes",
    "head and login nodes": "head and login nodes",
    "workers": "workers",
    "Slurm workers": "workers of Slurm",
    "Slurm workers with notices": "workers of Slurm, where the cloud's metadata announces interruptions",
    "Kubernetes workers": "workers of Kubernetes",
    "simulated accelerators": "nodes with simulated accelerators",
    "rails": "nodes with rails",
    "addressed rails": "nodes with rails that have addresses",
    "Lustre over EFA": "nodes with EFA, where a file system is reached so",
    "may reboot": "nodes that got modules of the kernel, or that translate addresses of devices",
    "another image": "nodes that booted another image than ours",
    "images": "builders of images",
}
"""Nodes that a role can be for, and their name in the documentation. configuration/inventory.py finds them in a plan,
except for three: all hosts need no group, and playbooks detect nodes that booted another image."""

HARDWARE: Mapping[str, str] = {
    "releases": "all, where the release brings it",
    "accelerators": "nodes with accelerators",
    "switched accelerators": "nodes with NVSwitches",
    "efa": "nodes with EFA",
    "infiniband": "nodes with InfiniBand or RoCE",
    "bare metal": "nodes with accelerators and a fabric, on machines without a hypervisor",
    "disks": "nodes with disks inside",
    "containers": "all, where any node runs containers",
}
"""Nodes that a role can be for because of their hardware. planning/build/hardware.py finds them; the plan names the
roles of each group."""


@dataclass(frozen=True)
class NodeRole:
    """A row of the list: the hosts, stages and settings of a role."""

    name: str
    """Name of its folder in playbooks/roles, of the group of its hosts, and prefix of its variables."""
    members: str
    """A key of MEMBERS or HARDWARE."""
    does: str
    stages: tuple[str, ...]
    """Names of its plays in site.yml; none for a role that only images have."""
    versioned: bool = True
    """False for hardware roles whose packages are only build dependencies: no node is refused for their versions."""
    has_modules: bool = False
    """Whether it installs kernel modules, which only a reboot may be able to load."""
    may_reboot: bool = False
    """Whether it may note that a reboot is needed, like a role with modules."""

    @property
    def is_hardware(self) -> bool:
        """Whether the release, not the plan's groups, decides which nodes have it."""
        return self.members in HARDWARE


# Roles in the order of an inventory's groups; site.yml has the order of the stages.
ROLES = (
    NodeRole("validate", "all hosts", "checks the inventory against the specs of roles, and each node", ("Validate",)),
    NodeRole("image", "another image", "the install parts of all roles, before anything is configured", ("Image",)),
    NodeRole("boot", "images", "installs the playbooks with which elastic nodes configure themselves", ()),
    NodeRole("packages", "head that serves packages", "serves the release's packages", ("Packages",)),
    NodeRole("base", "everyone", "users, names, host keys, limits, kernel settings", ("Base",)),
    NodeRole("metadata", "with rights", "keeps users away from the credentials of machines", ("Metadata",)),
    NodeRole("directory", "with a directory", "asks a directory for people, through SSSD", ("Directory",)),
    NodeRole("kernel", "releases", "installs the release's kernel into the image, and boots no other", ("Kernel",)),
    NodeRole("libjwt", "releases", "builds a library that Slurm is built with", ("Libjwt",), versioned=False),
    NodeRole("slurm_build", "releases", "builds Slurm where no package of it exists", ("Slurm",), versioned=False),
    NodeRole("driver", "accelerators", "the release's driver, pinned and held", ("Driver",), has_modules=True),
    NodeRole(
        "efa", "efa", "EFA's driver and libraries, and the kernel settings that it needs", ("EFA",), has_modules=True
    ),
    NodeRole("infiniband", "infiniband", "packages for RDMA, pinned and held", ("InfiniBand",)),
    NodeRole("pci", "bare metal", "lets devices reach each other directly", ("PCI",), may_reboot=True),
    NodeRole("scratch", "disks", "makes one file system of the disks", ("Scratch",)),
    NodeRole("persistence", "accelerators", "keeps the driver's state loaded (nvidia-persistenced)", ("Persistence",)),
    NodeRole("fabric_manager", "switched accelerators", "runs NVIDIA's fabric manager", ("Fabric manager",)),
    NodeRole(
        "dcgm", "accelerators", "DCGM and its exporter, which monitor GPUs, where the release has packages", ("DCGM",)
    ),
    NodeRole("nccl", "accelerators", "NCCL and its tests, where the release has packages", ("NCCL",)),
    NodeRole("torch", "accelerators", "torch with CUDA, from wheels pinned by a lock with digests", ("Torch",)),
    NodeRole("containers", "accelerators", "enroot, and GPUs in it", ("Containers",)),
    NodeRole("pyxis", "containers", "the options with which Slurm starts a container", ("Pyxis",), versioned=False),
    NodeRole("reboot", "may reboot", "reboots a node where a role has asked for it", ("Reboot",)),
    NodeRole(
        "accelerator",
        "simulated accelerators",
        "state of simulated accelerators, and a simulated nvidia-smi",
        ("Accelerator",),
    ),
    NodeRole("fabric", "addressed rails", "keeps the rails apart", ("Fabric",)),
    NodeRole("collectives", "rails", "sets the NICs that collectives use", ("Collectives",)),
    NodeRole("volumes", "head with disks", "mounts the disk that outlives the head", ("Volumes",)),
    NodeRole("lustre_efa", "Lustre over EFA", "gives EFA interfaces to Lustre", ("Lustre over EFA",)),
    NodeRole("storage", "everyone", "mounts file systems, now and at boot", ("Storage",)),
    NodeRole("homes", "head", "makes homes and folders of groups on shared storage", ("Homes",)),
    NodeRole("access", "head and login nodes", "lets users log in with their declared keys", ("Access",)),
    NodeRole("workloads", "workers", "installs the programs of `workloads/validation`", ("Workloads",)),
    NodeRole("database", "head with its own database", "runs MariaDB", ("Database",)),
    NodeRole(
        "slurm_accounting",
        "head with accounting",
        "slurmdbd, then users, accounts and limits",
        ("Accounting", "Accounts"),
    ),
    NodeRole(
        "power",
        "head with rights",
        "starts and ends elastic nodes; switches that off where there are none",
        ("Power",),
    ),
    NodeRole("slurm_controller", "head", "slurmctld, then waits until every node answers", ("Controller", "Ready")),
    NodeRole("slurm_worker", "Slurm workers", "slurmd", ("Worker",)),
    NodeRole(
        "interruptions",
        "Slurm workers with notices",
        "drains a node before its cloud takes it away, and sends its jobs their signal",
        ("Interruptions",),
    ),
    NodeRole("slurm_login", "login nodes", "sackd, so that people submit jobs from there", ("Login",)),
    NodeRole("kubernetes_node", "Kubernetes workers", "containerd and kubelet, which run pods", ("Pods",)),
    NodeRole("metrics", "everyone", "runs the exporter of metrics", ("Metrics",)),
    NodeRole(
        "logs", "with rights", "ships the journal to the cloud; switches that off where logs are not kept", ("Logs",)
    ),
    NodeRole("health", "workers", "checks the health of a node", ("Health",)),
)
OWN_ROLES_BEFORE = "database"
"""The user's own roles come before this role in an inventory."""
