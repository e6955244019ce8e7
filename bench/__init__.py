"""Costs of Stampworks in time and memory, measured beside its foundations. Standard library only."""
