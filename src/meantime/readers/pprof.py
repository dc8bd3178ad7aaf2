"""pprof: a `profile.proto` message, of Go and of the profilers of many other languages.

A profile has stacks with weights in one unit or several, and no times: each unit becomes an event,
and in each lane the stacks follow one another, callers beside their callees, as in a flame graph.
Format: https://github.com/google/pprof/blob/main/proto/profile.proto
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.kernels import calls, varints
from meantime.model.attribute_paths import process_path, thread_path
from meantime.model.columns import Interner, distinct
from meantime.model.stacks import StackTable
from meantime.model.trace import Samples
from meantime.model.units import format_ns
from meantime.readers.contract import MOST_BATCH_ROWS, lazy_trace
from meantime.readers.frame_patterns import frame_pattern
from meantime.readers.memory_limit import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from meantime.model.anomalies import Anomalies
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

    Uint64s = npt.NDArray[np.uint64]

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "pprof"
OBJECTS = True

_LAST_FIELD = 15
# The fields of a profile that are messages or texts; the others are numbers.
_IN_BYTES = {1, 2, 3, 4, 5, 6, 11}
_COMMENTS = 13
_PACKED = 2
_MOST_BYTES_OF_A_TYPE = 24
_FEWEST_FIELDS = 2
_TIMES = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_LIMIT = 2**62
_MOST_VALUES, _MOST_LANES = 100, 1000
# Numbers that identify threads and processes; other numbers are amounts.
_IDS = {"thread_id", "thread id", "tid", "pid", "process_id", "process id"}
# Labels whose values need no key.
_NAMES = {"thread", "thread_name", "thread name"}
# Frames that are looked up at once, and how many bytes of a file may stand for at most.
_CHUNK_FRAMES = 1 << 22
_FRAMES_PER_BYTE = 100
# More fields than this are counted before they are columns. What each takes with what is made of
# it, a string beside its bytes, and a frame of different stacks.
_FEW_FIELDS = 1 << 20
_FIELD_BYTES, _TEXT_BYTES, _FRAME_BYTES = 48, 64, 24
_RETRIES = 100
_SPARSE = 4
_MOST_TEXT = 200


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with fields of a profile, its sample types among them."""
    del name
    at = seen = 0
    has_type = False
    while at < len(head) and seen < _RETRIES:
        tag, at = _varint(head, at)
        if at < 0:
            break
        number, wire = tag >> 3, tag & 7
        is_message = number in _IN_BYTES
        if not 1 <= number <= _LAST_FIELD or wire not in {0, _PACKED}:
            return False
        # numbers that there may be several of are packed or not
        if is_message != (wire == _PACKED) and number != _COMMENTS:
            return False
        size, at = _varint(head, at)
        if at < 0:
            break
        if wire == _PACKED:
            at += size
            if number == 1 and at <= len(head):
                if not _is_type(head[at - size : at]):
                    return False
                has_type = True
        seen += 1
    return has_type and seen >= _FEWEST_FIELDS


def _is_type(message: bytes) -> bool:
    """Return whether a message has two numbers at most, as `ValueType` does."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        _, at = _varint(message, at) if tag in {8, 16} else (0, -1)
        if at < 0:
            return False
    return len(message) <= _MOST_BYTES_OF_A_TYPE


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it, which is -1 if it is cut."""
    value = 0
    for index, byte in enumerate(data[at : at + 10] if at >= 0 else b""):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    return 0, -1


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole profile.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        data = np.frombuffer(source.whole(), np.uint8)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    if source.truncated and not options.lenient:
        raise InputError(source.name, "the compressed profile is cut; run with --lenient to read")
    trace.anomalies.add("truncated", int(source.truncated))
    limit = MemoryLimit(source.name, source.most_memory)
    messages = _Messages(limit, source.name, data, trace.anomalies, lenient=options.lenient)
    profile = messages.parts(np.array([[0, len(data)]], np.int64), is_whole=True)
    texts = _Texts(messages, profile.ranges_of(6))
    types = _types(messages, profile, texts)
    default = texts[int(profile.number(14))]
    chosen = next((row for row, each in enumerate(types) if each.name == default), len(types) - 1)
    samples = _samples(messages, profile, types)
    trace.records = len(samples.weight)
    for row in [chosen, *(row for row in range(len(types)) if row != chosen)]:
        trace.sample_units[types[row].name] = types[row].unit
    frames = _Frames(messages, profile, texts)
    table, stack = _stacks(messages, frames, samples)
    stack = stack[samples.listed]
    labels = _Labels(messages, samples, texts)
    trace.facts |= _facts(messages, profile, texts, frames) | labels.facts()
    lane, lanes = labels.lanes()
    for number, name in enumerate(lanes):
        trace.paths.append(thread_path(number, 0))
        if name:
            trace.names[number] = name
        elif len(lanes) > 1:
            trace.names[number] = "(no labels)"
    if frames.program:
        trace.names[len(trace.paths)] = frames.program
        trace.paths.append(process_path(0))
    if not len(samples.weight):
        return
    trace.stacks = table
    trace.anomalies.add("negative_weight", int((samples.weight < 0).any(axis=1).sum()))
    length = np.abs(samples.weight[:, chosen])
    if not length.any():
        length = np.ones(len(length), np.int64)
    order = np.lexsort((_ranks(table, stack, length)[stack], lane))
    time_ns = _starts(length[order], lane[order])
    trace.bounds = (0, int((time_ns + length[order]).max()))
    events = Interner(trace.values).codes([each.name for each in types])
    # samples without any weight are in the profile all the same
    kept = samples.weight[order] != 0
    kept[:, chosen] |= ~kept.any(axis=1)
    rows, columns = np.nonzero(kept)
    in_time = np.argsort(time_ns[rows], kind="stable")
    rows, columns = rows[in_time], columns[in_time]
    for first in range(0, len(rows), MOST_BATCH_ROWS):
        part = slice(first, first + MOST_BATCH_ROWS)
        own = order[rows[part]]
        yield Samples(
            time_ns=time_ns[rows[part]],
            thread=lane[own].astype(np.int32),
            stack=stack[own],
            weight=samples.weight[own, columns[part]],
            event=events[columns[part]],
        )


class _Parts(NamedTuple):
    """The fields of some messages.

    Attributes:
        messages: What decoded them.
        size: The number of messages.
        message: By field, its message.
        tag: By field, its number and wire type.
        range: By field, where its content begins and ends.
    """

    messages: _Messages
    size: int
    message: Int32s
    tag: npt.NDArray[np.uint32]
    range: Int64s

    def ranges_of(self, number: int) -> Int64s:
        """Return the contents of a field of messages or texts."""
        found: Int64s = self.range[self.tag == number << 3 | _PACKED]
        return found

    def owners_of(self, number: int) -> Int32s:
        """Return the message that each of these is in."""
        found: Int32s = self.message[self.tag == number << 3 | _PACKED]
        return found

    def numbers(self, number: int) -> Uint64s:
        """Return the number of a field by message; 0 where there is none."""
        rows = np.flatnonzero(self.tag == number << 3)
        found = np.zeros(self.size, np.uint64)
        found[self.message[rows]] = self.messages.numbers(self.range[rows])[0]
        return found

    def number(self, number: int) -> int:
        """Return the number of a field of the only message."""
        return int(self.numbers(number).view(np.int64)[0])

    def repeated(self, number: int) -> tuple[Uint64s, Int64s]:
        """Return all numbers of a field, and how many each message has."""
        rows = np.flatnonzero((self.tag >> 3 == number) & (self.tag & 7 <= _PACKED))
        found, sizes = self.messages.numbers(self.range[rows])
        return found, _added(self.message[rows], sizes, self.size)


def _added(index: Int32s, amount: Int64s, count: int) -> Int64s:
    """Return the sum of amounts by index."""
    total = np.zeros(count, np.int64)
    np.add.at(total, index, amount)
    return total


class _Messages:
    """Decodes messages; malformed ones are errors or, leniently, counted and empty."""

    def __init__(
        self,
        limit: MemoryLimit,
        name: str,
        data: npt.NDArray[np.uint8],
        anomalies: Anomalies,
        *,
        lenient: bool,
    ) -> None:
        self.limit = limit
        self.name = name
        self.data = data
        self.lenient = lenient
        self._anomalies = anomalies

    def wrong(self, problem: str, count: int = 1) -> None:
        """Fail or, leniently, count something malformed.

        Raises:
            InputError: Unless it is read leniently.
        """
        if not self.lenient:
            raise InputError(self.name, problem)
        self._anomalies.add("bad_record", count)

    def parts(self, ranges: Int64s, *, is_whole: bool = False) -> _Parts:
        """Return the fields of the messages in these ranges; of a cut profile, those before."""
        for _ in range(_RETRIES):
            try:
                return _Parts(self, len(ranges), *self._fields(ranges))
            except ValueError as error:
                at = int(error.args[0])
            self.wrong(f"a field of the profile is malformed or cut (byte {at})")
            ranges = ranges.copy()
            if is_whole:
                ranges[0, 1] = at
            else:
                ranges[(ranges[:, 0] <= at) & (at < ranges[:, 1]), 1] = at
        raise InputError(self.name, "more than 100 messages of the profile are malformed")

    def _fields(self, ranges: Int64s) -> tuple[Int32s, npt.NDArray[np.uint32], Int64s]:
        try:
            return varints.fields(self.data, ranges, _FEW_FIELDS)
        except OverflowError as error:
            count = int(error.args[0])
        self.limit.check(f"the profile has {count:,} fields", _FIELD_BYTES * count)
        return varints.fields(self.data, ranges)

    def numbers(self, ranges: Int64s) -> tuple[Uint64s, Int64s]:
        """Return the numbers in ranges, and how many are in each.

        Raises:
            InputError: If they are malformed.
        """
        try:
            return varints.numbers_of(self.data, np.ascontiguousarray(ranges))
        except ValueError as error:
            problem = f"numbers are malformed or cut (byte {error.args[0]})"
            raise InputError(self.name, problem) from None


class _Texts:
    """The table of strings."""

    def __init__(self, messages: _Messages, ranges: Int64s) -> None:
        self._messages = messages
        needed = _TEXT_BYTES * len(ranges) + int((ranges[:, 1] - ranges[:, 0]).sum())
        messages.limit.check(f"the profile has {len(ranges):,} strings", needed)
        data = messages.data.data
        self._texts = [str(data[low:high], "utf-8", "replace") for low, high in ranges.tolist()]

    def __getitem__(self, index: int) -> str:
        return self.of(np.array([index & (2**64 - 1)], np.uint64))[0]

    def of(self, index: Uint64s) -> list[str]:
        """Return the strings with these indices."""
        texts = self._texts or [""]
        missing = np.flatnonzero(index >= len(texts))
        if len(missing):
            self._messages.wrong(
                f"string {index[missing[0]]} is missing: there are {len(texts):,} strings",
                len(missing),
            )
            index = np.where(index < len(texts), index, 0)
        return [texts[each] for each in index.tolist()]


class _Type(NamedTuple):
    """A sample type: its name, the unit of its weights, and what multiplies them."""

    name: str
    unit: str
    scale: int


def _types(messages: _Messages, profile: _Parts, texts: _Texts) -> list[_Type]:
    """Return the sample types.

    Raises:
        InputError: If there is none.
    """
    parts = messages.parts(profile.ranges_of(1))
    found: list[_Type] = []
    names: set[str] = set()
    for name, unit in zip(parts.numbers(1).tolist(), parts.numbers(2).tolist(), strict=True):
        of, called = texts[unit] or "count", texts[name] or "samples"
        if called in names:
            called = f"{called} ({of})"
        if called in names:
            called = f"{called} {len(found) + 1}"
        names.add(called)
        found.append(_Type(called, "ns" if of in _TIMES else of, _TIMES.get(of, 1)))
    if not found:
        raise InputError(messages.name, "the profile has no sample types")
    return found


class _SampleColumns(NamedTuple):
    """The samples, and the lists of locations that they have.

    Attributes:
        location: The locations of all lists, each from the innermost one.
        sizes: How many locations each list has.
        listed: By sample, its list.
        weight: By sample, its weight in each sample type.
        labels: Where each label is.
        label_of: By label, its sample.
    """

    location: Uint64s
    sizes: Int64s
    listed: Int64s
    weight: Int64s
    labels: Int64s
    label_of: Int32s


def _samples(messages: _Messages, profile: _Parts, types: list[_Type]) -> _SampleColumns:
    parts = messages.parts(profile.ranges_of(2))
    location, sizes, listed = _location_lists(messages, parts)
    value, value_sizes = parts.repeated(2)
    whole = value_sizes == len(types)
    if not whole.all():
        first = int(np.argmin(whole))
        messages.wrong(
            f"sample {first:,} has {value_sizes[first]} values, but there are {len(types)} types",
            int((~whole).sum()),
        )
        value = value[np.repeat(whole, value_sizes)]
        listed = listed[whole]
    weight = value.view(np.int64).reshape(-1, len(types)).copy()
    for row, each in enumerate(types):
        # a float is exact enough for the sum of what is far below its limit
        if float(np.abs(weight[:, row].astype(np.float64)).sum()) * each.scale > _LIMIT:
            raise InputError(messages.name, f"the values of {each.name} add up to more than 2^62")
        weight[:, row] *= each.scale
    owners = parts.owners_of(3)
    has_place = whole[owners]
    index = np.cumsum(whole) - 1
    return _SampleColumns(
        location,
        sizes,
        listed,
        weight,
        parts.ranges_of(3)[has_place],
        index[owners[has_place]].astype(np.int32),
    )


def _location_lists(messages: _Messages, parts: _Parts) -> tuple[Uint64s, Int64s, Int64s]:
    """Return the locations of different lists, how many each has, and the list of each sample."""
    owners, ranges = parts.owners_of(1), parts.ranges_of(1)
    if (parts.tag == 1 << 3).any() or not (owners[1:] > owners[:-1]).all():
        location, sizes = parts.repeated(1)
        return location, sizes, np.arange(parts.size)
    # most samples have the bytes of another: only different ones are looked at
    different, code = _different(messages, np.append(ranges, np.zeros((1, 2), np.int64), axis=0))
    listed = np.full(parts.size, code[-1], np.int64)
    listed[owners] = code[:-1]
    return *messages.numbers(different), listed


def _different(messages: _Messages, ranges: Int64s) -> tuple[Int64s, Int32s]:
    """Return the ranges of different bytes, and which of these each range is equal to."""
    try:
        first, code = varints.different(messages.data, np.ascontiguousarray(ranges))
    except ValueError as error:
        raise InputError(
            messages.name, f"a message is longer than 2 GiB (byte {error.args[0]})"
        ) from None
    return ranges[first], code


class _Index:
    """Rows of a table by id; of equal ids, the first."""

    def __init__(self, messages: _Messages, ids: Uint64s, what: str) -> None:
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]
        repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(repeated):
            number = int(self._sorted[repeated[0]])
            messages.wrong(f"{what} {number} is defined twice", len(repeated))
        # ids are nearly always 1 to n
        self._row: Int64s | None = None
        if len(ids) and int(self._sorted[-1]) < _SPARSE * len(ids):
            self._row = np.full(int(self._sorted[-1]) + 2, -1, np.int64)
            self._row[self._sorted[::-1]] = self._order[::-1]

    def rows(self, ids: Uint64s) -> Int64s:
        """Return the row of each id; -1 if there is none."""
        if not len(self._sorted):
            return np.full(len(ids), -1, np.int64)
        if self._row is not None:
            return self._row[np.minimum(ids, np.uint64(len(self._row) - 1))]
        at = np.searchsorted(self._sorted, ids)
        at = np.minimum(at, len(self._sorted) - 1)
        return np.where(self._sorted[at] == ids, self._order[at], -1)


class _Frames:
    """The frames of each location, the outermost first.

    Attributes:
        names: The names of frames.
        frame: The frames of all locations, one location after the other.
        sizes: How many frames each location has.
        program: The name of the main binary; empty if it is unknown.
        pattern: Whether a frame is dropped with what it called, by name; None keeps all.
        unread_pattern: Whether such a pattern was too complex to apply.
    """

    def __init__(self, messages: _Messages, profile: _Parts, texts: _Texts) -> None:
        self.names: list[str] = []
        codes = Interner(self.names).codes
        mappings = messages.parts(profile.ranges_of(3))
        files = [PurePosixPath(each).name for each in texts.of(mappings.numbers(5))]
        self.program = files[0] if files else ""
        self.mappings = len(files)
        parts = messages.parts(profile.ranges_of(4))
        self.index = _Index(messages, parts.numbers(1), "location")
        functions = messages.parts(profile.ranges_of(5))
        name, system = functions.numbers(2), functions.numbers(3)
        named = codes([each or "(no name)" for each in texts.of(np.where(name, name, system))])
        self.functions = len(named)
        known = _Index(messages, functions.numbers(1), "function")
        lines, owner = messages.parts(parts.ranges_of(4)), parts.owners_of(4)
        ids = lines.numbers(1)
        function = known.rows(ids)
        if len(missing := np.flatnonzero((function < 0) & (ids != 0))):
            messages.wrong(f"function {ids[missing[0]]} is missing", len(missing))
        addressed = np.setdiff1d(np.arange(parts.size), owner[function >= 0])
        file = _Index(messages, mappings.numbers(1), "mapping").rows(parts.numbers(2)[addressed])
        address = parts.numbers(3)[addressed].tolist()
        addresses = codes(
            [
                f"{at:#x} ({files[row]})" if row >= 0 and files[row] else f"{at:#x}"
                for at, row in zip(address, file.tolist(), strict=True)
            ]
        )
        has_name = function >= 0
        whose = np.concatenate([owner[has_name], addressed])
        frame = np.concatenate([named[function[has_name]], addresses])
        # lines are from the innermost inlined function outwards
        order = np.lexsort((-np.arange(len(whose)), whose))
        self.frame = frame[order].astype(np.int32)
        self.sizes = np.bincount(whose, minlength=parts.size).astype(np.int64)
        drop, keep = (texts[profile.number(number)] for number in (7, 8))
        self.pattern: Callable[[str], bool] | None = frame_pattern(drop, keep) if drop else None
        self.unread_pattern = bool(drop) and self.pattern is None


def _stacks(
    messages: _Messages, frames: _Frames, samples: _SampleColumns
) -> tuple[StackTable, Int32s]:
    """Return the table of stacks, and the stack of each list of locations."""
    row = frames.index.rows(samples.location)
    if len(missing := np.flatnonzero(row < 0)):
        number = samples.location[missing[0]]
        messages.wrong(f"location {number} is missing", len(missing))
        frames.names.append("(unknown location)")
        frames.frame = np.append(frames.frame, np.int32(len(frames.names) - 1))
        frames.sizes = np.append(frames.sizes, 1)
        row = np.where(row < 0, len(frames.sizes) - 1, row)
    # from the outermost location inwards
    ends = np.cumsum(samples.sizes)
    sample = np.repeat(np.arange(len(samples.sizes)), samples.sizes)
    starts = ends - samples.sizes
    row = row[starts[sample] + ends[sample] - 1 - np.arange(len(row))]
    sizes = frames.sizes[row]
    if int(sizes.sum()) > _FRAMES_PER_BYTE * len(messages.data):
        raise InputError(
            messages.name,
            f"its stacks have {int(sizes.sum()):,} frames, too many for {len(messages.data):,}"
            " bytes",
        )
    dropped = _dropped(frames)
    first_frame = np.cumsum(frames.sizes) - frames.sizes
    frames_before = np.concatenate([[0], np.cumsum(sizes)])
    until = frames_before[ends]
    parent, frame = np.zeros(0, np.int32), np.zeros(0, np.int32)
    stack = np.full(len(ends), -1, np.int32)
    low = 0
    while low < len(ends):
        # as many samples as have few enough frames, but at least one
        before = int(until[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(until, before + _CHUNK_FRAMES, "right")))
        part = slice(int(starts[low]), int(ends[high - 1]))
        size = sizes[part]
        offset = np.repeat(frames_before[part] - before, size)
        codes = frames.frame[
            np.repeat(first_frame[row[part]], size) + np.arange(len(offset)) - offset
        ]
        length = np.diff(until[low:high], prepend=before)
        if dropped.any():
            codes, length = _without(dropped, codes, length)
        last = np.cumsum(length) - 1
        above = np.arange(len(codes), dtype=np.int64) - 1 + len(parent)
        above[(last - length + 1)[length > 0]] = -1
        known = len(parent) + len(codes)
        messages.limit.check(f"its different stacks have {known:,} frames", _FRAME_BYTES * known)
        stacks, parent, frame = calls.stacks(
            np.concatenate([parent, above.astype(np.int32)]), np.concatenate([frame, codes])
        )
        own = stacks[len(stacks) - len(codes) :]
        has_stack = np.flatnonzero(length > 0)
        stack[low + has_stack] = own[last[has_stack]]
        low = high
    return StackTable(parent, frame, frames.names), stack


def _dropped(frames: _Frames) -> npt.NDArray[np.bool_]:
    """Return by frame whether it is dropped, with what it called."""
    if frames.pattern is None:
        return np.zeros(len(frames.names), np.bool_)
    return np.array([frames.pattern(name) for name in frames.names], np.bool_)


def _without(
    dropped: npt.NDArray[np.bool_], codes: Int32s, length: Int64s
) -> tuple[Int32s, Int64s]:
    """Return stacks until their first dropped frame; those that begin with one stay whole.

    pprof, too, drops nothing before the first frame that is kept.
    """
    sample = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(codes)) - np.repeat(np.cumsum(length) - length, length)
    ends = length.copy()
    is_dropped = dropped[codes]
    begins = np.full(len(length), np.iinfo(np.int64).max)
    np.minimum.at(begins, sample[~is_dropped], position[~is_dropped])
    after = is_dropped & (position > begins[sample])
    np.minimum.at(ends, sample[after], position[after])
    return codes[position < ends[sample]], ends


class _Labels:
    """The labels of samples, of which those with few values divide samples into lanes."""

    def __init__(self, messages: _Messages, samples: _SampleColumns, texts: _Texts) -> None:
        labels, same = _different(messages, samples.labels)
        parts = messages.parts(labels)
        self._samples = len(samples.weight)
        self._of = samples.label_of
        columns = [parts.numbers(number) for number in (1, 2, 3)]
        different, code = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        self._code = code.reshape(-1)[same]
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._values: dict[str, int] = {}
        numeric: set[str] = set()
        for key, text, number in different.tolist():
            name = texts[key]
            value = texts[text] if text else str(np.uint64(number).astype(np.int64))
            self._keys.append(name)
            self._texts.append((value if name in _NAMES else f"{name}={value}")[:_MOST_TEXT])
            self._values[name] = self._values.get(name, 0) + 1
            if not text and name not in _IDS:
                numeric.add(name)
        # what all samples have divides nothing
        counts: dict[str, int] = defaultdict(int)
        for name, count in zip(
            self._keys, np.bincount(self._code, minlength=len(self._keys)).tolist(), strict=True
        ):
            counts[name] += count
        common = {
            name
            for name, values in self._values.items()
            if values == 1 and counts[name] == self._samples
        }
        # those with the most values first, which are the first to be left out
        self._chosen = sorted(
            (
                name
                for name, values in self._values.items()
                if name not in numeric | common and values <= _MOST_VALUES
            ),
            key=lambda name: (-self._values[name], name),
        )

    def facts(self) -> dict[str, str]:
        """Return how many values each label has, if there are any."""
        listed = [f"{name} ({count:,})" for name, count in self._values.items()]
        return {"labels and values": ", ".join(listed)[:_MOST_TEXT]} if listed else {}

    def lanes(self) -> tuple[Int64s, list[str]]:
        """Return the lane of each sample, and the labels of each lane."""
        lane, lanes = self._lanes(0)
        if len(lanes) <= _MOST_LANES:
            return lane, lanes
        # fewer labels never divide samples into more lanes
        left_out = bisect_left(
            range(len(self._chosen)),
            True,
            key=lambda count: len(self._lanes(count)[1]) <= _MOST_LANES,
        )
        return self._lanes(left_out)

    def _lanes(self, left_out: int) -> tuple[Int64s, list[str]]:
        names = {*self._chosen[left_out:]}
        chosen = np.array([key in names for key in self._keys], np.bool_)
        rows = np.flatnonzero(chosen[self._code]) if len(chosen) else np.zeros(0, np.int64)
        order = rows[np.lexsort((self._code[rows], self._of[rows]))]
        code, of = self._code[order].astype(np.int32), self._of[order]
        first = np.ones(len(of), np.bool_)
        first[1:] = of[1:] != of[:-1]
        above = np.where(first, -1, np.arange(len(of)) - 1).astype(np.int32)
        # equal labels are one row of a table, as equal stacks are
        sets, parent, last = calls.stacks(above, code)
        set_of = np.full(self._samples, -1, np.int64)
        set_of[of] = sets
        used, lane = np.unique(set_of, return_inverse=True)
        table = StackTable(parent, last, self._texts)
        labels = [" ".join(table.frames_of(row)) for row in used.tolist()]
        return lane.reshape(-1), labels if self._samples else [""]


def _facts(messages: _Messages, profile: _Parts, texts: _Texts, frames: _Frames) -> dict[str, str]:
    """Return what the profile says of itself."""
    found = {"time axis": "weights, as the profile has no times"}
    if time_ns := profile.number(9):
        seconds = time_ns // 10**9
        try:
            found["time"] = datetime.fromtimestamp(seconds, UTC).isoformat()
        except (OverflowError, OSError, ValueError):
            found["time"] = f"{time_ns} ns since 1970"
    if (duration_ns := profile.number(10)) > 0:
        found["duration"] = format_ns(duration_ns)
    period = messages.parts(profile.ranges_of(11)[-1:])
    if period.size and (number := profile.number(12)) > 0:
        unit = texts[int(period.numbers(2)[0])]
        size = format_ns(number * _TIMES[unit]) if unit in _TIMES else f"{number:,} {unit}"
        found["period"] = f"{size} of {texts[int(period.numbers(1)[0])]}"
    comments = [texts[each] for each in profile.repeated(13)[0].tolist()[:5]]
    if comments:
        found["comments"] = "; ".join(comments)[:_MOST_TEXT]
    found["functions"] = f"{frames.functions:,}"
    found["mappings"] = f"{frames.mappings:,}"
    if frames.unread_pattern:
        found["drop_frames"] = "its pattern is not applied: it is too complex"
    return found


def _ranks(table: StackTable, stack: Int32s, length: Int64s) -> Int64s:
    """Return where each stack is in a flame graph, heaviest first; the end without one."""
    size = np.ones(len(table), np.int64)
    calls.spread(table.parent, size)
    total = np.zeros(len(table), np.int64)
    known = stack >= 0
    np.add.at(total, stack[known], length[known])
    calls.spread(table.parent, total)
    order = np.lexsort((-total, table.parent))
    within = np.cumsum(size[order]) - size[order]
    parent = table.parent[order]
    begins = np.flatnonzero(np.diff(parent, prepend=-2))
    within -= np.repeat(within[begins], np.diff(begins, append=len(parent)))
    before = np.empty(len(table), np.int64)
    before[order] = within
    before += 1
    calls.descend(table.parent, before)
    # index -1, of samples without a stack, is the last
    return np.append(before, len(table) + 1)


def _starts(length: Int64s, lane: Int64s) -> Int64s:
    """Return the sum of the lengths before, within each lane."""
    before = np.cumsum(length) - length
    first = np.searchsorted(lane, distinct(lane))
    return before - np.repeat(before[first], np.diff(first, append=len(lane)))
