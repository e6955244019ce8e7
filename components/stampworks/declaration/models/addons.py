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
        description="Whether Node Feature Discovery labels nodes; by default if an operator needs it.",
        json_schema_extra=IN_PLACE,
    )
    gpu_operator: bool | None = Field(
        default=None,
        description="Whether NVIDIA's GPU operator runs; by default if nodes have accelerators of NVIDIA.",
        json_schema_extra=IN_PLACE,
    )
    gpu_driver: bool | None = Field(
        default=None,
        description="Whether the GPU operator installs driver and container toolkit; by default if the image of "
        "nodes lacks them.",
        json_schema_extra=IN_PLACE,
    )
    mig_strategy: Literal["single", "mixed"] = Field(
        default="single",
        description="Counting of an accelerator's parts: as accelerators, or each kind separately.",
        json_schema_extra=REPLACE,
    )
    mig_profile: MigProfile = Field(
        default="all-disabled",
        description="Profile by which the GPU operator divides every accelerator (MIG), as in all-1g.10gb.",
        json_schema_extra=REPLACE,
    )
    network_operator: bool | None = Field(
        default=None,
        description="Whether NVIDIA's network operator runs; by default if the fabric is infiniband or roce.",
        json_schema_extra=IN_PLACE,
    )
    efa_device_plugin: bool | None = Field(
        default=None,
        description="Whether pods can have NICs of EFA; by default if the fabric is efa.",
        json_schema_extra=IN_PLACE,
    )
    kueue: bool | None = Field(
        default=None,
        description="Whether Kueue runs; true by default, because all queues are its objects.",
        json_schema_extra=REFUSE,
    )
    jobset: bool | None = Field(
        default=None,
        description="Whether JobSet runs; true by default, because every run is a JobSet.",
        json_schema_extra=REFUSE,
    )
    trainer: bool | None = Field(
        default=None,
        description="Whether Kubeflow Trainer runs; false by default.",
        json_schema_extra=IN_PLACE,
    )
    mpi_operator: bool | None = Field(
        default=None,
        description="Whether the cluster uses Kubeflow's MPI operator, which is installed by hand except on "
        "`local`; false by default.",
        json_schema_extra=IN_PLACE,
    )
    node_monitoring_agent: bool | None = Field(
        default=None,
        description="Whether EKS's own agent watches nodes between proofs; by default if the cloud has it.",
        json_schema_extra=IN_PLACE,
    )
    metrics_server: bool | None = Field(
        default=None,
        description="Whether `kubectl top` shows the use of nodes and pods; by default if nodes are real.",
        json_schema_extra=IN_PLACE,
    )
