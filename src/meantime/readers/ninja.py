"""Logs of ninja, versions 5 to 7: when each command of a build ran.

Times are milliseconds since the build began; when that was follows from the modification times of
its outputs. A build begins where the ends go backwards, since rows are in order of their ends.
Commands that ran at the same time are in lanes, which are as many as ninja ran at once.
Definition: src/build_log.cc of ninja.
"""

from __future__ import annotations

import re
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.readers.contract import lazy_trace
from meantime.readers.span_rows import SpanRows, lanes
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "ninja"
TEXT = True
OBJECTS = True

_HEADER = re.compile(rb"# ninja log v(\d{1,9})\r?$")
_VERSIONS = (5, 6, 7)
_MS = 10**6
_MOST_MS = 10**12
_MOST_NS = 4 * 10**18
# Older versions wrote seconds, or another unit: no file was modified before 2001 by a build.
_FIRST_NS = 10**18
# A log that ninja rewrote has its rows in no order, which do not show builds.
_ROWS_PER_BUILD = 4
_MOST_OUTPUTS = 100
_SECOND_NS = 10**9


class _Row(NamedTuple):
    start_ms: int
    end_ms: int
    modified_ns: int
    output: str
    command: str


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch reads the whole log. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if it is of another version, or a row is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    builds = _builds(list(_rows(source, trace, options)), trace)
    spans = SpanRows(trace)
    after_ns = 0
    for number, rows in enumerate(builds, 1):
        began_ns = max(_began_ns(rows), after_ns)
        groups = _commands(rows)
        times = [
            (began_ns + rows[0].start_ms * _MS, began_ns + rows[0].end_ms * _MS) for rows in groups
        ]
        for lane, time_ns, outputs in zip(lanes(times).tolist(), times, groups, strict=True):
            fields = {"outputs": [row.output for row in outputs[:_MOST_OUTPUTS]]}
            path = thread_path(lane + 1, f"build {number}")
            spans.name_thread(path, "lane", lane)
            spans.add(path, time_ns, outputs[0].output, "command", fields)
            after_ns = max(after_ns, time_ns[1])
    yield from spans.batches()


def _rows(source: Source, trace: Trace, options: ReadOptions) -> Iterator[_Row]:
    is_first = True
    for number, line in enumerate(lines(source, options), 1):
        if is_first:
            is_first = False
            match = _HEADER.match(line)
            if match is None or int(match[1]) not in _VERSIONS:
                raise InputError(
                    source.name,
                    "the version of the ninja log is not one of 5, 6 and 7: use a newer ninja",
                )
            continue
        if not line.strip() or line.startswith(b"#"):
            continue
        row = _row(line)
        if row is not None:
            trace.records += 1
            yield row
        elif options.lenient:
            trace.anomalies.add("bad_record")
        else:
            raise InputError(
                source.name,
                "a row is not start, end, modification time, output and hash between tabs",
                line=number,
            )
    trace.anomalies.add("truncated", int(source.truncated))


def _row(line: bytes) -> _Row | None:
    parts = line.decode("utf-8", "replace").rstrip("\r").split("\t")
    if len(parts) != 5 or not all(_is_whole(part) for part in parts[:3]):
        return None
    start, end, modified = (int(part) for part in parts[:3])
    if not 0 <= start <= end < _MOST_MS:
        return None
    return _Row(start, end, modified, parts[3], parts[4])


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 20


def _builds(rows: Sequence[_Row], trace: Trace) -> list[list[_Row]]:
    rows = _once(rows, trace)
    builds: list[list[_Row]] = []
    for row in rows:
        if not builds or row.end_ms < builds[-1][-1].end_ms:
            builds.append([])
        builds[-1].append(row)
    builds = _whole(builds, trace)
    if len(builds) > 2 and len(builds) * _ROWS_PER_BUILD > len(rows):
        trace.facts["builds"] = (
            "ninja rewrote the log: it has the last run of each output, from builds that cannot be"
            " distinguished"
        )
        return [list(rows)]
    return builds


def _once(rows: Sequence[_Row], trace: Trace) -> list[_Row]:
    """Return the rows, each once: no output is modified twice at one time."""
    found = [*dict.fromkeys(rows)]
    trace.anomalies.add("doubled_row", len(rows) - len(found))
    trace.records -= len(rows) - len(found)
    return found


def _whole(builds: list[list[_Row]], trace: Trace) -> list[list[_Row]]:
    """Return the builds; rows of one that has begun when the one before did belong to that one."""
    found: list[list[_Row]] = []
    for rows in builds:
        began_ns = _began_ns(rows)
        if found and began_ns and abs(began_ns - _began_ns(found[-1])) < _SECOND_NS:
            found[-1] = sorted(found[-1] + rows, key=lambda row: row.end_ms)
            trace.anomalies.add("line_went_back")
        else:
            found.append(rows)
    return found


def _began_ns(rows: Sequence[_Row]) -> int:
    """Return when a build began: an output is modified just before its command ends."""
    known = [
        row.modified_ns - row.end_ms * _MS for row in rows if _FIRST_NS < row.modified_ns < _MOST_NS
    ]
    return median_low(known) if known else 0


def _commands(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Return the outputs of each command, in order of start.

    A command with several outputs has a row for each of them, with the same hash.
    """
    groups: dict[tuple[int, int, str], list[_Row]] = {}
    for row in sorted(rows, key=lambda row: (row.start_ms, row.end_ms)):
        groups.setdefault((row.start_ms, row.end_ms, row.command), []).append(row)
    return [*groups.values()]
