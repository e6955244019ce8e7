"""Add-ons of a Kubernetes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, REFUSE, REPLACE, Section
from stampworks.declaration.values import MigProfile


class AddOns(Section):
    """Add-ons of a Kubernetes, each at the version of the release."""

    installer: Literal["helm", "none"] = Field(
        default="helm",
        description="Installer of add-ons that the cloud does not bring: helm, as releases of Pulumi's "
        "plugin, or none, "
        "and `stampworks addons` lists them for you to install.",
        json_schema_extra=IN_PLACE,
    )
    node_feature_discovery: bool | None = Field(
        default=None,
        description="Whether Node Feature Discovery labels nodes; by default, where an operator needs it.",
        json_schema_extra=IN_PLACE,
    )
    gpu_operator: bool | None = Field(
        default=None,
        description="Whether NVIDIA's GPU operator runs; by default, where nodes have accelerators of NVIDIA.",
        json_schema_extra=IN_PLACE,
    )
    gpu_driver: bool | None = Field(
        default=None,
        description="Whether the GPU operator brings driver and container toolkit; "
        "by default, where the image of nodes does not.",
        json_schema_extra=IN_PLACE,
    )
    mig_strategy: Literal["single", "mixed"] = Field(
        default="single",
        description="How parts of an accelerator are counted: as accelerators, or each kind by itself.",
        json_schema_extra=REPLACE,
    )
    mig_profile: MigProfile = Field(
        default="all-disabled",
        description="Profile by which the GPU operator divides every accelerator (MIG), as in all-1g.10gb.",
        json_schema_extra=REPLACE,
    )
    network_operator: bool | None = Field(
        default=None,
        description="Whether NVIDIA's network operator runs; by default, where the fabric is infiniband or roce.",
        json_schema_extra=IN_PLACE,
    )
    efa_device_plugin: bool | None = Field(
        default=None,
        description="Whether pods can have NICs of EFA; by default, where the fabric is efa.",
        json_schema_extra=IN_PLACE,
    )
    kueue: bool | None = Field(
        default=None,
        description="Whether Kueue runs; by default it does, for all queues are its objects.",
        json_schema_extra=REFUSE,
    )
    jobset: bool | None = Field(
        default=None,
        description="Whether JobSet runs; by default it does, for every run is one.",
        json_schema_extra=REFUSE,
    )
    trainer: bool | None = Field(
        default=None,
        description="Whether Kubeflow Trainer runs; by default it does not.",
        json_schema_extra=IN_PLACE,
    )
    mpi_operator: bool | None = Field(
        default=None,
        description="Whether Kubeflow's MPI operator is part of it, which everywhere but on `local` is "
        "installed by hand; by default it is not.",
        json_schema_extra=IN_PLACE,
    )
    node_monitoring_agent: bool | None = Field(
        default=None,
        description="Whether EKS's own agent watches nodes between proofs; by default, where the cloud has it.",
        json_schema_extra=IN_PLACE,
    )
    metrics_server: bool | None = Field(
        default=None,
        description="Whether `kubectl top` shows the use of nodes and pods; by default, where nodes are real.",
        json_schema_extra=IN_PLACE,
    )
