"""A Kubernetes in a room of the local cloud, as a cloud has one for whoever rents it."""
