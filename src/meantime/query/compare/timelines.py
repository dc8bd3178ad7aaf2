"""Both sides of a comparison over time: what each lane did, and where one row has more or less."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import MeantimeError
from meantime.model.attribute_paths import STACK
from meantime.model.columns import named
from meantime.query.compare.grouping import Entity, entities_of
from meantime.query.compare.matching import matched
from meantime.query.lifetimes import intervals_between
from meantime.query.sampled_states import with_sampled_states
from meantime.query.statistics import state_quarks
from meantime.query.threads import thread_quarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.query.compare.comparison import ComparedRow, Comparison
    from meantime.query.parts import Part
    from meantime.query.ranges import Range

    Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = ["Lane", "Strip", "Timelines", "leads_ns", "timelines", "typical_runs"]

# A picture with more lanes is not read.
MOST_LANES = 8
# Of a thread, the outermost so many spans are shown.
_MOST_DEPTHS = 4


class Strip(NamedTuple):
    """What one attribute did over time: a row per bin and value that lasted in it.

    Attributes:
        bin: int32, ascending.
        name: The values, in order of appearance; time without one has no row.
        share: float64, the part of the bin, above 0.
    """

    bin: Int32s
    name: Sequence[str]
    share: Float64s


class Lane(NamedTuple):
    """An entity of both sides.

    Attributes:
        name: What both are called.
        before: Its strips before, from the outermost span; none if it is not there.
        after: The same after.
        change: float64, by bin, the share of the compared row after less that before.
    """

    name: str
    before: list[Strip]
    after: list[Strip]
    change: Float64s


class Timelines(NamedTuple):
    """A run of each side, on one axis of time.

    Attributes:
        length_ns: What all bins cover.
        lead_ns: The time from where they begin to time 0.
        ranges_ns: Where each run begins and ends, from where the bins begin.
        bins: How many bins there are.
        row: The state or name whose changes the lanes show.
        runs: Which run of each side this is.
        lanes: Where the compared row changed most.
        left_out: How many other lanes there are.
    """

    length_ns: int
    lead_ns: int
    ranges_ns: tuple[Range, Range]
    bins: int
    row: str
    runs: tuple[int, int]
    lanes: list[Lane]
    left_out: int


def timelines(
    before: Sequence[Part],
    after: Sequence[Part],
    found: Comparison,
    bins: int,
    align: str = "start",
    *,
    left_out: str | None = None,
) -> Timelines | None:
    """Return the run of each side that is nearest to the mean of its side, over time.

    None if rows are neither of states nor of spans, or if there is none.

    >>> from meantime.query.compare import compared
    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> old, new = ([part_of(history_from_picture(f"disk0  {line}"), None, None)]
    ...             for line in ("aabb", "abbb"))
    >>> drawn = timelines(old, new, compared(old, new), bins=2)
    >>> drawn.row, [lane.change.tolist() for lane in drawn.lanes]
    ('a', [[-0.5, 0.0]])

    Args:
        before: The runs before.
        after: The runs after.
        found: Their comparison.
        bins: How many parts the time has at most.
        align: What is at one time: the `start` or the `end` of both, or where a state or span with
            this name first begins.
        left_out: What is left out of the names of lanes: a regular expression.

    Raises:
        MeantimeError: If a run has no such state or span.
    """
    if not is_over_time(found):
        return None
    row = most_changed(found)
    runs = typical_runs(found)
    sides = before[runs[0]], after[runs[1]]
    leads = leads_ns(*sides, align)
    lead_ns = max(leads)
    begins_ns = [lead_ns - each for each in leads]
    ranges_ns = [
        (begin_ns, begin_ns + side.end_ns - side.start_ns)
        for begin_ns, side in zip(begins_ns, sides, strict=True)
    ]
    length_ns = max(1, *(end_ns for _, end_ns in ranges_ns))
    bins = min(bins, length_ns)
    of_spans = found.by == "name"
    strips = [
        _strips(side, bins, (side.start_ns - begin_ns, length_ns), of_spans=of_spans)
        for side, begin_ns in zip(sides, begins_ns, strict=True)
    ]
    names, _ = matched(
        [[Entity(key, name) for key, (name, _) in side.items()] for side in strips], left_out
    )
    pairs: dict[str, list[list[Strip]]] = {}
    for number, (side, own) in enumerate(zip(strips, names, strict=True)):
        for key, (_, found_strips) in side.items():
            pairs.setdefault(own[key], [[], []])[number] = found_strips
    value = row.key[-1]
    lanes = [
        Lane(name, old, new, _share(new, value, bins) - _share(old, value, bins))
        for name, (old, new) in pairs.items()
    ]
    # lanes with the same change are in order of appearance
    lanes.sort(key=lambda lane: -float(np.abs(lane.change).sum()))
    return Timelines(
        length_ns,
        lead_ns if align != "start" else 0,
        (ranges_ns[0], ranges_ns[1]),
        bins,
        value,
        runs,
        lanes[:MOST_LANES],
        len(lanes[MOST_LANES:]),
    )


def is_over_time(found: Comparison) -> bool:
    """Return whether there are rows, and they are of states or of spans, which are in lanes."""
    is_of_spans = found.by == "name" and found.of == "spans"
    return bool(found.rows) and (is_of_spans or found.by in {"state", "entity"})


def most_changed(found: Comparison) -> ComparedRow:
    """Return the row that lanes show the change of."""
    return next((each for each in found.rows if each.is_noticeable), found.rows[0])


def typical_runs(found: Comparison) -> tuple[int, int]:
    """Return which run of each side is nearest to the mean of its side in the first changed row.

    >>> from meantime.query.compare import compared
    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> old, new = ([part_of(history_from_picture(f"disk0  {line}"), None, None) for line in side]
    ...             for side in (["ab", "aab", "aaab"], ["abb"]))
    >>> typical_runs(compared(old, new))
    (1, 0)

    Args:
        found: A comparison; of one without rows, they are the first ones.
    """
    if not found.rows:
        return 0, 0
    row = most_changed(found)
    return _typical(row.runs_before), _typical(row.runs_after)


def leads_ns(before: Part, after: Part, align: str) -> tuple[int, int]:
    """Return how long after its begin each of two runs is at the place that both have.

    Args:
        before: A run.
        after: Another one.
        align: As `timelines` takes it.

    Raises:
        MeantimeError: If a run has no such state or span.
    """
    return (
        anchor_ns(before, align) - before.start_ns,
        anchor_ns(after, align) - after.start_ns,
    )


def _typical(values: Sequence[float]) -> int:
    """Return which value is nearest to their mean."""
    known = np.nan_to_num(np.array(values, np.float64))
    return int(np.argmin(np.abs(known - known.mean())))


def anchor_ns(part: Part, align: str) -> int:
    """Return the time of a run that is at the same place as that of the other one."""
    if align in {"start", "end"}:
        return part.start_ns if align == "start" else part.end_ns
    history = part.history
    spans = history.spans(start_ns=part.start_ns, end_ns=part.end_ns)
    begins = spans.start_ns[[name == align for name in spans.name.to_list()]]
    found = [int(begins[begins >= part.start_ns].min())] if (begins >= part.start_ns).any() else []
    for batch in intervals_between(history, state_quarks(history), part.start_ns, part.end_ns):
        column = named(batch.value)
        codes = [code for code, name in enumerate(column.names) if name == align]
        begins = batch.start_ns[np.isin(column.codes, codes)]
        found += [int(begins.min())] if len(begins) else []
    if not found:
        raise MeantimeError(f"no state or span of a run is called {align!r}, to align the runs by")
    return max(part.start_ns, min(found))


def _strips(
    part: Part, bins: int, covered: Range, *, of_spans: bool
) -> dict[str, tuple[str, list[Strip]]]:
    """Return the name and the strips of each lane, by its path."""
    history = part.history if of_spans else with_sampled_states(part.history)
    owners = thread_quarks(history) if of_spans else state_quarks(history)
    found = {}
    for entity, owner in zip(
        entities_of(history, owners, of_paths=False), owners.tolist(), strict=True
    ):
        quarks = _depths(history, owner) if of_spans else np.array([owner], np.int32)
        found[entity.key] = entity.name, _shares(history, quarks, part, bins, covered)
    return found


def _depths(history: History, thread: int) -> Int32s:
    """Return the attributes of the outermost spans of a thread."""
    path = history.attributes.path(thread)
    quarks = []
    for depth in range(_MOST_DEPTHS):
        quark = history.find(*path, STACK, str(depth))
        if quark is None:
            break
        quarks.append(quark)
    return np.array(quarks, np.int32)


def _shares(history: History, quarks: Int32s, part: Part, bins: int, covered: Range) -> list[Strip]:
    """Return the strip of each attribute over a time and a length, of which the part is some."""
    start_ns, length_ns = covered
    strips = []
    for quark in quarks.tolist():
        shares = history.grouped_shares([quark], start_ns, start_ns + length_ns, bins)
        column = named(shares.value)
        begin, end = shares.edges_ns[shares.bin], shares.edges_ns[shares.bin + 1]
        kept = (column.codes >= 0) & (begin < part.end_ns) & (end > part.start_ns)
        width = np.diff(shares.edges_ns)[shares.bin[kept]]
        names = [column.names[code] for code in column.codes[kept].tolist()]
        strips.append(Strip(shares.bin[kept], names, shares.ns[kept] / width))
    return strips


def _share(strips: Sequence[Strip], value: str, bins: int) -> Float64s:
    """Return by bin the share of a value in any of some strips."""
    found = np.zeros(bins)
    for strip in strips:
        is_value = np.array([name == value for name in strip.name], np.bool_)
        np.add.at(found, strip.bin[is_value], strip.share[is_value])
    # a recursive function is in several strips at once
    return np.minimum(found, 1.0)
