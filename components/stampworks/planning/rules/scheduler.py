"""Scheduler: queues of pools and the accounting database."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.plan import Plan, declared_pools
from stampworks.planning.rules.findings import Finding


def without_queue(plan: Plan) -> Iterator[Finding]:
    """Each pool is in a queue: where queues are declared, they name their pools."""
    queued = {name for queue in plan.scheduler.queues for name in queue.pools}
    for index, pool in enumerate(declared_pools(plan.groups)):
        if pool.name not in queued:
            text = f"pool {pool.name} is in no queue: its nodes take no jobs"
            hint = f"write it into the pools of a queue: {', '.join(each.name for each in plan.scheduler.queues)}"
            yield Finding("pools.queue", "fail", text, hint, f"pools[{index}]", "warning", pool.name)


def vouched(plan: Plan) -> Iterator[Finding]:
    """The head can download the certificate authorities of its managed database.

    A head that can gets no finding.
    """
    if plan.scheduler.database == "managed" and plan.network.egress == "none":
        text = (
            "whether slurmdbd can verify its database: the certificates of the authority are published where "
            "no node can fetch them"
        )
        hint = "have a role of your own write /etc/slurm/database-authorities.pem, or write egress: nat"
        yield Finding("scheduler.database", "unknown", text, hint, "scheduler.database")
