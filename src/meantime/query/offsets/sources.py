"""The inputs of a map of offsets: a history, or samples that are counted while they are read."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol, cast

from meantime.errors import InputError, UsageError
from meantime.history.samples import ALL_EVENTS
from meantime.model.clocks import with_utc
from meantime.model.columns import distinct
from meantime.model.extent import Extent
from meantime.model.service_spans import SERVICE
from meantime.query.offsets.gather import kind_of, of_event, offset_map
from meantime.query.offsets.streaming import SampleStream
from meantime.query.parts import extent_of
from meantime.query.sample_units import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from meantime.history.history import History
    from meantime.model.trace import Samples, Trace
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.gather import Choice
    from meantime.query.offsets.map import Kind, OffsetMap
    from meantime.query.ranges import Range

__all__ = ["HistorySource", "MapSource", "SampleSource"]

_BY: dict[Kind, str] = {"samples": "name", "spans": "name", "states": "state"}
_SAMPLES_BY = ("name", "thread", "process", "cpu", "event", "host")


class MapSource(Protocol):
    """An input that can be mapped.

    Attributes:
        path: Its name in errors.
        extent: The range that it covers, in which texts become times; its end may not be known
            before it is mapped.
        first_ns: Its beginning, or a time any whole number of periods from that.
        bounds: The range that it covers; final once it is mapped.
    """

    path: str
    extent: Extent
    first_ns: int

    @property
    def has_messages(self) -> bool:
        """Whether it has what hosts sent each other; of a stream final once it is mapped."""

    @property
    def bounds(self) -> Range:
        """The range that it covers; final once it is mapped."""

    def mapped(
        self, fold: Fold, choice: Choice, *, name: str, offset_ns: int
    ) -> tuple[OffsetMap, str]:
        """Return the map, and what it is grouped by.

        Args:
            fold: The cells, in the times of the map.
            choice: What is mapped; without `by`, the content of the source decides the grouping.
            name: The name of this source in the map.
            offset_ns: What to add to the source's times to get the map's.

        Raises:
            InputError: If there is no such event, or there are several and none is chosen.
            UsageError: If the source cannot be grouped this way.
        """


class HistorySource:
    """A history."""

    def __init__(self, history: History, path: str) -> None:
        self.path = path
        self.extent: Extent = extent_of(history)
        self.bounds: Range = history.bounds
        self.first_ns: int = self.bounds[0]
        self._history = history

    @property
    def has_messages(self) -> bool:
        """Whether it has calls between services, or packets of TCP."""
        from meantime.query.packets import is_of_packets  # noqa: PLC0415 - of several inputs

        lanes = self._history.lanes
        return any(lane.declaration.entity_kind == SERVICE for lane in lanes) or any(
            is_of_packets(name) for name in self._history.points().name.names
        )

    def mapped(
        self, fold: Fold, choice: Choice, *, name: str, offset_ns: int
    ) -> tuple[OffsetMap, str]:
        """See `MapSource.mapped`."""
        history, path = self._history, self.path
        kind = kind_of(history, choice)
        if kind == "states" and choice.event is not None:
            raise InputError(path, "there are no samples and no spans for --event")
        counts = events(history) if kind == "samples" else {}
        if kind == "samples" and choice.event is not None and choice.event not in counts:
            called = int(of_event(history.samples(event=ALL_EVENTS), choice.event).sum())
            counts |= {choice.event: called} if called else {}
        if kind == "spans" and choice.event is not None:
            spans = history.spans().name
            if all(spans.names[code] != choice.event for code in distinct(spans.codes).tolist()):
                raise InputError(path, f"there is no span {choice.event!r}")
        by = _decided(path, choice, kind, counts)
        decided = replace(choice, by=by)
        if choice.y != "offset":
            from meantime.query.offsets.axis_maps import axis_map  # noqa: PLC0415 - of other rows

            return axis_map(history, fold, decided, source=name, offset_ns=offset_ns), by
        return offset_map(history, fold, decided, source=name, offset_ns=offset_ns), by


class SampleSource:
    """The samples of a trace, counted while they are read and not kept.

    A second way to the same map beside `HistorySource`, for speed and memory: perf text is read
    without its stacks, and only the cells stay, so that the memory a map takes does not grow with
    the text.
    """

    # Any whole number of periods from where the samples begin serves as the beginning.
    first_ns = 0

    def __init__(self, trace: Trace, path: str) -> None:
        self.path = path
        self._trace = trace
        # The clock is known after the first batch, and so is the first time unless times go back.
        first = next(trace.batches, None)
        rest = chain([] if first is None else [first], trace.batches)
        self._batches = cast("Iterator[Samples]", rest)
        self._events: Iterable[str] = ()
        # only samples are streamed, and their batches are not empty
        start_ns = 0 if first is None else int(cast("Samples", first).time_ns.min())
        self.extent: Extent = Extent(start_ns, start_ns, with_utc(trace.clock, start_ns))

    @property
    def has_messages(self) -> bool:
        """Whether it has packets of TCP; known once it is mapped."""
        from meantime.query.packets import is_of_packets  # noqa: PLC0415 - of several inputs

        return any(map(is_of_packets, self._events))

    @property
    def bounds(self) -> Range:
        """The range that it covers; final once it is mapped."""
        return self._trace.bounds or (0, 0)

    def mapped(
        self, fold: Fold, choice: Choice, *, name: str, offset_ns: int
    ) -> tuple[OffsetMap, str]:
        """See `MapSource.mapped`."""
        if choice.by is not None and choice.by not in _SAMPLES_BY:
            raise UsageError(
                f"cannot group samples by {choice.by!r}; choose one of: {', '.join(_SAMPLES_BY)}"
            )
        if choice.value not in {None, "count", "weight"}:
            raise UsageError(f"samples have no {choice.value}; choose one of: count, weight")
        stream = SampleStream(self._trace, fold, choice, offset_ns=offset_ns)
        stream.read(self._batches)
        self._events = stream.counts
        by = _decided(self.path, choice, "samples", dict(stream.counts.most_common()))
        return stream.found(name, by), by


def _decided(path: str, choice: Choice, kind: Kind, counts: Mapping[str, int]) -> str:
    """Return what a map is grouped by; different events are never mixed implicitly."""
    listed = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    if kind == "samples" and choice.event is not None and choice.event not in counts:
        raise InputError(path, f"there is no event {choice.event!r}; choose one of: {listed}")
    several = len(counts) > 1 and choice.event is None
    # an entity has a share of the time, whatever it does then
    usual = {"states": "name", "spans": "thread"}.get(kind) if choice.y == "utilisation" else None
    by = choice.by or usual or ("event" if several else _BY[kind])
    if several and by != "event":
        raise InputError(
            path, f"there are samples of several events; choose one with --event: {listed}"
        )
    return by
