"""Slurm's configuration from plan and roster.

Lines that look odd are explained where they are written; everything here was run against Slurm 24.11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stampworks.names import fold
from stampworks.plan import Group, Machine, Member, Plan, Queue, Roster

NODES_MAX = 1024
"""What the tables of slurmctld are laid out for, so that a pool can grow while it runs."""
HELPERS = "/usr/local/libexec/stampworks"
HEALTH = "/usr/local/sbin/stampworks-health"
CONTROLLER_PORT = 6817
DATABASE_PORT = 6819
TOPOLOGY_PLUGINS = {"flat": "default", "tree": "tree", "block": "block"}
Setting = tuple[str, object]


def files(plan: Plan, roster: Roster) -> dict[str, str]:
    """Every file of /etc/slurm by name; slurmdbd.conf, if any, still lacks its password."""
    members = {pool.name: members_of(pool, roster) for pool in plan.pools}
    texts = {
        "slurm.conf": slurm_conf(plan, roster, members),
        "topology.conf": topology_conf(plan, members),
        "gres.conf": gres_conf(plan, members),
        # nothing here needs cgroups, and a node without them could not even start slurmd with another plugin
        "cgroup.conf": lines(plan, [("CgroupPlugin", "disabled")]),
        # the packaged one includes a folder by a pattern that matches nothing, which slurmd logs as an error
        "plugstack.conf": lines(plan, []),
        "job_submit.lua": job_submit_lua(plan),
    }
    if plan.scheduler.accounting:
        texts["slurmdbd.conf"] = slurmdbd_conf(plan)
    else:
        del texts["job_submit.lua"]
    return texts


def members_of(pool: Group, roster: Roster) -> tuple[Member, ...]:
    return tuple(member for member in roster.members if member.group == pool.name)


def slurm_conf(plan: Plan, roster: Roster, members: Mapping[str, Sequence[Member]]) -> str:
    nodes = [node_line(pool.machine, member) for pool in plan.pools for member in members[pool.name]]
    queues = [queue_line(plan, queue, members) for queue in plan.scheduler.queues]
    sections = (identity(plan, roster), placement(plan), care(), priorities(plan), accounting(plan))
    body = "\n".join(lines_of(section) for section in sections if section)
    return header(plan) + body + "\n" + "\n".join([*nodes, "", *queues, ""])


def identity(plan: Plan, roster: Roster) -> list[Setting]:
    head = next(member for member in roster.members if member.group == plan.controller.name)
    return [
        ("ClusterName", plan.name),
        ("SlurmctldHost", f"{head.name}({head.address})"),
        ("SlurmctldPort", CONTROLLER_PORT),
        ("SlurmUser", "slurm"),
        ("SlurmdUser", "root"),
        # Slurm's own key, /etc/slurm/slurm.key, does what munge did
        ("AuthType", "auth/slurm"),
        ("CredType", "cred/slurm"),
        # nodes fetch these files from the controller
        ("SlurmctldParameters", "enable_configless"),
        ("StateSaveLocation", state_save_location(plan)),
        ("SlurmdSpoolDir", "/var/lib/slurm/slurmd"),
        ("SlurmctldPidFile", "/run/slurmctld.pid"),
        ("SlurmdPidFile", "/run/slurmd.pid"),
        ("MaxNodeCount", NODES_MAX),
    ]


def state_save_location(plan: Plan) -> str:
    return f"{plan.scheduler.state_directory}/slurmctld"


def placement(plan: Plan) -> list[Setting]:
    simulated = any(pool.machine.simulated for pool in plan.pools)
    return [
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core"),
        *([("GresTypes", "gpu")] if any(pool.machine.accelerators for pool in plan.pools) else []),
        ("TopologyPlugin", f"topology/{TOPOLOGY_PLUGINS[plan.scheduler.topology]}"),
        # simulated nodes say they have more cores than their host
        *([("SlurmdParameters", "config_overrides")] if simulated else []),
        ("ProctrackType", "proctrack/linuxproc"),
        ("SchedulerType", "sched/backfill"),
        # a node whose prolog says no is drained; the job waits for another instead of being held for a person
        ("SchedulerParameters", "nohold_on_prolog_fail,bf_interval=10"),
        ("JobRequeue", 1),
    ]


def care() -> list[Setting]:
    return [
        # 2 would also return a node that a person has set down
        ("ReturnToService", 1),
        ("SlurmdTimeout", 30),
        ("HealthCheckProgram", HEALTH),
        ("HealthCheckInterval", 20),
        ("HealthCheckNodeState", "ANY,CYCLE"),
        ("Prolog", f"{HELPERS}/prolog"),
        ("Epilog", f"{HELPERS}/epilog"),
        ("TaskProlog", f"{HELPERS}/task-prolog"),
        # a shell's limits say nothing about a job: memory for RDMA must stay lockable
        ("PropagateResourceLimitsExcept", "MEMLOCK,NOFILE"),
    ]


def priorities(plan: Plan) -> list[Setting]:
    """Who goes first, and who must go. Priorities of jobs (QOS) live in the database, else queues have tiers."""
    scheduler = plan.scheduler
    if scheduler.preemption == "off":
        return [("PreemptType", "preempt/none")]
    by = "preempt/qos" if scheduler.accounting else "preempt/partition_prio"
    return [("PreemptType", by), ("PreemptMode", scheduler.preemption.upper())]


def accounting(plan: Plan) -> list[Setting]:
    if not plan.scheduler.accounting:
        return []
    return [
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ("AccountingStorageHost", "127.0.0.1"),
        ("AccountingStoragePort", DATABASE_PORT),
        ("AccountingStorageTRES", "gres/gpu"),
        *([("AccountingStorageEnforce", "associations,limits,qos")] if plan.scheduler.accounts else []),
        ("PriorityType", "priority/multifactor"),
        ("PriorityWeightQOS", 100_000),
        ("PriorityWeightFairshare", 10_000),
        ("PriorityWeightAge", 1_000),
        *([("JobSubmitPlugins", "lua")] if any(queue.priority for queue in plan.scheduler.queues) else []),
    ]


def node_line(machine: Machine, member: Member) -> str:
    settings: list[Setting] = [
        ("NodeName", member.name),
        ("NodeAddr", member.address),
        ("CPUs", machine.cores),
        ("Boards", 1),
        ("SocketsPerBoard", 1),
        ("CoresPerSocket", machine.cores),
        ("ThreadsPerCore", 1),
        ("RealMemory", machine.memory_mib),
        *([("Gres", gres_of(machine))] if machine.accelerators else []),
        ("State", "UNKNOWN"),
    ]
    return words(settings)


def gres_of(machine: Machine) -> str:
    return f"gpu:{machine.accelerator}:{machine.accelerators}"


def queue_line(plan: Plan, queue: Queue, members: Mapping[str, Sequence[Member]]) -> str:
    scheduler = plan.scheduler
    tiers = scheduler.priorities and not scheduler.accounting
    safe = not any(queue.priority in priority.preempts for priority in scheduler.priorities)
    settings: list[Setting] = [
        ("PartitionName", queue.name),
        ("Nodes", fold((member.name for pool in queue.pools for member in members[pool]), ",") or '""'),
        ("Default", "YES" if queue.default else "NO"),
        ("MaxTime", queue.time_limit_minutes or "INFINITE"),
        *([("PriorityTier", tier(plan, queue))] if tiers else []),
        *([("PreemptMode", "OFF")] if tiers and safe and scheduler.preemption != "off" else []),
        ("State", "UP"),
    ]
    return words(settings)


def tier(plan: Plan, queue: Queue) -> int:
    """The rank of the queue's priority among all weights, from 1; a queue without one stands below them."""
    weights = sorted({priority.weight for priority in plan.scheduler.priorities})
    own = {priority.name: priority.weight for priority in plan.scheduler.priorities}.get(queue.priority)
    return 1 if own is None else 2 + weights.index(own)


def topology_conf(plan: Plan, members: Mapping[str, Sequence[Member]]) -> str:
    scheduler = plan.scheduler
    switches = switch_nodes(plan, members)
    if scheduler.topology == "flat" or not switches:
        return header(plan)
    if scheduler.topology == "block":
        blocks = [words([("BlockName", name), ("Nodes", fold(nodes, ","))]) for name, nodes in switches.items()]
        return header(plan) + "\n".join([*blocks, f"BlockSizes={scheduler.block_nodes}", ""])
    leaves = [words([("SwitchName", name), ("Nodes", fold(nodes, ","))]) for name, nodes in switches.items()]
    spine = words([("SwitchName", "spine"), ("Switches", fold(switches, ","))])
    return header(plan) + "\n".join([*leaves, spine, ""])


def switch_nodes(plan: Plan, members: Mapping[str, Sequence[Member]]) -> dict[str, list[str]]:
    """Members by leaf. Those without rails meet on the management network, which Slurm must know to use them."""
    leaf_of = {node: leaf.name for leaf in plan.fabric.leaves for node in leaf.nodes}
    found: dict[str, list[str]] = {name: [] for name in (*(leaf.name for leaf in plan.fabric.leaves), "management")}
    for pool in plan.pools:
        for member in members[pool.name]:
            found[leaf_of.get(member.name, "management")].append(member.name)
    return {name: nodes for name, nodes in found.items() if nodes}


def gres_conf(plan: Plan, members: Mapping[str, Sequence[Member]]) -> str:
    """A simulated accelerator must be a device file that exists; terminals do, and no job opens them."""
    rows = [
        words(
            [
                ("NodeName", fold((member.name for member in members[pool.name]), ",")),
                ("Name", "gpu"),
                ("Type", pool.machine.accelerator),
                ("File", device_files(pool.machine)),
            ]
        )
        for pool in plan.pools
        if pool.machine.accelerators and members[pool.name]
    ]
    return header(plan) + "".join(f"{row}\n" for row in rows)


def device_files(machine: Machine) -> str:
    last = machine.accelerators - 1
    number = f"[0-{last}]" if last else "0"
    return f"/dev/tty{number}" if machine.simulated else f"/dev/nvidia{number}"


def slurmdbd_conf(plan: Plan) -> str:
    return lines(
        plan,
        [
            ("DbdHost", "localhost"),
            ("DbdPort", DATABASE_PORT),
            ("SlurmUser", "slurm"),
            ("AuthType", "auth/slurm"),
            ("PidFile", "/run/slurmdbd.pid"),
            ("StorageType", "accounting_storage/mysql"),
            ("StorageHost", "127.0.0.1"),
            ("StoragePort", 3306),
            ("StorageLoc", "slurm_acct_db"),
            ("StorageUser", "slurm"),
        ],
    )


def job_submit_lua(plan: Plan) -> str:
    """Slurm has no default QOS for a partition: this gives a job its queue's priority when it asks for none."""
    default = next((queue.name for queue in plan.scheduler.queues if queue.default), "")
    rows = "".join(f'  ["{queue.name}"] = "{queue.priority}",\n' for queue in plan.scheduler.queues if queue.priority)
    return (
        header(plan).replace("#", "--")
        + f"local priority_of = {{\n{rows}}}\n\n"
        + "function slurm_job_submit(job, partitions, uid)\n"
        + f'  local queue = job.partition or "{default}"\n'
        + "  if job.qos == nil then\n    job.qos = priority_of[queue]\n  end\n"
        + "  return slurm.SUCCESS\nend\n\n"
        + "function slurm_job_modify(job, record, partitions, uid)\n  return slurm.SUCCESS\nend\n\n"
        + "return slurm.SUCCESS\n"
    )


def header(plan: Plan) -> str:
    return f"# Written by Stampworks for cluster {plan.name}: change the declaration, not this file.\n"


def lines(plan: Plan, settings: Iterable[Setting]) -> str:
    return header(plan) + lines_of(settings)


def lines_of(settings: Iterable[Setting]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings)


def words(settings: Iterable[Setting]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings)
