"""Everything a history consists of while it is being built, and snapshots of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from weakref import ref

import numpy as np

from meantime.errors import (
    HistoryError,
    InputError,
    QuarkError,
    StateTypeError,
    TimeOrderError,
    TimeRangeError,
)
from meantime.history.event_summary import ThreadRanks, event_range, overlapping_spans, thread_ranks
from meantime.history.events import EventStore
from meantime.history.numbers import OUTSIDE, quark_of, quarks_of
from meantime.history.pyramid import Pyramids
from meantime.history.sealed import SealedSegments
from meantime.history.segment import Limits
from meantime.history.snapshot import Present, Snapshot
from meantime.history.store import Store
from meantime.history.values import KIND_NAMES
from meantime.kernels.tail import BACKWARDS, NO_CODE, NO_QUARK, NO_TIME
from meantime.model.clocks import with_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue
    from meantime.history.changes import TypedChanges
    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.source import Source
    from meantime.history.tables import Tables
    from meantime.kernels.tail import Direct
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s
    from meantime.model.metadata import TraceMetadata

__all__ = ["Contents"]

_INT32 = np.iinfo(np.int32)


class Contents:
    """The changes, names, metadata and event tables of a history that is being built.

    It is independent of the order of operations and of a directory: a builder puts data in, and
    an unfinished history on disk is read back into it.

    Args:
        catalogue: Names, tags and metadata.
        reorder_ns: How late the changes of an attribute may come.
        forget: Keep only the current state of each attribute.

    Attributes:
        catalogue: Names, tags and metadata.
        store: The changes.
        events: The rows of the event tables.
        direct: Puts single changes past all checks but the kernel's; None where that is impossible:
            before the first change, after the last, after a failure, or if changes are reordered.
    """

    def __init__(self, catalogue: Catalogue, *, reorder_ns: int = 0, forget: bool = False) -> None:
        self.catalogue = catalogue
        # A cycle would keep the store's buffers, 30 MB, until the next garbage collection.
        contents = ref(self)

        def refuse(status: int, time_ns: int, quark: int, kind: int) -> None:
            found = contents()
            assert found is not None
            found.refuse(status, time_ns, quark, kind)

        self.store: Store = Store(refuse, reorder_ns=reorder_ns, forget=forget)
        self.events: EventStore = EventStore()
        self.direct: Direct | None = None
        self._ranks: ThreadRanks | None = None

    @property
    def attributes(self) -> Attributes:
        """The attribute tree so far."""
        return self.catalogue.attributes

    def restore(self, loaded: LoadedHistory) -> None:
        """Continue from the segments and logged changes of an unfinished history.

        Raises:
            InputError: If its segments are damaged, or changes in its log contradict each other.
        """
        self.store.reserve(len(self.attributes))
        if loaded.events is not None:
            self.events = loaded.events
        try:
            self.store.resume(loaded)
        except HistoryError as error:
            raise InputError(
                str(loaded.path),
                f"the log is invalid: {error}; `meantime check --salvage` recovers the intact part",
            ) from None

    def put_verbatim(self, changes: TypedChanges) -> None:
        """Append changes of a history with the same names, including those that change nothing."""
        self.store.reserve(len(self.attributes))
        self.store.put_verbatim(changes)

    def kinds(self) -> npt.NDArray[np.uint8]:
        """Return the type of each attribute's values, by quark."""
        self.store.reserve(len(self.attributes))
        return self.store.kinds(len(self.attributes))

    def present(self) -> Present | None:
        """Return what the states now are found in; None if only a snapshot has them.

        It is valid until the next operation.
        """
        quarks = len(self.attributes)
        self.store.reserve(quarks)
        states = self.store.sealer.live(self.catalogue.start_ns)
        if states is None:
            return None
        if self.events.range_ns is not None:
            states.start_ns = min(states.start_ns, self.events.range_ns[0])
            states.end_ns = max(states.end_ns, self.events.range_ns[1])
        names = self.catalogue.strings.names
        kinds = self.store.kinds(quarks)
        return Present(states, self.attributes, names, kinds, built=False, known_from_ns=None)

    def snapshot(self) -> Snapshot:
        """Return the history as it is now; later changes do not alter it."""
        store = self.store.copy()
        store.reserve(len(self.attributes))
        start_ns, end_ns = self.catalogue.start_ns, None
        if self.events.range_ns is not None:
            start_ns, end_ns = min(start_ns, self.events.range_ns[0]), self.events.range_ns[1]
        segments = store.finish(start_ns, end_ns)
        segments.pyramids = self._pyramids(segments)
        return self.snapshot_of(segments, self._tables(), built=False)

    def with_events(self, before: Snapshot) -> Snapshot:
        """Return a snapshot with the same states, and with the event tables as they are now."""
        states, range_ns = before.segments, self.events.range_ns
        assert isinstance(states, SealedSegments)
        segments = states
        if range_ns is not None:
            start_ns, end_ns = min(states.start_ns, range_ns[0]), max(states.end_ns, range_ns[1])
            segments = SealedSegments(states.segments, start_ns, end_ns)
            segments.extremes, segments.overview = states.extremes, states.overview
            segments.pyramids = self._pyramids(segments)
        return self.snapshot_of(segments, self._tables(), built=False)

    def _tables(self) -> Tables:
        if self._ranks is None or self._ranks.catalogue is not self.catalogue:
            self._ranks = ThreadRanks(self.catalogue)
        return self.events.snapshot(self.catalogue.strings.names, self._ranks)

    def _pyramids(self, segments: SealedSegments) -> Pyramids:
        """Return the pyramids of the segments that the next snapshot has too."""
        lasting = 0
        for segment, sealed in zip(segments.segments, self.store.sealer.segments, strict=False):
            if segment is not sealed:
                break
            lasting += 1
        kinds = self.kinds()
        limits = Limits(kinds, len(self.catalogue.strings.names), len(self.catalogue.tags))
        return Pyramids(segments, segments.segments[:lasting], kinds, limits, growing=True)

    def _with_extent(self, metadata: TraceMetadata, segments: Source) -> TraceMetadata:
        """Return metadata with bounds, and with the date if the times are dates.

        Unless they are known, the bounds begin at the first change, or where the user chose.
        """
        if metadata.bounds is None and self.events.range_ns is not None:
            metadata = replace(metadata, bounds=self._covered(self.events.range_ns))
        if metadata.bounds is None and not self.catalogue.begins_at_start:
            first_ns = self.store.start_ns(segments.end_ns)
            if first_ns < segments.end_ns:
                metadata = replace(metadata, bounds=(first_ns, segments.end_ns))
        first_ns = segments.start_ns if metadata.bounds is None else metadata.bounds[0]
        return replace(metadata, clock=with_utc(metadata.clock, first_ns))

    def _covered(self, range_ns: tuple[int, int], end_ns: int | None = None) -> tuple[int, int]:
        """Return the range of events and of changes together, up to where the history ends."""
        first_ns, last_ns = range_ns
        if self.store.latest_ns > last_ns:
            # where the last change is where events end, states end there, too
            last_ns = self.store.latest_ns + 1
        if end_ns is not None:
            last_ns = max(last_ns, end_ns)
        return self.store.start_ns(first_ns), last_ns

    def snapshot_of(self, segments: Source, tables: Tables, *, built: bool) -> Snapshot:
        """Return a snapshot of these intervals and event tables."""
        catalogue = self.catalogue
        return Snapshot(
            segments,
            catalogue.attributes.so_far(),
            catalogue.strings.names,
            self.kinds(),
            built,
            self.store.known_from_ns(len(self.attributes)),
            catalogue.tags,
            tables,
            self._with_extent(catalogue.final_metadata(self.store.sealer.replaced), segments),
        )

    def finish(
        self, end_ns: int | None, tables: Tables | None, overlapping: int | None = None
    ) -> Snapshot:
        """Seal all changes and sort the event tables.

        Args:
            end_ns: Where the history ends, if no change is later.
            tables: Used instead of what was added, if given.
            overlapping: How many spans overlap others of their thread; None counts them.
        """
        catalogue = self.catalogue
        range_ns = self.events.range_ns
        if tables is None:
            names = catalogue.strings.names
            tables = self.events.finish(names, partial(thread_ranks, catalogue))
        elif overlapping is None:
            range_ns = event_range(tables.spans, tables.samples)
        if overlapping is None:
            overlapping = overlapping_spans(self.attributes, tables.spans)
        catalogue.found["overlapping_span"] = overlapping
        bounds, start_ns = catalogue.metadata.bounds, catalogue.start_ns
        if bounds is None:
            bounds = None if range_ns is None else self._covered(range_ns, end_ns)
            catalogue.metadata = replace(catalogue.metadata, bounds=bounds)
        if bounds is not None:
            start_ns = min(start_ns, bounds[0])
            end_ns = max(bounds[1], bounds[1] if end_ns is None else end_ns)
        segments = self.store.finish(start_ns, end_ns)
        # here, so that a directory stores it
        catalogue.metadata = self._with_extent(catalogue.metadata, segments)
        return self.snapshot_of(segments, tables, built=True)

    def checked_quark(self, quark: int) -> int:
        """Return a quark as an int.

        Raises:
            QuarkError: If the attribute does not exist.
        """
        quark = quark_of(quark)
        if not 0 <= quark < len(self.attributes):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has"
                f" {len(self.attributes):,}"
            )
        return quark

    def quark_column(self, quarks: Sequence[int] | Int32s) -> Int32s:
        """Return quarks as contiguous 32 bits; the store rejects those of no attribute.

        Raises:
            QuarkError: If one does not fit.
            TypeError: If one is a float or no number.
        """
        if isinstance(quarks, np.ndarray) and quarks.dtype == np.int32 and quarks.ndim == 1:
            return np.ascontiguousarray(quarks)
        numbers = quarks_of(quarks)
        if len(numbers):
            for quark in (int(numbers.min()), int(numbers.max())):
                if not _INT32.min <= quark <= _INT32.max:
                    self.checked_quark(quark)
        return numbers.astype(np.int32)

    def checked_tag(self, tag: int) -> int:
        """Return a tag.

        Raises:
            QuarkError: If it is not defined.
        """
        if not 0 <= tag < len(self.catalogue.tags):
            raise QuarkError(f"{tag} is not a tag: {len(self.catalogue.tags):,} are defined")
        return tag

    def refuse(self, status: int, time_ns: int, quark: int, kind: int) -> NoReturn:
        """Raise the error that explains why the store rejected a change."""
        if status == NO_QUARK:
            self.checked_quark(quark)
        name = self.attributes.text(quark)
        if status == NO_TIME:
            raise TimeRangeError(f"{name}: a change at {time_ns} ns: {OUTSIDE}")
        if status == NO_CODE:
            raise ValueError(f"{name}: a code at {time_ns} ns has no string in its column")
        if status == BACKWARDS:
            raise TimeOrderError(
                f"{name}: a change at {time_ns} ns comes after one at"
                f" {self.store.last_change_ns(quark)} ns; put the changes of an attribute in"
                " order of time, or set reorder_ns of the builder or the provider to how late they"
                " may be"
            )
        has = KIND_NAMES[self.store.kind(quark)]
        raise StateTypeError(f"{name} has type {has}: it cannot be set to {KIND_NAMES[kind]}")
