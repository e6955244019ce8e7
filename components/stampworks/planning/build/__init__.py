"""Build the plan: one stage a file, in the order of `planner.py`."""
