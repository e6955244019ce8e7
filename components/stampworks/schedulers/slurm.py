"""Slurm's configuration from plan and roster. Unusual lines have comments; everything here was run with Slurm 24.11."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stampworks.plan import ACCOUNTING_DATABASE, Group, Machine, Member, Plan, Queue, Roster
from stampworks.schedulers import topology
from stampworks.schedulers.topology.places import of_ways
from stampworks.schedulers.topology.slurm import block, tree
from stampworks.text.names import fold

NODES_MAX = 16_384
"""Limit of slurmctld's tables: a larger cluster would crash it. Every declarable cluster fits."""
HELPERS = "/usr/local/libexec/stampworks"
POWER = f"{HELPERS}/power"
HEALTH = "/usr/local/sbin/stampworks-health"
PYXIS = "/usr/local/lib/stampworks/pyxis/spank_pyxis.so"
CONTROLLER_PORT = 6817
DATABASE_PORT = 6819
TOPOLOGY_PLUGINS = {"flat": "default", "tree": "tree", "block": "block"}
IMAGINED_S = 30
"""Seconds after which a node for scheduling only counts as not started, and as idle: Slurm requires values."""
START_S, END_S = 1800, 120
"""Times of elastic nodes: a machine with eight GPUs boots and proves itself for minutes, and ends its programs before
it stops."""
MEMORY_PERCENT = 90
"""Firmware and kernel use 2 to 5 % of a machine's memory. Slurm drains a node with less than configured; only nodes of
a cloud may have 90 % by default (its slurm.conf(5), read 2026-11-26). Jobs get no more."""
Setting = tuple[str, object]
Members = Mapping[str, Sequence[str]]
"""Names of nodes by pool."""


def files(plan: Plan, roster: Roster) -> dict[str, str]:
    """Every file of /etc/slurm by name; slurmdbd.conf, if any, still lacks its password."""
    members = node_names(plan, roster)
    texts = {
        "slurm.conf": _slurm_conf(plan, roster, members),
        "topology.conf": _topology_conf(plan, roster, members),
        "gres.conf": gres_conf(plan, members),
        "cgroup.conf": cgroup_conf(plan),
        "plugstack.conf": plugstack_conf(plan),
        "job_submit.lua": job_submit_lua(plan),
    }
    if plan.scheduler.accounting:
        texts["slurmdbd.conf"] = _slurmdbd_conf(plan)
    else:
        del texts["job_submit.lua"]
    return texts


def cgroup_conf(plan: Plan) -> str:
    """Return cgroup.conf, which confines jobs to their allocation.

    Only devices in gres.conf are restricted: NVIDIA's common devices and those of RDMA stay available to all. Nodes
    have no swap to divide.
    """
    if not on_machines(plan):
        return lines(plan, [("CgroupPlugin", "disabled")])
    settings: list[Setting] = [
        ("CgroupPlugin", "cgroup/v2"),
        ("ConstrainDevices", "yes"),
        # Signal children, as proctrack/linuxproc does: otherwise a program that a shell started is not told to stop.
        ("SignalChildrenProcesses", "yes"),
    ]
    if divided(plan):
        settings += [("ConstrainCores", "yes"), ("ConstrainRAMSpace", "yes"), ("MaxRAMPercent", MEMORY_PERCENT)]
    return lines(plan, settings)


def on_machines(plan: Plan) -> bool:
    """Whether nodes have control groups: simulated ones are namespaces, where slurmd could not start with them."""
    return not any(group.machine.simulated for group in plan.running)


def divided(plan: Plan) -> bool:
    """Whether jobs get cores and memory in proportion to accelerators.

    For a machine without published numbers Slurm assumes a core and 1 MiB, and jobs would get no more.
    """
    return on_machines(plan) and all(pool.machine.cores and pool.machine.memory_mib for pool in plan.pools)


def plugstack_conf(plan: Plan) -> str:
    """Return the file even without plugins: the packaged file includes missing ones, which slurmd logs as an error.

    The plugin is required: a node without it would run a container's job outside of the container.
    """
    containers = any(software.name == "pyxis" for software in plan.release.hardware)
    return header(plan) + (f"required {PYXIS}\n" if containers else "")


def node_names(plan: Plan, roster: Roster) -> dict[str, tuple[str, ...]]:
    """Return the nodes of each pool that exist or may start, and all nodes for scheduling only."""
    found = {
        pool.name: (
            *(member.name for member in members_of(pool, roster)),
            *(node.name for node in pool.elastic_nodes),
        )
        for pool in plan.pools
    }
    return found | {pool.name: tuple(node.name for node in pool.nodes) for pool in plan.scheduling_only}


def members_of(pool: Group, roster: Roster) -> tuple[Member, ...]:
    """Return the permanent members."""
    elastic = {node.name for node in pool.elastic_nodes}
    return tuple(one for one in roster.members if one.group == pool.name and one.name not in elastic)


def _slurm_conf(plan: Plan, roster: Roster, members: Members) -> str:
    nodes = [_node_line(pool.machine, member) for pool in plan.pools for member in members_of(pool, roster)]
    nodes += [_cloud_line(pool, [node.name for node in pool.elastic_nodes]) for pool in elastic(plan)]
    nodes += [_cloud_line(pool, members[pool.name]) for pool in plan.scheduling_only]
    queues = [_queue_line(plan, queue, members) for queue in plan.scheduler.queues]
    saving = power_saving(plan, roster) if elastic(plan) else imagined(plan)
    sections = (
        identity(plan, roster),
        placement(plan),
        _health_settings(plan),
        saving,
        priorities(plan),
        accounting(plan, roster),
    )
    body = "\n".join(_lines_of(section) for section in sections if section)
    return header(plan) + body + "\n" + "\n".join([*nodes, "", *queues, ""])


def controller(plan: Plan, roster: Roster) -> Member:
    """Return the member that is the head."""
    return next(member for member in roster.members if member.group == plan.controller.name)


def identity(plan: Plan, roster: Roster) -> list[Setting]:
    """Return the settings that name the cluster and its controller."""
    head = controller(plan, roster)
    comes_and_goes = plan.scheduling_only or elastic(plan)
    parameters = ["enable_configless", f"node_reg_mem_percent={MEMORY_PERCENT}"]
    return [
        ("ClusterName", plan.name),
        ("SlurmctldHost", f"{head.name}({head.address})"),
        ("SlurmctldPort", CONTROLLER_PORT),
        ("SlurmUser", "slurm"),
        ("SlurmdUser", "root"),
        # Slurm's own key, /etc/slurm/slurm.key, replaces munge
        ("AuthType", "auth/slurm"),
        ("CredType", "cred/slurm"),
        # nodes fetch these files from the controller; one that is switched off can be switched on again at once
        ("SlurmctldParameters", ",".join([*parameters, *(["idle_on_node_suspend"] if comes_and_goes else [])])),
        ("StateSaveLocation", plan.scheduler.queue_directory),
        ("SlurmdSpoolDir", "/var/lib/slurm/slurmd"),
        ("SlurmctldPidFile", "/run/slurmctld.pid"),
        ("SlurmdPidFile", "/run/slurmd.pid"),
        ("MaxNodeCount", NODES_MAX),
    ]


def placement(plan: Plan) -> list[Setting]:
    """Return the settings that select nodes for jobs."""
    pools = (*plan.pools, *plan.scheduling_only)
    simulated = any(pool.machine.simulated for pool in pools)
    return [
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core_Memory" if divided(plan) else "CR_Core"),
        *([("GresTypes", "gpu")] if any(pool.machine.accelerators for pool in pools) else []),
        ("TopologyPlugin", f"topology/{TOPOLOGY_PLUGINS[plan.scheduler.topology]}"),
        # simulated nodes say they have more cores than their host
        *([("SlurmdParameters", "config_overrides")] if simulated else []),
        *confinement(plan),
        ("SchedulerType", "sched/backfill"),
        # A node whose prolog fails is drained; the job waits for another node instead of being held.
        ("SchedulerParameters", "nohold_on_prolog_fail,bf_interval=10"),
        ("JobRequeue", 1),
    ]


def confinement(plan: Plan) -> list[Setting]:
    """Return the settings that keep jobs within their cores, memory and devices."""
    if not on_machines(plan):
        return [("ProctrackType", "proctrack/linuxproc")]
    # task/affinity binds to the cores that a job got, which must be known
    return [
        ("ProctrackType", "proctrack/cgroup"),
        ("TaskPlugin", "task/cgroup,task/affinity" if divided(plan) else "task/cgroup"),
    ]


def _health_settings(plan: Plan) -> list[Setting]:
    # A machine that is silent for half a minute may be busy, and polling eight GPUs slows their jobs down; simulated
    # nodes are idle, and exist to be broken.
    silent_s, look_s = (300, 300) if on_machines(plan) else (30, 20)
    return [
        # 2 would also return a node that a user has drained
        ("ReturnToService", 1),
        ("SlurmdTimeout", silent_s),
        ("HealthCheckProgram", HEALTH),
        ("HealthCheckInterval", look_s),
        ("HealthCheckNodeState", "ANY,CYCLE"),
        # Run the prolog on all nodes before a job starts, and create the step that logins on a node belong to.
        ("PrologFlags", "Contain"),
        ("Prolog", f"{HELPERS}/prolog"),
        ("Prolog", f"{HELPERS}/output"),
        ("Epilog", f"{HELPERS}/epilog"),
        ("TaskProlog", f"{HELPERS}/task-environment"),
        # The prolog waits for the user's checks. A job whose script has not started by then is requeued.
        ("BatchStartTimeout", 60),
        # a shell's limits do not matter to a job: memory for RDMA must stay lockable
        ("PropagateResourceLimitsExcept", "MEMLOCK,NOFILE"),
    ]


def elastic(plan: Plan) -> tuple[Group, ...]:
    """Pools with elastic nodes."""
    return tuple(pool for pool in plan.pools if pool.elastic_nodes)


def power_saving(plan: Plan, roster: Roster) -> list[Setting]:
    """Elastic nodes of a cloud."""
    static = [member.name for pool in plan.pools for member in members_of(pool, roster)]
    return [
        ("PrivateData", "cloud"),  # shows nodes that are powered down
        ("ResumeProgram", f"{POWER}/resume"),
        ("SuspendProgram", f"{POWER}/suspend"),
        ("ResumeTimeout", START_S),
        ("SuspendTimeout", END_S),
        ("ResumeRate", 0),
        ("SuspendRate", 0),
        *([("SuspendExcNodes", fold(static, ","))] if static else []),
    ]


def imagined(plan: Plan) -> list[Setting]:
    """Return the settings of nodes for scheduling only: powered-down cloud nodes. A job that starts on one is
    cancelled."""
    if not plan.scheduling_only:
        return []
    return [
        ("PrivateData", "cloud"),  # shows nodes that are powered down
        ("ResumeProgram", f"{HELPERS}/scheduling-only"),
        ("SuspendProgram", "/usr/bin/true"),
        ("ResumeTimeout", IMAGINED_S),
        ("SuspendTimeout", 1),
        ("ResumeRate", 0),
    ]


def priorities(plan: Plan) -> list[Setting]:
    """Return the settings of priority and preemption: QOS in the database, or tiers of queues without one."""
    scheduler = plan.scheduler
    if scheduler.preemption == "off":
        return [("PreemptType", "preempt/none")]
    by = "preempt/qos" if scheduler.accounting else "preempt/partition_prio"
    return [("PreemptType", by), ("PreemptMode", scheduler.preemption.upper())]


def accounting(plan: Plan, roster: Roster) -> list[Setting]:
    """Return the settings of the accounting; empty if the plan has none."""
    if not plan.scheduler.accounting:
        return []
    return [
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        # users query records on every node, and slurmdbd is on the head
        ("AccountingStorageHost", controller(plan, roster).address),
        ("AccountingStoragePort", DATABASE_PORT),
        ("AccountingStorageTRES", "gres/gpu"),
        *([("AccountingStorageEnforce", "associations,limits,qos")] if plan.scheduler.accounts else []),
        ("PriorityType", "priority/multifactor"),
        ("PriorityWeightQOS", 100_000),
        ("PriorityWeightFairshare", 10_000),
        ("PriorityWeightAge", 1_000),
        *([("JobSubmitPlugins", "lua")] if any(queue.priority for queue in plan.scheduler.queues) else []),
    ]


def _node_line(machine: Machine, member: Member) -> str:
    return words([("NodeName", member.name), ("NodeAddr", member.address), *hardware(machine), ("State", "UNKNOWN")])


def _cloud_line(pool: Group, names: Sequence[str]) -> str:
    # Use an address that refuses at once: otherwise Slurm would look up each powered-down node for seconds.
    return words(
        [("NodeName", fold(names, ",")), ("NodeAddr", "127.0.0.1"), *hardware(pool.machine), ("State", "CLOUD")]
    )


def hardware(machine: Machine) -> list[Setting]:
    """Return the settings of a machine's cores, memory and accelerators."""
    # unpublished values come from the node when it registers
    cores: list[Setting] = [
        ("CPUs", machine.cpus),
        ("Boards", 1),
        ("SocketsPerBoard", 1),
        ("CoresPerSocket", machine.cores),
        ("ThreadsPerCore", machine.threads or 1),
    ]
    return [
        *(cores if machine.cores else []),
        *([("RealMemory", machine.memory_mib)] if machine.memory_mib else []),
        *([("Gres", gres_of(machine))] if machine.accelerators else []),
    ]


def gres_of(machine: Machine) -> str:
    """Return a machine's accelerators as Slurm counts them."""
    return f"gpu:{machine.accelerator}:{machine.accelerators}"


def _queue_line(plan: Plan, queue: Queue, members: Members) -> str:
    scheduler = plan.scheduler
    imagined = {pool.name for pool in plan.scheduling_only}.issuperset(queue.pools)
    starting = {pool.name for pool in elastic(plan)}
    tiers = scheduler.priorities and not scheduler.accounting
    safe = not any(queue.priority in priority.preempts for priority in scheduler.priorities)
    settings: list[Setting] = [
        ("PartitionName", queue.name),
        ("Nodes", fold((name for pool in queue.pools for name in members[pool]), ",") or '""'),
        ("Default", "YES" if queue.default else "NO"),
        ("MaxTime", queue.time_limit_minutes or "INFINITE"),
        *(shares(plan, queue) if divided(plan) else []),
        *([("TRESBillingWeights", billing(plan, queue))] if scheduler.accounting else []),
        *([("PriorityTier", tier(plan, queue))] if tiers else []),
        # Without a SuspendTime of its own, no queue powers its nodes down.
        *([("SuspendTime", IMAGINED_S)] if imagined else []),
        *([("ResumeTimeout", IMAGINED_S), ("SuspendTimeout", 1)] if imagined and elastic(plan) else []),
        *([("SuspendTime", scheduler.idle_minutes * 60)] if starting.intersection(queue.pools) else []),
        *([("PreemptMode", "OFF")] if tiers and safe and scheduler.preemption != "off" else []),
        ("State", "UP"),
    ]
    return words(settings)


def shares(plan: Plan, queue: Queue) -> list[Setting]:
    """Return the defaults of a job: an accelerator brings its share of the cores, a core its share of the memory.

    Otherwise a job would have a single core and the memory of the whole node, which no other job could share. Slurm's
    CPU is a hardware thread.
    """
    machines = [pool.machine for pool in (*plan.pools, *plan.scheduling_only) if pool.name in queue.pools]
    cpus = [each.cpus // each.accelerators for each in machines if each.cpus and each.accelerators]
    memory = [
        each.memory_mib * MEMORY_PERCENT // 100 // each.cpus for each in machines if each.cpus and each.memory_mib
    ]
    return [
        *([("DefMemPerCPU", min(memory))] if memory else []),
        *([("DefCpuPerGPU", min(cpus))] if cpus else []),
    ]


def billing(plan: Plan, queue: Queue) -> str:
    """Charge accelerators in fair share and reports, and cores only on nodes without accelerators.

    By default Slurm charges a job with eight accelerators and a core as one core.
    """
    pools = [pool for pool in (*plan.pools, *plan.scheduling_only) if pool.name in queue.pools]
    has_accelerators = any(pool.machine.accelerators for pool in pools)
    return '"CPU=0,Mem=0,GRES/gpu=1"' if has_accelerators else '"CPU=1,Mem=0"'


def tier(plan: Plan, queue: Queue) -> int:
    """Return the rank of the queue's priority among all weights, from 1; 0 for a queue without one."""
    weights = sorted({priority.weight for priority in plan.scheduler.priorities})
    own = {priority.name: priority.weight for priority in plan.scheduler.priorities}.get(queue.priority)
    return 1 if own is None else 2 + weights.index(own)


def _topology_conf(plan: Plan, roster: Roster, members: Members) -> str:
    scheduler = plan.scheduler
    if plan.fabric.leaf_nodes is None and scheduler.topology == "tree":
        said = {member.name: member.places for member in roster.members}
        placed = of_ways({name: said.get(name) or () for names in members.values() for name in names})
    else:
        placed = topology.of_plan(plan, members)
    if scheduler.topology == "flat" or not placed.places:
        return header(plan)
    if scheduler.topology == "block":
        return header(plan) + block(placed, (scheduler.block_nodes,))
    return header(plan) + tree(placed)


def gres_conf(plan: Plan, members: Members) -> str:
    """A simulated accelerator must be a device file that exists; terminals do, and no job opens them."""
    rows = [
        words(
            [
                ("NodeName", fold(members[pool.name], ",")),
                ("Name", "gpu"),
                ("Type", pool.machine.accelerator),
                ("File", _device_files(pool.machine)),
            ]
        )
        for pool in (*plan.pools, *plan.scheduling_only)
        if pool.machine.accelerators and members[pool.name]
    ]
    return header(plan) + "".join(f"{row}\n" for row in rows)


def _device_files(machine: Machine) -> str:
    last = machine.accelerators - 1
    number = f"[0-{last}]" if last else "0"
    return f"/dev/tty{number}" if machine.simulated else f"/dev/nvidia{number}"


def _slurmdbd_conf(plan: Plan) -> str:
    return lines(
        plan,
        [
            ("DbdHost", "localhost"),
            ("DbdPort", DATABASE_PORT),
            ("SlurmUser", "slurm"),
            ("AuthType", "auth/slurm"),
            ("PidFile", "/run/slurmdbd.pid"),
            ("StorageType", "accounting_storage/mysql"),
            ("StoragePort", 3306),
            ("StorageLoc", ACCOUNTING_DATABASE),
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
    """Return the comment at the head of each file."""
    return f"# Written by Stampworks for cluster {plan.name}: change the declaration, not this file.\n"


def lines(plan: Plan, settings: Iterable[Setting]) -> str:
    """Return a whole file, with a setting per line."""
    return header(plan) + _lines_of(settings)


def _lines_of(settings: Iterable[Setting]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings)


def words(settings: Iterable[Setting]) -> str:
    """Return settings on a line, as for nodes and partitions."""
    return " ".join(f"{key}={value}" for key, value in settings)
