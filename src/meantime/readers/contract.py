"""The interface of readers: what each format's module implements, and the options it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from meantime.errors import UsageError
from meantime.kernels.memory import keep_freed
from meantime.model.trace import Trace
from meantime.model.units import MAX_NS
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.model.column_mapping import ColumnMapping
    from meantime.model.extent import Extent
    from meantime.model.trace import Batch
    from meantime.model.units import Instant, Time
    from meantime.readers.source import Source

__all__ = ["MOST_BATCH_ROWS", "ReadOptions", "Reader", "lazy_trace"]

# A batch is in memory beside the history. Only formats that are complete at the end of the input,
# such as begins whose ends may be anywhere, need larger ones.
MOST_BATCH_ROWS: Final = 1 << 20


@struct
class ReadOptions:
    """Options for a reader; the docstring of each reader names those that it ignores.

    Attributes:
        lenient: Count records that cannot be read as anomalies and go on, instead of stopping at
            the first.
        until_ns: Leave out what is later than this.
        keep: Called with each entity's name; entities for which it returns False are left out.
        progress: Called with the bytes read and the bytes in all (0 if unknown).
        position: Continue after the batch of `Events` that has this `position`; given only to
            readers whose batches have one.
        events: Deliver tracepoints as `Events` with their fields, instead of as samples.
        start: Only states that overlap the range from this time to `end` are needed. A reader may
            leave out changes outside of it, if the states in it keep their beginnings and ends,
            each entity its last change, and the history its end; then it sets `Trace.range_ns` and
            counts what it left out in `Trace.left_out`. None is the beginning.
        end: The end of that range; None is the end of the trace.
        columns: Which columns of a table, or fields of a log, are the times and states.
        private: Copy command lines, environment variables and headers of requests; otherwise they
            are left out, and counted as the anomaly `private_field`.
        scheduling: Derive states of CPUs and threads, and what else follows, from the events of a
            scheduler.
        repair_clocks: Shift the times of services whose clocks differ from those of their callers.
    """

    lenient: bool = False
    until_ns: int | None = None
    keep: Callable[[str], bool] | None = None
    progress: Callable[[int, int], None] | None = None
    position: Any = None
    events: bool = False
    start: Time | Instant | None = None
    end: Time | Instant | None = None
    columns: ColumnMapping | None = None
    private: bool = False
    scheduling: bool = True
    repair_clocks: bool = False

    def range_in(self, extent: Extent) -> tuple[int, int] | None:
        """Return the range of which states are needed; None if all are.

        Args:
            extent: Where the trace begins, and its clock; its end is not used.
        """
        if self.start is None and self.end is None:
            return None
        try:
            start_ns = extent.start_ns if self.start is None else extent.time_ns(self.start)
            end_ns = MAX_NS if self.end is None else extent.time_ns(self.end)
        except UsageError:  # a date, and those of the trace are unknown: its history says so
            return None
        # other ranges are wrong, or mean all, which whoever asks the history decides
        return (start_ns, end_ns) if extent.start_ns < end_ns > start_ns else None

    def report_progress(self, done_bytes: int, total_bytes: int) -> None:
        """Call `progress`, if it was given."""
        if self.progress is not None:
            self.progress(done_bytes, total_bytes)


class Reader(Protocol):
    """A module or other object that reads one format.

    `meantime.testing.contracts.ReaderContract` tests an implementation. One that a package adds
    also has `recognises(head, name)`, which returns whether the beginning of an input is of the
    format; its name is only a hint. So does one of meantime where a sign of its declaration asks.

    Attributes:
        FORMAT: The format's name.

    One of text, in which zero bytes are damage, also has `TEXT = True`: they are counted then.
    One that makes an object of each record has `OBJECTS = True`: compressed, it may expand less.
    One whose traces may have services with clocks of their own, and which shifts them if
    `ReadOptions.repair_clocks` is set, also has `REPAIRS_CLOCKS = True`.
    """

    FORMAT: str

    def read(self, source: Source, options: ReadOptions) -> Trace:
        """Return the trace; its batches read the input, and close it when they are exhausted.

        Raises:
            InputError: Here or from the batches, if the input is malformed.
        """


def lazy_trace(
    source: Source,
    format_: str,
    batches: Callable[[Source, Trace, ReadOptions], Iterator[Batch]],
    options: ReadOptions,
) -> Trace:
    """Return a trace that a generator fills in while it yields the batches."""
    keep_freed()
    trace = Trace(source.name, format_, iter(()))
    trace.batches = batches(source, trace, options)
    return trace
