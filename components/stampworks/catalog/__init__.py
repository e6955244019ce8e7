"""The facts about machines, fabrics, file systems, prices and releases: data files and typed lookups, each fact
once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from stampworks.catalog.hardware import (
    CLOUDS,
    MACHINES_EXIST,
    SIMULATED,
    Cloud,
    Suggestions,
    accelerators,
    host_links,
    known_nics,
    machine_names,
    machines,
    nic_of,
    nics,
    protocol_of,
    suggestions,
    with_accelerator,
)
from stampworks.catalog.instances import (
    PublishedImage,
    agent_package,
    architecture,
    fabric_cards,
    published_image,
    scratch_model,
)
from stampworks.catalog.limits import machine_limit, network_limits, storage_limit
from stampworks.catalog.price_lists import (
    Part,
    PartPrice,
    Price,
    PriceSource,
    Purchase,
    StoragePrice,
    conflicting_prices,
    part_price,
    part_prices,
    price,
    price_sources,
    prices,
    prices_on_demand,
    storage_price,
    storage_prices,
)
from stampworks.catalog.rows import (
    UNKNOWN,
    Accelerator,
    AddOn,
    CatalogError,
    CloudNodes,
    Deployment,
    Disks,
    Fabric,
    HostLink,
    Image,
    Machine,
    Nic,
    PublishedRun,
    Regions,
    Release,
    Shape,
    Software,
    Source,
    TrainedModel,
    Unknown,
    VendorImage,
    load,
    rows,
)
from stampworks.catalog.storage import (
    EfaClients,
    Effect,
    FileSystem,
    FileSystemChange,
    FileSystemSubnet,
    FileSystemTier,
    Ranges,
    efa_clients,
    file_system_changes,
    file_system_subnets,
    file_system_tiers,
    file_systems,
    tiers_of,
)

__all__ = [
    "CLOUDS",
    "MACHINES_EXIST",
    "SIMULATED",
    "UNKNOWN",
    "Accelerator",
    "AddOn",
    "CatalogError",
    "Cloud",
    "CloudNodes",
    "Deployment",
    "Disks",
    "EfaClients",
    "Effect",
    "Fabric",
    "FileSystem",
    "FileSystemChange",
    "FileSystemSubnet",
    "FileSystemTier",
    "HostLink",
    "Image",
    "Machine",
    "Nic",
    "Part",
    "PartPrice",
    "Price",
    "PriceSource",
    "PublishedImage",
    "PublishedRun",
    "Purchase",
    "Ranges",
    "Regions",
    "Release",
    "Shape",
    "Software",
    "Source",
    "StoragePrice",
    "Suggestions",
    "TrainedModel",
    "Unknown",
    "VendorImage",
    "accelerators",
    "agent_package",
    "architecture",
    "cloud_nodes",
    "conflicting_prices",
    "deployments",
    "efa_clients",
    "fabric_cards",
    "fabrics",
    "file_system_changes",
    "file_system_subnets",
    "file_system_tiers",
    "file_systems",
    "host_links",
    "known_nics",
    "machine_limit",
    "machine_names",
    "machines",
    "network_limits",
    "newest_release",
    "nic_of",
    "nics",
    "part_price",
    "part_prices",
    "price",
    "price_sources",
    "prices",
    "prices_on_demand",
    "protocol_of",
    "published_image",
    "regions",
    "releases",
    "runs",
    "scratch_model",
    "shapes",
    "storage_limit",
    "storage_price",
    "storage_prices",
    "suggestions",
    "tiers_of",
    "trained_models",
    "with_accelerator",
]


@cache
def fabrics() -> Mapping[str, Fabric]:
    """Return the protocols between NICs, with their overheads, by name."""
    return rows(Fabric, load("fabrics.yaml"), "fabrics.yaml")


@cache
def regions() -> Mapping[str, Regions]:
    """Return the regions by cloud."""
    return rows(Regions, load("regions.yaml"), "regions.yaml")


@cache
def cloud_nodes() -> Mapping[str, CloudNodes]:
    """Return facts about nodes by cloud; clouds without a row are unknown."""
    return rows(CloudNodes, load("cloud_nodes.yaml"), "cloud_nodes.yaml")


@cache
def shapes() -> Mapping[str, Shape]:
    """Return the shapes by machine."""
    table = rows(Shape, load("shapes.yaml"), "shapes.yaml")
    for each in table.values():
        if each.name not in machines() or not each.counts or list(each.counts) != sorted({*each.counts}):
            raise CatalogError(f"shapes.yaml: {each.name}: no machine, or counts that do not ascend")
    return table


@cache
def deployments() -> Mapping[str, Deployment]:
    """Return the deployments whose failure counts are published."""
    table = rows(Deployment, load("failures.yaml"), "failures.yaml")
    for each in table.values():
        if each.accelerator not in accelerators() or min(each.accelerators, each.failures, each.hours) <= 0:
            raise CatalogError(f"failures.yaml: {each.name}: no accelerator, or nothing counted")
    return table


@cache
def trained_models() -> Mapping[str, TrainedModel]:
    """Return the published training runs that estimates are compared with, by model."""
    return rows(TrainedModel, load("runs.yaml")["models"], "runs.yaml")


@cache
def runs() -> Mapping[str, PublishedRun]:
    """Return the training runs whose speed is published."""
    table = rows(PublishedRun, load("runs.yaml")["runs"], "runs.yaml")
    for each in table.values():
        if each.accelerator not in accelerators():
            raise CatalogError(f"runs.yaml: {each.name}: no accelerator is called {each.accelerator!r}")
        if each.model not in trained_models():
            raise CatalogError(f"runs.yaml: {each.name}: no model is called {each.model!r}")
        if (each.tflops is UNKNOWN) == (each.tokens_per_second is UNKNOWN):
            raise CatalogError(f"runs.yaml: {each.name}: needs tflops or tokens_per_second, whichever was published")
    return table


@cache
def releases() -> Mapping[str, Release]:
    """Return all releases by name. Raise CatalogError for an add-on that does not fit its release."""
    table = rows(Release, load("releases.yaml"), "releases.yaml")
    for each in table.values():
        _check_addons(each)
    return table


def _check_addons(release: Release) -> None:
    place = f"releases.yaml: {release.name}: addons"
    names = [*release.addons]
    for index, (name, row) in enumerate(release.addons.items()):
        if late := [each for each in row.needs if each not in names[:index]]:
            raise CatalogError(f"{place}: {name}: {', '.join(late)}, which it needs, does not come before it")
        if one_sided := [each for each in row.excludes if name not in release.addons[each].excludes]:
            raise CatalogError(f"{place}: {name}: {', '.join(one_sided)} does not exclude it in turn")
        if row.version != release.kubernetes.get(name, row.version):
            raise CatalogError(f"{place}: {name}: {row.version} is not {release.kubernetes[name]}, which clouds bring")


@cache
def newest_release() -> str:
    """Return the default release: the newest one for all clouds. Such releases are named year.month."""
    everywhere = (name for name, row in releases().items() if not row.clouds)
    return max(everywhere, key=lambda name: tuple(int(part) for part in name.split(".")))
