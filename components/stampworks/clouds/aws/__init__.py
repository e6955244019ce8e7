"""AWS: a VPC, groups of instances, FSx and EBS. Decisions are in the plan; here they become resources."""
