"""Changes as data: the differences of two plans, and the review that planning creates and views show."""
