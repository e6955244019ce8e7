"""What people read: pure functions from plans and results to text."""

from stampworks.views.plan import plan_text

__all__ = ["plan_text"]
