"""Changes as data: differences of two plans, and the review that planning makes and views show."""
