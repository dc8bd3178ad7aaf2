"""Exports of Nsight Systems as SQLite databases.

Host threads with their calls of CUDA and of the system and their NVTX ranges, streams of GPUs with
kernels and copies, what launched these, thread states and samples. Environment variables and
command lines, which an export has too, are copied only if that is wanted.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.readers.contract import lazy_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "nsys"


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches are read while they are consumed.

    A compressed database is first written to a temporary file, since SQLite reads from anywhere.
    `lenient`, `keep` and `until_ns` change nothing.

    Raises:
        InputError: From the batches, if the database is damaged or has none of the tables.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    # imported here, as every database is compared with this format
    from meantime.readers.memory_limit import MemoryLimit  # noqa: PLC0415 - see above
    from meantime.readers.nsys.database import connect, stored  # noqa: PLC0415 - see above
    from meantime.readers.nsys.reading import Reading  # noqa: PLC0415 - see above
    from meantime.readers.sqlite_access import guard, reason  # noqa: PLC0415 - see above

    with source, stored(source, options) as (path, size):
        try:
            with closing(connect(path)) as connection:
                guard(connection, size, trace.anomalies)
                limit = MemoryLimit(source.name, source.most_memory)
                reading = Reading(trace, connection, path, size, options, limit=limit)
                yield from reading.batches()
        # the message of an error may not be UTF-8 itself
        except (sqlite3.Error, OverflowError, UnicodeError, MemoryError) as error:
            raise InputError(
                source.name, f"the database is damaged ({reason(error)}): export it again"
            ) from None
        if source.path is not None and source.can_repeat:
            options.report_progress(size, size)
    if not trace.records:
        raise InputError(source.name, "this database of Nsight Systems has no events")
