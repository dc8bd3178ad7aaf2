"""JSON documents of an input: one value, or one a line as files that grow are written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError
from meantime.readers.file_text import BLOCK_BYTES, block_of
from meantime.readers.memory_limit import check_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.file_text import FileText
    from meantime.readers.source import Source

__all__ = ["Document", "DocumentText", "documents", "texts", "value_of"]

_BLANK = b" \t\r\n"


class DocumentText(NamedTuple):
    """Where the text of a JSON value of an input is, valid until the next one is asked for.

    Attributes:
        data: What contains it.
        begin: Where it begins there.
        end: Where it ends.
        line: The line that it begins in, from 1.
        is_line: Whether it is a line, of which there may be others.
        is_last: Whether it is a line without an end.
    """

    data: FileText | memoryview
    begin: int
    end: int
    line: int
    is_line: bool
    is_last: bool


class Document(NamedTuple):
    """A JSON value of an input.

    Attributes:
        value: The value.
        line: The line that it begins in, from 1.
    """

    value: Any
    line: int


def texts(source: Source, options: ReadOptions) -> Iterator[DocumentText]:
    """Yield the texts of the JSON values of an input, in bounded memory if they are lines.

    Raises:
        InputError: If the input cannot be read.
    """
    with source:
        data = source.text()
    size, stored = len(data), source.stored_bytes or source.read_bytes
    at = 0
    if not _has_lines(data):
        yield DocumentText(data, at, size, 1, is_line=False, is_last=False)
        options.report_progress(stored, source.stored_bytes or 0)
        return
    line, room = 0, BLOCK_BYTES
    while at < size:
        block = block_of(data, at, room)
        is_end = at + len(block) == size
        done = 0
        for begin, end in _lines(block):
            is_last = end == len(block)
            if is_last and not is_end:
                break
            line += 1
            done = min(end + 1, len(block))
            if bytes(block[begin:end]).strip(_BLANK):
                yield DocumentText(block, begin, end, line, is_line=True, is_last=is_last)
        at += done
        # a line that does not fit
        room = BLOCK_BYTES if done else 2 * room
        options.report_progress(at * stored // size, source.stored_bytes or 0)


def _lines(block: memoryview) -> Iterator[tuple[int, int]]:
    """Yield where the lines of a block begin and end; the last may have no end."""
    data, at = bytes(block), 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield at, end
        at = end + 1


def documents(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Document]:
    """Yield the JSON values of an input.

    A last line without an end is counted as truncated if it cannot be read: its writer may have
    been stopped, or still be at it.

    Raises:
        InputError: If a value is not JSON, unless `lenient`: then it is counted.
    """
    for text in texts(source, options):
        document = value_of(text, source, trace, options)
        if document is not None:
            yield document


def value_of(
    text: DocumentText, source: Source, trace: Trace, options: ReadOptions
) -> Document | None:
    """Return the value of a text; None if that is only counted, as `documents` does.

    Raises:
        InputError: As `documents` does.
    """
    data = bytes(text.data[text.begin : text.end])
    check_json(source.name, data, source.most_memory)
    try:
        return Document(_parsed(data, source.name, text), text.line)
    except _TruncatedError:
        trace.anomalies.add("truncated")
    except InputError:
        if not text.is_line or not options.lenient:
            raise
        trace.anomalies.add("bad_record")
    return None


class _TruncatedError(Exception):
    """The input ends inside a value."""


def _has_lines(data: FileText | memoryview) -> bool:
    """Whether there are objects, one a line: the first ends with its line, and another one follows.

    The lines may be long, so they are not parsed for this, and not kept.
    """
    first = last = b""
    is_over = False
    at = 0
    while at < len(data):
        block = bytes(block_of(data, at, BLOCK_BYTES))
        at += len(block)
        if not first:
            block = block.lstrip(_BLANK)
            first = block[:1]
            if first not in {b"", b"{"}:
                return False
        if not is_over:
            line, newline, block = block.partition(b"\n")
            last = line.rstrip(_BLANK)[-1:] or last
            if not newline:
                continue
            if last != b"}":
                return False
            is_over = True
        if following := block.lstrip(_BLANK)[:1]:
            # these follow an object inside of a value
            return following not in {b",", b"]", b"}"}
    return False


def _parsed(data: bytes, name: str, text: DocumentText) -> Any:
    try:
        # NaN and infinity, which JSON does not have, stay texts
        return json.loads(data.decode("utf-8", "replace"), parse_constant=str, strict=False)
    except json.JSONDecodeError as error:
        if text.is_last:
            raise _TruncatedError from None
        where = text.line if text.is_line else error.lineno
        raise InputError(
            name, f"{error.msg} (column {error.colno}): it is not JSON", line=where
        ) from None
    except (RecursionError, ValueError):
        raise InputError(
            name, "a value is nested too deeply, or a number is too long", line=text.line
        ) from None
