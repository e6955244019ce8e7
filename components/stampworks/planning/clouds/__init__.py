"""The differences between clouds in planning: one module for each cloud with its own choices, and their table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from stampworks import catalog
from stampworks.planning.clouds import aws, azure, google, hosts, local, nebius, oracle, rented
from stampworks.planning.clouds.choices import Choices

_OWN: Mapping[catalog.Cloud, Choices] = {
    "local": local.CHOICES,
    "aws": aws.CHOICES,
    "azure": azure.CHOICES,
    "google": google.CHOICES,
    "oracle": oracle.CHOICES,
    "nebius": nebius.CHOICES,
    "hosts": hosts.CHOICES,
}
CLOUDS: Mapping[str, Choices] = MappingProxyType({name: _OWN.get(name, rented.CHOICES) for name in catalog.CLOUDS})
"""Choices of every cloud in the catalog; clouds without a module rent out machines one by one."""
