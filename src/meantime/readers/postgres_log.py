"""Logs of PostgreSQL: what each of its processes did, and for how long.

Read are its text with any `log_line_prefix` that begins with a date and has the process id in
brackets, `csvlog` and `jsonlog`. A message that states a length ends when it is logged: statements
and their phases, waits for locks, checkpoints, vacuums, sessions. These are spans of the process;
everything else is a point. A process does one thing at a time, so what it logs within the
resolution of the times follows what it logged before. Numbers and texts in statements and messages
are `?`; whole statements are private. A date whose zone has only an abbreviation that may mean
several is taken for UTC unless `--columns zone=NAME` names the zone; `meantime info` says so.
Definitions: https://www.postgresql.org/docs/current/runtime-config-logging.html.
"""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError, UsageError
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC, naive_dates
from meantime.model.units import parse_instant
from meantime.model.zones import Zone
from meantime.readers.contract import lazy_trace
from meantime.readers.span_rows import SpanRows
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.model.attributes import Path
    from meantime.model.column_mapping import ColumnMapping
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "postgres-log"
TEXT = True
OBJECTS = True

_LEVELS = "DEBUG[1-5]|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC"
# What follows a message, in lines of its own.
_MORE = "DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LOCATION|BACKTRACE"
_LINE = re.compile(
    r"(?P<before>.{0,100}?)(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"(?: (?P<zone>[A-Za-z]{1,6}|[+-]\d\d(?::?\d\d)?)(?![\w]))?"
    rf"(?P<prefix>.{{0,400}}?)\b(?P<level>{_LEVELS}|{_MORE}):  ?(?P<message>.*)"
)
_PID = re.compile(r"\[(\d{1,10})(?:-\d+)?\]")
_USER = re.compile(r"(?:user=)?([\w.-]+)(?:@|,db=)([\w.-]+)")
_CSV_FIELDS = (23, 26)
_CSV_LEVEL = 11
_SNIFFED_LINES = 30
_LONGEST_NAME = 120
_LONGEST_TEXT = 10_000
# How long a date is without its fraction of a second.
_SECOND = len("2026-01-02 03:04:05")
_MOST_KNOWN = 1 << 16
# Abbreviations that mean one offset everywhere.
_OFFSETS = {
    "UTC": "Z", "GMT": "Z", "WET": "Z", "WEST": "+01:00", "CET": "+01:00", "CEST": "+02:00",
    "EET": "+02:00", "EEST": "+03:00", "MSK": "+03:00",
}  # fmt: skip
_DURATION = re.compile(r"duration: (\d{1,15}(?:\.\d{1,9})?) ms(?:  (.*))?", re.DOTALL)
_STATEMENT = re.compile(r"(statement|parse|bind|execute|fastpath function call|plan)\b[^:]*:\s*")
_LOCK = re.compile(r"process (\d+) (acquired|still waiting for) (\w+) on (.*?) after (\d+\.\d+) ms")
_CHECKPOINT = re.compile(r"(checkpoint|restartpoint) complete:.*?total=(\d+\.\d+) s", re.DOTALL)
_VACUUM = re.compile(
    r'automatic (?:aggressive )?(vacuum|analyze) (?:to prevent wraparound )?of table "([^"]*)"'
    r".*elapsed: (\d+\.\d+) s",
    re.DOTALL,
)
_SESSION = re.compile(r"disconnection: session time: (\d+):(\d\d):(\d\d\.\d+)")
_LITERALS = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"(?= (?:does not|already|violates))|(?<![\w$])-?\d+(?:\.\d+)?\b"
)
_BLANKS = re.compile(r"\s+")
_MOST_NS = 2**62
_UNITS_NS = {"ms": 10**6, "s": 10**9}
# What contains other things that a process logs, or is in one.
_AROUND_OR_INSIDE = ("session", "lock")
# What has no values of statements in it.
_PUBLIC = ("checkpoint", "autovacuum")


class _Record(NamedTuple):
    """A message of the log."""

    date: str
    zone: str
    pid: str
    who: str
    level: str
    message: str
    more: dict[str, str]


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like a log of PostgreSQL."""
    del name
    text = head[: 1 << 14].decode("utf-8", "replace")
    if text.startswith("{"):
        return False
    found = text.split("\n")[:_SNIFFED_LINES]
    return any(_LINE.match(line) for line in found) or _is_csv(text)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole log. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if the columns name anything but a zone.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    zone = _zone(options.columns, source.name)
    head = source.head()
    text = head.decode("utf-8", "replace")
    records: Callable[[Source, Trace, ReadOptions], Iterator[_Record]] = _of_text
    if text.lstrip().startswith("{"):
        records = _of_json
    elif _is_csv(text):
        records = _of_csv
    log = _Log(trace, zone, private=options.private)
    for record in records(source, trace, options):
        log.add(record)
    trace.clock = UTC
    trace.anomalies.add("truncated", int(source.truncated))
    yield from log.batches()


def _zone(columns: ColumnMapping | None, name: str) -> Zone | None:
    if columns is None:
        return None
    if columns.columns or columns.pairs:
        raise InputError(
            name,
            "of a log of PostgreSQL, the columns may only name the zone of its dates, as in"
            " --columns zone=Europe/Paris",
        )
    return Zone(columns.zone) if columns.zone else None


def _is_csv(text: str) -> bool:
    try:
        row = next(csv.reader(io.StringIO(text, newline="")), [])
    except csv.Error:
        return False
    least, most = _CSV_FIELDS
    return least <= len(row) <= most and bool(re.fullmatch(_LEVELS, row[_CSV_LEVEL]))


def _of_text(source: Source, trace: Trace, options: ReadOptions) -> Iterator[_Record]:
    record: _Record | None = None
    following: list[str] = []
    # what is logged in more lines with the same process and level
    key, into = "", ""
    # few of them occur, unless they count lines
    prefixes: dict[tuple[str, str], tuple[str, str]] = {}
    for stored in lines(source, options):
        line = stored.decode("utf-8", "replace").rstrip("\r")
        match = _LINE.match(line)
        if match is None:
            if record is None:
                trace.anomalies.add("unknown_line", int(bool(line.strip())))
            elif into:
                record.more[into] += "\n" + line
            else:
                following.append(line)
            continue
        before, date, zone, prefix, level, message = match.groups()
        if (known := prefixes.get((before, prefix))) is None:
            known = prefixes[before, prefix] = _process(before, prefix)
            if len(prefixes) > _MOST_KNOWN:
                prefixes.clear()
        number, who = known
        if record is not None and level in _MORE and number == key:
            into = level.lower()
            record.more[into] = message
            continue
        if record is not None:
            yield _joined(record, following)
        record = _Record(date, zone or "", number, who, level, message, {})
        following, key, into = [], number, ""
    if record is not None:
        yield _joined(record, following)


def _process(before: str, prefix: str) -> tuple[str, str]:
    """Return the number of a process, and whom it serves, from what stands before a message."""
    pid = _PID.search(before) or _PID.search(prefix)
    who = _USER.search(prefix)
    return pid[1] if pid else "", f"{who[1]}@{who[2]}" if who else ""


def _joined(record: _Record, following: list[str]) -> _Record:
    if not following:
        return record
    return record._replace(message="\n".join([record.message, *following]).rstrip())


def _of_csv(source: Source, trace: Trace, options: ReadOptions) -> Iterator[_Record]:
    decoded = (line.decode("utf-8", "replace") + "\n" for line in lines(source, options))
    rows = csv.reader(decoded)
    least, most = _CSV_FIELDS
    try:
        for row in rows:
            if not least <= len(row) <= most or not re.fullmatch(_LEVELS, row[_CSV_LEVEL]):
                trace.anomalies.add("unknown_line", int(bool(row)))
                continue
            date, _, zone = row[0].rpartition(" ")
            who = f"{row[1]}@{row[2]}" if row[1] else ""
            named = {"detail": 14, "hint": 15, "context": 18, "statement": 19}
            more = {key: row[at] for key, at in named.items() if row[at]}
            yield _Record(date, zone, row[3], who, row[_CSV_LEVEL], row[13], more)
    except csv.Error as error:
        raise InputError(source.name, f"malformed CSV ({error})", line=rows.line_num) from None


def _of_json(source: Source, trace: Trace, options: ReadOptions) -> Iterator[_Record]:
    for number, line in enumerate(lines(source, options), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            date, _, zone = row["timestamp"].rpartition(" ")
            message, level = row["message"].strip(), row["error_severity"].strip()
            pid = str(row["pid"])
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            if not options.lenient:
                raise InputError(
                    source.name,
                    "a line has no timestamp, pid, error_severity and message",
                    line=number,
                ) from None
            trace.anomalies.add("bad_record")
            continue
        who = f"{row['user']}@{row.get('dbname', '')}" if row.get("user") else ""
        more = {
            key: row[key]
            for key in ("detail", "hint", "context", "statement")
            if isinstance(row.get(key), str)
        }
        yield _Record(date, zone, pid, who, level, message, more)


class _Log:
    """Turns messages into spans and points."""

    def __init__(self, trace: Trace, zone: Zone | None, *, private: bool) -> None:
        self._trace = trace
        self._zone = zone
        self._private = private
        self._spans = SpanRows(trace)
        self._seconds: dict[tuple[str, str], int | None] = {}
        self._left_out = 0
        # by process, the statement whose length is logged by itself
        self._last: dict[str, str] = {}
        # by process, the message that it waits for a lock
        self._waiting: dict[str, tuple[int, str]] = {}
        # by process, until when it did what it logged last
        self._until: dict[Path, int] = {}
        self._named: set[Path] = set()

    def add(self, record: _Record) -> None:
        """Add what a message says."""
        time_ns = self._time_ns(record.date, record.zone)
        if time_ns is None:
            self._trace.anomalies.add("bad_record")
            return
        self._trace.records += 1
        path = thread_path(record.pid or "server", "postgres")
        if record.who:
            self._name(path, record.who)
        message = record.message
        if message.startswith("duration: ") and (match := _DURATION.match(message)):
            self._statement(path, time_ns, record, match)
        elif message.startswith("process ") and (match := _LOCK.match(message)):
            self._lock(path, time_ns, record, match)
        elif match := _CHECKPOINT.match(message):
            self._name(path, "checkpointer")
            self._ending(path, time_ns, f"{match[2]} s", (match[1], "checkpoint"), record)
        elif match := _VACUUM.match(message):
            self._name(path, "autovacuum worker")
            name = f"auto{match[1]} {match[2]}"
            self._ending(path, time_ns, f"{match[3]} s", (name, "autovacuum"), record)
        elif match := _SESSION.match(message):
            hours, minutes, seconds = match.groups()
            length = int(hours) * 3600 + int(minutes) * 60 + Decimal(seconds)
            self._ending(path, time_ns, f"{length} s", ("session", "session"), record)
        else:
            self._point(path, time_ns, record)

    def _name(self, path: Path, name: str) -> None:
        """Call a process by what it first is."""
        if path not in self._named:
            self._named.add(path)
            self._spans.name_thread(path, name, 0)

    def batches(self) -> Iterator[Batch]:
        """Yield all that was added; call it once."""
        self._trace.anomalies.add("private_field", self._left_out)
        for pid, (time_ns, name) in self._waiting.items():
            self._spans.point(thread_path(pid, "postgres"), time_ns, name)
        yield from self._spans.batches()

    def _statement(self, path: Path, time_ns: int, record: _Record, match: re.Match[str]) -> None:
        """Add a statement, or a phase of one."""
        rest = match[2] or ""
        if not rest:
            rest = self._last.pop(record.pid, "")
        kind = _STATEMENT.match(rest)
        text = rest[kind.end() :] if kind else rest
        phase = kind[1] if kind else ""
        if phase == "plan":
            # its first line is the statement
            text = text.partition("\n")[0].strip().removeprefix("Query Text:").strip()
        name = _without_literals(text) or "statement"
        if phase in {"parse", "bind"}:
            name = f"{phase} {name}"
        self._ending(path, time_ns, f"{match[1]} ms", (name, phase or "statement"), record)

    def _lock(self, path: Path, time_ns: int, record: _Record, match: re.Match[str]) -> None:
        pid, what, mode, on, waited = match.groups()
        name = f"waiting for {mode} on {_without_literals(on)}"
        own = path if pid == record.pid else thread_path(pid, "postgres")
        if what == "acquired":
            self._waiting.pop(pid, None)
            self._ending(own, time_ns, f"{waited} ms", (name, "lock"), record)
        else:
            self._waiting[pid] = (time_ns, name)

    def _ending(
        self, path: Path, time_ns: int, length: str, called: tuple[str, str], record: _Record
    ) -> None:
        """Add a span that ends when it is logged.

        Args:
            path: Of its process.
            time_ns: When it is logged.
            length: How long it took, such as `12.345 ms`.
            called: Its name and its category.
            record: The message.
        """
        name, category = called
        number, unit = length.split()
        unit_ns = _UNITS_NS[unit]
        whole, _, part = number.partition(".")
        length_ns = int(whole) * unit_ns + int(part[:9].ljust(9, "0")) * unit_ns // 10**9
        end_ns = time_ns
        if category not in _AROUND_OR_INSIDE:
            # both the time and the length are rounded
            digits = len(record.date.replace(",", ".").partition(".")[2])
            rounded_ns = 10 ** (9 - digits) + unit_ns // 10 ** len(part)
            follows_ns = self._until.get(path, -_MOST_NS) + length_ns
            if end_ns < follows_ns <= end_ns + rounded_ns:
                end_ns = follows_ns
        self._until[path] = max(end_ns, self._until.get(path, -_MOST_NS))
        if category == "session":
            end_ns = self._until.pop(path)
        times_ns = end_ns - length_ns, end_ns
        fields = self._fields(record, is_public=category in _PUBLIC)
        self._spans.add(path, times_ns, name[:_LONGEST_NAME], category, fields)

    def _point(self, path: Path, time_ns: int, record: _Record) -> None:
        if record.message.startswith(("statement: ", "execute ")):
            # its length may be logged next
            self._last[record.pid] = record.message
        shown = _without_literals(record.message.partition("\n")[0])
        name = shown if record.level == "LOG" else f"{record.level}: {shown}"
        self._spans.point(path, time_ns, name[:_LONGEST_NAME], self._fields(record))

    def _fields(self, record: _Record, *, is_public: bool = False) -> dict[str, Any]:
        fields: dict[str, Any] = {"user": record.who} if record.who else {}
        texts = {"message": record.message, **record.more}
        if self._private or is_public:
            return fields | {key: text[:_LONGEST_TEXT] for key, text in texts.items()}
        text = match[2] or "" if (match := _DURATION.match(record.message)) else record.message
        self._left_out += len(record.more) + bool(_LITERALS.search(text))
        return fields

    def _time_ns(self, date: str, zone: str) -> int | None:
        second, part = date[:_SECOND], date[_SECOND + 1 :]
        if (second, zone) not in self._seconds:
            if len(self._seconds) > _MOST_KNOWN:
                self._seconds.clear()
            self._seconds[second, zone] = self._parsed(second, zone)
        second_ns = self._seconds[second, zone]
        if second_ns is None or not part:
            return second_ns
        return second_ns + int(part.ljust(9, "0")) if part.isdecimal() and len(part) < 10 else None

    def _parsed(self, date: str, zone: str) -> int | None:
        offset = "" if self._zone is not None else _OFFSETS.get(zone.upper(), "")
        if re.fullmatch(r"[+-]\d\d(:?\d\d)?", zone):
            offset = zone if len(zone) > 3 else f"{zone}:00"
        if not offset:
            named = "UTC" if self._zone is None else self._zone.name
            read_as = f"{zone} in the log, read as {named}" if zone else naive_dates(named)
            self._trace.facts["times"] = read_as
        try:
            text = f"{date.replace(' ', 'T')}{offset}"
            instant = parse_instant(text, None if self._zone is None else self._zone.one_to_utc)
        except UsageError:
            return None
        return instant.ns if instant.base == "utc" and abs(instant.ns) < _MOST_NS else None


def _without_literals(text: str) -> str:
    """Return a statement or a message in which numbers and texts are `?`.

    >>> _without_literals("select  a from b where c = 'it''s' and d = $1 or e2 = -3.5")
    'select a from b where c = ? and d = $1 or e2 = ?'
    """
    return _LITERALS.sub("?", _BLANKS.sub(" ", text[:_LONGEST_TEXT])).strip().rstrip(";")
