"""Packed recordings: a recording's directory in one file, as `meantime pack` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from meantime.readers.recording.layout import FORMAT

if TYPE_CHECKING:
    from meantime.model.trace import Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace, the same one as from the directory.

    Raises:
        InputError: Here or from the batches, if it is damaged or ends too early.
    """
    # imported here, as every input is compared with this format
    from meantime.readers.recording.packing import open_packed  # noqa: PLC0415 - see above
    from meantime.readers.recording.whole import Reading  # noqa: PLC0415 - see above

    with source:
        data = source.whole()
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    packed = open_packed(source.name, data, Path(source.name))
    return Reading(packed, private=options.private).trace
