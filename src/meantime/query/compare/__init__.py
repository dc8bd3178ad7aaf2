"""Some runs beside others: what changed, where, and how sure that is."""

from meantime.query.compare.comparison import ComparedRow, Comparison
from meantime.query.compare.runs import compared, compared_measures

__all__ = ["ComparedRow", "Comparison", "compared", "compared_measures"]
