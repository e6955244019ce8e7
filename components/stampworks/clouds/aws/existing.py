"""Storage of the account's owners: what nodes need to mount it. No call changes or deletes any of it."""

from __future__ import annotations

import pulumi
from pulumi import Output, ResourceOptions
from pulumi_aws import fsx

from stampworks.clouds.aws.place import Place
from stampworks.plan import Storage


class Existing(pulumi.ComponentResource):
    """A file system or bucket by its id, with the attributes of a created resource."""

    id: Output[str]
    file_system_id: Output[str]
    dns_name: Output[str]
    mount_name: Output[str]
    """Name of a file system of FSx for Lustre, as its servers give it."""
    bucket: Output[str]
    arn: Output[str]

    def __init__(self, name: str, place: Place, storage: Storage, opts: ResourceOptions) -> None:
        super().__init__("stampworks:aws:Existing", name, None, opts)
        id_, region = storage.existing, place.provider.region
        self.id = self.file_system_id = self.bucket = Output.from_input(id_)
        self.arn = region.apply(lambda where: f"arn:{_partition(str(where))}:s3:::{id_}")
        self.dns_name = region.apply(lambda where: f"{id_}.efs.{where}.amazonaws.com")
        self.mount_name = Output.from_input("")
        if storage.kind == "fsx-lustre":  # only FSx knows the name that its servers give it
            found = fsx.LustreFileSystem.get(name, id_, opts=place.within(ResourceOptions(parent=self)))
            self.dns_name, self.mount_name = found.dns_name, found.mount_name
        self.register_outputs({})


def _partition(region: str) -> str:
    """Return the part of AWS that a region is in, as ARNs name it."""
    if region.startswith("us-gov-"):
        return "aws-us-gov"
    return "aws-cn" if region.startswith("cn-") else "aws"
