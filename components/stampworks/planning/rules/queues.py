"""Queues of Kubernetes: whether Kueue supports the declared settings of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.plan import BUCKETS_NAMESPACE, PROOF_NAMESPACE, Account, Plan, declared_pools, own_nodes
from stampworks.planning.rules.findings import Finding, Severity

PROGRAMS = "programs"
"""Volume claim in the namespace of every team."""


def queues(plan: Plan) -> Iterator[Finding]:
    """Kueue supports all declared settings."""
    if plan.scheduler.traits.admits_gangs:
        found = [*_jobs(plan), *_priorities(plan), *_accounts(plan), *_names(plan)]
        yield from found or [
            Finding("kueue.queues", "pass", "Kueue can do everything that the scheduler is declared to do", "")
        ]
        yield from _default_priorities(plan)


def _jobs(plan: Plan) -> Iterator[Finding]:
    """Judge Kueue's treatment of single jobs."""
    scheduler = plan.scheduler
    if scheduler.preemption == "cancel":
        text = "Kueue does not cancel a preempted job: it suspends it, and the job starts again when there is room"
        yield _fail("preemption", text, "write preemption: requeue, or off", "scheduler.preemption")
    if scheduler.accounting:
        text = "the usage of users is recorded by Slurm's database, and nothing records it on Kubernetes"
        hint = "take it out: accounts have their shares and limits without it"
        yield _fail("accounting", text, hint, "scheduler.accounting")
    for index, queue in enumerate(scheduler.queues):
        if queue.time_limit_minutes:
            label = f'kueue.x-k8s.io/max-exec-time-seconds: "{queue.time_limit_minutes * 60}"'
            text = f"queue {queue.name} has a time limit, which a queue of Kueue cannot enforce"
            hint = f"take it out; a job can limit its own by the label {label}"
            yield _fail("time-limit", text, hint, f"scheduler.queues[{index}].time_limit_minutes", queue.name)


def _priorities(plan: Plan) -> Iterator[Finding]:
    """Judge preemption, which Kueue decides by weight alone."""
    priorities = plan.scheduler.priorities if plan.scheduler.preemption != "off" else ()
    for index, each in enumerate(priorities):
        below = [other.name for other in priorities if other.weight < each.weight]
        if spared := [name for name in below if name not in each.preempts]:
            text = f"{each.name} would preempt {' and '.join(spared)}, too: in Kueue any higher weight preempts"
            hint = f"write preempts: [{', '.join(below)}], give them the same weight, or write preemption: off"
            yield _fail("preempts", text, hint, f"scheduler.priorities[{index}]", each.name)


def _default_priorities(plan: Plan) -> Iterator[Finding]:
    """Report which jobs get the priority of their queue."""
    declared = [f"{queue.name}: {queue.priority}" for queue in plan.scheduler.queues if queue.priority]
    if declared:
        text = (
            f"`stampworks submit` gives its jobs the priority of their queue ({', '.join(declared)}), and no queue of "
            "Kueue does: other jobs name a priority by the label kueue.x-k8s.io/priority-class"
        )
        yield Finding("kueue.priority", "pass", text, "", "scheduler.queues")


def _accounts(plan: Plan) -> Iterator[Finding]:
    """Judge each account: its namespace, its limit and its share."""
    for index, account in enumerate(plan.scheduler.accounts):
        place = f"scheduler.accounts[{index}]"
        if whose := _namespace_owner(plan, account.name):
            text = f"an account is a namespace, and {account.name} belongs to {whose}"
            hint = f"take another name, for example team-{account.name}"
            yield _fail("namespace", text, hint, f"{place}.name", account.name)
        yield from _limit(plan, account, f"{place}.accelerators_max")
        yield from _share(plan, account, f"{place}.share")


def _namespace_owner(plan: Plan, namespace: str) -> str:
    """Return the owner of a namespace that exists anyway, or belongs to an add-on; empty for any other."""
    if namespace == "default" or namespace.startswith("kube-"):
        return "Kubernetes itself"
    addons = catalog.releases()[plan.release.name].addons
    of_addons = {row.namespace: f"the add-on {name}" for name, row in addons.items()}
    return {PROOF_NAMESPACE: "proofs", BUCKETS_NAMESPACE: "the driver of buckets", **of_addons}.get(namespace, "")


def _limit(plan: Plan, account: Account, place: str) -> Iterator[Finding]:
    """Judge the limit of an account's accelerators."""
    most = account.accelerators_max
    sizes = {pool.name: pool.machine.accelerators for pool in declared_pools(plan.groups) if pool.machine.accelerators}
    of_queues = {each.name: [sizes[name] for name in each.pools if name in sizes] for each in plan.scheduler.queues}
    least = {name: min(found) for name, found in of_queues.items() if found}
    below = {name: size for name, size in least.items() if 0 < most < size}
    severity: Severity = "error" if len(below) == len(least) else "warning"
    for name, size in below.items():
        text = f"{most} is less than the {size} accelerators of one node of queue {name}: no gang would start there"
        yield _fail("quota", text, f"write {size} or more, or 0 for no limit", place, account.name, severity)
    if most and len(sizes) > 1:
        text = f"Kueue counts it in each pool: of {' and '.join(sizes)} {account.name} may have {len(sizes)} x {most}"
        hint = "write its limit in one pool; only Slurm limits all pools together"
        yield _fail("limit", text, hint, place, account.name, "warning")


def _share(plan: Plan, account: Account, place: str) -> Iterator[Finding]:
    """Judge the share of an account: an account that owns no node of a queue gets only idle nodes there."""
    accounts, pools = plan.scheduler.accounts, declared_pools(plan.groups)
    own = {pool.name for pool in pools if own_nodes(accounts, pool.count)[account.name]}
    without = [each for each in plan.scheduler.queues if not own & {*each.pools}]
    if without:
        queues = " and ".join(each.name for each in without)
        waits = "preemption is off" if plan.scheduler.preemption == "off" else "they take it back"
        text = f"no node of queue {queues} is {account.name}'s own: it has what others leave idle, and {waits}"
        nodes = min(max(pool.count for pool in pools if pool.name in each.pools) for each in without)
        others = sum(each.share for each in accounts if each != account)
        more = (
            f"write {-(-others // (nodes - 1))} or more, or less for the others" if nodes > 1 else "declare more nodes"
        )
        yield _fail("share", text, more, place, account.name, "warning")


def _names(plan: Plan) -> Iterator[Finding]:
    """Judge names: a cluster-wide object is named after its account and its own name."""
    accounts, names = plan.scheduler.accounts, [each.name for each in plan.storage]
    for what, of in (("queue", [each.name for each in plan.scheduler.queues]), ("storage", names)):
        seen: dict[str, str] = {}
        for index, account in enumerate(accounts):
            for name in of:
                whole, own = f"{account.name}-{name}", f"{what} {name} of account {account.name}"
                if other := seen.get(whole):
                    text = f"{own} would be {whole} in Kubernetes, a name that {other} has already"
                    yield _fail("names", text, "take another name", f"scheduler.accounts[{index}].name", account.name)
                seen[whole] = own
    if PROGRAMS in names:
        text = f"storage cannot be called {PROGRAMS}, the volume of pods with the programs of their nodes"
        yield _fail("names", text, "take another name", f"storage[{names.index(PROGRAMS)}].name", PROGRAMS)


def _fail(what: str, text: str, hint: str, place: str, subject: str = "", severity: Severity = "error") -> Finding:
    return Finding(f"kueue.{what}", "fail", text, hint, place, severity, subject)
