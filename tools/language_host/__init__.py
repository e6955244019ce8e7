"""The Python language host, which the Pulumi engine starts to run Python programs, plugins and policy packs."""
