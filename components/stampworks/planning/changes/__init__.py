"""Changes between two plans: the policy, order and cost of each, and their review."""
