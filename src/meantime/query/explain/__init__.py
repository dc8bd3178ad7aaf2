"""What limited it: where the time of a trace went, which resources were full, what would help."""

from meantime.query.explain.by_family import explain, explain_briefly
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation

__all__ = ["Conclusion", "Evidence", "Explanation", "explain", "explain_briefly"]
