"""What tables and flame graphs count: the spans of threads or samples, as a trace may have both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from meantime.query.sentences import counted
from meantime.query.threads import thread_quarks

if TYPE_CHECKING:
    from meantime.history.history import History

__all__ = ["Counted", "Exported", "beside", "what_counts"]

Counted: TypeAlias = Literal["spans", "samples"]
# What formats that only add up can be given.
Exported: TypeAlias = Literal["spans", "samples", "states"]


def what_counts(history: History, wanted: Counted | None = None) -> Counted:
    """Return what is counted: what is wanted, or what the trace's own tool shows first.

    >>> from meantime.testing import history_from_samples, history_from_spans
    >>> what_counts(history_from_spans({"main": [("a", 0, 9)]}))
    'spans'
    >>> what_counts(history_from_samples([(0, "t", ["a"], 1)]))
    'samples'
    """
    if wanted is not None:
        return wanted
    has_spans = len(thread_quarks(history)) > 0
    if has_spans and not history.metadata.samples_first:
        return "spans"
    samples = history.samples()
    if has_spans:
        return "samples" if (samples.stack >= 0).any() else "spans"
    return "samples" if len(samples) else "spans"


def beside(history: History, chosen: Counted) -> str | None:
    """Return how many others a trace has that are not counted, in words; None if it has none.

    >>> from meantime.testing import history_from_spans
    >>> beside(history_from_spans({"main": [("a", 0, 9)]}), "samples")
    '1 span'
    """
    if chosen == "samples":
        count = len(history.spans(thread_quarks(history)))
        return counted(count, "span") if count else None
    count = len(history.samples())
    return counted(count, "sample") if count else None
