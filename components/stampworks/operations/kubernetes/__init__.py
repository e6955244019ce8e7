"""Kubernetes: the client, and what operations ask of a scheduler."""
