"""A Kubernetes in a room of the local cloud, as a managed Kubernetes of a cloud."""
