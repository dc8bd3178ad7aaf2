"""Folded stacks, as flame graph scripts read them: a line per stack with its own weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.counting import what_counts
from meantime.query.stacks import check_expansion_limit, sample_tree, span_tree
from meantime.query.threads import thread_quarks
from meantime.views.export.rest import count_rest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.stacks import StackTable
    from meantime.query.stacks import CallTree, Difference

__all__ = ["compared_lines", "folded_lines", "write"]

_NOT_HELD = ("categories", "arguments", "points", "flows", "counter series", "objects")


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file: the self time of spans in ns, or the weights of samples.

    If it has both, it is what the trace's own tool shows; spans only if one of them lasts.
    """
    del version
    spans = history.spans(thread_quarks(history))
    lasts = bool((spans.end_ns > spans.start_ns).any()) and what_counts(history) == "spans"
    samples = history.samples()
    tree = span_tree(spans) if lasts else sample_tree(samples)
    if lasts:
        lost["samples"] += len(samples)
        lost["times of spans"] += len(spans)
    else:
        lost["times of samples"] += len(samples)
        lost["stacks whose weight is negative"] += int((tree.own < 0).sum())
        lasting = int((spans.end_ns > spans.start_ns).sum())
        lost["spans"] += lasting
        lost["spans without a duration"] += len(spans) - lasting
    lost["async spans"] += len(history.spans()) - len(spans)
    count_rest(history, lost, *_NOT_HELD)
    yield from folded_lines(tree, lost)


def folded_lines(tree: CallTree, lost: Counter[str]) -> Iterator[bytes]:
    """Yield a line per stack with a weight of its own, in the order of the table."""
    check_expansion_limit(tree)
    texts = _stack_texts(tree.stacks, tree.own > 0, lost)
    own = tree.own.tolist()
    for row, text in texts:
        yield f"{text} {own[row]}\n".encode("utf-8", "replace")


def compared_lines(both: Difference, lost: Counter[str]) -> Iterator[bytes]:
    """Yield a line per stack with a weight of its own, with its weights before and after."""
    before, after = both.before.own.tolist(), both.after.own.tolist()
    weighs = (both.before.own > 0) | (both.after.own > 0)
    for row, text in _stack_texts(both.stacks, weighs, lost):
        yield f"{text} {before[row]} {after[row]}\n".encode("utf-8", "replace")


def _stack_texts(
    stacks: StackTable, chosen: npt.NDArray[np.bool_], lost: Counter[str]
) -> Iterator[tuple[int, str]]:
    parent, frame = stacks.parent.tolist(), stacks.frame.tolist()
    names = []
    for name in stacks.frames:
        plain = " ".join(name.split()).replace(";", ":")
        lost["names with ; or line breaks, which were replaced"] += plain != name
        names.append(plain or "(no name)")
    # each text is rebuilt from its frames: storing one per caller is quadratic in the depth
    for row in chosen.nonzero()[0].tolist():
        chain = []
        at = row
        while at >= 0:
            chain.append(names[frame[at]])
            at = parent[at]
        yield row, ";".join(reversed(chain))
