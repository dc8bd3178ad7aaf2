"""Checksummed lines of JSON: the manifest of a history."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import HistoryError, InputError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Lines", "checksummed_line", "read_lines", "to_json"]

_CRC_DIGITS = 8


class Lines(NamedTuple):
    """The records of a file, and where each ends."""

    records: list[dict[str, Any]]
    ends: list[int]


def to_json(record: dict[str, Any]) -> bytes:
    """Return a record as JSON in ASCII, without blanks.

    Raises:
        HistoryError: If something in it is no JSON.
    """
    try:
        return json.dumps(record, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise HistoryError(
            f"a history on disk keeps tags and facts as JSON, which this is not: {error}"
        ) from None


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
    position = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line[_CRC_DIGITS + 1 : -1]
            whole = line[: _CRC_DIGITS + 1] == b"%08x " % zlib.crc32(text)
            finished = line.endswith(b"\n")
            if not finished and not whole:
                break
            if not finished or not whole:  # a whole line that ends in another byte is damaged too
                if salvage:
                    break
                raise InputError(
                    str(path),
                    f"line {number} is damaged: its checksum does not match;"
                    " `meantime check --salvage` keeps what is before it",
                    offset=position,
                )
            position += len(line)
            lines.records.append(json.loads(text))
            lines.ends.append(position)
    return lines
