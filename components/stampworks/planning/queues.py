"""Whether Kubernetes with Kueue can do what the scheduler's part of a plan asks for."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.plan import Plan, declared_pools
from stampworks.planning.findings import Facts, Finding

PROGRAMS = "programs"
"""A claim that each team's namespace has."""
RESERVED = ("default", "kueue-system", "jobset-system")
"""Namespaces that are there anyway, beside those that begin with kube-."""


def queues(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001  (its answer is in the plan)
    """Refuses what Kueue would not do, and what it would do without being asked."""
    if plan.scheduler.kind == "kubernetes":
        found = [*_jobs(plan), *_priorities(plan), *_accounts(plan), *_names(plan)]
        yield from found or [Finding("kueue.queues", "pass", "Kueue can do what the scheduler is to do", "")]


def _jobs(plan: Plan) -> Iterator[Finding]:
    scheduler = plan.scheduler
    if scheduler.preemption == "cancel":
        text = "Kueue ends no job that has to make room: it suspends it, and the job starts again when there is room"
        yield _fail("preemption", text, "write preemption: requeue, or off", "scheduler.preemption")
    if scheduler.accounting:
        text = "who used what is recorded by Slurm's database, and nothing records it on Kubernetes"
        hint = "take it out: accounts have their shares and limits without it"
        yield _fail("accounting", text, hint, "scheduler.accounting")
    for index, queue in enumerate(scheduler.queues):
        if queue.time_limit_minutes:
            label = f'kueue.x-k8s.io/max-exec-time-seconds: "{queue.time_limit_minutes * 60}"'
            text = f"queue {queue.name} has a time limit, and a queue of Kueue limits nobody's time"
            hint = f"take it out; a job can limit its own by the label {label}"
            yield _fail("time-limit", text, hint, f"scheduler.queues[{index}].time_limit_minutes", queue.name)


def _priorities(plan: Plan) -> Iterator[Finding]:
    """Kueue goes by weight alone."""
    priorities = plan.scheduler.priorities if plan.scheduler.preemption != "off" else ()
    for index, each in enumerate(priorities):
        below = [other.name for other in priorities if other.weight < each.weight]
        if spared := [name for name in below if name not in each.preempts]:
            text = f"{each.name} would preempt {' and '.join(spared)}, too: to Kueue whatever weighs more preempts"
            hint = f"write preempts: [{', '.join(below)}], give them the same weight, or write preemption: off"
            yield _fail("preempts", text, hint, f"scheduler.priorities[{index}]", each.name)


def _accounts(plan: Plan) -> Iterator[Finding]:
    sizes = [pool.machine.accelerators for pool in declared_pools(plan.groups)]
    least = min(filter(None, sizes), default=0)
    for index, account in enumerate(plan.scheduler.accounts):
        place = f"scheduler.accounts[{index}]"
        if account.name in RESERVED or account.name.startswith("kube-"):
            text = f"an account is a namespace, and {account.name} is one that Kubernetes has itself"
            hint = f"take another name, for example team-{account.name}"
            yield _fail("namespace", text, hint, f"{place}.name", account.name)
        if 0 < account.accelerators_max < least:
            text = f"{account.accelerators_max} is less than the {least} accelerators of one node: no gang would start"
            hint = f"write {least} or more, or 0 for no limit"
            yield _fail("quota", text, hint, f"{place}.accelerators_max", account.name)


def _names(plan: Plan) -> Iterator[Finding]:
    """An object that is the cluster's, and not a team's, is called after both."""
    accounts, names = plan.scheduler.accounts, [each.name for each in plan.storage]
    for what, of in (("queue", [each.name for each in plan.scheduler.queues]), ("storage", names)):
        seen: dict[str, str] = {}
        for index, account in enumerate(accounts):
            for name in of:
                whole, own = f"{account.name}-{name}", f"{what} {name} of account {account.name}"
                if other := seen.get(whole):
                    text = f"to Kubernetes {own} would be {whole}, which {other} is already"
                    yield _fail("names", text, "take another name", f"scheduler.accounts[{index}].name", account.name)
                seen[whole] = own
    if PROGRAMS in names:
        text = f"{PROGRAMS} is what pods know the programs of their nodes by, and no storage can be called so"
        yield _fail("names", text, "take another name", f"storage[{names.index(PROGRAMS)}].name", PROGRAMS)


def _fail(what: str, text: str, hint: str, place: str, subject: str = "") -> Finding:
    return Finding(f"kueue.{what}", "fail", text, hint, place, subject=subject)
