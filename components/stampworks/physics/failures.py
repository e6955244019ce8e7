"""Failure rates, checkpoint intervals, and the share of time that is left for work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

from stampworks import catalog
from stampworks.physics.bounds import Bound, figure


def mtbf_hours(deployment: catalog.Deployment, accelerators: int) -> Bound:
    """Return the mean time between failures of these accelerators, at the rate of a published deployment."""
    published = deployment.hours / deployment.failures
    value = published * deployment.accelerators / accelerators
    what = f"{deployment.failures} failures" if deployment.failures > 1 else "one failure"
    return Bound(
        value,
        f"{deployment.name}: {what} in {figure(deployment.hours)} h of {deployment.accelerators} accelerators, "
        f"so one in {figure(published)} h x {deployment.accelerators}/{accelerators}",
    )


def mtbf_range_hours(accelerators: int, deployments: Iterable[catalog.Deployment]) -> tuple[Bound, Bound]:
    """Return the shortest and the longest mean time between failures among all published deployments, at this size."""
    found = sorted((mtbf_hours(each, accelerators) for each in deployments), key=lambda bound: bound.value)
    return found[0], found[-1]


def interval_s(blocked_s: float, mtbf_s: float) -> Bound:
    """Return the best interval between checkpoints (Young, and Daly after him): the minimum of C / T + T / 2M."""
    if blocked_s <= 0 or mtbf_s <= 0:
        raise ValueError("the time of a checkpoint and between failures is positive")
    value = sqrt(2 * blocked_s * mtbf_s)
    return Bound(
        value, f"sqrt(2 x {figure(blocked_s)} s that a checkpoint blocks x {figure(mtbf_s)} s between failures)"
    )


@dataclass(frozen=True)
class Loss:
    """Shares of the total time that are lost."""

    saving: float
    again: float
    """Work that is repeated."""
    recovering: float

    @property
    def goodput(self) -> float:
        """Return the remaining share; 0 when failures come faster than work gets done."""
        return max(0.0, 1 - self.saving - self.again - self.recovering)


def loss(blocked_s: float, recovery_s: float, mtbf_s: float, every_s: float) -> Loss:
    """Return the loss with a checkpoint every `every_s` seconds."""
    return Loss(blocked_s / every_s, every_s / (2 * mtbf_s), recovery_s / mtbf_s)


def goodput(blocked_s: float, recovery_s: float, mtbf_s: float) -> Bound:
    """Return the share of time in which training makes progress, at the best interval."""
    every = interval_s(blocked_s, mtbf_s)
    lost = loss(blocked_s, recovery_s, mtbf_s, every.value)
    return Bound(
        lost.goodput,
        f"a checkpoint every {figure(every.value)} s: 1 - {figure(lost.saving)} of saving - {figure(lost.again)} of "
        f"work done again - {figure(lost.recovering)} of recovering, {figure(recovery_s)} s each",
    )
