"""What the scanner found of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int64s

__all__ = ["Scanned"]


class Scanned(NamedTuple):
    """The rows of a trace, and what their codes are.

    Attributes:
        tables: The rows by kind; see `kernels/perfetto_state.h`.
        counts: The values of counters, by the names of their columns.
        names: The names by code.
        cpus: The number of each CPU, and the time at which its first bundle begins, or -1.
        texts: The texts of arguments, one after the other.
        offsets: Where the text of each code begins, and where the last one ends.
    """

    tables: dict[str, npt.NDArray[Any]]
    counts: dict[str, npt.NDArray[Any]]
    names: list[str]
    cpus: list[tuple[int, int]]
    texts: bytes
    offsets: Int64s
