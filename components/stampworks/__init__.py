"""Declare a GPU training cluster once, stamp it out identically on any cloud, prove it before anyone trains on it."""
