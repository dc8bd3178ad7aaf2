"""How much memory the objects may take that readers make of an input.

Most readers make columns of a batch, whose size follows from that of the input. A JSON document
becomes objects first, of up to forty times its size, fields of protobuf and constants of a flight
recording become columns as a whole, and what is compressed may expand a thousand times.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from meantime.errors import InputError
from meantime.model.units import format_bytes

__all__ = ["MemoryLimit", "available_bytes", "check_json"]

# Smaller documents are not counted: their objects fit everywhere.
_FREELY = 1 << 22
# This many times as much memory is given to all, too.
_FREE_TIMES = 16
# What CPython allocates at least: for an empty object and list, for a member and for an element.
_OBJECT_BYTES, _LIST_BYTES, _MEMBER_BYTES, _ELEMENT_BYTES = 64, 56, 48, 16
# The history, and what the system needs, is beside the objects.
_PART = 0.75
# Where the system does not say how much there is.
_UNKNOWN = 1 << 33


class MemoryLimit:
    """How much memory may be taken by what a reader makes of an input.

    Args:
        name: Of the input.
        most_bytes: What was allowed; None is three quarters of the memory there is.
    """

    def __init__(self, name: str, most_bytes: int | None) -> None:
        self._name = name
        self._most_bytes = most_bytes

    def check(self, what: str, needed_bytes: int) -> None:
        """Refuse what would not fit, before it is made.

        Args:
            what: How much there is, such as `its JSON has 9 objects`.
            needed_bytes: The least memory that it takes.

        Raises:
            InputError: If that is more than may be taken.
        """
        if needed_bytes <= _FREE_TIMES * _FREELY:
            return
        most = int(_PART * available_bytes()) if self._most_bytes is None else self._most_bytes
        if needed_bytes > most:
            raise InputError(
                self._name,
                f"{what}, which take at least {format_bytes(needed_bytes)} of memory, and"
                f" {format_bytes(most)} may be used: --memory SIZE, or memory=BYTES from Python,"
                " allows more",
            )


def check_json(name: str, data: bytes | str, most_bytes: int | None) -> None:
    """Refuse a JSON document whose objects would not fit into memory, before it is parsed.

    Args:
        name: Of the input.
        data: The document.
        most_bytes: What its objects may take; None is three quarters of the memory there is.

    Raises:
        InputError: If they would take more.
    """
    if len(data) <= _FREELY:
        return
    counts = [
        data.count(each.encode()) if isinstance(data, bytes) else data.count(each)
        for each in "{[:,"
    ]
    sizes = (_OBJECT_BYTES, _LIST_BYTES, _MEMBER_BYTES, _ELEMENT_BYTES)
    needed = len(data) + sum(size * count for size, count in zip(sizes, counts, strict=True))
    objects = f"its JSON has {counts[0] + counts[1]:,} objects and lists"
    MemoryLimit(name, most_bytes).check(objects, needed)


def available_bytes() -> int:
    """Return how much memory this process can get without swapping, as far as that is known."""
    found = [_of_machine(), _of_group(), _of_process()]
    return max(0, min(each for each in found if each is not None))


def _of_machine() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _UNKNOWN


def _of_group() -> int | None:
    """Return what is left to the control group; None if it is not limited."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                folder = Path("/sys/fs/cgroup") / line[3:].lstrip("/")
                most = (folder / "memory.max").read_text(encoding="ascii").strip()
                used = (folder / "memory.current").read_text(encoding="ascii")
                return None if most == "max" else int(most) - int(used)
    return None


def _of_process() -> int | None:
    """Return what is left of `ulimit -v`; None if there is no limit."""
    try:
        import resource  # noqa: PLC0415 - for large documents only
    except ImportError:  # as on Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return limit - pages * os.sysconf("SC_PAGE_SIZE")
    return limit
