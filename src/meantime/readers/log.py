"""Text of logs: lines that begin with a date and a level, or with a date, a host and a program.

The first are written by Python's `logging` and many others, the second by rsyslog, syslog-ng and
journalctl (RFC 5424 and 3164). Lines of any other form are read by a pattern, whose named groups
are the fields of a line. A line is an event called by its message. Its fields are the level, the
logger, host, program and process if the line says which part of it that is, and the lines that
follow without a date, such as a traceback. `jsonl` reads each record as an object.

Dates of RFC 3164 have no year. The first one is in the year up to when the file was changed, which
a fact says; a date that goes back by half a year or more is in the next.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.model.column_mapping import ColumnMapping
from meantime.readers import jsonl
from meantime.readers.contract import lazy_trace
from meantime.readers.source import Source
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions

__all__ = ["FORMAT", "ObjectLines", "read", "recognises", "value_of_text"]

FORMAT = "log"
TEXT = True
OBJECTS = True

_LEVEL = (
    rb"(?P<level>(?i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE))(?![\w.-])"
)
_DATE = (
    rb"(?P<day>\d{4}[-/]\d\d[-/]\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    rb"(?: ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d))?(?!\w)"
)
_BETWEEN = rb"[ \t]*(?:[-|:,][ \t]*)?"
# a logger, a thread, a process
_WORD = rb"[\[(<]?[\w.$/:@-]+[\])>]?"
_LOGGER = (
    rb"(?::(?P<attached>[\w.$]+):[ \t]?|[ \t]+in[ \t]+(?P<module>[\w.$]+):[ \t]"
    rb"|[ \t]*[-|][ \t]+(?P<dashed>[\w.$]+)[ \t]+[-|][ \t]+|[ \t]+\[(?P<inside>[\w.$]+)\][ \t:]+)?"
)
_MESSAGE = rb"[ \t]*[-|:]?[ \t]*(?P<message>.*)"
_DATE_FIRST = re.compile(
    rb"\[?" + _DATE + rb"\]?" + _BETWEEN
    + rb"(?P<before>(?:" + _WORD + rb"[ \t]+(?:[-|][ \t]+)?){0,3}?)"
    + rb"[\[(<]?" + _LEVEL + rb"(?:[ \t]*[\])>])?" + _LOGGER + _MESSAGE,
    re.DOTALL,
)  # fmt: skip
_LEVEL_FIRST = re.compile(
    rb"\[?" + _LEVEL + rb"\]?" + _BETWEEN + rb"\[?" + _DATE + rb"\]?" + _LOGGER + _MESSAGE,
    re.DOTALL,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH_DAY = (
    rb"(?P<month>" + "|".join(_MONTHS).encode() + rb") {1,2}(?P<date>\d{1,2})"
    rb" (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?"
)
_SENDER = (
    rb"[ \t]+(?!" + _LEVEL.replace(b"?P<level>", b"?:") + rb")(?P<host>[\w.:-]+)"
    rb"[ \t]+(?P<program>[^\s:\[\]]+)(?:\[(?P<pid>\d{1,9})\])?:[ \t]?(?P<message>.*)"
)
_DATE_AND_ZONE = (
    rb"(?P<day>\d{4}-\d\d-\d\d)T(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    rb"(?P<zone>Z|[+-]\d\d:?\d\d)"
)
_SYSLOG = tuple(
    re.compile(rb"(?:<\d{1,3}>)?" + date + _SENDER, re.DOTALL)
    for date in (_DATE_AND_ZONE, _MONTH_DAY)
)
_APACHE_ERROR = re.compile(
    rb"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) " + _MONTH_DAY + rb" (?P<year>\d{4})\][ \t]+"
    rb"\[(?:(?P<module>\w+):)?(?P<level>[a-z]+\d?)\]"
    rb"(?:[ \t]+\[pid (?P<pid>\d{1,9})(?::tid (?P<tid>\d{1,18}))?\])?[ \t]*(?P<message>.*)",
    re.DOTALL,
)
_FORMS = (*_SYSLOG, _DATE_FIRST, _LEVEL_FIRST, _APACHE_ERROR)
# Lines that have nothing else in common with those around them.
_DATED = tuple(
    re.compile(rb"(?:<\d{1,3}>)?\[?" + date + rb"\]?[ \t]+(?P<message>\S.*)", re.DOTALL)
    for date in (_DATE_AND_ZONE, _DATE, _MONTH_DAY)
)
_HALF_A_YEAR = 6  # months
# not of more digits than a float holds
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,9})?")
_LONGEST_SHOWN = 80
_LOGGER_NAME = re.compile(r"[A-Za-z_][\w.$-]*")
_SNIFFED_LINES = 40
# Of the lines that are looked at: others are tracebacks.
_LEAST = 0.2


class _Years:
    """The years of dates that have none, in the order of the lines.

    Attributes:
        first: The year of the first of them; None if there was none.
    """

    def __init__(self, changed_s: float) -> None:
        changed = time.gmtime(changed_s)
        self._changed = changed.tm_year, changed.tm_mon, changed.tm_mday + 1  # in every zone
        self._year = self._month = 0
        self.first: int | None = None

    def of(self, month: int, day: int) -> int:
        if self.first is None:
            year, *latest = self._changed
            self.first = self._year = year - ([month, day] > latest)
        elif self._month - month >= _HALF_A_YEAR:
            self._year += 1
        self._month = month
        return self._year


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with a line of one of the forms, and goes on so."""
    del name
    if b"\0" in head[:4096]:
        return False
    found = [line for line in head.split(b"\n")[:_SNIFFED_LINES] if line.strip()]
    years = _Years(0)
    if not found or _record(found[0], years) is None:
        return False
    return sum(_record(line, years) is not None for line in found) >= _LEAST * len(found)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches are `Events` in order of time. `keep` is ignored.

    Lines before the first date are counted.

    Raises:
        InputError: From the batches, as that of `jsonl` does.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    given = options.columns or ColumnMapping()
    if given.pattern:
        pieces = _matched(source, trace, options, re.compile(given.pattern.encode()))
        rest = replace(given, pattern="")
        columns = rest if rest.columns or rest.pairs or rest.zone else None
    else:
        pieces = _objects(source, trace, options)
        columns = _columns(given)
    objects = Source(source.name, ObjectLines(source, pieces))
    yield from jsonl.batches_of(objects, trace, replace(options, columns=columns, progress=None))
    trace.anomalies.add("truncated", int(source.truncated))


def _columns(given: ColumnMapping) -> ColumnMapping:
    """Return what is given, with the time and the name that every record has."""
    if given.columns.keys() & {"start", "end"}:
        return given
    roles = {"time": ("timestamp",)}
    # of pairs, `name` is what their spans are called by
    if not given.pairs:
        roles["name"] = ("message",)
    return replace(given, columns={**roles, **given.columns})


class ObjectLines:
    """The records of a log as lines of JSON: a file that can be read."""

    def __init__(self, source: Source, pieces: Iterator[bytes]) -> None:
        self._source = source
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        """Read the next bytes into the buffer and return how many; 0 at the end."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close the log."""
        self._source.close()


def _objects(source: Source, trace: Trace, options: ReadOptions) -> Iterator[bytes]:
    """Yield each record as an object, with as many line ends as it has lines."""
    record: dict[str, str | int] | None = None
    following: list[str] = []
    before = 0
    years = _Years(time.time())
    if source.path is not None:
        with suppress(FileNotFoundError):  # it was removed while it is read
            years = _Years(Path(source.path).stat().st_mtime)
    for line in lines(source, options):
        found = _record(line, years)
        if found is None and record is None:
            before += bool(line.strip())
            yield b"\n"
        elif found is None and (found := _record(line, years, _DATED)) is None:
            following.append(line.decode("utf-8", "replace").rstrip("\r"))
        else:
            if record is not None:
                yield _text(record, following)
            record, following = found, []
    if record is not None:
        yield _text(record, following)
    if years.first is not None:
        when = "today" if source.path is None else "when the file was changed"
        trace.facts["year"] = (
            f"{years.first} at the beginning, as dates have none: the last one up to {when}"
        )
    trace.anomalies.add("unknown_line", before)


def _matched(
    source: Source, trace: Trace, options: ReadOptions, pattern: re.Pattern[bytes]
) -> Iterator[bytes]:
    """Yield the named groups of each line that matches as an object; the others are counted.

    Raises:
        InputError: If no line matches.
    """
    first, unknown, is_matched = b"", 0, False
    for line in lines(source, options):
        match = pattern.search(line.removesuffix(b"\r"))
        if match is None:
            unknown += bool(line.strip())
            first = first or line.strip()
            yield b"\n"
            continue
        is_matched = True
        fields = {
            name: value_of_text(text)
            for name, text in match.groupdict().items()
            if text is not None
        }
        yield json.dumps(fields, ensure_ascii=False).encode() + b"\n"
    if not is_matched:
        shown = first[:_LONGEST_SHOWN].decode("utf-8", "replace")
        raise InputError(source.name, f"the pattern matches no line; the first one is {shown!r}")
    trace.anomalies.add("unknown_line", unknown)


def value_of_text(text: bytes) -> str | int | float:
    """Return what a group is in JSON: a number if it is written like one."""
    if _NUMBER.fullmatch(text):
        return float(text) if b"." in text else int(text)
    return text.decode("utf-8", "replace")


def _text(record: dict[str, str | int], following: list[str]) -> bytes:
    if rest := "\n".join(following).rstrip():
        record["following"] = rest
    return json.dumps(record, ensure_ascii=False).encode() + b"\n" * (1 + len(following))


def _record(
    line: bytes, years: _Years, forms: Sequence[re.Pattern[bytes]] = _FORMS
) -> dict[str, str | int] | None:
    """Return the fields of a line; None if it does not begin as a record does."""
    for form in forms:
        if match := form.match(line):
            break
    else:
        return None
    found = {
        name: text.decode("utf-8", "replace")
        for name, text in match.groupdict().items()
        if text is not None
    }
    before = found.get("before", "").strip(" \t-|")
    places = (found.get(name) for name in ("attached", "module", "dashed", "inside"))
    logger = next((each for each in places if each), None)
    if logger is None and _LOGGER_NAME.fullmatch(before):
        logger, before = before, ""
    zone = found.get("zone", "").replace("UTC", "Z")
    fraction = f".{found['part']}" if "part" in found else ""
    record: dict[str, str | int] = {
        "timestamp": f"{_day(found, years)}T{found['clock']}{fraction}{zone}",
        "message": found["message"].rstrip() or found.get("level") or found["program"],
    }
    others: dict[str, str | int | None] = {
        "level": found["level"].upper() if "level" in found else None,
        "logger": logger,
        "context": before or None,
    }
    others |= {name: found[name] for name in ("host", "program") if name in found}
    others |= {name: int(found[name]) for name in ("pid", "tid") if name in found}
    return record | {name: value for name, value in others.items() if value is not None}


def _day(found: dict[str, str], years: _Years) -> str:
    if "day" in found:
        return found["day"].replace("/", "-")
    month, day = 1 + _MONTHS.index(found["month"]), int(found["date"])
    year = int(found["year"]) if "year" in found else years.of(month, day)
    return f"{year:04}-{month:02}-{day:02}"
