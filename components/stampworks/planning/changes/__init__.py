"""Changes between two plans: policy, order and cost of each, and the review made of them."""
