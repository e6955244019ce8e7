"""What differs between clouds when a plan is made: one module a cloud, and this table of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from stampworks.planning.clouds import local
from stampworks.planning.clouds.choices import Choices

CLOUDS: Mapping[str, Choices] = MappingProxyType({"local": local.CHOICES})
