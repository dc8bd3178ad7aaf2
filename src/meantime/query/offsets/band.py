"""The samples of a band of offsets: those at .25 to .28 of every second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.samples import SampleTable
    from meantime.model.columns import Coded
    from meantime.query.ranges import Range

__all__ = ["samples_in_band", "samples_of_names"]


def samples_in_band(samples: SampleTable, band_ns: Range, period_ns: int) -> SampleTable:
    """Return the samples at offsets [from, to) of every period of the trace's own clock.

    A band that ends before it begins continues at the beginning of the next period.

    Raises:
        UsageError: If the band is empty or is not within a period.
    """
    low_ns, high_ns = band_ns
    if not (0 <= low_ns < period_ns and 0 < high_ns <= period_ns and low_ns != high_ns):
        raise UsageError(
            f"offsets from {low_ns} to {high_ns} ns are not within a period of {period_ns} ns"
        )
    # np.mod is never negative, so times before the origin have offsets in the period too
    offset_ns = np.mod(samples.time_ns, period_ns)
    after, before = offset_ns >= low_ns, offset_ns < high_ns
    inside = after & before if low_ns < high_ns else after | before
    return samples.rows(np.flatnonzero(inside))


def samples_of_names(
    samples: SampleTable, groups: Coded, names: Sequence[str], *, are_left_out: bool = False
) -> SampleTable:
    """Return the samples of some names, or all others.

    Args:
        samples: The samples.
        groups: The name of each.
        names: The names.
        are_left_out: Return all others.

    Raises:
        UsageError: If a name has no samples; the message lists the most frequent names.
    """
    codes, counts = np.unique(groups.codes, return_counts=True)
    present = [groups.names[code] for code in codes[np.argsort(-counts)].tolist()]
    for name in names:
        if name not in present:
            some = ", ".join(map(repr, present[:8]))
            raise UsageError(
                f"unknown name {name!r}; the most frequent names are: {some or 'none'}"
            )
    chosen = [code for code, name in enumerate(groups.names) if name in names]
    is_chosen = np.isin(groups.codes, chosen, invert=are_left_out)
    return samples.rows(np.flatnonzero(is_chosen))
