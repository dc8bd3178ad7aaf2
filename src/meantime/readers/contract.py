"""What a reader is, and what it is asked: the one place that every format keeps to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from meantime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.readers.source import Source
    from meantime.trace import Batch

__all__ = ["MOST_BATCH_ROWS", "ReadOptions", "Reader", "lazy_trace"]

# Batches are what is in memory at once beside the history. Larger ones are for formats of which
# nothing is certain before the end, such as begins whose ends may be anywhere.
MOST_BATCH_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is asked of a reader; a format heeds what it can, and its docstring says what it cannot.

    Attributes:
        lenient: Count records that cannot be read as anomalies and go on, instead of stopping at
            the first.
        until_ns: Leave out what is later than this.
        keep: Asked for each entity's name; those it says no to are left out.
        progress: Called with the bytes read and the bytes in all (0 if unknown).
        position: Go on after the batch of `Events` that has this `position`; only readers that say
            one are asked to.
        events: Tell as `Events`, with their fields, what is else told as samples.
    """

    lenient: bool = False
    until_ns: int | None = None
    keep: Callable[[str], bool] | None = None
    progress: Callable[[int, int], None] | None = None
    position: Any = None
    events: bool = False

    def report_progress(self, done_bytes: int, total_bytes: int) -> None:
        """Call `progress`, if it was given."""
        if self.progress is not None:
            self.progress(done_bytes, total_bytes)


class Reader(Protocol):
    """A module, or another object, that reads one format.

    `meantime.testing.ReaderContract` tests whether one keeps to this.

    Attributes:
        FORMAT: The format's name.
    """

    FORMAT: str

    def recognises(self, head: bytes, name: str) -> bool:
        """Return whether an input that begins like this is of the format; the name only helps."""

    def read(self, source: Source, options: ReadOptions) -> Trace:
        """Return what the input tells, read while its batches are consumed; that closes it.

        Raises:
            InputError: Here or from the batches, if the input is not what it seemed to be.
        """


def lazy_trace(
    source: Source,
    format_: str,
    batches: Callable[[Source, Trace, ReadOptions], Iterator[Batch]],
    options: ReadOptions,
) -> Trace:
    """Return a trace that a generator fills in while it yields the batches."""
    trace = Trace(source.name, format_, iter(()))
    trace.batches = batches(source, trace, options)
    return trace
