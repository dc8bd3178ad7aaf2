"""How the files of a recording are laid out: headers, sizes, and the limits of what is in them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from meantime.files import open_regular
from meantime.kernels.record_kinds import SIZES

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "FORMAT",
    "HEADER",
    "HEADER_BYTES",
    "MAX_TIME_NS",
    "PACKED_MAGIC",
    "SLOT_BYTES",
    "VERSION",
    "Header",
    "is_clock_time",
    "read_header",
]

FORMAT = "recording"
# How a recording in one file begins.
PACKED_MAGIC = b"mtrpack1"
VERSION = SIZES["FORMAT_VERSION"]
HEADER = struct.Struct("<8s4Iq4IQq")
HEADER_BYTES, SLOT_BYTES = SIZES["HEADER_BYTES"], SIZES["SLOT_BYTES"]
MAX_TIME_NS = 2**56 - 1  # what a record's time can be

# a clock that counts from a boot, or UTC from 1970, is far below this; sums still fit into 64 bits
_MAX_CLOCK_NS = 2**62


def is_clock_time(time_ns: object) -> bool:
    """Return whether a number can be what a clock has shown."""
    return isinstance(time_ns, int) and 0 <= time_ns < _MAX_CLOCK_NS


class Header(NamedTuple):
    """The first 64 bytes of a facts or segment file."""

    pid: int
    incarnation: int
    base_ns: int
    parent: tuple[int, int]
    slots_before: int
    realtime_ns: int


def read_header(path: Path) -> Header:
    """Return the header of a facts or segment file; what is cut off it is zero."""
    with open_regular(path) as file:
        data = file.read(HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
    _, _, pid, incarnation, _, base_ns, _, *rest = HEADER.unpack(data)
    parent_pid, parent_incarnation, _, slots_before, realtime_ns = rest
    parent = (parent_pid, parent_incarnation)
    return Header(pid, incarnation, base_ns, parent, slots_before, realtime_ns)
