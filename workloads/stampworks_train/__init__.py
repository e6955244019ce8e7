"""Checkpoints, snapshots and accounts of a training run, for any loop."""
