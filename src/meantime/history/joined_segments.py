"""The intervals of several histories as those of one, without copying any."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.columns import distinct
from meantime.history.extremes import Extremes
from meantime.history.segment_source import nearer
from meantime.kernels.tail import STR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.segment_source import Measured, SegmentSource
    from meantime.kernels.shares import Tally

__all__ = ["JoinedSegments", "SegmentsOfPart"]


class SegmentsOfPart:
    """The intervals of one of several histories, in the range of all.

    Args:
        source: Its intervals.
        kinds: By its own quark, the type of the values.
        offset_ns: What to add to its times.
        quark_of: By its own quark, that in the whole.
        codes: By its own code of a string, that in the whole; None if they are the same.
        tags: By its own tag plus one, that in the whole plus one; None if they are the same.
        range_ns: The range of the whole.

    Attributes:
        offset_ns: As given.
        quark_of: As given.
        codes: As given.
        tags: As given.
        kinds: As given.
    """

    def __init__(
        self,
        source: SegmentSource,
        kinds: npt.NDArray[np.uint8],
        *,
        offset_ns: int,
        quark_of: Int32s,
        codes: Int32s | None,
        tags: Int32s | None,
        range_ns: tuple[int, int],
    ) -> None:
        self.offset_ns = offset_ns
        self.quark_of = quark_of
        self.codes = codes
        self.tags = tags
        self.kinds = kinds
        self.own = source
        self._range_ns = range_ns[0] - offset_ns, range_ns[1] - offset_ns

    @cached_property
    def source(self) -> SegmentSource:
        """The intervals in the range of the whole, made when they are first asked for."""
        if self._range_ns == (self.own.start_ns, self.own.end_ns):
            return self.own
        return self.own.within(*self._range_ns, self.kinds)

    def within(self, range_ns: tuple[int, int]) -> SegmentsOfPart:
        """Return the same intervals in a longer range, given in the times of the whole."""
        return SegmentsOfPart(
            self.own,
            self.kinds,
            offset_ns=self.offset_ns,
            quark_of=self.quark_of,
            codes=self.codes,
            tags=self.tags,
            range_ns=range_ns,
        )


class JoinedSegments:
    """Answers queries from the parts that own the attributes; see `SegmentSource`.

    Outside of the range of its part, an attribute has no state.

    Args:
        parts: The parts.
        part_of: By quark, the part that has it.
        own_of: By quark, its quark in that part.
        kinds: By quark, the type of its values.
        range_ns: Where the history begins and ends.

    Attributes:
        start_ns: Where the history begins.
        end_ns: Where it ends.
    """

    def __init__(
        self,
        parts: Sequence[SegmentsOfPart],
        *,
        part_of: Int32s,
        own_of: Int32s,
        kinds: npt.NDArray[np.uint8],
        range_ns: tuple[int, int],
    ) -> None:
        self._parts = parts
        self._part_of = part_of
        self._own_of = own_of
        self._kinds = kinds
        self.start_ns, self.end_ns = range_ns
        self._translates = any(part.codes is not None or part.tags is not None for part in parts)

    @property
    def size_bytes(self) -> int:
        """How much memory all parts take."""
        return sum(part.source.size_bytes for part in self._parts)

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> JoinedSegments:
        """See `SegmentSource.within`."""
        parts = [part.within((start_ns, end_ns)) for part in self._parts]
        return JoinedSegments(
            parts,
            part_of=self._part_of,
            own_of=self._own_of,
            kinds=kinds,
            range_ns=(start_ns, end_ns),
        )

    def _runs(self, quarks: Int32s) -> Iterator[tuple[slice, SegmentsOfPart, Int32s]]:
        """Yield the runs of attributes of one part: which, the part, and their quarks in it."""
        if not len(quarks):
            return
        part_of, own = self._part_of[quarks], self._own_of[quarks]
        edges = (np.flatnonzero(part_of[1:] != part_of[:-1]) + 1).tolist()
        first = 0
        for last in [*edges, len(quarks)]:
            yield slice(first, last), self._parts[part_of[first]], own[first:last]
            first = last

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """Return start, end, word and meta of the interval that contains a time."""
        part = self._parts[self._part_of[quark]]
        offset_ns = part.offset_ns
        start_ns, end_ns, word, meta = part.source.point(
            int(self._own_of[quark]), time_ns - offset_ns
        )
        if not meta & 1 and part.codes is not None and self._kinds[quark] == STR:
            word = int(part.codes[word])
        if meta > 1 and part.tags is not None:
            meta = int(part.tags[meta >> 1]) << 1 | meta & 1
        return start_ns + offset_ns, end_ns + offset_ns, word, meta

    def at(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        times_ns: Int64s,
        start: Int64s,
        end: Int64s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
    ) -> None:
        """Write the interval of each row's attribute that contains the row's time."""
        part_of = self._part_of[quarks]
        changed = np.count_nonzero(part_of[1:] != part_of[:-1])
        if changed >= len(self._parts) and changed >= len(distinct(part_of)):
            # Rows are independent here, so those of a part are answered together.
            order = np.argsort(part_of, kind="stable")
            columns: list[npt.NDArray[Any]] = [start, end, word, meta]
            found: list[Any] = [np.empty_like(column) for column in columns]
            self._at_runs(quarks[order], times_ns[order], *found)
            for column, ordered in zip(columns, found, strict=True):
                column[order] = ordered
            return
        self._at_runs(quarks, times_ns, start, end, word, meta)

    def _at_runs(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        times_ns: Int64s,
        start: Int64s,
        end: Int64s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
    ) -> None:
        for rows, part, own in self._runs(quarks):
            offset_ns = part.offset_ns
            times = times_ns[rows]
            if not offset_ns:
                part.source.at(own, times, start[rows], end[rows], word[rows], meta[rows])
                continue
            begins, ends = start[rows], end[rows]
            part.source.at(own, times - offset_ns, begins, ends, word[rows], meta[rows])
            begins += offset_ns
            ends += offset_ns
        if self._translates:
            self._translate(quarks, word, meta & 1, 1)
            self._translate_tags(quarks, meta)

    def _translate(
        self, quarks: Int32s, word: npt.NDArray[Any], null: npt.NDArray[Any], times: int
    ) -> None:
        """Replace the codes of strings; each attribute has so many adjacent rows."""
        for rows, part, own in self._runs(quarks):
            if part.codes is None:
                continue
            cells = slice(rows.start * times, rows.stop * times)
            text = part.kinds[own] == STR
            some = np.repeat(text, times) if times != 1 else text
            some &= null[cells] == 0
            words = word[cells]
            words[some] = part.codes[words[some]]

    def _translate_tags(self, quarks: Int32s, meta: npt.NDArray[np.uint32]) -> None:
        for rows, part, _ in self._runs(quarks):
            if part.tags is not None:
                metas = meta[rows]
                metas[:] = part.tags[metas >> 1].astype(np.uint32) << np.uint32(1) | metas & 1

    def sample(
        self, quarks: Int32s, times_ns: Int64s, word: Int64s, null: npt.NDArray[np.uint8]
    ) -> None:
        """Write the value of each attribute at each time, attribute after attribute."""
        times = len(times_ns)
        for rows, part, own in self._runs(quarks):
            cells = slice(rows.start * times, rows.stop * times)
            part.source.sample(own, times_ns - part.offset_ns, word[cells], null[cells])
        if self._translates:
            self._translate(quarks, word, null, times)

    def load(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        """Read what answers about a range depend on."""
        for _, part, own in self._runs(quarks):
            part.source.load(own, start_ns - part.offset_ns, end_ns - part.offset_ns)

    def count(self, quarks: Int32s, start_ns: int, end_ns: int, counts: Int64s) -> None:
        """Write an upper bound of how many intervals of each attribute overlap a range."""
        for rows, part, own in self._runs(quarks):
            offset_ns = part.offset_ns
            part.source.count(own, start_ns - offset_ns, end_ns - offset_ns, counts[rows])

    def gather(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        start_ns: int,
        end_ns: int,
        resolution_ns: int,
        out_quark: Int32s,
        out_start: Int64s,
        out_end: Int64s,
        out_code: Int32s | None,
        out_word: Int64s | None,
        out_meta: npt.NDArray[np.uint32] | None,
        out_tag: Int32s | None,
    ) -> int:
        """Write the intervals that overlap a range, quark by quark; return how many."""
        columns = (out_quark, out_start, out_end, out_code, out_word, out_meta, out_tag)
        first = 0
        for _, part, own in self._runs(quarks):
            offset_ns = part.offset_ns
            rest: list[Any] = [None if column is None else column[first:] for column in columns]
            count = part.source.gather(
                own, start_ns - offset_ns, end_ns - offset_ns, resolution_ns, *rest
            )
            if count:
                _translate_gathered(part, [None if each is None else each[:count] for each in rest])
            first += count
        return first

    def count_matching(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        criteria: IntervalFilter,
        counts: Int64s,
    ) -> None:
        """Write how many intervals of each attribute overlap a range and are criteria."""
        for rows, part, own in self._runs(quarks):
            part.source.count_matching(
                own,
                kinds[rows],
                start_ns - part.offset_ns,
                end_ns - part.offset_ns,
                criteria.translated(part.codes, part.tags),
                counts[rows],
            )

    def nearest_matching(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        criteria: IntervalFilter,
        backwards: bool,  # noqa: FBT001 - as the segments' own
    ) -> tuple[int, int] | None:
        """Return the first matching interval that begins in a range, or the last."""
        nearest = None
        for rows, part, own in self._runs(quarks):
            found = part.source.nearest_matching(
                own,
                kinds[rows],
                start_ns - part.offset_ns,
                end_ns - part.offset_ns,
                criteria.translated(part.codes, part.tags),
                backwards,
            )
            if found is not None:
                begin_ns = found[1] + part.offset_ns
                nearest = nearer(nearest, (rows.start + found[0], begin_ns), backwards=backwards)
        return nearest

    def bounds(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        start_ns: int,
        end_ns: int,
        low: Int64s,
        high: Int64s,
        changes: Int64s,
    ) -> None:
        """Write limits of the integers of each attribute, and of how often it changes."""
        for rows, part, own in self._runs(quarks):
            range_ns = start_ns - part.offset_ns, end_ns - part.offset_ns
            part.source.bounds(own, *range_ns, low[rows], high[rows], changes[rows])

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """Return the least and the greatest integer of each attribute."""
        found = Extremes().resolve(kinds)
        for part in self._parts:
            own = part.own.integers(part.kinds)
            known = part.quark_of[: len(own.low)]
            found.low[known] = own.low[: len(known)]
            found.high[known] = own.high[: len(known)]
        return found

    def expect_rows(self, rows: int, quarks: Int32s) -> None:
        """Prepare the parts for a tally of attributes that would read so many rows."""
        for which, part, own in self._runs(quarks):
            part.source.expect_rows(rows * (which.stop - which.start) // len(quarks), own)

    def for_times(
        self,
        quarks: Int32s,  # noqa: ARG002 - of any
        kinds: npt.NDArray[np.uint8],  # noqa: ARG002 - of any
        edges_ns: Int64s,  # noqa: ARG002 - of any
    ) -> SegmentSource:
        """Return this."""
        return self

    def tally(
        self,
        tally: Tally,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
    ) -> None:
        """Add how long each value of attributes of these types lasted in a range."""
        edges_ns, codes = tally.edges, tally.codes
        for rows, part, own in self._runs(quarks):
            inner = part.codes if codes is None or part.codes is None else codes[part.codes]
            tally.turn_to(edges_ns - part.offset_ns, codes if inner is None else inner)
            range_ns = start_ns - part.offset_ns, end_ns - part.offset_ns
            part.source.tally(tally, own, kinds[rows], *range_ns)
        tally.turn_to(edges_ns, codes)

    def measure_bins(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        edges_ns: Int64s,
        least: npt.NDArray[np.float64],
        greatest: npt.NDArray[np.float64],
        mean: npt.NDArray[np.float64],
    ) -> None:
        """Write extremes and means of the numbers of attributes in each bin."""
        for rows, part, own in self._runs(quarks):
            part.source.measure_bins(
                own,
                kinds[rows],
                edges_ns - part.offset_ns,
                least[rows],
                greatest[rows],
                mean[rows],
            )

    def measure(self, quark: int, kind: int, start_ns: int, end_ns: int) -> Measured:
        """Return the extremes and the integral of the numbers of an attribute in a range."""
        part = self._parts[self._part_of[quark]]
        range_ns = start_ns - part.offset_ns, end_ns - part.offset_ns
        measured: Measured = part.source.measure(int(self._own_of[quark]), kind, *range_ns)
        return measured


def _translate_gathered(part: SegmentsOfPart, columns: list[Any]) -> None:
    """Translate the intervals of a part, in the columns of `SegmentSource.gather`."""
    quark, start, end, code, word, meta, tag = columns
    if part.offset_ns:
        start += part.offset_ns
        end += part.offset_ns
    if part.codes is not None and code is not None:
        some = code >= 0
        code[some] = part.codes[code[some]]
    if part.codes is not None and word is not None:
        some = (part.kinds[quark] == STR) & (meta & 1 == 0)
        word[some] = part.codes[word[some]]
    if part.tags is not None and meta is not None:
        meta[:] = part.tags[meta >> 1].astype(np.uint32) << np.uint32(1) | meta & 1
    elif part.tags is not None and tag is not None:
        tag[:] = part.tags[tag + 1] - 1
    quark[:] = part.quark_of[quark]
