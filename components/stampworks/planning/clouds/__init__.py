"""What differs between clouds when a plan is made: one module for each that differs, and this table of them."""

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
"""All that the catalog has machines of; where nothing of its own is said, machines are rented one by one."""
