"""Boxes of a flame graph as samples: each has what its callees do not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.readers.sample_rows import SampleRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.trace import Batch, Trace

__all__ = ["samples", "whole"]


def samples(
    trace: Trace,
    parents: Sequence[int],
    names: Sequence[str],
    totals: Sequence[int],
    unit: str,
) -> Iterator[Batch]:
    """Yield the samples of boxes, each of which comes after its caller.

    Args:
        trace: The trace.
        parents: By box, that of its caller, or -1.
        names: By box, its function.
        totals: By box, its weight with its callees.
        unit: What weights count.

    Raises:
        ValueError: If a caller is not before its callees.
    """
    stacks = StackTableBuilder()
    rows = SampleRows(trace.values)
    thread = trace.paths.code(thread_path(0, 0))
    own = [*totals]
    stack_of: list[int] = []
    for box, parent in enumerate(parents):
        if not -1 <= parent < box:
            raise ValueError(f"the caller of box {box} is {parent}")
        below = stack_of[parent] if parent >= 0 else NO_STACK
        stack_of.append(stacks.push(below, stacks.frame(names[box])))
        if parent >= 0:
            own[parent] -= totals[box]
    at = 0
    for box, weight in enumerate(own):
        if weight:
            rows.add(thread, at, stack_of[box], weight, unit)
            at += abs(weight)
    trace.sample_units[unit] = "ns" if unit == "ns" else "count"
    trace.records = len(own)
    trace.bounds = 0, max(1, at)
    trace.stacks = stacks.build()
    trace.facts["time axis"] = "weights, as the picture has no times"
    if rows:
        yield rows.batch()


def whole(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[int]:
    """Return numbers that are integers as such.

    Raises:
        ValueError: If one is not.
    """
    if not (np.isfinite(numbers) & (np.abs(numbers) < 2**62)).all():
        raise ValueError("a weight that is not a number")
    rounded: list[int] = np.rint(numbers).astype(np.int64).tolist()
    return rounded
