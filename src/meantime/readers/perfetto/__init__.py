"""Perfetto traces in protobuf: `.pftrace`, `.perfetto-trace`, as Android, Chrome and SDKs write.

Read are track events with their interned data, clocks, counters, flows and arguments; the events of
ftrace with the scheduler, and what programs wrote to its marker as atrace does; names of processes
and threads; samples of perf. Other packets are counted by their name. Definition:
https://perfetto.dev/docs/reference/trace-packet-proto

Track events and events of ftrace become rows in the kernel `perfetto`, which matches begins and
ends while it scans; a track whose times go back is matched again, by time, when all is read.
Descriptions, clock snapshots and compressed packets are read in Python. Records of the scheduler
have the form of those in perf and ftrace text, so `switches` and `marks` serve all three. All
batches come at the end, since a description may be the last packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.readers.contract import lazy_trace
from meantime.readers.perfetto.messages import plausible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "perfetto"

_OF_TEXTS = bytes((*b"\t\n\r", *range(0x20, 0x7F)))


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with packets of a trace."""
    del name
    # a text may begin with an empty line, and its letters may be lengths and numbers of fields
    return head[:1] == b"\n" and bool(head.translate(None, _OF_TEXTS)) and plausible(head)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches come when all is read, since descriptions may be anywhere.

    Of the options, `lenient` and `progress` are used.

    Raises:
        InputError: From the batches, if a packet is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    # only when an input is read: recognising one needs no NumPy
    from meantime.readers.perfetto.reading import Reading  # noqa: PLC0415 - as above

    reading = Reading(source, trace, options)
    with source:
        reading.scan()
    yield from reading.batches()
