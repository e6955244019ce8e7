"""Choose the software of a cluster."""

from __future__ import annotations

from stampworks import catalog
from stampworks.declaration import Declaration
from stampworks.declaration.wording import alternatives
from stampworks.plan import Logs, Release, traits_of
from stampworks.planning.build.logs import ROLE as LOGS
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices

SLURM, KUBERNETES = "slurm", "kubernetes_node"
"""The roles of the schedulers themselves."""
DIRECTORY = "directory"
"""The role that only a cluster with a directory needs: no other image has its packages."""


def choose(declaration: Declaration, choices: Choices, logs: Logs, notes: Notes) -> Release:
    """Return the software for the plan: the declared release, or the newest one that fits."""
    if not declaration.release:
        notes.reason("release.name", "the newest of the catalog, the default")
    row = _fitting(declaration, catalog.releases()[declaration.release or catalog.newest_release()], notes)
    scheduler = declaration.scheduler
    if managed := choices.runs(scheduler.kind):
        notes.reason("release.suite", f"nodes run the image of {managed.what}, and no playbook adds to it")
        return Release(
            name=row.name,
            suite=managed.suite,
            versions=(),
            base_packages=(),
            packages=(),
            kubernetes=tuple(row.kubernetes.items()),
        )
    needed = scheduler.accounting and scheduler.database == "head"
    left_out: tuple[str, ...] = () if needed else row.accounting_roles
    others: tuple[str, ...] = (KUBERNETES,)
    if traits_of(scheduler.kind).runs_pods:
        left_out, others = (SLURM, *row.accounting_roles), ()
        notes.reason("release.packages", f"without {', '.join(left_out)}, which only Slurm needs")
    elif left_out:
        whose = "the cloud runs" if scheduler.accounting else "only accounting needs"
        notes.reason("release.packages", f"without {', '.join(left_out)}, which {whose}")
    if not logs.days:
        others += (LOGS,)
    if declaration.directory.kind == "none":
        others += (DIRECTORY,)
    elif DIRECTORY not in row.packages and not traits_of(scheduler.kind).runs_pods:
        with_it = [each.name for each in catalog.releases().values() if DIRECTORY in each.packages]
        problem = f"release {row.name} has no packages with which nodes could ask a directory"
        notes.problem("directory.kind", problem, f"write release: {alternatives(with_it)}, or take the directory out")
    roles = [role for role in row.packages if role not in (*left_out, *others)]
    return Release(
        name=row.name,
        suite=row.suite,
        versions=tuple(sorted(item for role in roles for item in row.versions.get(role, {}).items())),
        base_packages=row.base_packages,
        packages=tuple((role, row.packages[role]) for role in roles),
        boot=row.boot,
        kubernetes=tuple(row.kubernetes.items()) if traits_of(scheduler.kind).runs_pods else (),
    )


def _fitting(declaration: Declaration, row: catalog.Release, notes: Notes) -> catalog.Release:
    """Return the row itself, or note a problem and return a row that fits."""
    newest = catalog.releases()[catalog.newest_release()]
    if row.clouds and declaration.cloud not in row.clouds:
        problem = f"release {row.name} is for {' and '.join(row.clouds)}, and no node of {declaration.cloud} can run it"
        notes.problem("release", problem, f'write release: "{newest.name}", which is for all clouds')
        return newest
    kept = traits_of(declaration.scheduler.kind).keeps_accounts
    if row.jobs_need_accounting and kept and not declaration.scheduler.accounting:
        problem = f"Slurm {row.versions[SLURM]['slurm']} of release {row.name} runs no jobs without accounting"
        notes.problem("release", problem, f'write scheduler: {{accounting: true}}, or release: "{newest.name}"')
    return row
