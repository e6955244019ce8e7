"""Text and pages for people: pure functions from plans and results."""
