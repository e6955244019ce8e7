"""The table of schedulers: one module for each, with its traits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from stampworks.plan.traits import kubernetes, slurm
from stampworks.plan.traits.traits import Traits

SchedulerKind = Literal["slurm", "kubernetes"]

_TRAITS: Mapping[SchedulerKind, Traits] = MappingProxyType({"slurm": slurm.TRAITS, "kubernetes": kubernetes.TRAITS})


def traits_of(kind: SchedulerKind) -> Traits:
    """Return the properties that all schedulers of a kind share."""
    return _TRAITS[kind]


__all__ = ["SchedulerKind", "Traits", "traits_of"]
