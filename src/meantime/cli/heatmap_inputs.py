"""The map of all inputs: each is read, mapped in the times of the first, and added."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from meantime.cli.inputs import load, resolve
from meantime.cli.progress import progress_bar
from meantime.clocks import align
from meantime.errors import InputError, TimeRangeError, UsageError
from meantime.history import build
from meantime.query.offsets import Choice, Fold, events, kind_of, offset_map
from meantime.readers import perf, recognise
from meantime.readers.contract import ReadOptions
from meantime.readers.source import open_source
from meantime.units import parse_duration, parse_instant

if TYPE_CHECKING:
    from meantime.clocks import Clock
    from meantime.history import History
    from meantime.query.offsets import OffsetMap, Value

__all__ = ["Request", "added"]

_MINUTE_NS = 60 * 10**9
_ROWS = {_MINUTE_NS: 60, 60 * _MINUTE_NS: 60, 1440 * _MINUTE_NS: 96, 10080 * _MINUTE_NS: 168}


@dataclass(frozen=True, slots=True)
class Request:
    """What of which inputs is mapped, as the command line says it."""

    inputs: tuple[str, ...]
    period_ns: int
    rows: int
    origin: str | None
    choice: Choice
    range_text: tuple[str | None, str | None]
    offsets_ns: dict[str, int]
    assume_aligned: bool
    lenient: bool
    jobs: int

    @classmethod
    def of(cls, options: dict[str, Any]) -> Request:
        """Return what the options ask for.

        Raises:
            UsageError: If they contradict each other.
        """
        period_ns = parse_duration(options["period"])
        if options["weight"] and options["value"] not in {None, "weight"}:
            raise UsageError(f"--weight and --value {options['value']} contradict each other")
        value = "weight" if options["weight"] else options["value"]
        if value in {"concurrency", "utilisation"}:
            value = "ns"
        offsets_ns = {}
        for text in options["offsets"]:
            file, _, offset = text.rpartition("=")
            if file not in options["inputs"]:
                raise UsageError(f"--offset {text!r}: write an input, = and a time")
            offsets_ns[file] = parse_duration(offset)
        rows = options["rows"]
        if rows is None:
            rows = _ROWS.get(period_ns, max(1, min(50, period_ns)))
        Fold(0, period_ns, rows)
        return cls(
            tuple(options["inputs"]),
            period_ns,
            rows,
            options["origin"],
            Choice(
                value=cast("Value | None", value),
                by=options["by"],
                event=options["event"],
                states=tuple(options["states"]),
            ),
            (options["from_"], options["to"]),
            offsets_ns,
            options["assume_aligned"],
            options["lenient"],
            options["jobs"],
        )


@dataclass(frozen=True, slots=True)
class _Reference:
    """What the first input decides for the others."""

    clock: Clock
    fold: Fold
    choice: Choice


def added(request: Request) -> OffsetMap:
    """Return the map of all inputs, in the times of the first one.

    Raises:
        InputError: If an input cannot be read, or its clock cannot be aligned with the first's.
        UsageError: If what is asked for does not fit what the inputs hold.
    """
    first, *others = request.inputs
    history = _history(first, request)
    reference = _reference(history, request)
    found = [_mapped(first, history, request, reference)]
    del history
    jobs = min(request.jobs, len(others))
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            tasks = [pool.submit(_read, path, request, reference) for path in others]
            found += [task.result() for task in tasks]
    else:
        found += [_read(path, request, reference) for path in others]
    together = reduce(add, found)
    if request.choice.states and not len(together.total.number):
        patterns = ", ".join(request.choice.states)
        raise InputError(first, f"nothing is ever in a state that --state {patterns} means")
    return together if request.origin is not None else together.from_first_column()


def _read(path: str, request: Request, reference: _Reference) -> OffsetMap:
    return _mapped(path, _history(path, request), request, reference)


def _history(path: str, request: Request) -> History:
    """Return the history of an input; a heat map needs no stacks, and text is mostly stacks."""
    if Path(path).is_dir():
        return load(path, lenient=request.lenient).history
    source = open_source(path)
    try:
        reader = recognise(source)
    except BaseException:
        source.close()
        raise
    with progress_bar(f"reading {path}") as progress:
        options = ReadOptions(lenient=request.lenient, progress=progress)
        if reader.FORMAT == perf.FORMAT:
            return build(perf.read(source, options, stacks=False))
        return build(reader.read(source, options))


def _reference(history: History, request: Request) -> _Reference:
    start_ns, end_ns = (resolve(text, history.clock) for text in request.range_text)
    window = (
        history.bounds[0] if start_ns is None else start_ns,
        history.bounds[1] if end_ns is None else end_ns,
    )
    if window[0] >= window[1]:
        raise UsageError(f"the range from {window[0]} to {window[1]} ns is empty")
    choice = request.choice
    if start_ns is not None or end_ns is not None:
        choice = replace(choice, window=window)
    choice = _chosen(history, choice, request)
    origin_ns = _origin_ns(request, window[0], history.clock)
    return _Reference(history.clock, Fold(origin_ns, request.period_ns, request.rows), choice)


def _chosen(history: History, choice: Choice, request: Request) -> Choice:
    """Return the choice with what was left open decided: events are never mixed unsaid."""
    kind = kind_of(history, choice)
    counts = events(history) if kind == "samples" else {}
    by = choice.by
    if by is None:
        by = {"samples": "name", "spans": "name", "states": "state"}[kind]
        if len(counts) > 1 and choice.event is None:
            by = "event"
    if kind == "samples" and choice.event is not None and choice.event not in counts:
        listed = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
        raise InputError(request.inputs[0], f"there is no event {choice.event!r}: {listed}")
    if kind == "spans" and choice.event is not None:
        names = history.spans().name
        if not any(names.names[code] == choice.event for code in np.unique(names.codes).tolist()):
            raise InputError(request.inputs[0], f"there is no span {choice.event!r}")
    if len(counts) > 1 and choice.event is None and by != "event":
        listed = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
        raise InputError(
            request.inputs[0], f"samples are of several events; choose with --event: {listed}"
        )
    return replace(choice, by=by)


def _origin_ns(request: Request, first_ns: int, clock: Clock) -> int:
    match request.origin:
        case None:
            return first_ns // request.period_ns * request.period_ns
        case "first":
            return first_ns
        case "wall":
            if clock.utc_at_origin_ns is None:
                raise UsageError("--origin wall: this trace does not say when it began")
            wall_ns = first_ns + clock.utc_at_origin_ns
            return first_ns - wall_ns % request.period_ns
        case text:
            instant = parse_instant(text)
            return instant.ns - (clock.utc_at_origin_ns or 0) * instant.absolute


def _mapped(path: str, history: History, request: Request, reference: _Reference) -> OffsetMap:
    clock = history.clock
    offset_ns = request.offsets_ns.get(path)
    if offset_ns is None and path != request.inputs[0]:
        alignment = align(reference.clock, clock)
        offset_ns = alignment.offset_ns
        if alignment.how == "start":
            offset_ns = 0
            if not request.assume_aligned:
                raise InputError(
                    path,
                    "nothing says how its clock and the first input's lie; give --offset, or "
                    "--assume-aligned to take their times as they are",
                )
    offset_ns = offset_ns or 0
    choice = reference.choice
    window = choice.window
    if window is not None:
        choice = replace(choice, window=(window[0] - offset_ns, window[1] - offset_ns))
    name = clock.host or (path if path == "-" else Path(path).name.partition(".")[0])
    try:
        return offset_map(history, reference.fold, choice, source=name, offset_ns=offset_ns)
    except TimeRangeError as error:
        raise InputError(path, str(error)) from None
