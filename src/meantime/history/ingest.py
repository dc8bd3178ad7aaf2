"""Reading a trace into a history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.history.batches import Border
from meantime.history.builder import HistoryBuilder
from meantime.history.provider_runner import ProviderRunner
from meantime.kernels import gather
from meantime.model.attribute_paths import VALUE, location_path
from meantime.model.columns import distinct, ranked
from meantime.model.input_path import EVENTS_NOT_FOUND
from meantime.model.trace import (
    Arguments,
    Counters,
    Events,
    Flows,
    Points,
    Samples,
    Spans,
    StateChanges,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    from meantime.history.history import History
    from meantime.history.provider_runner import Provider
    from meantime.model.columns import Int32s
    from meantime.model.trace import Batch, Trace

__all__ = ["build", "ingest"]

# The position of a build without a provider: it can only be read again, skipping what was stored.
_BEGINNING = "the beginning"


def build(trace: Trace, path: str | PathLike[str] | None = None) -> History:
    """Return the history of a trace; its batches are consumed.

    With a path it is stored in that directory, which is created.

    The history ends at the end of the trace's bounds, or just after the last change if that is
    later. An entity's magnitudes become its child attribute `value`.

    Raises:
        InputError: If the trace cannot be read.
        OutputError: If the directory exists or cannot be written.
        TimeOrderError: If an entity's changes go backwards.
    """
    return ingest(HistoryBuilder(path), trace)


def ingest(
    builder: HistoryBuilder,
    trace: Trace,
    provider: Provider | None = None,
    *,
    after: Callable[[ProviderRunner], None] | None = None,
) -> History:
    """Return the history of a trace, with states that a provider derives from its events.

    The builder may be a resumed one: without a provider the trace is read from its beginning,
    with one from the `input` of its position. `after` is called after each batch of
    events.

    Raises:
        InputError: If the trace cannot be read, or has no events for the provider.
        ProviderError: If the provider fails.
        TimeOrderError: If an entity's changes go backwards.
        UsageError: If a part of the trace was left out, and the builder stores histories.
    """
    runner = None
    if provider is not None:
        runner = ProviderRunner(builder, provider, after=after)
    elif builder.position is None:
        builder.position = _BEGINNING
    tables = _Tables(builder, trace, runner)
    is_resumed = builder.position is not None and provider is not None
    tables.put_all()
    # a declared provider knows which events it is about
    not_found = getattr(provider, "events_not_found", None)
    if not_found is not None and not is_resumed:
        missing, is_none = not_found()
        if is_none:
            raise InputError(
                trace.source,
                f"none of it is used: it has no event {missing}, which the provider is about;"
                " `meantime dump --kind events FILE` prints those that it has",
            )
        if missing:
            trace.anomalies.add("no_such_event")
            trace.facts[EVENTS_NOT_FOUND] = missing
    builder.end_states(
        [(int(tables.quark_of[entity]), time_ns) for entity, time_ns in trace.ends.items()]
    )
    for tag, fields in enumerate(trace.tags):
        builder.define_tag(tag, fields)
    for lane in trace.lanes:
        builder.lanes(
            lane.pattern,
            kind=lane.kind,
            entity_kind=lane.entity_kind,
            label=lane.label,
            states=lane.states,
            unit=lane.unit,
            short_lived=lane.short_lived,
        )
    contents, catalogue = builder.contents, builder.contents.catalogue
    built = catalogue.metadata
    provenance = built.provenance
    if provenance:
        # a manifest has the count only there
        provenance = {**provenance, "records": str(trace.records)}
    # lanes and anomalies were added to the builder's above: a provider may have its own
    catalogue.metadata = replace(
        trace.by_quark(tables.quark_of),
        lanes=built.lanes,
        anomalies=built.anomalies,
        bounds=trace.bounds if runner is None else built.bounds,
        provenance=provenance,
    )
    contents.events.set_text(trace.text)
    if trace.stacks is not None:
        contents.events.stacks = trace.stacks
    catalogue.found.update(dict(trace.anomalies))
    return builder.close(None if trace.bounds is None else trace.bounds[1])


class _Tables:
    """What the codes of a trace are in the history; both grow while the trace is read."""

    def __init__(
        self, builder: HistoryBuilder, trace: Trace, runner: ProviderRunner | None
    ) -> None:
        self._builder = builder
        self._contents = builder.contents
        self._trace = trace
        self._runner = runner
        self._border = Border(trace)
        self.quark_of: Int32s = np.empty(0, np.int32)
        # also of what the paths are below
        self._attributes: Int32s = np.empty(0, np.int32)
        self._is_identity = True
        self._magnitude_of: Int32s = np.empty(0, np.int32)
        self._code_of: Int32s = np.empty(0, np.int32)

    def put_all(self) -> None:
        """Put every batch, and keep a reference to none of them."""
        try:
            self._put_each(self._trace.batches)
        finally:
            self._trace.close()
        self._border.finish()
        if self._runner is None:
            self.grow()

    def _put_each(self, batches: Iterator[Batch]) -> None:
        for batch in batches:
            # a reader knows whether it leaves something out once it knows the trace's clock
            if self._trace.range_ns is not None and self._builder.on_disk:
                raise UsageError(
                    f"{self._trace.source}: a part of it was read, which is not stored"
                )
            self._border.check(batch)
            if self._runner is not None and isinstance(batch, Events):
                # a provider may add spans, whose arguments are put behind the trace's own
                self._contents.events.set_text(self._trace.text)
                self._runner.run(batch)
                continue
            if self._runner is not None:
                self._runner.saves = False
                # only samples may come before the first event
                if not self._runner.begun and not isinstance(batch, Samples):
                    break
            if self._builder.keeps_events or isinstance(batch, StateChanges | Counters):
                self.grow()
                self._put(batch)
        if self._runner is not None and not self._runner.begun and not self._runner.saves:
            raise InputError(
                self._trace.source,
                f"a provider needs events, and a {self._trace.format} trace has none",
            )

    def _put(self, batch: Batch) -> None:
        if isinstance(batch, StateChanges):
            self.put_changes(batch)
            return
        if isinstance(batch, Counters):
            self.put_counters(batch)
            return
        with self._builder.adding() as adds:
            if adds:
                self._add(batch)

    def _add(self, batch: Batch) -> None:
        events, trace = self._contents.events, self._trace
        events.set_text(trace.text)
        if trace.stacks is not None:
            events.stacks = trace.stacks
        if isinstance(batch, Spans):
            self.add_spans(batch)
        elif isinstance(batch, Samples):
            events.add_samples(batch, self.quark_of, self._code_of)
        elif isinstance(batch, Points):
            self.add_points(batch)
        elif isinstance(batch, Flows):
            self.add_flows(batch)
        elif isinstance(batch, Events):
            self.add_events(batch)
        else:
            raise TypeError(f"a history cannot store {type(batch).__name__}")

    def add_spans(self, batch: Spans) -> None:
        categories = self._contents.catalogue.strings.codes(self._trace.categories)
        self._contents.events.add_spans(batch, self.quark_of, self._code_of, categories)

    def grow(self) -> None:
        catalogue, trace = self._contents.catalogue, self._trace
        if len(trace.paths) > len(self.quark_of):
            paths = trace.paths
            self._attributes = catalogue.attributes.add_tree(paths.attributes, self._attributes)
            quarks = self._attributes[paths.attributes_from(len(self.quark_of))]
            self.quark_of = np.append(self.quark_of, quarks)
            self._is_identity = gather.is_counting(self.quark_of)
        if len(trace.values) > len(self._code_of):
            codes = catalogue.strings.codes(trace.values[len(self._code_of) :])
            self._code_of = np.append(self._code_of, codes)

    def put_changes(self, batch: StateChanges) -> None:
        tag = batch.tag if len(self._trace.tags) else None
        quarks = batch.entity if self._is_identity else self.quark_of.take(batch.entity)
        self._builder.put_codes(batch.time_ns, quarks, batch.state, self._code_of, tag)
        if batch.magnitude is not None:
            rows = np.flatnonzero(~np.isnan(batch.magnitude))
            # of two magnitudes at one time, the states that have them are counted
            with self._contents.store.not_counting():
                self._builder.modify_many(
                    batch.time_ns[rows],
                    self._magnitudes(batch.entity[rows]),
                    batch.magnitude[rows],
                )

    def _magnitudes(self, entities: Int32s) -> Int32s:
        """Return the attributes of these entities' numeric values, creating those missing."""
        more = len(self.quark_of) - len(self._magnitude_of)
        self._magnitude_of = np.append(self._magnitude_of, np.full(more, -1, np.int32))
        for entity in distinct(entities[self._magnitude_of[entities] < 0]).tolist():
            quark = self._builder.quark(VALUE, parent=int(self.quark_of[entity]))
            self._magnitude_of[entity] = quark
        return self._magnitude_of[entities]

    def add_points(self, batch: Points) -> None:
        quarks, names = self.quark_of[batch.entity], self._code_of[batch.name]
        flow = batch.target >= 0
        events = self._contents.events
        if not flow.all():
            alone, arguments = ~flow, batch.arguments
            if arguments is not None:
                arguments = Arguments(arguments.offset[alone], arguments.length[alone])
            events.add_points(batch.time_ns[alone], quarks[alone], names[alone], arguments)
        if flow.any():
            time_ns = batch.time_ns[flow]
            targets = self.quark_of[batch.target[flow]]
            events.add_flows(time_ns, quarks[flow], time_ns, targets, names[flow])

    def add_events(self, batch: Events) -> None:
        """Add events as points of the threads, processes or CPUs that they happened on."""
        names = batch.name
        self.grow()
        cpus, which = ranked(batch.cpu)
        pids, pid = ranked(batch.pid)
        tids, tid = ranked(batch.tid)
        # one number for each location, smaller than the square of the number of rows
        cpu_and_pid, which = ranked(which * len(pids) + pid)
        places, which = ranked(which * len(tids) + tid)
        above, tid = np.divmod(places, len(tids))
        cpu, pid = np.divmod(cpu_and_pid[above], len(pids))
        ids = zip(cpus[cpu].tolist(), pids[pid].tolist(), tids[tid].tolist(), strict=True)
        quark = np.array([self._builder.quark(*location_path(*each)) for each in ids], np.int32)
        quark = quark[which]
        self._contents.events.add_points(batch.time_ns, quark, self._code_of[names])

    def put_counters(self, batch: Counters) -> None:
        self._builder.modify_many(batch.time_ns, self.quark_of[batch.entity], batch.value)

    def add_flows(self, batch: Flows) -> None:
        self._contents.events.add_flows(
            batch.from_ns,
            self.quark_of[batch.from_entity],
            batch.to_ns,
            self.quark_of[batch.to_entity],
            self._code_of[batch.name],
        )
