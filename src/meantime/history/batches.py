"""The checks of every batch and fact of a trace before it enters a history.

Readers check the rules of their format; all numbers enter a history through this module, so that
compiled code and arithmetic behind it need not ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL, OUTSIDE
from meantime.model.attributes import format_path
from meantime.model.trace import Counters, Events, Flows, Points, Samples, Spans, StateChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace

__all__ = ["Border"]

_TIMES: dict[type, tuple[str, ...]] = {
    StateChanges: ("time_ns",),
    Spans: ("start_ns", "end_ns"),
    Samples: ("time_ns",),
    Counters: ("time_ns",),
    Points: ("time_ns",),
    Flows: ("from_ns", "to_ns"),
    Events: ("time_ns",),
}
# By batch, its columns of codes: which table they index, and the least code there may be.
_CODES: dict[type, tuple[tuple[str, str, int], ...]] = {
    StateChanges: (("entity", "paths", 0), ("state", "values", -1), ("tag", "tags", -1)),
    Spans: (("thread", "paths", 0), ("name", "values", 0), ("category", "categories", -1)),
    Samples: (
        ("thread", "paths", 0),
        ("event", "values", 0),
        ("name", "values", -1),
        ("stack", "stacks", -1),
    ),
    Counters: (("entity", "paths", 0),),
    Points: (("entity", "paths", 0), ("name", "values", 0), ("target", "paths", -1)),
    Flows: (("from_entity", "paths", 0), ("to_entity", "paths", 0), ("name", "values", 0)),
    Events: (("name", "values", 0),),
}
# Which column names what a row is about.
_ABOUT = {Spans: "thread", Samples: "thread", Flows: "from_entity"}
# Tables that are complete only after the last batch: their codes are checked at the end.
_LATER = ("tags", "stacks")


class Border:
    """Checks the batches of a trace, and raises an error for an invalid one."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._first_ns = AFTER_ALL
        self._last_ns = BEFORE_ALL
        self._highest = dict.fromkeys(_LATER, -1)

    def check(self, batch: Batch) -> None:
        """Check the times and codes of a batch.

        Raises:
            InputError: If a time does not fit a history, a span ends before it starts, or a code is
                in no table of the trace.
        """
        for name, table, least in _CODES.get(type(batch), ()):
            codes = getattr(batch, name)
            if codes is not None and len(codes):
                self._check_codes(batch, codes, name, table, least)
        for name in _TIMES.get(type(batch), ()):
            try:
                times_ns = getattr(batch, name)
            except OverflowError:  # of events that are Python objects
                raise InputError(self._trace.source, f"a time of an event: {OUTSIDE}") from None
            if len(times_ns):
                self._check_times(batch, times_ns)
        if isinstance(batch, Spans):
            backwards = np.flatnonzero(batch.end_ns < batch.start_ns)
            if len(backwards):
                row = int(backwards[0])
                raise InputError(
                    self._trace.source,
                    f"{self._about(batch, row)}: a span ends at {batch.end_ns[row]} ns,"
                    f" before it starts at {batch.start_ns[row]} ns",
                )

    def _check_times(self, batch: Batch, times_ns: Int64s) -> None:
        first_ns, last_ns = int(times_ns.min()), int(times_ns.max())
        if first_ns <= BEFORE_ALL or last_ns >= AFTER_ALL:
            row = int(np.argmin(times_ns) if first_ns <= BEFORE_ALL else np.argmax(times_ns))
            raise InputError(
                self._trace.source,
                f"{self._about(batch, row)}: the time {times_ns[row]} ns: {OUTSIDE}",
            )
        self._reach(first_ns, last_ns)

    def _reach(self, first_ns: int, last_ns: int) -> None:
        self._first_ns = min(self._first_ns, first_ns)
        self._last_ns = max(self._last_ns, last_ns)
        if self._last_ns - self._first_ns >= AFTER_ALL:
            raise InputError(
                self._trace.source,
                f"its times are more than 292 years apart, from {self._first_ns} to"
                f" {self._last_ns} ns: durations of 2^63 ns do not fit; is one of them wrong?",
            )

    def _about(self, batch: Batch, row: int) -> str:
        column: Int32s | None = getattr(batch, _ABOUT.get(type(batch), "entity"), None)
        if column is None:
            return f"event {row + 1} of a batch"
        return format_path(self._trace.paths[int(column[row])])

    def _check_codes(
        self, batch: Batch, codes: npt.NDArray[Any], name: str, table: str, least: int
    ) -> None:
        low, high = int(codes.min()), int(codes.max())
        if table in _LATER and low >= least:
            self._highest[table] = max(self._highest[table], high)
            return
        size = len(getattr(self._trace, table) or ())
        if low < least or high >= size:
            wrong = low if low < least else high
            raise InputError(
                self._trace.source,
                f"{type(batch).__name__}.{name}: {wrong} is not one of the {size:,} {table}",
            )

    def finish(self) -> None:
        """Check the facts of a trace whose batches are all out.

        Raises:
            InputError: If a time of them does not fit a history, or a range is reversed.
        """
        trace = self._trace
        for table, highest in self._highest.items():
            size = len(getattr(trace, table) or ())
            # where a trace has no tags, or no stacks, their codes mean nothing
            if size and highest >= size:
                raise InputError(
                    trace.source, f"{highest} is not one of the {size:,} {table} of the trace"
                )
        ranges = [("its bounds", trace.bounds)] if trace.bounds is not None else []
        ranges += [("a range of lost events", lost) for lost in trace.lost]
        ranges += [("an end", (time_ns, time_ns)) for time_ns in trace.ends.values()]
        for what, (from_ns, to_ns) in ranges:
            if not BEFORE_ALL < from_ns <= to_ns <= AFTER_ALL:
                raise InputError(
                    trace.source, f"{what}, from {from_ns} to {to_ns} ns: {OUTSIDE}, in order"
                )
        if trace.bounds is not None:
            self._reach(trace.bounds[0], trace.bounds[1] - 1)
