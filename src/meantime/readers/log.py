"""Text of logs: lines that begin with a date and a level, as Python's `logging` writes them.

Lines of any other form are read by a pattern, whose named groups are the fields of a line.
A line is an event called by its message, with the level, the logger if the line says which part of
it that is, and the lines that follow without a date, such as a traceback, as fields. What is read
further is what `jsonl` reads: each record is given to it as an object.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.model.column_mapping import ColumnMapping
from meantime.readers import jsonl
from meantime.readers.contract import lazy_trace
from meantime.readers.source import Source
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

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
# not of more digits than a float holds
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,9})?")
_LONGEST_SHOWN = 80
_LOGGER_NAME = re.compile(r"[A-Za-z_][\w.$-]*")
_SNIFFED_LINES = 40
# Of the lines that are looked at: others are tracebacks.
_LEAST = 0.2


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with a line that has a date and a level, and goes on so."""
    del name
    if b"\0" in head[:4096]:
        return False
    found = [line for line in head.split(b"\n")[:_SNIFFED_LINES] if line.strip()]
    if not found or _record(found[0]) is None:
        return False
    return sum(_record(line) is not None for line in found) >= _LEAST * len(found)


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
    record: dict[str, str] | None = None
    following: list[str] = []
    before = 0
    for line in lines(source, options):
        found = _record(line)
        if found is None and record is None:
            before += bool(line.strip())
            yield b"\n"
        elif found is None:
            following.append(line.decode("utf-8", "replace").rstrip("\r"))
        else:
            if record is not None:
                yield _text(record, following)
            record, following = found, []
    if record is not None:
        yield _text(record, following)
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


def _text(record: dict[str, str], following: list[str]) -> bytes:
    if rest := "\n".join(following).rstrip():
        record["following"] = rest
    return json.dumps(record, ensure_ascii=False).encode() + b"\n" * (1 + len(following))


def _record(line: bytes) -> dict[str, str] | None:
    """Return the fields of a line; None if it has no date and level at its beginning."""
    match = _DATE_FIRST.match(line) or _LEVEL_FIRST.match(line)
    if match is None:
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
    record = {
        "timestamp": f"{found['day'].replace('/', '-')}T{found['clock']}{fraction}{zone}",
        "message": found["message"].rstrip() or found["level"],
        "level": found["level"].upper(),
    }
    others = {"logger": logger, "context": before or None}
    return record | {name: text for name, text in others.items() if text is not None}
