"""Which hosts are unlike the rest: in which state, by how much, and since when.

Each host's share of time in a state is compared with the median of all hosts, in units of the
spread of all hosts. Two figures of a host are compared: its share of the whole range, and the
stretch in which it departs most from what is usual for itself, so that a short stretch is found,
too. In each bin the median of all hosts is subtracted first: what all hosts do at a time makes
none of them unlike the others, and is a stripe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import UsageError
from meantime.model.columns import Coded
from meantime.model.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from meantime.history.grouped_shares import GroupedShares
    from meantime.model.columns import Int64s
    from meantime.model.tabular import Column

    _Floats: TypeAlias = npt.NDArray[np.float64]

__all__ = ["LEAST_HOSTS", "HostComparison", "HostShare", "Stripe", "compare_hosts"]

LEAST_HOSTS = 3
# The median distance from the median of a normal distribution, as its standard deviation.
_NORMAL = 1.4826
# The spread is at least this share of the time: that of hosts with equal shares is 0.
_LEAST_SPREAD = 0.002
# The least difference of shares that is reported, and the least one in a stretch.
_LEAST_CHANGE, _LEAST_STRETCH = 0.01, 0.1
# How many spreads a share has to be from the median; with n hosts 6 / n times more, as the spread
# of few is uncertain.
_FAR, _FEW_HOSTS = 6.0, 6.0
# The same of stretches: the greatest of many differences is far out more often.
_FAR_STRETCH = 12.0
# Stripes: how far the median of all hosts has to be from what is usual.
_FAR_STRIPE, _LEAST_STRIPE = 8.0, 0.1
# A bin counts at most so many times as much as the mean when a stretch of a host is looked for.
_CLIP = 8
# How far a share of a bin is off by chance, at least.
_LEAST_NOISE = 0.01
# Only the states with the most time are compared.
_MOST_STATES = 64


class HostShare(NamedTuple):
    """A host's share of time in a state, compared with the other hosts'.

    Attributes:
        host: The name of the host.
        kind: The kind of entity that has the state: the name of a lane.
        state: The state.
        share: The part of the time in which the host's entities had any state. Lanes of spans have
            a state from their first span to their last one: `idle` where no span is open.
        median: The median of this share of all hosts.
        spread: The median distance of all hosts from the median, times 1.4826, which is the
            standard deviation if they are normally distributed; at least the uncertainty of a
            host's share by itself, and at least 0.002.
        deviation: `share - median` in units of `spread`, without stripes; of a host that is unlike
            the others in a stretch only, how far that stretch is out among all hosts' stretches.
        unlike: `range` if the share of the whole range is unlike that of the others, `stretch` if
            only that of a stretch is, None if neither is.
        start_ns: Where the stretch begins in which the host departs from the others.
        end_ns: Where it ends.
        stretch_share: The host's share in the stretch.
        stretch_median: The median of all hosts' shares in the stretch.
    """

    host: str
    kind: str
    state: str
    share: float
    median: float
    spread: float
    deviation: float
    unlike: Literal["range", "stretch"] | None
    start_ns: int
    end_ns: int
    stretch_share: float
    stretch_median: float


class Stripe(NamedTuple):
    """A stretch in which most hosts depart from what is usual, at one time.

    Attributes:
        kind: The kind of entity.
        state: The state.
        start_ns: Where it begins.
        end_ns: Where it ends.
        hosts: In how many hosts.
        share: The median of the shares of all hosts in the stretch.
        usual: The median share at other times.
    """

    kind: str
    state: str
    start_ns: int
    end_ns: int
    hosts: int
    share: float
    usual: float


@dataclass(frozen=True, slots=True)
class HostComparison(Tabular):
    """All hosts compared; as a table, the rows.

    Attributes:
        range_ns: The range that was compared.
        hosts: How many hosts.
        rows: Each host and state; those that are unlike the others first, then by deviation.
        stripes: What most hosts did at one time, the strongest first.
    """

    range_ns: tuple[int, int]
    hosts: int
    rows: list[HostShare]
    stripes: list[Stripe]

    @property
    def unlike(self) -> list[HostShare]:
        """The rows of hosts that are unlike the others."""
        return [row for row in self.rows if row.unlike is not None]

    def columns(self) -> dict[str, Column]:
        """Return a column for each field of a row."""
        columns: dict[str, Column] = {}
        for name in HostShare._fields:
            values = [getattr(row, name) for row in self.rows]
            if name in {"host", "kind", "state", "unlike"}:
                columns[name] = Coded.of(values)
            else:
                columns[name] = np.array(values, np.int64 if name.endswith("_ns") else np.float64)
        return columns


def compare_hosts(shares: Mapping[str, GroupedShares]) -> HostComparison:
    r"""Return how the hosts' shares of time in states differ.

    >>> from meantime.testing import history_from_picture
    >>> lines = ["abababab", "babababa", "aabbaabb", "aaaabbbb", "ababcccc"]
    >>> history = history_from_picture("\n".join(f"h{i}  {each}" for i, each in enumerate(lines)))
    >>> shares = history.shares("*", bins=4).grouped()
    >>> [(row.host, row.state, row.start_ns) for row in compare_hosts({"": shares}).unlike]
    [('h4', 'c', 4)]

    Args:
        shares: By kind of entity the shares of all hosts: a group is a host. All have the same
            bins, some hundred of them, which are the resolution of stretches.

    Raises:
        UsageError: If there are fewer than three hosts.
    """
    hosts = {name for each in shares.values() for name in each.groups}
    if len(hosts) < LEAST_HOSTS:
        raise UsageError(
            f"comparing needs at least {LEAST_HOSTS} hosts with states; there are {len(hosts)}"
        )
    rows: list[HostShare] = []
    stripes: list[tuple[float, Stripe]] = []
    range_ns = (0, 0)
    for kind, each in shares.items():
        range_ns = int(each.edges_ns[0]), int(each.edges_ns[-1])
        if len(each.groups) < LEAST_HOSTS:
            continue
        states, times, known = _times(each)
        for state, time in zip(states, times, strict=True):
            compared = _Compared(kind, state, each.groups, each.edges_ns, time, known)
            rows += compared.rows()
            stripes += compared.stripes()
    rows.sort(
        key=lambda row: (row.unlike is None, -abs(row.deviation), row.host, row.kind, row.state)
    )
    stripes.sort(key=lambda found: (-found[0], found[1]))
    return HostComparison(range_ns, len(hosts), rows, [stripe for _, stripe in stripes])


def _times(shares: GroupedShares) -> tuple[list[str], list[_Floats], _Floats]:
    """Return the states, the time in each by host and bin, and the time in any."""
    size = (len(shares.groups), len(shares.edges_ns) - 1)
    values = shares.value
    has_state = np.array([kind > 0 for kind, _ in shares.values], np.bool_)
    rows = np.flatnonzero(has_state[shares.value_code])
    total = np.zeros(len(shares.values))
    np.add.at(total, shares.value_code[rows], shares.ns[rows].astype(np.float64))
    most = np.argsort(-total, kind="stable")[:_MOST_STATES]
    known = np.zeros(size)
    np.add.at(known, (shares.group[rows], shares.bin[rows]), shares.ns[rows].astype(np.float64))
    states, times = [], []
    for code in most[total[most] > 0].tolist():
        of_state = np.flatnonzero(shares.value_code == code)
        time = np.zeros(size)
        time[shares.group[of_state], shares.bin[of_state]] = shares.ns[of_state]
        states.append(str(values[int(of_state[0])]))
        times.append(time)
    return states, times, known


class _Stretch(NamedTuple):
    """A run of bins [first, end), and how far it is out."""

    first: int
    end: int
    score: float


class _Compared:
    """One state of one kind of entity, of all hosts.

    Args:
        kind: The kind of entity.
        state: The state.
        hosts: The names of the hosts.
        edges_ns: The edges of the bins.
        time: By host and bin, the time in the state.
        known: By host and bin, the time in any state.
    """

    def __init__(  # noqa: PLR0917 - what it consists of
        self,
        kind: str,
        state: str,
        hosts: list[str],
        edges_ns: Int64s,
        time: _Floats,
        known: _Floats,
    ) -> None:
        self.kind, self.state, self.hosts, self.edges_ns = kind, state, hosts, edges_ns
        self.time, self.known = time, known
        share = np.divide(time, known, out=np.full(time.shape, np.nan), where=known > 0)
        seen = (known > 0).any(axis=0)
        self.median = np.zeros(share.shape[1])
        self.median[seen] = np.nanmedian(share[:, seen], axis=0)
        # no time with any state is like the others
        self.difference = np.where(known > 0, share - self.median, 0.0)
        # of each host, how it departs from its own usual difference
        self.own = self.difference - np.median(self.difference, axis=1, keepdims=True)
        deviations = np.sqrt((self.own**2).mean(axis=1))
        self.noise = max(float(np.median(deviations)), _LEAST_NOISE)

    def rows(self) -> list[HostShare]:
        """Return a row for each host that had any state."""
        there = np.flatnonzero(self.known.sum(axis=1) > 0)
        if len(there) < LEAST_HOSTS:
            return []
        share = self.time[there].sum(axis=1) / self.known[there].sum(axis=1)
        median = float(np.median(share))
        # without what all hosts did at a time, so that hosts that were not there then are like them
        apart = _weighted(self.difference[there], self.known[there])
        middle = float(np.median(apart))
        spread = max(_spread(apart), self._uncertainty(there), _LEAST_SPREAD)
        deviation = (apart - middle) / spread
        stretches = [_strongest(own, self.noise) for own in self.own[there]]
        scores = np.array([stretch.score for stretch in stretches])
        usual = float(np.median(scores))
        stretch_spread = max(_spread(scores), 1.0)
        few = 1 + _FEW_HOSTS / len(there)
        rows = []
        for index, host in enumerate(there.tolist()):
            out, stretch = float(deviation[index]), stretches[index]
            far = (float(scores[index]) - usual) / stretch_spread
            unlike: Literal["range", "stretch"] | None = None
            if abs(out) > _FAR * few and abs(apart[index] - middle) > _LEAST_CHANGE:
                unlike = "range"
                stretch = self._stretch(host)
            found = self._row(host, stretch, (float(share[index]), median, spread, out), unlike)
            change = abs(found.stretch_share - found.stretch_median)
            if unlike is None and far > _FAR_STRETCH * few and change > _LEAST_STRETCH:
                sign = np.sign(found.stretch_share - found.stretch_median)
                found = found._replace(unlike="stretch", deviation=float(far * sign))
            rows.append(found)
        return rows

    def _row(
        self,
        host: int,
        stretch: _Stretch,
        figures: tuple[float, float, float, float],
        unlike: Literal["range", "stretch"] | None,
    ) -> HostShare:
        part = slice(stretch.first, stretch.end)
        known = self.known[:, part].sum(axis=1)
        inside = np.divide(
            self.time[:, part].sum(axis=1), known, out=np.full(len(known), np.nan), where=known > 0
        )
        return HostShare(
            self.hosts[host],
            self.kind,
            self.state,
            *figures,
            unlike,
            int(self.edges_ns[stretch.first]),
            int(self.edges_ns[stretch.end]),
            float(np.nan_to_num(inside[host])),
            float(np.nanmedian(inside)) if (known > 0).any() else 0.0,
        )

    def _uncertainty(self, there: npt.NDArray[np.intp]) -> float:
        """Return how far the share of a range is off by chance, from how its parts differ."""
        parts = np.array_split(np.arange(self.difference.shape[1]), 16)
        means = np.array(
            [
                _weighted(self.difference[there][:, part], self.known[there][:, part])
                for part in parts
                if len(part)
            ]
        )
        return float(np.median(np.std(means, axis=0)) / np.sqrt(len(means)))

    def _stretch(self, host: int) -> _Stretch:
        """Return the stretch to look at of a host that has more, or less, than others."""
        difference, known = self.difference[host], self.known[host]
        mean = float(difference @ known / known.sum())
        # a bin far out is not all of it
        return _strongest(np.clip(difference, -abs(mean) * _CLIP, abs(mean) * _CLIP), 1.0)

    def stripes(self) -> list[tuple[float, Stripe]]:
        """Return the stretches in which the median of all hosts departs from what is usual."""
        usual = float(np.median(self.median))
        own = self.median - usual
        count = len(self.hosts)
        # that of a median of so many, if the hosts were independent, from those of hosts
        shares = self.difference + own
        deviations = np.sqrt(
            ((shares - np.median(shares, axis=1, keepdims=True)) ** 2).mean(axis=1)
        )
        by_hosts = float(np.median(deviations)) * 1.25 / count**0.5
        noise = max(by_hosts, _spread(own), _LEAST_NOISE)
        found: list[tuple[float, Stripe]] = []
        left = own.copy()
        while True:
            stretch = _strongest(left, noise)
            part = slice(stretch.first, stretch.end)
            change = float(own[part].mean())
            is_far = stretch.score > _FAR_STRIPE * (1 + _FEW_HOSTS / count)
            if not is_far or abs(change) < _LEAST_STRIPE:
                return found
            known = self.known[:, part].sum(axis=1)
            seen = known > 0
            inside = self.time[seen, part].sum(axis=1) / known[seen] - usual
            hosts = int(np.count_nonzero(inside * np.sign(change) > abs(change) / 2))
            ends = int(self.edges_ns[stretch.first]), int(self.edges_ns[stretch.end])
            stripe = Stripe(self.kind, self.state, *ends, hosts, usual + change, usual)
            found.append((stretch.score, stripe))
            left[part] = 0


def _weighted(values: _Floats, weights: _Floats) -> _Floats:
    total = weights.sum(axis=1)
    sums = (values * weights).sum(axis=1)
    found: _Floats = np.divide(sums, total, out=np.zeros(len(sums)), where=total > 0)
    return found


def _spread(values: _Floats) -> float:
    """Return the spread of values: the median distance from their median, scaled."""
    return float(np.median(np.abs(values - np.median(values)))) * _NORMAL


def _strongest(values: _Floats, noise: float) -> _Stretch:
    """Return the stretch whose sum is furthest from 0, for its length: then at its own edges.

    The sum of n values by chance grows as the square root of n, so the stretch of any length with
    the greatest sum over it is the least likely one. Lengths are powers of two, so that stretch is
    then extended, or shortened, to the run of values that exceed half of its mean.
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    best, sign = _Stretch(0, len(values), 0.0), 1.0
    length = 1
    while length <= len(values):
        moved = sums[length:] - sums[:-length]
        first = int(np.argmax(np.abs(moved)))
        score = abs(float(moved[first])) / (noise * length**0.5)
        if score > best.score:
            best, sign = _Stretch(first, first + length, score), float(np.sign(moved[first]))
        length *= 2
    level = sign * float(values[best.first : best.end].mean())
    # the run with the greatest sum above half of the level, among those that overlap the stretch
    above = np.concatenate([[0.0], np.cumsum(sign * values - level / 2)])
    first = int(np.argmin(above[: best.end]))
    end = first + 1 + int(np.argmax(above[first + 1 :]))
    first = int(np.argmin(above[:end]))
    score = abs(float(sums[end] - sums[first])) / (noise * (end - first) ** 0.5)
    return _Stretch(first, end, max(score, best.score))
