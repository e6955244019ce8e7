"""What people read: pure functions from plans and results to text."""

from stampworks.views.certificate import certificate_text
from stampworks.views.comparison import Side, comparison_data, comparison_text, verdict
from stampworks.views.plan import plan_text

__all__ = ["Side", "certificate_text", "comparison_data", "comparison_text", "plan_text", "verdict"]
