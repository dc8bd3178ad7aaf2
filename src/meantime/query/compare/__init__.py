"""Some runs beside others: what changed, where, and how sure that is."""

from meantime.query.compare.comparison import ComparedRow, Comparison
from meantime.query.compare.runs import compared, compared_measures
from meantime.query.compare.summaries import summary_of
from meantime.query.compare.summary_file import Summary

__all__ = ["ComparedRow", "Comparison", "Summary", "compared", "compared_measures", "summary_of"]
