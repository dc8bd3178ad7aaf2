"""Several histories as one: the attributes of each stand under `Hosts/<name>`, without copies.

A snapshot of the whole consists of snapshots of the parts. Quarks, strings and tags of the whole
are numbered once and keep their numbers while parts grow; times are moved by an offset per part.

A joined history is a `History`, so queries, views and commands need nothing for it. Numbers of the
whole are assigned in the order in which parts got them; nothing else is kept of a part. Its source
is a `Partitioned` of a `Shifted` source for each part: each run of attributes of one part is one
question to it, and what it adds is translated in place. `JoinedTables` does the same for rows of
events, when they are used.

A part does not begin and end where the whole does. Instead of clipping each answer,
`Source.within` returns the source of a part in the range of the whole: its beginning is moved, and
one more segment ends its last states. So each kernel sees an ordinary history. `Tally.turn_to`
moves the bins of a sum to the times of the next part, and has the codes that its strings have in
the whole; rows of a cell are in the order of the part's own codes.

Offsets are found before, in `query/aligning`, which heat maps, statemaps and the page use too.
`placed` makes the histories wherever several are on one axis: for joined histories, statemaps,
heat maps, the page of traces and fleets, whose hosts send what they exchanged
(`aligning_histories.exchanged_by`) to where they are aligned. A property test holds that all of
them have the same times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import TimeRangeError, UsageError
from meantime.history.history import History, moment
from meantime.history.joined_tables import JoinedTables, TablesOfPart
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL
from meantime.history.partitioned import Partitioned
from meantime.history.sealed import SealedSegments
from meantime.history.shifted import Shifted
from meantime.history.snapshot import Snapshot
from meantime.history.values import Strings
from meantime.kernels.tail import UNTYPED
from meantime.model.anomalies import Anomalies
from meantime.model.attribute_paths import HOSTS
from meantime.model.attributes import Attributes, format_pattern
from meantime.model.metadata import TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.model.clocks import Clock, ClockShift
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.metadata import LaneDeclaration

__all__ = ["JoinedPart", "join_parts", "joined_part", "placed"]

# The parent of an attribute as `Attributes.columns` has it: the one before it, the root, a quark.
_BEFORE, _ROOT, _QUARK = 0, 1, 2
_NEVER = np.iinfo(np.int64).min


class JoinedPart(NamedTuple):
    """A history of a joined one.

    Attributes:
        name: What its attributes stand under; each part has another one.
        history: The history.
        offset_ns: What to add to its times.
        aligned: Whether that is known; otherwise only the beginnings are the same.
    """

    name: str
    history: History
    offset_ns: int
    aligned: bool


def joined_part(
    name: str, history: History, shift: ClockShift, *, clock: Clock, aligned: bool
) -> JoinedPart:
    """Return a part whose times are converted.

    Args:
        name: As in `JoinedPart`.
        history: The history.
        shift: How its times become those of the whole.
        clock: Which clock these count.
        aligned: As in `JoinedPart`.
    """
    return JoinedPart(name, *placed(history, shift, clock), aligned)


def placed(history: History, shift: ClockShift, clock: Clock) -> tuple[History, int]:
    """Return a history and what to add to its times; one whose clock drifts is converted.

    >>> from meantime.model.clocks import Clock, ClockShift
    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("cpu0  aab.")
    >>> placed(history, ClockShift(7), Clock()) == (history, 7)
    True
    >>> placed(history, ClockShift(7, drift_ppt=10**6), Clock())[0].bounds
    (7, 11)

    Args:
        history: The history.
        shift: How its times are converted.
        clock: Which clock they count then.
    """
    if not shift.drift_ppt:
        return history, shift.offset_ns
    # it needs what builds a history, which others do without
    from meantime.history.retimed import RetimedHistory  # noqa: PLC0415

    own = history.clock
    clock = replace(clock, host=own.host, boot_id=own.boot_id, anchors=())
    return RetimedHistory(history, shift, clock), 0


class _JoinedHistory(History):
    """A history that joins others; it is pickled as these.

    Args:
        parts: What it joins.
        own: What is known of the whole.
    """

    def __init__(self, parts: Sequence[JoinedPart], own: TraceMetadata) -> None:
        self.parts = tuple(parts)
        self._own = own
        super().__init__(_Joined(self.parts, own))

    def close(self) -> None:
        """Release the memory of the whole; the parts stay open."""
        super().close()
        self.parts = ()

    def snapshot(self) -> History:
        """See `History.snapshot`; a snapshot of a growing one is of one moment for each part."""
        if self.built:
            return self
        parts = [part._replace(history=part.history.snapshot()) for part in self.parts]
        return _JoinedHistory(parts, self._own)

    def __reduce__(self) -> tuple[Any, ...]:
        for part in self.parts:
            part.history.__reduce__()  # of one in memory, this says that it cannot be pickled
        return _JoinedHistory, (self.parts, self._own)


def join_parts(
    parts: Sequence[JoinedPart],
    *,
    clock: Clock,
    source: str = "",
    facts: Mapping[str, str] | None = None,
    anomalies: Anomalies | None = None,
) -> History:
    """Return the history of all parts; see `meantime.join`.

    Args:
        parts: The parts.
        clock: Which clock the times of the whole count.
        source: The name of the input, as messages print it.
        facts: Further metadata.
        anomalies: What was found wrong with the parts together.

    Raises:
        TimeRangeError: If times of a part do not fit into 64 bits after they are moved.
        UsageError: If there are no parts, or two of them have one name.
    """
    if not parts:
        raise UsageError("there are no histories to join")
    names = [part.name for part in parts]
    if len({*names}) < len(names):
        raise UsageError(f"two parts have one name: {', '.join(sorted(names))}")
    title = f"{len(parts):,} host{'' if len(parts) == 1 else 's'}"
    own = TraceMetadata(source, "joined", clock=clock, title=title, facts=dict(facts or {}))
    if anomalies is not None:
        own.anomalies.update(anomalies)
    return _JoinedHistory(parts, own)


class _Joined:
    """Returns the snapshot of the whole; a new one if a part has grown."""

    def __init__(self, parts: Sequence[JoinedPart], own: TraceMetadata) -> None:
        self._parts = parts
        self._own = own
        self._numbers = _Numbers(parts)
        self._seen: tuple[list[Snapshot], Snapshot] | None = None

    def __call__(self) -> Snapshot:
        snapshots = [moment(part.history, derived=False) for part in self._parts]
        if self._seen is not None and all(map(_same, self._seen[0], snapshots)):
            return self._seen[1]
        self._numbers.extend(snapshots)
        whole = self._snapshot(snapshots, self._numbers)
        self._seen = snapshots, whole
        return whole

    def _derived(self) -> Snapshot:
        """Return the snapshot of the parts with the attributes derived from spans."""
        snapshots = [moment(part.history, derived=True) for part in self._parts]
        if self._seen is not None and all(map(_same, self._seen[0], snapshots)):
            return self._seen[1]
        numbers = self._numbers.copy()
        numbers.extend(snapshots)
        return self._snapshot(snapshots, numbers)

    def _snapshot(self, snapshots: list[Snapshot], numbers: _Numbers) -> Snapshot:
        parts = [*zip(self._parts, snapshots, numbers.parts, strict=True)]
        range_ns = _range(parts)
        kinds = np.full(len(numbers.attributes), UNTYPED, np.uint8)
        for _, snapshot, number in parts:
            kinds[number.quark_of[: len(snapshot.kinds)]] = snapshot.kinds
        segments = [
            Shifted(
                snapshot.segments,
                _longer(snapshot.kinds, number),
                offset_ns=part.offset_ns,
                codes=number.codes(),
                tags=number.tags(),
                range_ns=range_ns,
            )
            for part, snapshot, number in parts
        ]
        frame = SealedSegments((), *range_ns)
        part_of, own_of = numbers.part_of, numbers.own_of
        tables = [
            TablesOfPart(
                snapshot.tables,
                part.offset_ns,
                number.quark_of,
                number.code_of,
                snapshot.strings,
            )
            for part, snapshot, number in parts
        ]
        built = all(snapshot.built for snapshot in snapshots)
        return Snapshot(
            Partitioned([frame, *segments], part_of, own_of),
            numbers.attributes,
            numbers.strings.names,
            kinds,
            built,
            _known_from(parts, numbers),
            _Tags(snapshots, numbers),
            JoinedTables(
                tables,
                order=numbers.order,
                part_of=part_of,
                own_of=own_of,
                strings=numbers.strings,
            ),
            self._metadata(parts, numbers, range_ns),
            derive=self._derived if built else None,
        )

    def _metadata(
        self, parts: list[_Described], numbers: _Numbers, range_ns: tuple[int, int]
    ) -> TraceMetadata:
        known = [snapshot.known_metadata() for _, snapshot, _ in parts]
        own = self._own
        anomalies = Anomalies()
        anomalies.update(own.anomalies)
        for each in known:
            anomalies.update(each.anomalies)
        units = {event: unit for each in known for event, unit in each.sample_units.items()}
        return replace(
            own,
            bounds=_bounds(parts, known) or range_ns,
            lanes=_lanes(parts, known),
            descriptions=_by_quark(parts, [each.descriptions for each in known]),
            names={
                **_by_quark(parts, [each.names for each in known]),
                **{
                    int(numbers.frame[1 + index]): f"{part.name}, not aligned"
                    for index, (part, _, _) in enumerate(parts)
                    if not part.aligned
                },
            },
            sort_keys=_by_quark(parts, [each.sort_keys for each in known]),
            facts=own.facts | _facts(parts, known),
            sample_units=units,
            samples_first=any(each.samples_first for each in known),
            lost=sorted(
                (from_ns + part.offset_ns, to_ns + part.offset_ns)
                for (part, _, _), each in zip(parts, known, strict=True)
                for from_ns, to_ns in each.lost
            ),
            anomalies=anomalies,
            records=sum(each.records for each in known),
        )


class _NumbersOfPart:
    """The numbers in the whole of what a part has.

    Attributes:
        quark_of: By quark of the part.
        code_of: By code of a string of the part.
        tag_of: By tag of the part plus one, that in the whole plus one.
    """

    def __init__(self) -> None:
        self.quark_of: Int32s = np.empty(0, np.int32)
        self.code_of: Int32s = np.empty(0, np.int32)
        self.tag_of: Int32s = np.zeros(1, np.int32)

    def codes(self) -> Int32s | None:
        """Return the codes of strings; None if they are the same in the whole."""
        return None if _counts(self.code_of) else self.code_of

    def tags(self) -> Int32s | None:
        """Return the tags; None if they are the same in the whole."""
        return None if _counts(self.tag_of) else self.tag_of

    def copy(self) -> _NumbersOfPart:
        """Return numbers that do not change with these; arrays are replaced, not changed."""
        other = _NumbersOfPart()
        other.quark_of, other.code_of, other.tag_of = self.quark_of, self.code_of, self.tag_of
        return other


_Described = tuple[JoinedPart, Snapshot, _NumbersOfPart]


class _Numbers:
    """The quarks, strings and tags of the whole.

    Attributes:
        attributes: The attribute tree: first `Hosts` and what is in it, then the parts.
        strings: The strings.
        parts: The numbers by part.
        frame: The quarks of `Hosts` and of the hosts.
        order: The parts in order of their names, numbers by value, as threads are sorted.
        part_of: By quark, its part plus one; 0 is the frame.
        own_of: By quark, the quark in that part.
        tag_part: By tag, its part.
        tag_own: By tag, the tag in that part.
    """

    def __init__(self, parts: Sequence[JoinedPart] = ()) -> None:
        self.attributes = Attributes()
        self.strings = Strings()
        self.parts = [_NumbersOfPart() for _ in parts]
        self.order = sorted(range(len(parts)), key=lambda index: _name_key(parts[index].name))
        paths = [(HOSTS,), *((HOSTS, part.name) for part in parts)] if parts else []
        self.frame = self.attributes.add_paths(paths)
        self.part_of: Int32s = np.zeros(len(self.frame), np.int32)
        self.own_of: Int32s = np.arange(len(self.frame), dtype=np.int32)
        self.tag_part: Int32s = np.empty(0, np.int32)
        self.tag_own: Int32s = np.empty(0, np.int32)

    def copy(self) -> _Numbers:
        """Return numbers that can be extended without changing these."""
        other = _Numbers()
        other.attributes = self.attributes.copy()
        other.strings = Strings(self.strings.names)
        other.parts = [part.copy() for part in self.parts]
        other.order, other.frame = self.order, self.frame
        other.part_of, other.own_of = self.part_of, self.own_of
        other.tag_part, other.tag_own = self.tag_part, self.tag_own
        return other

    def extend(self, snapshots: Sequence[Snapshot]) -> None:
        """Number what the parts have and had not before."""
        part_of, own_of = [self.part_of], [self.own_of]
        tag_part, tag_own = [self.tag_part], [self.tag_own]
        tags = len(self.tag_part)
        for index, (part, snapshot) in enumerate(zip(self.parts, snapshots, strict=True)):
            first = len(part.quark_of)
            added = self._add_attributes(part, int(self.frame[1 + index]), snapshot.attributes)
            part_of.append(np.full(added, index + 1, np.int32))
            own_of.append(np.arange(first, first + added, dtype=np.int32))
            new = [*snapshot.strings[len(part.code_of) :]]
            if new:
                part.code_of = np.append(part.code_of, self.strings.codes(new))
            first, last = len(part.tag_of) - 1, len(snapshot.tags)
            if last > first:
                more = np.arange(tags + 1, tags + 1 + last - first, dtype=np.int32)
                part.tag_of = np.append(part.tag_of, more)
                tag_part.append(np.full(last - first, index, np.int32))
                tag_own.append(np.arange(first, last, dtype=np.int32))
                tags += last - first
        self.part_of, self.own_of = np.concatenate(part_of), np.concatenate(own_of)
        self.tag_part, self.tag_own = np.concatenate(tag_part), np.concatenate(tag_own)

    def _add_attributes(self, part: _NumbersOfPart, host: int, own: Attributes) -> int:
        """Add the attributes that a part has got, below its host; return how many."""
        known = len(part.quark_of)
        if len(own) == known:
            return 0
        parents, codes, sizes, names = own.columns(known)
        first = len(self.attributes)
        quark_of = np.append(part.quark_of, np.arange(first, first + len(parents), dtype=np.int32))
        if known:
            # "the one before it" is another one here
            parents[0] = known - 1 + _QUARK if parents[0] == _BEFORE else parents[0]
        moved = parents.copy()
        moved[parents == _ROOT] = host + _QUARK
        below = parents >= _QUARK
        moved[below] = quark_of[(parents[below] - np.uint64(_QUARK)).astype(np.int64)] + _QUARK
        self.attributes.extend(moved, codes, sizes, names)
        part.quark_of = quark_of
        return len(parents)


class _Tags(Sequence[dict[str, Any]]):
    """The tags of all parts; see `History.tags`."""

    def __init__(self, snapshots: Sequence[Snapshot], numbers: _Numbers) -> None:
        self._tags = [snapshot.tags for snapshot in snapshots]
        self._part, self._own = numbers.tag_part, numbers.tag_own

    def __len__(self) -> int:
        return len(self._part)

    def __getitem__(self, tag: int | slice) -> Any:
        if isinstance(tag, slice):
            return [self[each] for each in range(*tag.indices(len(self)))]
        return self._tags[self._part[tag]][self._own[tag]]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[tag] for tag in range(len(self)))


def _same(one: Snapshot, other: Snapshot) -> bool:
    return one is other


def _counts(numbers: Int32s) -> bool:
    return bool((numbers == np.arange(len(numbers))).all())


def _name_key(name: str) -> tuple[int, str]:
    return int(name) if name.isdecimal() and len(name) < len(str(AFTER_ALL)) else 0, name


def _longer(kinds: Any, number: _NumbersOfPart) -> Any:
    """Return the types of attributes, also of those that were added since the snapshot."""
    if len(kinds) == len(number.quark_of):
        return kinds
    longer = np.full(len(number.quark_of), UNTYPED, np.uint8)
    longer[: len(kinds)] = kinds
    return longer


def _is_empty(snapshot: Snapshot) -> bool:
    """Return whether there is nothing in a history, so that its range means nothing."""
    tables = snapshot.tables
    return not snapshot.kinds.any() and not (
        len(tables.spans) or len(tables.samples) or len(tables.points) or len(tables.flows)
    )


def _range(parts: Sequence[_Described]) -> tuple[int, int]:
    """Return the range of all parts, in the times of the whole."""
    some = [each for each in parts if not _is_empty(each[1])] or parts[:1]
    starts, ends = [], []
    for part, snapshot, _ in some:
        starts.append(snapshot.segments.start_ns + part.offset_ns)
        ends.append(snapshot.segments.end_ns + part.offset_ns)
        if not BEFORE_ALL < starts[-1] <= ends[-1] < AFTER_ALL:
            raise TimeRangeError(
                f"{part.name}: with {part.offset_ns} ns added, its times do not fit into 64 bits"
            )
    range_ns = min(starts), max(ends)
    for part, _, _ in parts:
        low_ns, high_ns = (time_ns - part.offset_ns for time_ns in range_ns)
        if not (low_ns > BEFORE_ALL and high_ns < AFTER_ALL) or high_ns - low_ns >= AFTER_ALL:
            raise TimeRangeError(
                f"{part.name}: it is too far from the others: together they would last longer"
                " than times in 64 bits; give its offset, or leave it out"
            )
    return range_ns


def _known_from(parts: Sequence[_Described], numbers: _Numbers) -> Int64s | None:
    if all(snapshot.known_from_ns is None for _, snapshot, _ in parts):
        return None
    known_ns = np.full(len(numbers.attributes), _NEVER)
    for part, snapshot, number in parts:
        if snapshot.known_from_ns is not None:
            own = snapshot.known_from_ns
            since_ns = np.where(own > _NEVER, own + part.offset_ns, own)
            known_ns[number.quark_of[: len(own)]] = since_ns
    return known_ns


def _bounds(parts: Sequence[_Described], known: Sequence[TraceMetadata]) -> tuple[int, int] | None:
    """Return what the bounds of all parts cover."""
    found = [
        (bounds[0] + part.offset_ns, bounds[1] + part.offset_ns)
        for (part, snapshot, _), each in zip(parts, known, strict=True)
        if not _is_empty(snapshot)
        for bounds in [each.bounds or (snapshot.segments.start_ns, snapshot.segments.end_ns)]
    ]
    if not found:
        return None
    return min(begin_ns for begin_ns, _ in found), max(finish_ns for _, finish_ns in found)


def _by_quark(parts: Sequence[_Described], fields: Sequence[Mapping[int, Any]]) -> dict[int, Any]:
    return {
        int(number.quark_of[quark]): value
        for (_, _, number), field in zip(parts, fields, strict=True)
        for quark, value in field.items()
    }


def _facts(parts: Sequence[_Described], known: Sequence[TraceMetadata]) -> dict[str, str]:
    """Return the facts of all parts; those that differ are given for each."""
    values: dict[str, dict[str, str]] = {}
    for (part, _, _), each in zip(parts, known, strict=True):
        for name, value in each.facts.items():
            values.setdefault(name, {})[part.name] = value
    facts = {}
    for name, by_part in values.items():
        if len(by_part) == len(parts) and len({*by_part.values()}) == 1:
            facts[name] = next(iter(by_part.values()))
        else:
            facts |= {f"{name} of {part}": value for part, value in by_part.items()}
    return facts


def _lanes(parts: Sequence[_Described], known: Sequence[TraceMetadata]) -> list[LaneDeclaration]:
    """Return the declarations: one for all hosts, unless it means something else on another."""
    owners: dict[LaneDeclaration, list[int]] = {}
    for index, each in enumerate(known):
        for declaration in each.lanes:
            owners.setdefault(declaration, []).append(index)
    lanes = []
    for declaration, indices in owners.items():
        others = (
            snapshot
            for index, (part, snapshot, _) in enumerate(parts)
            if index not in indices or not part.aligned
        )
        if not any(len(other.attributes.quarks(declaration.pattern)) for other in others):
            lanes.append(replace(declaration, pattern=f"{HOSTS}/*/{declaration.pattern}"))
            continue
        for index in indices:
            part = parts[index][0]
            host = format_pattern((HOSTS, part.name))
            label = f"{declaration.name} of {part.name}{'' if part.aligned else ', not aligned'}"
            pattern = f"{host}/{declaration.pattern}"
            lanes.append(replace(declaration, pattern=pattern, label=label))
    return lanes
