"""The Python language host: what the Pulumi engine starts to run Python programs, plugins and policy packs."""
