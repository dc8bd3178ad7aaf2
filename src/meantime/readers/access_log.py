"""Access logs of web servers, in the common log format and what follows it in a line.

A line says when a request ended. A request is a span of its client, called by its method and its
route: the path without its query, in which numbers and other ids are `:id`. Requests of a client
that overlap are in lanes. How long one took is the first field behind the usual ones that says so:
`rt=0.012`, `12ms`, or `0.012` with three digits, as nginx writes it. Whole numbers without a unit
may be anything, so `--columns duration=extra3:us` has to say that the third field behind the number
of bytes is a length. Without lengths requests are points.
Definitions: https://httpd.apache.org/docs/current/mod/mod_log_config.html and
https://nginx.org/en/docs/http/ngx_http_log_module.html.
"""

from __future__ import annotations

import json
import re
from datetime import UTC as UTC_ZONE
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import InputError
from meantime.kernels.csv_rows import read_rows
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC, naive_dates
from meantime.model.column_mapping import UNITS_NS
from meantime.model.columns import Interner
from meantime.readers.contract import lazy_trace
from meantime.readers.span_rows import SpanColumns
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt
    from numpy.typing import DTypeLike

    from meantime.model.column_mapping import ColumnMapping
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "LINE", "read", "route_of"]

FORMAT = "access-log"
TEXT = True

_QUOTED = rb'"(?:[^"\\\n]|\\.)*"'
_TIME = (
    rb"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?"
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)"
)
_LINE = (
    # a virtual host may stand before the client
    rb'(?m)^(?:[^\s"]+ )?([^\s"]+) [^\s"]+ [^\n\[]{1,200}\[(' + _TIME + rb")\] "
    rb'"((?:[^"\\\n]|\\.)*)" (\d{3}|-) (\d+|-)'
)

_HAS_ZONE = re.compile(rb"(?:[+-]\d\d:?\d\d|Z)$")
# what stands for nothing
_NOTHING = (b"", b"-")
_STATUS = re.compile(rb"\d{3}|-")
LINE = re.compile(_LINE)
_FIELD = re.compile(rb"[ \t]+(" + _QUOTED + rb"|[^\s\"]+)")
_LENGTH = re.compile(
    rb'"?(?P<name>(?:[A-Za-z_.]*(?:rt|time|duration|latency|elapsed|took)[A-Za-z_]*)[=:])?'
    rb'(?P<number>\d+\.\d+|\d+)(?P<unit>ns|us|ms|s)?"?$'
)
_NGINX = re.compile(rb"\d+\.\d{3}$")
_EXTRA = re.compile(r"extra([1-9]\d?)$")
_SNIFFED_LINES = 200
_MOST_FIELDS = 30
_LONGEST_NAME = 200
_MOST_DIGITS = 18
_MOST_NS = 2**62
# An id in a path: a number, a UUID, hexadecimal digits, or anything with many digits.
_ID = re.compile(
    r"(?<=/)(?:\d+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|(?=[^/]*\d)[0-9a-fA-F]{12,}"
    r"|(?=(?:[^/\d]*\d){4})[\w~=-]{16,})(?=[/.]|$)"
)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole log. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if no line is one of an access log, or the columns do not fit.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Length(NamedTuple):
    """Where the length of a request is in a line.

    Attributes:
        field: Its number behind the number of bytes, from 1.
        unit: Its unit.
        why: What says so.
    """

    field: int
    unit: str
    why: str


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    head = source.head()
    length = _given(options.columns, source.name) or _length(head)
    trace.clock = UTC
    trace.facts["times"] = "whole seconds, at which requests ended"
    first = LINE.search(head)
    if first is not None and not _HAS_ZONE.search(first[2]):
        trace.facts["times"] += f"; {naive_dates()}"
    if length is not None:
        trace.facts["lengths"] = f"extra{length.field} in {length.unit}: {length.why}"
    elif extra := _whole_number(head):
        trace.facts["lengths"] = (
            f"not known: if {extra} is one, --columns duration={extra}:us says so (or ms, s)"
        )
    rows = _Rows(trace, head, length, private=options.private)
    window = Window(source, progress=options.progress)
    with source:
        more = True
        while more:
            more = window.more()
            end = window.block.rfind(b"\n", window.start, window.end) + 1 if more else window.end
            if end > window.start:
                rows.add(bytes(memoryview(window.block)[window.start : end]))
                window.start = end
    trace.anomalies.add("truncated", int(source.truncated))
    yield from rows.batches()


def _given(columns: ColumnMapping | None, name: str) -> _Length | None:
    """Return the length that the columns name; None if they name nothing.

    Raises:
        InputError: If they name anything else.
    """
    if columns is None:
        return None
    column = columns.column("duration") or ""
    match = _EXTRA.match(column)
    if match is None or len(columns.columns) > 1 or columns.pairs or columns.zone:
        raise InputError(
            name,
            "of an access log, the columns may only say which field is the length of a request, as"
            " in --columns duration=extra3:us, the third field behind the number of bytes",
        )
    unit = columns.units.get("duration")
    if unit is None:
        raise InputError(
            name,
            f"the unit of {column} is not known: choose s, ms, us or ns, as in"
            f" --columns duration={column}:us",
        )
    return _Length(int(match[1]), unit, "as given")


def _fields(head: bytes) -> Iterator[list[bytes]]:
    """Yield the fields behind the number of bytes, of the first lines."""
    for number, match in enumerate(LINE.finditer(head)):
        if number == _SNIFFED_LINES:
            return
        end = head.find(b"\n", match.end())
        rest = head[match.end() : end if end >= 0 else len(head)]
        yield _FIELD.findall(rest)[:_MOST_FIELDS]


def _length(head: bytes) -> _Length | None:
    """Return the first field that is a length in every line that has it; None if none is."""
    lines = list(_fields(head))
    for at in range(max(map(len, lines), default=0)):
        values = [line[at] for line in lines if at < len(line) and line[at] not in {b"-", b'"-"'}]
        found = [_LENGTH.match(value) for value in values]
        matches = [match for match in found if match is not None]
        if not matches or len(matches) < len(values):
            continue
        units = {match["unit"] for match in matches}
        if len(units) == 1 and units != {None}:
            [unit] = units
            return _Length(at + 1, unit.decode(), "its unit is beside it")
        if units == {None} and all(_NGINX.match(match["number"]) for match in matches):
            named = matches[0]["name"]
            why = f"called {named.decode().rstrip('=:')}, " if named else ""
            return _Length(at + 1, "s", f"{why}with three decimal places, as nginx writes it")
    return None


def _whole_number(head: bytes) -> str:
    """Return the first field that is a whole number in every line; empty if there is none."""
    lines = list(_fields(head))
    for at in range(max(map(len, lines), default=0)):
        values = [line[at] for line in lines if at < len(line)]
        if all(value.isdigit() for value in values):
            return f"extra{at + 1}"
    return ""


class _Column(NamedTuple):
    """The texts of a field, coded."""

    codes: Int32s
    texts: list[bytes]

    def each(self, value: Callable[[bytes], Any], dtype: DTypeLike) -> npt.NDArray[Any]:
        """Return a value of each row, which is made once for each text."""
        return np.array([value(text) for text in self.texts], dtype)[self.codes]

    def only(self, rows: npt.NDArray[np.bool_]) -> _Column:
        """Return some rows, and the texts that they have."""
        used, codes = np.unique(self.codes[rows], return_inverse=True)
        return _Column(codes.astype(np.int32), [self.texts[code] for code in used.tolist()])


# Some requests: a column for each field that is used.
_Block: TypeAlias = "dict[str, _Column]"
_FIELDS = ("client", "date", "zone", "request", "status", "size")


class _Rows:
    """Collects the requests of a log.

    Lines are split at blanks, as rows of a table are. Those that this does not fit, as they have
    quotes in quotes or a user of two words, are matched by an expression, one at a time.
    """

    def __init__(self, trace: Trace, head: bytes, length: _Length | None, *, private: bool) -> None:
        self._trace = trace
        self._length = length
        self._private = private
        self._field = _date_field(head)
        # what a browser says of itself is counted, as it is left out
        first = next(_fields(head), [])
        at = 0 if length is None else length.field
        self._quoted = [n for n, each in enumerate(first, 1) if each[:1] == b'"' and n != at]
        self._others = sorted({*self._quoted, *([at] if at else [])})
        self._spans = SpanColumns(trace)
        self._values = Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._clients: dict[bytes, int] = {}
        self._times: dict[bytes, int | None] = {}
        self._requests: dict[bytes, tuple[int, bytes, bool]] = {}

    def add(self, text: bytes) -> None:
        """Read whole lines."""
        block = None if self._private else self._split(text)
        good = np.zeros(0, np.bool_)
        if block is not None:
            end_ns, good = self._ends_ns(block)
            self._put(block, end_ns, good)
            if good.all():
                return
        lines = [line for line in text.split(b"\n") if line.rstrip(b"\r")]
        if len(good) == len(lines):
            lines = [lines[row] for row in np.flatnonzero(~good).tolist()]
        matches = [match for match in map(LINE.match, lines) if match is not None]
        unknown = len(lines)
        if matches:
            block = self._matched(matches)
            end_ns, good = self._ends_ns(block)
            self._put(block, end_ns, good)
            unknown -= int(good.sum())
        self._trace.anomalies.add("unknown_line", unknown)

    def batches(self) -> Iterator[Batch]:
        """Yield what was read."""
        yield from self._spans.batches()

    def _split(self, text: bytes) -> _Block | None:
        """Return the fields of lines; None if they are not usual."""
        first = self._field
        places = {
            "client": first - 3,
            **{name: first + at for at, name in enumerate(_FIELDS[1:])},
            **{_extra(each): first + 4 + each for each in self._others},
        }
        wanted = [(place, True) for place in places.values()]
        found = read_rows(memoryview(text), 0, wanted, " ", 1 + wanted[-1][0])
        if found is None:
            return None
        block = {name: _Column(*each) for name, each in zip(places, found[2], strict=True)}
        # a quote without an end goes on in another line, and an empty line is not a row
        lines = text.count(b"\n") + (not text.endswith(b"\n"))
        return block if len(block["client"].codes) == lines else None

    def _matched(self, matches: list[re.Match[bytes]]) -> _Block:
        """Return the fields of lines that are matched one at a time."""
        values: dict[str, list[bytes]] = {name: [] for name in _FIELDS}
        for match in matches:
            client, time, *rest = match.groups()
            date, _, zone = (b"[%b]" % time).partition(b" ")
            found = zip(_FIELDS, [client, date, zone, *rest], strict=True)
            following = _FIELD.findall(match.string, match.end())
            for name, value in found:
                values[name].append(value)
            for each in self._others:
                value = following[each - 1].strip(b'"') if each <= len(following) else b""
                values.setdefault(_extra(each), []).append(value)
            values.setdefault("rest", []).append(match.string[match.end() :].strip())
        block = {}
        for name, column in values.items():
            texts: list[bytes] = []
            block[name] = _Column(Interner(texts).codes(column), texts)
        return block

    def _ends_ns(self, block: _Block) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """Return when requests ended, and which rows are requests."""
        date, zone = block["date"], block["zone"]
        # few pairs of them occur
        pairs = date.codes.astype(np.int64) * len(zone.texts) + zone.codes
        used, which = np.unique(pairs, return_inverse=True)
        found = [divmod(each, len(zone.texts)) for each in used.tolist()]
        times = [self._time_ns((date.texts[a] + b" " + zone.texts[b]).rstrip()) for a, b in found]
        end_ns = np.array([0 if time is None else time for time in times], np.int64)
        good = np.array([time is not None for time in times], np.bool_)[which]
        good &= block["status"].each(lambda text: bool(_STATUS.fullmatch(text)), np.bool_)
        good &= block["size"].each(lambda text: text == b"-" or text.isdigit(), np.bool_)
        return end_ns[which], good

    def _put(self, block: _Block, end_ns: Int64s, good: npt.NDArray[np.bool_]) -> None:
        """Add the rows that are requests."""
        if not good.all():
            block = {name: each.only(good) for name, each in block.items()}
            end_ns = end_ns[good]
        if not len(end_ns):
            return
        self._trace.records += len(end_ns)
        request, status = block["request"], block["status"]
        known = [self._request(each) for each in request.texts]
        name = np.array([code for code, _, _ in known], np.int32)[request.codes]
        path = block["client"].each(self._client, np.int32)
        texts = self._texts(block, known)
        if self._length is None:
            self._spans.add_points(end_ns, path, name, texts)
            return
        length_ns = self._lengths_ns(block, self._length)
        kind, code = self._categories.code, self._values.code
        category = status.each(lambda text: kind(_kind(text)), np.int32)
        self._spans.add((end_ns - length_ns, end_ns), path, name, category, texts)
        failed = np.flatnonzero(status.each(lambda text: text[:1] == b"5", np.bool_))
        if len(failed):
            error = status.each(lambda text: code(text.decode()), np.int32)[failed]
            why = [texts[row] for row in failed.tolist()]
            self._spans.add_points(end_ns[failed], path[failed], error, why)

    def _lengths_ns(self, block: _Block, length: _Length) -> Int64s:
        column = block[_extra(length.field)]
        parsed = [_length_ns(text, UNITS_NS[length.unit]) for text in column.texts]
        found = np.array([-1 if each is None else each for each in parsed], np.int64)[column.codes]
        self._trace.anomalies.add("span_without_duration", int((found < 0).sum()))
        return np.maximum(found, 0)

    def _texts(self, block: _Block, known: list[tuple[int, bytes, bool]]) -> list[bytes]:
        """Return the arguments of requests, as JSON."""
        request, status, size = (block[name] for name in ("request", "status", "size"))
        paths = [path for _, path, _ in known]
        statuses = [b"null" if text == b"-" else _number(text) for text in status.texts]
        sizes = [b"null" if text == b"-" else _number(text) for text in size.texts]
        ends = [b""] * len(request.codes)
        if self._private:
            paths = [_json(text) for text in request.texts]
            rest = block["rest"]
            ends = [b', "rest": ' + _json(rest.texts[code]) for code in rest.codes.tolist()]
        else:
            has_query = np.array([has for *_, has in known], np.int64)
            count = int(has_query[request.codes].sum())
            for field in self._quoted:
                is_some = block[_extra(field)].each(lambda text: text not in _NOTHING, np.int64)
                count += int(is_some.sum())
            self._trace.anomalies.add("private_field", count)
        rows = zip(
            request.codes.tolist(), status.codes.tolist(), size.codes.tolist(), ends, strict=True
        )
        return [
            b'{"path": %b, "status": %b, "bytes": %b%b}' % (paths[a], statuses[b], sizes[c], end)
            for a, b, c, end in rows
        ]

    def _client(self, client: bytes) -> int:
        if (code := self._clients.get(client)) is None:
            path = thread_path(client.decode("utf-8", "replace"), "clients")
            code = self._clients[client] = self._spans.paths.code(path)
        return code

    def _time_ns(self, text: bytes) -> int | None:
        if text not in self._times:
            self._times[text] = _time_ns(text.decode("ascii", "replace"))
        return self._times[text]

    def _request(self, text: bytes) -> tuple[int, bytes, bool]:
        """Return the code of a request's name, its path as JSON, and whether it has a query."""
        if (found := self._requests.get(text)) is None:
            name, path, query = route_of(text.decode("utf-8", "replace"))
            found = self._requests[text] = (
                self._values.code(name), _json(path.encode()), bool(query)
            )  # fmt: skip
        return found


def _extra(field: int) -> str:
    """Return what a field is called that is so many behind the number of bytes."""
    return f"extra{field}"


def _date_field(head: bytes) -> int:
    """Return which field of a line the date is, from 0: 3, or 4 behind a virtual host."""
    found = [
        next((at for at, each in enumerate(line.split(b" ", 8)) if each[:1] == b"["), 0)
        for line in head.split(b"\n", _SNIFFED_LINES)[:_SNIFFED_LINES]
    ]
    return max((3, 4), key=found.count)


def _kind(status: bytes) -> str:
    return "no status" if status == b"-" else f"{status[:1].decode()}xx"


def _json(text: bytes) -> bytes:
    shown = json.dumps(text.decode("utf-8", "replace"), ensure_ascii=False)
    return shown.encode("utf-8", "replace")


def _number(digits: bytes) -> bytes:
    # JSON has no zeros before a number
    return digits.lstrip(b"0") or b"0"


def route_of(text: str) -> tuple[str, str, str]:
    """Return the method and route of a request, its path and its query.

    >>> route_of("GET /a/17?c=1 HTTP/1.1"), route_of("-")
    (('GET /a/:id', '/a/17', 'c=1'), ('-', '', ''))
    """
    method, _, rest = text.partition(" ")
    if not method.isalpha() or not method.isupper():
        # not a request: it may be anything, such as the beginning of TLS
        return ("-" if text in {"", "-"} else "malformed"), "", ""
    target = rest.rpartition(" HTTP/")[0] or rest
    path, _, query = target.partition("?")
    return f"{method} {_ID.sub(':id', path)}".rstrip()[:_LONGEST_NAME], path, query


def _time_ns(text: str) -> int | None:
    """Return a time of a line in nanoseconds since 1970; None if it is none.

    >>> _time_ns("[10/Oct/2000:13:55:36 -0700]"), _time_ns("yesterday")
    (971211336000000000, None)
    """
    for form in ("[%d/%b/%Y:%H:%M:%S %z]", "[%Y-%m-%dT%H:%M:%S%z]", "[%d/%b/%Y:%H:%M:%S]"):
        try:
            found = datetime.strptime(text, form)  # noqa: DTZ007 - without a zone it is UTC
        except ValueError:
            continue
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC_ZONE)
        time_ns = int(found.timestamp()) * 10**9
        return time_ns if abs(time_ns) < _MOST_NS else None
    return None


def _length_ns(text: bytes, unit_ns: int) -> int | None:
    """Return a length in nanoseconds; None if the text has none.

    >>> _length_ns(b"rt=0.0125", 10**9), _length_ns(b"12ms", 10**6), _length_ns(b"-", 1)
    (12500000, 12000000, None)
    """
    match = _LENGTH.match(text)
    if match is None:
        return None
    whole, _, fraction = match["number"].partition(b".")
    if len(whole) > _MOST_DIGITS:
        return None
    length_ns = int(whole) * unit_ns + int(fraction[:9].ljust(9, b"0")) * unit_ns // 10**9
    return length_ns if length_ns < _MOST_NS else None
