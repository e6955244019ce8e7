"""A stand-in for Pulumi's plugin for Kubernetes: what the project's stacks use of it, and nothing else.

It serves typed resources and CustomResource, with server-side apply; no charts, no components, no patches.
"""
