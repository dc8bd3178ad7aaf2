"""Checksummed lines of JSON: the manifest of a history."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from meantime.errors import HistoryError, InputError
from meantime.kernels.checksum import crc32

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Lines",
    "checksummed_line",
    "file_state",
    "items_in",
    "number_in",
    "parsed",
    "read_lines",
    "to_json",
]

_CRC_DIGITS = 8
_SHOWN = 60
_Item = TypeVar("_Item")


class Lines(NamedTuple):
    """The records of a file, and where each ends."""

    records: list[dict[str, Any]]
    ends: list[int]


def file_state(file: Path) -> tuple[int, int]:
    """Return a value that changes when a file is appended to or replaced."""
    stat = file.stat()
    return stat.st_ino, stat.st_size


def to_json(record: dict[str, Any]) -> bytes:
    """Return a record as JSON in ASCII, without blanks.

    Raises:
        HistoryError: If something in it cannot be written as JSON.
    """
    try:
        return json.dumps(record, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise HistoryError(f"a history on disk stores tags and facts as JSON: {error}") from None


def checksummed_line(record: dict[str, Any]) -> bytes:
    """Return a record as a line: the CRC-32 of its JSON in hexadecimal, a blank, the JSON."""
    text = to_json(record)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def read_lines(path: Path, *, salvage: bool = False) -> Lines:
    """Return the records of a file up to a last line that was not finished.

    Args:
        path: The file.
        salvage: Stop at the first damaged line instead of raising.

    Raises:
        InputError: If a finished line is damaged.
    """
    lines = Lines([], [])
    data = path.read_bytes()
    position = 0
    while position < len(data):
        end = data.find(b"\n", position) + 1
        finished = end > 0
        line = memoryview(data)[position : end if finished else len(data)]
        text = line[_CRC_DIGITS + 1 : -1]
        whole = line[: _CRC_DIGITS + 1] == b"%08x " % crc32(text)
        if not finished and not whole:
            break
        number = len(lines.records) + 1
        if not finished or not whole:  # a whole line that ends in another byte is damaged too
            if salvage:
                break
            raise InputError(
                str(path),
                f"line {number} is damaged: its checksum does not match;"
                " `meantime check --salvage` recovers what is before it",
                offset=position,
            )
        try:
            record = parsed(bytes(text))
        except ValueError as error:
            if salvage:
                break
            raise InputError(str(path), f"line {number}: {error}", offset=position) from None
        position = end
        lines.records.append(record)
        lines.ends.append(position)
    return lines


def parsed(text: bytes) -> dict[str, Any]:
    """Return a record from its JSON.

    Raises:
        ValueError: If it is not a JSON object.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - of a file, not an argument
    return record


def number_in(record: dict[str, Any], name: str, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return an integer of a record.

    Raises:
        ValueError: If it is missing, not an integer, or outside [least, most].
    """
    number = record.get(name)
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"{name} is {_shortened(number)}")
    return number


def items_in(record: dict[str, Any], name: str, kind: type[_Item]) -> list[_Item]:
    """Return a list from a record, whose items are all of a type; an empty one if it is missing.

    Raises:
        ValueError: If it is something else.
    """
    items = record.get(name, [])
    # a bool is not an integer here
    if not isinstance(items, list) or any(type(item) is not kind for item in items):
        raise ValueError(f"{name} is not a list of {kind.__name__}: {_shortened(items)}")
    return items


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
