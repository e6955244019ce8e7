"""A small program with a cloud's resources: a network, a head, a group of machines, a file system that is protected."""

import pulumi
from pulumi import ResourceOptions
from pulumi_aws import autoscaling, ec2, fsx

config = pulumi.Config()

vpc = ec2.Vpc("cluster", cidr_block="10.0.0.0/16", tags={"stack": pulumi.get_stack()})
subnet = ec2.Subnet("nodes", vpc_id=vpc.id, cidr_block=config.require("cidr"))
ec2.Instance(
    "head",
    instance_type="m7i.2xlarge",
    user_data=config.require_secret("token"),
    user_data_replace_on_change=True,
    ami="ami-rehearsed",
)
template = ec2.LaunchTemplate(
    "gpu", instance_type="p5.48xlarge", user_data=config.require_secret("token"), image_id="ami-rehearsed"
)
autoscaling.Group(
    "gpu",
    min_size=0,
    max_size=config.require_int("nodes"),
    vpc_zone_identifiers=[subnet.id],
    launch_template={"id": template.id, "version": template.latest_version.apply(str)},
)
fsx.LustreFileSystem(
    "scratch",
    deployment_type="SCRATCH_2",
    storage_capacity=config.require_int("capacity"),
    subnet_ids=subnet.id,
    opts=ResourceOptions(protect=True),
)

pulumi.export("arn", vpc.arn)
