"""Lines of `key=value`, as programs in Go, Heroku and Grafana's tools log.

What is read further is what `jsonl` reads: each line is given to it as an object. A value may be
in double quotes, with escapes as in JSON; a key without a value is true. Values that are written
like numbers are numbers. Definition: https://pkg.go.dev/github.com/kr/logfmt.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from meantime.readers import jsonl
from meantime.readers.contract import lazy_trace
from meantime.readers.log import ObjectLines, value_of_text
from meantime.readers.source import Source
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "logfmt"
TEXT = True
OBJECTS = True

_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rb'([^\s="]+)(=(?:' + _QUOTED + rb'|[^\s"]*))?(?=\s|$)')
_LINE = re.compile(
    rb"\s*[A-Za-z_][\w.@/-]*=(?:" + _QUOTED + rb'|[^\s"]*)'
    rb'(?:\s+[^\s="]+(?:=(?:' + _QUOTED + rb'|[^\s"]*))?)*\s*'
)
# One of these is in each line of a log.
_KEYS = (b"time=", b"ts=", b"timestamp=", b"level=", b"lvl=", b"msg=", b"message=", b"at=")
_SNIFFED_LINES = 20
_LEAST_PAIRS = 2
# Of the lines that are looked at: others are what a program prints besides.
_LEAST = 0.6
_LONGEST_LINE = 1 << 16


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with lines of `key=value`, with keys that logs have."""
    del name
    found = [line for line in head.split(b"\n")[:_SNIFFED_LINES] if line.strip()]
    if len(found) > 1 and len(found) < _SNIFFED_LINES and not head.endswith(b"\n"):
        # the last one may be cut
        del found[-1]
    if not found or not _is_line(found[0]):
        return False
    return sum(map(_is_line, found)) >= _LEAST * len(found)


def _is_line(line: bytes) -> bool:
    return (
        len(line) < _LONGEST_LINE
        and line.count(b"=") >= _LEAST_PAIRS
        and any(each in line for each in _KEYS)
        and _LINE.fullmatch(line) is not None
    )


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches are as those of `jsonl`. `keep` is ignored.

    Lines of another form are counted.

    Raises:
        InputError: From the batches, as that of `jsonl` does.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    objects = Source(source.name, ObjectLines(source, _objects(source, trace, options)))
    yield from jsonl.batches_of(objects, trace, replace(options, progress=None))
    trace.anomalies.add("truncated", int(source.truncated))


def _objects(source: Source, trace: Trace, options: ReadOptions) -> Iterator[bytes]:
    """Yield each line as an object."""
    unknown = 0
    for line in lines(source, options):
        if len(line) > _LONGEST_LINE or _LINE.fullmatch(line) is None:
            unknown += bool(line.strip())
            yield b"\n"
            continue
        fields = {
            key.decode("utf-8", "replace"): _value(value) for key, value in _PAIR.findall(line)
        }
        yield json.dumps(fields, ensure_ascii=False).encode() + b"\n"
    trace.anomalies.add("unknown_line", unknown)


def _value(stored: bytes) -> str | int | float | bool:
    r"""Return the value of a pair; it begins with `=` if there is one.

    >>> _value(b'="a \\"b\\""'), _value(b"=1.5"), _value(b"="), _value(b"")
    ('a "b"', 1.5, '', True)
    """
    if not stored:
        return True
    text = stored[1:]
    if not text.startswith(b'"'):
        return value_of_text(text)
    try:
        found = json.loads(text.decode("utf-8", "replace"), strict=False)
    except ValueError:
        # an escape that JSON does not have
        found = text[1:-1].decode("utf-8", "replace")
    return str(found)
