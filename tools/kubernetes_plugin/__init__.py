"""A stand-in for Pulumi's plugin for Kubernetes, which supports the project's stacks and nothing else.

It serves typed resources and CustomResource, with server-side apply; no charts, no components, no patches.
"""
