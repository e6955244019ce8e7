"""A region of each cloud that has some."""

REGIONS = {"aws": "us-east-1", "azure": "eastus", "google": "us-central1", "oracle": "us-ashburn-1"}
