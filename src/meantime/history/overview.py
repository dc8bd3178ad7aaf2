"""Overviews: in wide bins, how long each attribute had each of its states.

An overview is a history of its own: of bins that are 2^level ns wide and begin at multiples of
that. Each attribute has each of its states in a bin once, for as long as in the whole bin, and at
the edges of bins it is in the state that it really was in. So all sums over such bins, and over
wider ones, are exact, and what reads segments reads an overview too.

The first look at a history is at all of it, and reading all segments takes longer than anything
else on the page. So a finished history has an overview of 3 to 6 % of its size. It is a segment
itself, in which each bin has each state once. What reads segments reads it, with the same checks,
and attributes that rarely change have few rows in it: it needs neither a kernel nor a format of
its own. Rows of sums by value take as much where all values are in each bin, and more elsewhere.

It is made while a history is built: a kernel puts the states of each segment together before its
rows leave the cache, 1.5 ns a change. Bins become wider as the history grows, and parts are merged
by the same kernel: the order of states in a bin follows from the sums, so it makes no difference
how often. Snapshots of a growing history that this process builds use the parts so far, and the
latest segments as they are. Late changes remove the parts that they are in, and missing ones, as
after a resumed build, are made from the stored segments in the end.

`Source.for_times` returns the overview to questions about nothing but how long states lasted, in
bins that it has: tiles of states and of groups. Changes and numbers of a bin are not in it. Where
a segment is lost it is not used, so that what is hatched stays so. A tile of narrower bins reads
the segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.history.directory.container import ALIGNMENT
from meantime.history.segment import Head, Segment
from meantime.kernels.overview import coarsen
from meantime.kernels.search import Segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s

__all__ = ["Overview", "OverviewBuilder", "RowMemory", "coarse_segment"]

# An overview has at most a 16th of the bytes of the rows, and so many. A view of 2,560 pixels has
# bins of at least half a pixel.
_PART = 16
_MOST_BYTES = 2**27
_MOST_BINS = 2**12
# Fewer bins are not worth reading: the widest tile has 256 to 512.
_FEWEST_BINS = 2**6
# Histories of fewer segments have none, since these are read as fast.
_LEAST_SEGMENTS = 4
# So many adjacent parts of an overview that is being built are merged.
_MERGED = 64
# There is an array with an item for each code.
_MOST_CODE_BITS = 22
_ROW_BITS = 64


class Overview(NamedTuple):
    """An overview.

    Attributes:
        level: Bins are 2 to the power of this wide, in ns.
        segments: Its segments, in order of time.
    """

    level: int
    segments: list[Segment]

    def has_edges(self, edges_ns: Int64s, start_ns: int, end_ns: int) -> bool:
        """Return whether these are edges of its bins, or those of the history."""
        inner = edges_ns[1:-1]
        first = edges_ns[:1] if int(edges_ns[0]) > start_ns else edges_ns[:0]
        last = edges_ns[-1:] if int(edges_ns[-1]) < end_ns else edges_ns[:0]
        bits = 0
        for each in (first, inner, last):
            bits |= int(np.bitwise_or.reduce(each))
        return bits & ((1 << self.level) - 1) == 0


class _Reach(NamedTuple):
    """What the rows of a segment of an overview have room for.

    Attributes:
        base_ns: When the first of the segments begins that it is of.
        last_ns: The time of the last change in these.
        code_bits: The most bits of the code of a state in them.
    """

    base_ns: int
    last_ns: int
    code_bits: int

    @classmethod
    def of(cls, parts: Sequence[Head | _Reach]) -> _Reach:
        """Return the reach of segments that follow each other."""
        code_bits = max(part.code_bits for part in parts)
        return cls(parts[0].base_ns, parts[-1].last_ns, code_bits)


def coarse_segment(
    segments: Sequence[Segment],
    kinds: npt.NDArray[np.uint8],
    level: int,
    memory: RowMemory,
    reach: _Reach | None = None,
) -> Segment | None:
    """Return the segment of an overview for segments that follow each other.

    Args:
        segments: The segments, whose rows are there.
        kinds: By quark, the type of its values; those with numbers are left out.
        level: Bins are 2 to the power of this wide, in ns.
        memory: Where its rows are, until this is used again.
        reach: Of segments of an overview, that of the segments which these are of.

    Returns:
        None if there are no rows.

    Raises:
        ValueError: If a time and a state have more bits than a row, or there are too many states.
    """
    heads = [segment.head for segment in segments]
    base_ns, last_ns, code_bits = _Reach.of(heads) if reach is None else reach
    bits = (last_ns - base_ns).bit_length() + code_bits
    if bits > _ROW_BITS or code_bits > _MOST_CODE_BITS:
        raise ValueError(f"a row of an overview has {bits} bits, {code_bits} of them for a state")
    width = max(1, (bits + 7) // 8)
    searched = Segments(searchable=False)
    for segment in segments:
        segment.add_to(searched)
    room = sum(head.runs for head in heads)
    quarks, offsets = np.empty(room, np.int32), np.empty(room + 1, np.uint32)
    rows = memory.take(sum(head.changes for head in heads) * width)
    runs, changes = coarsen(
        searched, kinds, level, base_ns, width, code_bits, quarks, offsets, rows
    )
    if not changes:
        return None
    head = Head(
        base_ns=base_ns,
        last_ns=last_ns,
        changes=changes,
        runs=runs,
        numbers=0,
        width=width,
        code_bits=code_bits,
        payload_bits=code_bits,
        wide=False,
        numeric=False,
        full=False,
    )
    index = {each.name: np.zeros(each.length, each.dtype) for each in head.index_sections()}
    index["quarks"][:], index["offsets"][:] = quarks[:runs], offsets[: runs + 1]
    rows = rows[: head.row_bytes()]
    rows[changes * width :] = 0
    return Segment(head, index, rows)


class RowMemory:
    """Memory for rows that is used again: the system would have to clear new memory."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def take(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return room for so many bytes of rows, and for what follows the last row."""
        size_bytes += 2 * ALIGNMENT
        if len(self._bytes) < size_bytes:
            self._bytes = np.empty(size_bytes, np.uint8)
        return self._bytes


class _Part(NamedTuple):
    """A part of an overview that is being built.

    Attributes:
        segment: What is in it; None without rows.
        covers: Of how many segments it is.
        rank: How often parts were merged.
        row_bytes: The bytes of the rows of these segments.
        reach: The reach of these segments.
    """

    segment: Segment | None
    covers: int
    rank: int
    row_bytes: int
    reach: _Reach


class OverviewBuilder:
    """The overview of the segments that were sealed so far; its bins widen as the history grows."""

    def __init__(self) -> None:
        self._level = 0
        self._parts: list[_Part] = []
        self._impossible = False
        # Whether bins may be wider than the segments that there are need.
        self._is_rewound = False
        self._memory = RowMemory()

    def copy(self) -> OverviewBuilder:
        """Return the same overview, which does not change with this one."""
        builder = OverviewBuilder()
        builder._level, builder._parts = self._level, list(self._parts)
        return builder

    @property
    def _covered(self) -> int:
        return sum(part.covers for part in self._parts)

    def add(
        self, segments: Sequence[Segment], segment: Segment, kinds: npt.NDArray[np.uint8]
    ) -> None:
        """Add a segment, unless there are few, or earlier ones are missing: see `merged`.

        Args:
            segments: The segments before.
            segment: The next one, whose rows are there.
            kinds: By quark, the type of its values.
        """
        if len(segments) + 1 == _LEAST_SEGMENTS:
            self._complete(segments, kinds)
        if len(segments) + 1 >= _LEAST_SEGMENTS and self._covered == len(segments):
            self._add([segment], kinds)

    def rewind(self, segments: int) -> None:
        """Forget the segments from this one on."""
        while self._covered > segments:
            self._parts.pop()
            self._is_rewound = True

    def overview(self, segments: Sequence[Segment]) -> Overview | None:
        """Return the overview of these segments, which has the latest ones as they are."""
        if not self._parts:
            return None
        made = _made(self._parts)
        return Overview(self._level, [*made, *segments[self._covered :]])

    def merged(
        self, segments: Sequence[Segment], kinds: npt.NDArray[np.uint8]
    ) -> tuple[int, Segment] | None:
        """Return the level and the only segment of the overview of all segments.

        Those that are missing are added, which a resumed build had, or late changes altered.

        Returns:
            None if it is not worth storing. The segment is valid until the builder is used again.
        """
        if self._is_rewound:
            # a resumed build, which begins with these segments, would have other bins
            self._parts, self._level = [], 0
            self._impossible = self._is_rewound = False
        if len(segments) >= _LEAST_SEGMENTS:
            self._complete(segments, kinds)
        made = _made(self._parts)
        if not made:
            return None
        reach = _Reach.of([part.reach for part in self._parts])
        if reach.last_ns - reach.base_ns >> self._level < _FEWEST_BINS:
            return None
        try:
            merged = coarse_segment(made, kinds, self._level, self._memory, reach)
        except ValueError:
            # the times of all parts have more bits than those of each
            merged = None
        return None if merged is None else (self._level, merged)

    def _complete(self, segments: Sequence[Segment], kinds: npt.NDArray[np.uint8]) -> None:
        self._add((each.reopened() for each in segments[self._covered :]), kinds)

    def _add(self, segments: Iterable[Segment], kinds: npt.NDArray[np.uint8]) -> None:
        if self._impossible:
            return
        try:
            for segment in segments:
                segment.load()
                self._append(segment, kinds)
                if self._covered >= _LEAST_SEGMENTS:
                    self._fit(kinds)
        except (InputError, ValueError):
            # a damaged segment is reported when it is queried
            self._parts, self._impossible = [], True

    def _append(self, segment: Segment, kinds: npt.NDArray[np.uint8]) -> None:
        if not self._parts:
            self._level = max(self._level, _first_level(segment.head))
        reach = _Reach.of([segment.head])
        made = self._coarse([segment], kinds, reach)
        self._parts.append(_Part(made, 1, 0, segment.head.row_bytes(), reach))
        latest = self._parts[-_MERGED:]
        while len(latest) == _MERGED and latest[0].rank == latest[-1].rank:
            reach = _Reach.of([part.reach for part in latest])
            self._parts[-_MERGED:] = [
                _Part(
                    self._coarse(_made(latest), kinds, reach),
                    sum(part.covers for part in latest),
                    latest[0].rank + 1,
                    sum(part.row_bytes for part in latest),
                    reach,
                )
            ]
            latest = self._parts[-_MERGED:]

    def _coarse(
        self, segments: Sequence[Segment], kinds: npt.NDArray[np.uint8], reach: _Reach
    ) -> Segment | None:
        """Return the segment for others, in memory of its own."""
        if not segments:
            return None
        made = coarse_segment(segments, kinds, self._level, self._memory, reach)
        if made is not None:
            made.rows = made.rows.copy()
        return made

    def _fit(self, kinds: npt.NDArray[np.uint8]) -> None:
        """Widen the bins while there are too many, or too much is in them.

        Raises:
            ValueError: If even that does not help.
        """
        most_bytes = _most_bytes(sum(part.row_bytes for part in self._parts))
        span_ns = self._parts[-1].reach.last_ns - self._parts[0].reach.base_ns
        while (
            span_ns >> self._level > _MOST_BINS
            or sum(segment.head.row_bytes() for segment in _made(self._parts)) > most_bytes
        ):
            if not span_ns >> self._level:
                raise ValueError("one bin is too large")
            self._level += 1
            self._parts = [
                part._replace(segment=self._coarse(_made([part]), kinds, part.reach))
                for part in self._parts
            ]


def _made(parts: Sequence[_Part]) -> list[Segment]:
    return [part.segment for part in parts if part.segment is not None]


def _most_bytes(row_bytes: int) -> int:
    """Return how large an overview of so many bytes of rows may be."""
    return min(_MOST_BYTES, row_bytes // _PART)


def _first_level(head: Head) -> int:
    """Return with which bins to begin: so few that two states in each would fit."""
    cell_bytes = 2 * head.width * head.runs
    bins = max(1, _most_bytes(head.row_bytes()) // cell_bytes)
    return max(0, ((head.last_ns - head.base_ns) // bins).bit_length() - 1)
