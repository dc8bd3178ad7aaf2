"""Answers as JSON that are bounded: in rows, in bytes, and with a count of what was left out."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

from meantime.errors import UsageError
from meantime.model.units import parse_size

__all__ = [
    "BYTES",
    "ROWS",
    "Limit",
    "bounded",
    "bounded_by",
    "left_out_sentence",
    "limit_of",
    "row_limit",
]

ROWS, BYTES = 50, 64_000
# Objects and lists of single values are cut only beyond this, so that records stay complete.
_FIELDS = 50
_DEEPEST = 60
_TEXTS = (1_000, 100)
_LEAST_ROW = 8


class Limit(NamedTuple):
    """The most rows and the most bytes of JSON that an answer has; None is any number."""

    rows: int | None = ROWS
    bytes: int | None = BYTES


def limit_of(given: int | str | None) -> Limit:
    """Return what a limit means: rows, a size of the answer, 0 for everything, None for the usual.

    >>> limit_of(None), limit_of("20").rows, limit_of("100kB").bytes, limit_of(0)
    (Limit(rows=50, bytes=64000), 20, 100000, Limit(rows=None, bytes=None))

    Raises:
        UsageError: If it is neither.
    """
    if given is None:
        return Limit()
    text = str(given)
    if text.isascii() and text.isdecimal():
        return Limit(int(text) or None, None)
    try:
        size = parse_size(text)
    except UsageError:
        size = 0
    if size <= 0:
        raise UsageError(
            f"--limit {text!r} is neither a number of rows nor a size; write 20, 100kB, or 0 for"
            " all"
        )
    return Limit(None, size)


def bounded(document: dict[str, Any], limit: int | str | None = None) -> dict[str, Any]:
    """Return a document of JSON with at most so many rows in each of its lists.

    What is cut is counted: `left_out` has the number of rows by the path of their list, and `more`
    says it in words. A document that fits is returned as it is.

    >>> bounded({"rows": [{"a": 1}, {"a": 2}, {"a": 3}]}, 1)
    {'rows': [{'a': 1}], 'more': '2 more rows: --limit 0', 'left_out': {'rows': 2}}

    Args:
        document: Values that JSON can represent.
        limit: A number of rows, or a size as text such as `100kB`, which the JSON then fits; 0 is
            everything. By default 50 rows, and 64 kB.

    Raises:
        UsageError: If the limit is neither.
    """
    return bounded_by(document, limit_of(limit))


def bounded_by(document: dict[str, Any], most: Limit, total: int = 0) -> dict[str, Any]:
    """Return a document of JSON with at most so many rows and bytes; see `bounded`.

    Args:
        document: The document.
        most: The limit.
        total: How many `rows` there are in all, if the document has only the first.
    """
    rows = row_limit(most)
    if rows is None:
        return document
    found = _Cut(rows).document(document, total)
    texts = iter(_TEXTS)
    while most.bytes is not None and (size := len(json.dumps(found))) > most.bytes:
        if rows > 1:
            rows = max(1, min(rows - 1, _longest(found) - 1, rows * most.bytes // size))
            found = _Cut(rows).document(document, total)
        elif text := next(texts, 0):
            found = _Cut(1, text).document(document, total)
        else:
            break
    return found


def row_limit(most: Limit) -> int | None:
    """Return the rows that a limit allows at most; None is any number."""
    if most.rows is not None or most.bytes is None:
        return most.rows
    return max(1, most.bytes // _LEAST_ROW)


def left_out_sentence(left_out: dict[str, int]) -> str:
    """Return what was left out, and how to have it.

    >>> left_out_sentence({"rows": 1203, "transitions": 4})
    '1,203 more rows, 4 more transitions: --limit 0'
    """
    return ", ".join(f"{count:,} more {name}" for name, count in left_out.items()) + ": --limit 0"


def _longest(value: Any) -> int:
    """Return the length of the longest list of rows."""
    if isinstance(value, dict):
        return max(map(_longest, value.values()), default=0)
    if isinstance(value, list | tuple):
        return max(len(value), max(map(_longest, value), default=0))
    return 0


class _Cut:
    """One way to cut a document: so many rows of each list, so many characters of each text."""

    def __init__(self, rows: int, characters: int | None = None) -> None:
        self._rows = rows
        self._characters = characters
        self._left_out: Counter[str] = Counter()

    def document(self, document: dict[str, Any], total: int) -> dict[str, Any]:
        found: dict[str, Any] = self._value(document, "", 0)
        self._count("rows", total - len(document.get("rows", ())))
        if self._left_out:
            counts = dict(self._left_out)
            found |= {"more": left_out_sentence(counts), "left_out": counts}
        return found

    def _value(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth == _DEEPEST:
            self._left_out["levels"] += 1
            return "..."
        if isinstance(value, dict):
            most = max(self._rows, _FIELDS)
            self._count(path or "members", len(value) - most)
            return {
                self._text(str(name)): self._value(
                    each, f"{path}.{name}" if path else str(name), depth + 1
                )
                for name, each in list(value.items())[:most]
            }
        of_rows = any(isinstance(each, dict | list | tuple) for each in value)
        most = self._rows if of_rows else max(self._rows, _FIELDS)
        self._count(path, len(value) - most)
        return [self._value(each, path, depth + 1) for each in value[:most]]

    def _count(self, path: str, more: int) -> None:
        if more > 0:
            self._left_out[path] += more

    def _text(self, text: str) -> str:
        if self._characters is None or len(text) <= self._characters:
            return text
        self._left_out["characters"] += len(text) - self._characters
        return text[: self._characters] + "..."
