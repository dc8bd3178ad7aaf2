"""The map of all inputs: each is read, mapped in the times of the first, and added."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.cli.heatmap_input import HeldInput, StreamedInput
from meantime.cli.inputs import load, resolve
from meantime.cli.progress import progress_bar
from meantime.clocks import align
from meantime.errors import InputError, TimeRangeError, UsageError
from meantime.readers import perf, recognise
from meantime.readers.contract import ReadOptions
from meantime.readers.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.cli.heatmap_request import Request
    from meantime.clocks import Clock
    from meantime.query.offsets import Choice, Fold, OffsetMap
    from meantime.trace import Trace

__all__ = ["added"]


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
    reference, start_ns, mapped = _first(first, request)
    found = [mapped]
    jobs = min(request.jobs, len(others))
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            tasks = [pool.submit(_other, path, request, reference) for path in others]
            found += [task.result() for task in tasks]
    else:
        found += [_other(path, request, reference) for path in others]
    together = replace(reduce(add, found), utc_at_zero_ns=reference.clock.utc_at_origin_ns)
    if request.choice.states and not len(together.total.number):
        patterns = ", ".join(request.choice.states)
        raise InputError(first, f"nothing is ever in a state that --state {patterns} means")
    if request.origin is None:
        return together.from_first_column()
    return (
        together.from_column(reference.fold.column(start_ns))
        if request.origin == "wall"
        else together
    )


def _first(path: str, request: Request) -> tuple[_Reference, int, OffsetMap]:
    """Return what the first input decides, where it begins, and its map."""
    with _opened(path, request) as given:
        low, high = (resolve(text, given.clock) for text in request.range_text)
        fold = request.fold(given.first_ns if low is None else low, given.clock)
        choice = replace(request.choice, window=(low, high))
        offset_ns = request.offsets_ns.get(path, 0)
        found, by = _mapped(path, given, fold, _moved(choice, offset_ns), offset_ns)
        bounds = given.bounds
    window = (bounds[0] if low is None else low, bounds[1] if high is None else high)
    if window[0] >= window[1]:
        raise UsageError(f"the range from {window[0]} to {window[1]} ns is empty")
    return _Reference(given.clock, fold, replace(choice, by=by)), window[0], found


def _other(path: str, request: Request, reference: _Reference) -> OffsetMap:
    with _opened(path, request) as given:
        offset_ns = _offset_ns(path, given.clock, request, reference)
        choice = _moved(reference.choice, offset_ns)
        return _mapped(path, given, reference.fold, choice, offset_ns)[0]


def _moved(choice: Choice, offset_ns: int) -> Choice:
    """Return a choice in the times of an input, which are less by an offset."""
    low, high = (None if each is None else each - offset_ns for each in choice.window)
    return replace(choice, window=(low, high))


def _offset_ns(path: str, clock: Clock, request: Request, reference: _Reference) -> int:
    """Return what to add to an input's times to get the first's."""
    if path in request.offsets_ns:
        return request.offsets_ns[path]
    alignment = align(reference.clock, clock)
    if alignment.how != "start":
        return alignment.offset_ns
    if not request.assume_aligned:
        raise InputError(
            path,
            "nothing says how its clock and the first input's lie; give --offset, or "
            "--assume-aligned to take their times as they are",
        )
    return 0


@contextmanager
def _opened(path: str, request: Request) -> Iterator[HeldInput | StreamedInput]:
    """Yield an input; the samples of a text are not held, unless where they begin is asked for."""

    def held(trace: Trace) -> HeldInput:
        from meantime.history import build  # noqa: PLC0415 - a third of what starting costs

        return HeldInput(build(trace))

    if Path(path).is_dir():
        yield HeldInput(load(path, lenient=request.lenient).history)
        return
    source = open_source(path)
    try:
        reader = recognise(source)
        with progress_bar(f"reading {path}") as progress:
            options = ReadOptions(lenient=request.lenient, progress=progress)
            if reader.FORMAT != perf.FORMAT:
                yield held(reader.read(source, options))
                return
            # A heat map needs no stacks, and text is mostly stacks.
            states = bool(request.choice.states)
            trace = perf.read(source, options, stacks=False, switches=states)
            yield held(trace) if states or request.origin == "first" else StreamedInput(trace)
    finally:
        source.close()


def _mapped(
    path: str, given: HeldInput | StreamedInput, fold: Fold, choice: Choice, offset_ns: int
) -> tuple[OffsetMap, str]:
    """Return the map of an input, and what it is taken apart by."""
    name = given.clock.host or (path if path == "-" else Path(path).name.partition(".")[0])
    try:
        return given.mapped(path, fold, choice, source=name, offset_ns=offset_ns)
    except TimeRangeError as error:
        raise InputError(path, str(error)) from None
