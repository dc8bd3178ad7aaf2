"""What queries return: columns, with a repr that shows the first of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Coded, Int32s, Int64s, Value, Values

__all__ = ["Flows", "Interval", "Intervals", "Points", "Sample", "Shares"]

_SHOWN_ROWS = 10


class Interval(NamedTuple):
    """An attribute had a value during [start_ns, end_ns).

    Attributes:
        quark: Which attribute.
        start_ns: When it took the value, also where that is before the range asked for.
        end_ns: When it took the next one, or the history's end.
        value: None is no state.
        tag: What `History.tags` knows of it, or None.
        ongoing: Whether the history is still being built and the end is only its present one.
    """

    quark: int
    start_ns: int
    end_ns: int
    value: Value
    tag: int | None = None
    ongoing: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Intervals:
    """Intervals as columns: quark by quark, in order of time.

    Attributes:
        quark: int32.
        start_ns: int64; of the first interval of each quark it may be before the range asked for.
        end_ns: int64; of the last interval of each quark it may be after it.
        value: `Coded` where all attributes asked for hold strings (or nothing), else `Mixed`.
        tag: int32, index into `History.tags`; -1 is no tag.
        range_ns: The range that was used: what was asked for, clipped to the history.
        ongoing_end_ns: Where ongoing intervals end; None when the history is built.
    """

    quark: Int32s
    start_ns: Int64s
    end_ns: Int64s
    value: Values
    tag: Int32s
    range_ns: tuple[int, int]
    ongoing_end_ns: int | None = None

    @property
    def ongoing(self) -> npt.NDArray[np.bool_]:
        """Which intervals have no end yet; while building, they end at the history's present."""
        if self.ongoing_end_ns is None:
            return np.zeros(len(self), np.bool_)
        ongoing: npt.NDArray[np.bool_] = self.end_ns == self.ongoing_end_ns
        return ongoing

    def __len__(self) -> int:
        return len(self.quark)

    def __getitem__(self, row: int) -> Interval:
        tag = int(self.tag[row])
        end_ns = int(self.end_ns[row])
        return Interval(
            int(self.quark[row]),
            int(self.start_ns[row]),
            end_ns,
            self.value[row],
            None if tag < 0 else tag,
            end_ns == self.ongoing_end_ns,
        )

    def __iter__(self) -> Iterator[Interval]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        lines = [
            f"  {quark}: [{start_ns}, {end_ns}) {value!r}"
            + (f" tag {tag}" if tag is not None else "")
            for quark, start_ns, end_ns, value, tag, _ in map(self.__getitem__, _shown(len(self)))
        ]
        return _listed(
            f"Intervals: {len(self):,} in [{self.range_ns[0]}, {self.range_ns[1]})",
            lines,
            len(self),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Shares:
    """How long each value lasted in each bin, and how often it changed there.

    Bin i is [edges_ns[i], edges_ns[i + 1]); the times of an attribute in a bin sum to its width,
    since no state counts as None.

    Attributes:
        quark: int32, one row per attribute, bin and value that lasted in it.
        bin: int32.
        value: As in `Intervals`.
        ns: int64, above 0.
        edges_ns: int64, bins + 1.
        changes_quark: int32, one row per attribute and bin with a change in it.
        changes_bin: int32.
        changes: int64, how many states began in that bin.
    """

    quark: Int32s
    bin: Int32s
    value: Values
    ns: Int64s
    edges_ns: Int64s
    changes_quark: Int32s
    changes_bin: Int32s
    changes: Int64s

    def __len__(self) -> int:
        return len(self.quark)

    def cell(self, quark: int, part: int) -> dict[Value, int]:
        """Return the time per value of one attribute in one bin; the longest first."""
        rows = np.flatnonzero((self.quark == quark) & (self.bin == part))
        rows = rows[np.argsort(-self.ns[rows], kind="stable")]
        return {self.value[row]: int(self.ns[row]) for row in rows.tolist()}

    def __repr__(self) -> str:
        lines = [
            f"  {self.quark[row]}: bin {self.bin[row]} {self.value[row]!r} {self.ns[row]} ns"
            for row in _shown(len(self))
        ]
        return _listed(
            f"Shares: {len(self):,} in {len(self.edges_ns) - 1:,} bins", lines, len(self)
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of attributes at times, attribute after attribute.

    Attributes:
        quark: int32, the attributes asked for.
        time_ns: int64, the times asked for.
        value: The value of attribute i at time j in row i * times + j; as in `Intervals`.
    """

    quark: Int32s
    time_ns: Int64s
    value: Values

    def rows(self) -> list[list[Value]]:
        """Return a list per attribute of its values at the times."""
        values: list[Value] = [*self.value.to_list()]
        times = len(self.time_ns)
        return [values[row * times : (row + 1) * times] for row in range(len(self.quark))]


@dataclass(frozen=True, slots=True)
class Points:
    """Instants on attributes, in order of time.

    Attributes:
        time_ns: int64.
        quark: int32, where it happened.
        name: What happened.
    """

    time_ns: Int64s
    quark: Int32s
    name: Coded

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, slots=True)
class Flows:
    """Arrows from one attribute at one time to another, in order of where they begin.

    Attributes:
        from_ns: int64.
        from_quark: int32.
        to_ns: int64.
        to_quark: int32.
        name: What flowed.
    """

    from_ns: Int64s
    from_quark: Int32s
    to_ns: Int64s
    to_quark: Int32s
    name: Coded

    def __len__(self) -> int:
        return len(self.from_ns)


def _shown(rows: int) -> range:
    return range(min(rows, _SHOWN_ROWS))


def _listed(title: str, lines: list[str], rows: int) -> str:
    if rows > _SHOWN_ROWS:
        lines.append(f"  ... {rows - _SHOWN_ROWS:,} more")
    return "\n".join([title, *lines])
