"""Build the plan: the stages of `planner.py`, in their order, and the files that they share."""
