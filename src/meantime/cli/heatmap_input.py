"""One input of `meantime heatmap`: a history, or samples that are mapped while they are read."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, cast

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.query.offsets import SampleStream, events, kind_of, of_event, offset_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.clocks import Clock
    from meantime.history import History
    from meantime.query.offsets import Choice, Fold, Kind, OffsetMap
    from meantime.query.offsets.ranges import Range
    from meantime.trace import Samples, Trace

__all__ = ["HeldInput", "StreamedInput"]

_BY: dict[Kind, str] = {"samples": "name", "spans": "name", "states": "state"}
_SAMPLES_BY = ("name", "thread", "process", "cpu", "event", "host")


class HeldInput:
    """An input that is held as a history.

    Attributes:
        clock: The clock its times count.
        first_ns: When it begins.
        bounds: What it covers.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self.clock: Clock = history.clock
        self.bounds: Range = history.bounds
        self.first_ns = self.bounds[0]

    def mapped(
        self, path: str, fold: Fold, choice: Choice, *, source: str, offset_ns: int
    ) -> tuple[OffsetMap, str]:
        """Return the map, and what it is taken apart by.

        Raises:
            InputError: If there is no such event, or there are several and none is chosen.
            UsageError: If it cannot be taken apart so.
        """
        history = self._history
        kind = kind_of(history, choice)
        counts = events(history) if kind == "samples" else {}
        if kind == "samples" and choice.event is not None and choice.event not in counts:
            called = int(of_event(history.samples(), choice.event).sum())
            counts |= {choice.event: called} if called else {}
        if kind == "spans" and choice.event is not None:
            spans = history.spans().name
            if all(spans.names[code] != choice.event for code in np.unique(spans.codes).tolist()):
                raise InputError(path, f"there is no span {choice.event!r}")
        by = _decided(path, choice, kind, counts)
        decided = replace(choice, by=by)
        return offset_map(history, fold, decided, source=source, offset_ns=offset_ns), by


class StreamedInput:
    """Samples that are not held; see `HeldInput`. What it covers is known once it is mapped.

    Any whole number of periods from where it begins serves as its beginning.
    """

    first_ns = 0

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # The clock is known from the first batch on.
        first = next(trace.batches, None)
        rest = chain([] if first is None else [first], trace.batches)
        self._batches = cast("Iterator[Samples]", rest)
        self.clock: Clock = trace.clock

    @property
    def bounds(self) -> Range:
        """What it covers, once it is mapped."""
        return self._trace.bounds or (0, 0)

    def mapped(
        self, path: str, fold: Fold, choice: Choice, *, source: str, offset_ns: int
    ) -> tuple[OffsetMap, str]:
        """Return the map, and what it is taken apart by; see `HeldInput.mapped`."""
        if choice.by is not None and choice.by not in _SAMPLES_BY:
            raise UsageError(
                f"samples cannot be taken apart by {choice.by}: {', '.join(_SAMPLES_BY)}"
            )
        if choice.value not in {None, "count", "weight"}:
            raise UsageError(f"samples have no {choice.value}: count, weight")
        stream = SampleStream(self._trace, fold, choice, offset_ns=offset_ns)
        stream.read(self._batches)
        by = _decided(path, choice, "samples", dict(stream.counts.most_common()))
        return stream.found(source, by), by


def _decided(path: str, choice: Choice, kind: Kind, counts: Mapping[str, int]) -> str:
    """Return what a map is taken apart by: events are never mixed unsaid."""
    listed = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    if kind == "samples" and choice.event is not None and choice.event not in counts:
        raise InputError(path, f"there is no event {choice.event!r}: {listed}")
    several = len(counts) > 1 and choice.event is None
    by = choice.by or ("event" if several else _BY[kind])
    if several and by != "event":
        raise InputError(path, f"samples are of several events; choose with --event: {listed}")
    return by
