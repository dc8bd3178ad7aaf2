"""JSON documents of an input: one value, or one a line as files that grow are written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Trace

__all__ = ["Document", "documents"]

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


class Document(NamedTuple):
    """A JSON value of an input.

    Attributes:
        value: The value.
        line: The line that it begins in, from 1.
    """

    value: Any
    line: int


def documents(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Document]:
    """Yield the JSON values of an input.

    A last line without an end is counted as truncated if it cannot be read: its writer may have
    been stopped, or still be at it.

    Raises:
        InputError: If a value is not JSON, unless `lenient`: then it is counted.
    """
    with source:
        data = bytes(source.whole()).removeprefix(_BOM)
    size = len(data)
    if not _has_lines(data):
        yield Document(_parsed(data, source.name, 1, last=False, is_whole=True), 1)
        options.report_progress(source.read_bytes, source.stored_bytes or 0)
        return
    at, line = 0, 0
    while at < size:
        end = data.find(b"\n", at)
        is_last = end < 0
        end = size if is_last else end
        line += 1
        text = data[at:end]
        at = end + 1
        if not text.strip(_BLANK):
            continue
        try:
            value = _parsed(text, source.name, line, last=is_last, is_whole=False)
        except _TruncatedError:
            trace.anomalies.add("truncated")
            return
        except InputError:
            if not options.lenient:
                raise
            trace.anomalies.add("bad_record")
            continue
        yield Document(value, line)
        options.report_progress(at * source.read_bytes // size, source.stored_bytes or 0)


class _TruncatedError(Exception):
    """The input ends inside a value."""


def _has_lines(data: bytes) -> bool:
    """Whether the first line is a value of its own."""
    first = data.lstrip(_BLANK).split(b"\n", 1)[0].strip(_BLANK)
    if not (first.startswith(b"{") and first.endswith(b"}")):
        return False
    try:
        json.loads(first)
    except ValueError:
        return False
    except RecursionError:
        return False
    return True


def _parsed(text: bytes, name: str, line: int, *, last: bool, is_whole: bool) -> Any:
    try:
        # NaN and infinity, which JSON does not have, stay texts
        return json.loads(text.decode("utf-8", "replace"), parse_constant=str, strict=False)
    except json.JSONDecodeError as error:
        if last:
            raise _TruncatedError from None
        where = error.lineno if is_whole else line
        raise InputError(
            name, f"{error.msg} (column {error.colno}): it is not JSON", line=where
        ) from None
    except (RecursionError, ValueError):
        raise InputError(
            name, "a value is nested too deeply, or a number is too long", line=line
        ) from None
