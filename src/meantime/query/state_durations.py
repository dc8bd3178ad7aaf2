"""The durations of states in batches of intervals: sums, exact quantiles, and transitions.

Durations are counted in buckets, whose number depends on the number of states only, so memory does
not depend on how many intervals there are. An exact quantile takes a second pass, which collects
the durations in its bucket, or, if these are many, counts them in narrower buckets until they are
few. Without that it is the middle of its bucket.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.history.results import Intervals
from meantime.kernels.state_lengths import ROW_COLUMNS, StateLengths
from meantime.model.columns import distinct, named, ranked
from meantime.model.durations import PERCENTS, QUANTILE_PAIRS, nearest_rank, values_at
from meantime.query.duration_sums import BITS, bucket_count, bucket_edges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.state_lengths import StatePart
    from meantime.model.columns import Int64s

    # What is added: intervals, or states that are read where they are kept.
    _Batch: TypeAlias = Intervals | StatePart

__all__ = ["Apart", "StateDurations"]

_MOST_NS = 2**63 - 1
_BUCKET_BYTES = 2**26
# Up to so many different states have a table of which followed which.
_PAIRED = 512
# How many durations are collected at once, and in how many parts buckets are divided together.
_COLLECTED, _PARTS = 2**22, 2**20
# Up to so many intervals are kept for the second pass: reading them again may take longer.
_KEPT_ROWS = 2**21
_NO_QUANTILES = np.empty((0, 2), np.int64)


class Apart(NamedTuple):
    """The durations of each state of each attribute.

    Attributes:
        quark: The attribute of each row.
        state: The name of its state.
        figures: int64, the count, the sum (64 bits without a sign), the least and the greatest
            duration.
        quantiles: int64, by `PERCENTS`.
        sizes: How many buckets each row has, if they are kept.
        buckets: Which ones, row by row, ascending.
        counts: How many durations are in each of them.
    """

    quark: Int64s
    state: list[str]
    figures: Int64s
    quantiles: Int64s
    sizes: Int64s
    buckets: Int64s
    counts: Int64s


class _Target(NamedTuple):
    """A range of durations that has quantiles of a state.

    Attributes:
        state: The state.
        low: Where it begins.
        shift: It is 2 to the power of this long.
        number: How many durations are in it.
        ranks: By quantile, its rank among these.
    """

    state: int
    low: int
    shift: int
    number: int
    ranks: dict[int, int]


@dataclass(slots=True, eq=False, repr=False)
class StateDurations:
    """The durations of states, clipped to a range.

    Args:
        range_ns: The range.
        attributes: How many attributes the history has; 0 if how long each had a state is not
            needed. Then sums that segments keep are used.
        collected: How many durations are collected at once.
        bits: How narrow buckets are; 0 is enough where no quantiles are asked for.
        is_apart: Whether durations are also counted for each attribute by itself.
        is_sketched: Whether the buckets of these are kept.
        exact: Whether the quantiles of these are exact if there are more than 1,024.

    Attributes:
        lived_ns: By attribute, how long it had a state.
    """

    range_ns: tuple[int, int]
    attributes: int
    collected: int = _COLLECTED
    bits: int = BITS
    is_apart: bool = False
    is_sketched: bool = False
    exact: bool = True
    lived_ns: Int64s = field(init=False)
    _names: dict[str, int] = field(init=False, default_factory=dict)
    _lengths: StateLengths = field(init=False)
    _bits: int = field(init=False)
    _figures: npt.NDArray[np.uint64] = field(init=False)
    _buckets: Int64s = field(init=False)
    _pairs: Int64s = field(init=False)
    _other_pairs: Counter[tuple[int, int]] = field(init=False, default_factory=Counter)
    _restored_apart: Apart | None = field(init=False, default=None)
    _restored_exact: bool = field(init=False, default=True)
    _kept: list[_Batch] | None = field(init=False, default_factory=list)
    _kept_rows: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.lived_ns = np.zeros(self.attributes, np.int64)
        self._figures = np.empty((0, 4), np.uint64)
        self._bits = self.bits
        self._buckets = np.empty((0, bucket_count(self._bits)), np.int64)
        self._pairs = np.zeros((0, 0), np.int64)
        quantiles = QUANTILE_PAIRS if self.is_apart else _NO_QUANTILES
        self._lengths = StateLengths(quantiles, exact=self.exact, sketched=self.is_sketched)
        self._use()

    @property
    def is_exact(self) -> bool:
        """Whether all quantiles of attributes by themselves are."""
        return self._lengths.is_exact and self._restored_exact

    @property
    def has_sketch(self) -> bool:
        """Whether buckets are as narrow as those of a sketch, which they are of few states."""
        return self._bits == BITS

    @property
    def names(self) -> list[str]:
        """The states, in order of appearance."""
        return list(self._names)

    def add(self, batch: _Batch) -> None:
        """Count a batch, which has all intervals of its attributes."""
        self._take(batch)
        self._add_moves()
        if not isinstance(batch, Intervals):
            # they can be read again as fast
            self._kept = None
        elif self._kept is not None and self.bits:
            self._kept_rows += len(batch)
            self._kept.append(batch)
            if self._kept_rows > _KEPT_ROWS:
                self._kept = None

    def _add_moves(self) -> None:
        moves, counts = self._lengths.moves()
        if not len(moves):
            return
        different, index = ranked(moves)
        sums = np.zeros(len(different), np.int64)
        np.add.at(sums, index, counts)
        for move, count in zip(different.tolist(), sums.tolist(), strict=True):
            self._other_pairs[move >> 32, move & 0xFFFFFFFF] += count

    def _take(self, batch: _Batch) -> None:
        """Let the kernel read a batch."""
        lengths = self._lengths
        texts: Sequence[str]
        add: Callable[[], None]
        if isinstance(batch, Intervals):
            column = named(batch.value)
            texts = column.names
            columns = batch.quark, batch.start_ns, batch.end_ns, column.codes
            add = partial(lengths.take_columns, *columns, *self.range_ns)
        else:
            texts = batch.strings
            add = partial(batch.add_to, lengths)

        def learn(code: int) -> int:
            state = self._names.setdefault(texts[code], len(self._names))
            self._grow(len(self._names))
            return state

        lengths.begin(len(texts))
        lengths.learn = learn
        try:
            add()
        finally:
            # it refers to this: a cycle would keep both until the next collection
            lengths.learn = None

    def _grow(self, states: int) -> None:
        size = len(self._figures)
        if states <= size:
            return
        size = max(8, 1 << (states - 1).bit_length())
        while self._bits and size * bucket_count(self._bits) * 8 > _BUCKET_BYTES:
            self._bits -= 1
            self._buckets = _folded(self._buckets, self._bits + 1, self._bits)
        more = size - len(self._figures)
        none = np.tile(np.array([0, 0, _MOST_NS, 0], np.uint64), (more, 1))
        self._figures = np.concatenate([self._figures, none])
        no_buckets = np.zeros((more, bucket_count(self._bits)), np.int64)
        self._buckets = np.concatenate([self._buckets, no_buckets])
        if size <= _PAIRED:
            self._pairs = np.pad(self._pairs, (0, more))
        elif len(self._pairs):
            self._other_pairs.update(self._table_of_pairs())
            self._pairs = np.zeros((0, 0), np.int64)
        self._use()

    def _use(self) -> None:
        arrays = self._figures, self._buckets, self._pairs, self.lived_ns
        self._lengths.use(*arrays, self._bits)

    def _table_of_pairs(self) -> dict[tuple[int, int], int]:
        found = np.argwhere(self._pairs).tolist()
        return {(before, after): int(self._pairs[before, after]) for before, after in found}

    def pairs(self) -> dict[tuple[int, int], int]:
        """Return how often a state directly followed another, by their indices."""
        return self._other_pairs | self._table_of_pairs()

    def of_attributes(self) -> Apart:
        """Return the durations of each attribute by itself, attribute by attribute."""
        if self._restored_apart is not None:
            return self._restored_apart
        rows, buckets = self._lengths.rows()
        names = self.names
        quantiles = rows[:, -len(PERCENTS) :]
        states = [names[each] for each in rows[:, 1].tolist()]
        return Apart(rows[:, 0], states, rows[:, 2:6], quantiles, rows[:, 7], *buckets.T)

    def stored(self) -> dict[str, npt.NDArray[Any]]:
        """Return all figures but `lived_ns` as arrays, which `restore` takes."""
        states = len(self._names)
        state, bucket = np.nonzero(self._buckets[:states])
        pairs = self.pairs()
        arrays: dict[str, npt.NDArray[Any]] = {
            "names": np.frombuffer(json.dumps(self.names).encode(), np.uint8),
            "figures": self._figures[:states].ravel(),
            "bits": np.array([self._bits], np.int64),
            "state": state.astype(np.int32),
            "bucket": bucket.astype(np.int32),
            "count": self._buckets[state, bucket],
            "pairs": np.array([*pairs], np.int32).ravel(),
            "times": np.array([*pairs.values()], np.int64),
        }
        if self.is_apart:
            rows, _ = self._lengths.rows()
            arrays["rows"] = rows.ravel()
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take what another one `stored`, instead of intervals.

        Raises:
            ValueError: If the arrays do not fit each other.
        """
        names = json.loads(arrays["names"].tobytes())
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise ValueError("the names are not texts")
        self._names = {name: index for index, name in enumerate(names)}
        states = len(names)
        (bits,) = arrays["bits"].tolist()
        state, bucket, count = arrays["state"], arrays["bucket"], arrays["count"]
        pairs = arrays["pairs"].reshape(-1, 2)
        if not (
            len(self._names) == states
            and 0 <= bits <= BITS
            and len(state) == len(bucket) == len(count)
            and len(pairs) == len(arrays["times"])
            and _within(state, states)
            and _within(pairs, states)
            and _within(bucket, bucket_count(bits))
            # each state was counted
            and len(distinct(state)) == states
            and int(count.min(initial=1)) > 0
        ):
            raise ValueError("an index is outside of what it is of")
        self._bits = bits
        self._figures = arrays["figures"].reshape(states, 4)
        self._buckets = np.zeros((states, bucket_count(bits)), np.int64)
        self._buckets[state, bucket] = count
        self._pairs = np.zeros((0, 0), np.int64)
        moves = zip(map(tuple, pairs.tolist()), arrays["times"].tolist(), strict=True)
        self._other_pairs = Counter(dict(moves))
        if self.is_apart:
            rows = arrays["rows"].reshape(-1, ROW_COLUMNS + len(PERCENTS))
            if not _within(rows[:, 1], states) or int(rows[:, 2].min(initial=1)) < 1:
                raise ValueError("a row is of no state")
            of = [names[each] for each in rows[:, 1].tolist()]
            none = np.empty(0, np.int64)
            self._restored_apart = Apart(
                rows[:, 0], of, rows[:, 2:6], rows[:, -len(PERCENTS) :], none, none, none
            )
            self._restored_exact = bool(rows[:, 6].all())

    def totals(self) -> list[tuple[int, int, int, int]]:
        """Return the count, the sum, the least and the greatest duration of each state."""
        counts = self._buckets.sum(axis=1).tolist()
        rows = zip(counts, self._figures.tolist(), strict=True)
        found = [(count, (high << 64) + low, *ends) for count, (low, high, *ends) in rows]
        return found[: len(self._names)]

    def histograms(self) -> list[list[int]]:
        """Return how many durations of each state are in [2^i, 2^(i+1)) ns, by i; of none, in 0.

        There is nothing above the longest one.
        """
        counts = _folded(self._buckets[: len(self._names)], self._bits, 0)
        counts[:, 1] += counts[:, 0]
        counts = counts[:, 1:]
        # how many there are up to the last that is not 0
        lengths = counts.shape[1] - (counts[:, ::-1] > 0).argmax(axis=1)
        lengths[~counts.any(axis=1)] = 0
        return [row[:length] for row, length in zip(counts.tolist(), lengths.tolist(), strict=True)]

    def quantiles(self, batches: Callable[[], Iterable[_Batch]]) -> list[list[int]]:
        """Return the quantiles of each state: nearest rank, by `PERCENTS`.

        Args:
            batches: Returns the batches that were added, once more.
        """
        found = [[0] * len(PERCENTS) for _ in self._names]
        pending = self._begun(found)
        again: Callable[[], Iterable[_Batch]] = batches
        if self._kept is not None:
            kept = self._kept
            again = lambda: kept  # noqa: E731 - of two kinds
        while pending:
            if sum(target.number for target in pending) <= self.collected:
                self._collect(pending, again(), found)
                break
            pending = self._narrowed(pending, again(), found)
        return found

    def estimates(self) -> list[list[int]]:
        """Return the quantiles of each state: the middles of their buckets."""
        found = [[0] * len(PERCENTS) for _ in self._names]
        for target in self._begun(found):
            middle = target.low + ((1 << target.shift) - 1 >> 1)
            least, most = (int(each) for each in self._figures[target.state, 2:])
            for which in target.ranks:
                # the middle of a bucket may be outside of what occurred
                found[target.state][which] = min(max(middle, least), most)
        return found

    def sketch(self) -> tuple[list[str], Int64s, Int64s, Int64s]:
        """Return the states, how many buckets each has, which ones, and their counts."""
        states, buckets = np.nonzero(self._buckets[: len(self._names)])
        sizes = np.bincount(states, minlength=len(self._names))
        return self.names, sizes, buckets, self._buckets[states, buckets]

    def _begun(self, found: list[list[int]]) -> list[_Target]:
        """Return the buckets with the quantiles that are not known by them."""
        pending = []
        lows, shifts = bucket_edges(self._bits)
        for state, (count, _, least, most) in enumerate(self.totals()):
            if least == most or not count:
                found[state] = [most] * len(PERCENTS)
                continue
            ranks = {which: nearest_rank(count, each) for which, each in enumerate(PERCENTS)}
            pending += _parts(state, lows, shifts, self._buckets[state], ranks)
        return _without_known(pending, found)

    def _collect(
        self, targets: list[_Target], batches: Iterable[_Batch], found: list[list[int]]
    ) -> None:
        ends = np.cumsum([target.number for target in targets])
        out = np.empty(int(ends[-1]), np.int64)
        begins = [0, *ends[:-1].tolist()]
        self._pass(targets, [0] * len(targets), begins, batches, out, collect=True)
        for target, begin, end in zip(targets, begins, ends.tolist(), strict=True):
            # percents ascend, and so do their ranks
            values = values_at(out[begin:end], [*target.ranks.values()])
            for which, value in zip(target.ranks, values, strict=True):
                found[target.state][which] = value

    def _narrowed(
        self, targets: list[_Target], batches: Iterable[_Batch], found: list[list[int]]
    ) -> list[_Target]:
        most = max(1, (_PARTS // len(targets)).bit_length() - 1)
        parts = [max(0, target.shift - most) for target in targets]
        sizes = [1 << (target.shift - part) for target, part in zip(targets, parts, strict=True)]
        begins = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        out = np.zeros(begins[-1], np.int64)
        self._pass(targets, parts, begins[:-1], batches, out, collect=False)
        narrower = []
        for target, shift, begin, size in zip(targets, parts, begins[:-1], sizes, strict=True):
            lows = target.low + (np.arange(size, dtype=np.int64) << shift)
            counts = out[begin : begin + size]
            shifts = np.full(size, shift)
            narrower += _parts(target.state, lows, shifts, counts, target.ranks)
        return _without_known(narrower, found)

    def _pass(
        self,
        targets: list[_Target],
        parts: Sequence[int],
        begins: Sequence[int],
        batches: Iterable[_Batch],
        out: Int64s,
        *,
        collect: bool,
    ) -> None:
        states = np.array([target.state for target in targets])
        first = np.searchsorted(states, np.arange(len(self._names) + 1)).astype(np.int32)
        rows = zip(targets, parts, begins, strict=True)
        listed = np.array([(each.low, each.shift, part, at) for each, part, at in rows], np.int64)
        self._lengths.narrow(first, listed, out, collect=collect)
        for batch in batches:
            self._take(batch)


def _folded(buckets: Int64s, bits: int, fewer: int) -> Int64s:
    """Return counts in fewer buckets, each of which consists of some of these."""
    # the edges of the wider buckets are among those of the narrower ones
    first = np.searchsorted(bucket_edges(bits)[0], bucket_edges(fewer)[0])
    folded: Int64s = np.add.reduceat(buckets, first, axis=1)
    return folded


def _within(index: npt.NDArray[Any], end: int) -> bool:
    """Return whether these are indices of so many things."""
    return int(index.min(initial=0)) >= 0 and int(index.max(initial=-1)) < end


def _parts(
    state: int, lows: Int64s, shifts: Int64s, counts: Int64s, ranks: dict[int, int]
) -> list[_Target]:
    """Return the parts of a range that have these ranks, in order."""
    ends = np.cumsum(counts)
    found: dict[int, dict[int, int]] = {}
    for which, rank in ranks.items():
        part = int(np.searchsorted(ends, rank, side="right"))
        found.setdefault(part, {})[which] = rank - int(ends[part] - counts[part])
    return [
        _Target(state, int(lows[part]), int(shifts[part]), int(counts[part]), own)
        for part, own in found.items()
    ]


def _without_known(targets: list[_Target], found: list[list[int]]) -> list[_Target]:
    """Return the targets that have more than one duration; the others are quantiles."""
    for target in targets:
        if not target.shift:
            for which in target.ranks:
                found[target.state][which] = target.low
    return [target for target in targets if target.shift]
