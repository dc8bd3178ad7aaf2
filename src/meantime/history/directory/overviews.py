"""The overview of a finished history as a file, with the layout of a segment."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.history.directory.segments import open_segment, packed_segment
from meantime.history.overview import Overview, RowMemory, coarse_segment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from meantime.history.segment import Limits, Segment

__all__ = ["NAME", "check_overview", "packed_overview", "stored_overview"]

NAME = "overview"
_ADVICE = "answers do without it: it may be removed"


def packed_overview(segment: Segment) -> tuple[bytes, bytes, Any]:
    """Return the parts of the file of an overview."""
    header, index = packed_segment(segment)
    return header, index, segment.rows


def stored_overview(
    path: Path, record: dict[str, int] | None, range_ns: tuple[int, int], limits: Limits | None
) -> Overview | None:
    """Return the overview in a history's directory, whose rows are read when they are first used.

    Args:
        path: The directory.
        record: What its manifest says of it; None if there is none.
        range_ns: When the history begins and ends.
        limits: What its codes refer to; None if this process wrote it.

    Returns:
        None if there is none, or it is damaged, which is logged.
    """
    if record is None or not (path / NAME).exists():
        return None
    try:
        segment = _opened(path, record, range_ns, limits)
    except InputError as error:
        import logging  # noqa: PLC0415 - 2 ms, for damaged files only

        logging.getLogger("meantime").warning("%s", error)
        return None
    return Overview(record["level"], [segment])


def check_overview(
    path: Path,
    record: dict[str, int] | None,
    range_ns: tuple[int, int],
    limits: Limits,
    segments: Sequence[Segment],
) -> None:
    """Check that the overview of a history, if there is one, is that of these segments.

    Raises:
        InputError: If it is damaged, or does not match their rows.
    """
    if record is None or not (path / NAME).exists():
        return
    stored = _opened(path, record, range_ns, limits)
    stored.load()
    made = None
    with suppress(ValueError):
        made = coarse_segment(segments, limits.kinds, record["level"], RowMemory())
    if made is None or made.head != stored.head or packed_segment(made) != packed_segment(stored):
        raise InputError(str(path / NAME), f"does not match the segments; {_ADVICE}", offset=0)


def _opened(
    path: Path, record: dict[str, int], range_ns: tuple[int, int], limits: Limits | None
) -> Segment:
    segment = open_segment(path / NAME, advice=_ADVICE)
    if segment.checksum != record["checksum"]:
        raise InputError(str(path / NAME), f"is not of this history; {_ADVICE}", offset=0)
    if not range_ns[0] <= segment.head.base_ns <= segment.head.last_ns < range_ns[1]:
        raise InputError(str(path / NAME), f"has times outside of the history; {_ADVICE}", offset=0)
    segment.limits = limits
    return segment
