"""What the terminal of a stream can show: its width, and whether text may be styled."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["can_redraw", "is_styled", "width_of"]


def is_styled(stream: TextIO) -> bool:
    """Return whether escape sequences may be written: NO_COLOR, FORCE_COLOR, TERM, a terminal.

    The first of these that applies decides, as in Python's own tools. An empty variable counts as
    not set.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return can_redraw(stream)


def can_redraw(stream: TextIO) -> bool:
    """Return whether the stream is a terminal in which the cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """Return the number of columns of a terminal; None for a file or pipe, which has no limit."""
    if not stream.isatty():
        return None
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    # a terminal of unknown size reports 0
    return os.get_terminal_size(stream.fileno()).columns or 80
