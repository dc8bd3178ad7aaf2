"""`meantime.statemap`, `meantime.heatmap` and `meantime.flame`: views of sources.

A source is a history, or a path that is opened; `meantime.views` takes only histories.
"""
