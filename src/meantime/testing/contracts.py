"""Contracts as test classes: inherit one, set what to test, and pytest runs its tests.

    class TestMyReader(ReaderContract):
        reader = my_reader
        samples = (Sample("a.mine", b"...", {"Spans": 2}),)

This module itself does not import pytest.
"""

from __future__ import annotations

import gzip
import io
import lzma
from collections import Counter
from contextlib import closing
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.history.directory.open import open_history
from meantime.history.ingest import build
from meantime.model.metadata import TraceMetadata
from meantime.model.stacks import StackTable
from meantime.model.trace import Events, Samples, Spans, rows_of
from meantime.readers.contract import MOST_BATCH_ROWS, ReadOptions
from meantime.readers.evidence import Strength
from meantime.readers.formats import FORMATS
from meantime.readers.recognition import seen
from meantime.readers.source import HEAD_BYTES, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.model.trace import Batch, Trace

__all__ = ["OTHER_FORMATS", "HistoryContract", "ReaderContract", "Sample"]

# Small inputs by format.
OTHER_FORMATS: Mapping[str, bytes] = {each.format: each.example for each in FORMATS if each.example}
_MOST_DAMAGED = 200
_LAST_NS = 2**63 - 1
_TABLE_OF = {
    "entity": "paths",
    "thread": "paths",
    "from_entity": "paths",
    "to_entity": "paths",
    "target": "paths",
    "state": "values",
    "name": "values",
    "event": "values",
    "tag": "tags",
    "category": "categories",
}
_MARK = b"\xef\xbb\xbf"
_MAY_BE_NONE = {"target", "state", "name", "tag", "category"}


class Sample(NamedTuple):
    """A valid input, and its contents.

    Attributes:
        name: A usual name of such a file.
        data: Its bytes.
        rows: The number of rows by the name of the batches' class.
        anomalies: The anomalies in it.
    """

    name: str
    data: bytes
    rows: Mapping[str, int]
    anomalies: Mapping[str, int] = {}


class _Bytes(io.BytesIO):
    """An input that returns a few bytes at a time, as pipes may."""

    def __init__(self, data: bytes, at_once: int) -> None:
        super().__init__(data)
        self._at_once = at_once

    def readinto(self, buffer: Any, /) -> int:
        return super().readinto(memoryview(buffer)[: self._at_once])


class ReaderContract:
    """The tests that every reader of a format passes.

    Attributes:
        reader: The reader: a module, or another object that is a `Reader`.
        samples: Small valid inputs: each is damaged in hundreds of ways.
        damaged: An input with a malformed record, which lenient reading counts; None if the format
            has no records that can be left out.
        unbounded: Why a batch may have more than `MOST_BATCH_ROWS` rows; None if none has, which
            is tested with `large`.
        others: Small inputs of other formats.
    """

    reader: Any
    samples: Sequence[Sample]
    damaged: bytes | None = None
    unbounded: str | None = None
    others: Mapping[str, bytes] = OTHER_FORMATS

    def large(self, rows: int) -> bytes:
        """Return an input of at least so many rows."""
        raise NotImplementedError(
            "define `large`, or explain in `unbounded` why batches may have any size"
        )

    def test_batches_are_bounded(self) -> None:
        if self.unbounded is not None:
            return
        source = Source("large", io.BytesIO(self.large(MOST_BATCH_ROWS + 1)))
        with source, closing(self.reader.read(source, ReadOptions()).batches) as batches:
            # a reader that buffers its whole input would have read it before the first batch
            rows = [rows_of(batch) for batch in islice(batches, 2)]
        assert rows, "no batch was delivered"
        assert max(rows) <= MOST_BATCH_ROWS

    def test_an_input_is_recognised_by_its_content_whatever_its_name(self) -> None:
        for sample in self.samples:
            assert self._is_recognised(sample.data, "trace"), sample.name

    def test_an_input_is_recognised_as_nothing_else(self) -> None:
        for sample in self.samples:
            found = seen(sample.data[:HEAD_BYTES], sample.name, Strength.GENERAL)
            taken = found.keys() - {self.reader.FORMAT}
            assert not taken, f"{sample.name} is recognised as {', '.join(taken)}"

    def test_inputs_of_other_formats_are_not_recognised(self) -> None:
        for format_, data in self.others.items():
            if format_ != self.reader.FORMAT:
                assert not self._is_recognised(data, "trace"), format_

    def test_a_valid_input_is_read(self) -> None:
        for sample in self.samples:
            trace, batches = self._read(sample.data, sample.name)

            rows: Counter[str] = Counter()
            for batch in batches:
                rows[type(batch).__name__] += rows_of(batch)
            assert dict(rows) == dict(sample.rows), sample.name
            assert dict(trace.anomalies) == dict(sample.anomalies), sample.name

    def test_an_input_that_is_cut_anywhere_is_read_or_rejected(self) -> None:
        for sample in self.samples:
            for length in _offsets(len(sample.data)):
                self._read_or_refuse(sample.data[:length], f"{length} bytes of {sample.name}")

    def test_an_input_with_a_wrong_byte_anywhere_is_read_or_rejected(self) -> None:
        for sample in self.samples:
            for offset in _offsets(len(sample.data)):
                wrong = bytearray(sample.data)
                wrong[offset] ^= (0x01, 0x80, 0xFF)[offset % 3]
                what = f"{sample.name} with byte {offset} as {wrong[offset]:#x}"
                self._read_or_refuse(bytes(wrong), what)

    def test_lenient_reading_counts_what_is_otherwise_refused(self) -> None:
        for sample in self.samples:
            strict, lenient = (
                _trace_contents(*self._batches(sample.data, sample.name, lenient=value))
                for value in (False, True)
            )
            assert strict == lenient, sample.name
        if self.damaged is not None:
            assert self._refused(self.damaged)
            trace, _ = self._read(self.damaged, "damaged", lenient=True)
            assert dict(trace.anomalies)

    def test_progress_is_reported(self) -> None:
        for sample in self.samples:
            calls: list[tuple[int, int]] = []

            def note(done: int, total: int, calls: list[tuple[int, int]] = calls) -> None:
                calls.append((done, total))

            self._read(sample.data, sample.name, progress=note)

            done = [done for done, _ in calls]
            assert done, sample.name
            assert done == sorted(done), sample.name
            assert all(total == 0 or done <= total for done, total in calls), sample.name

    def test_the_input_is_closed_when_all_is_read_or_refused(self) -> None:
        inputs = [sample.data for sample in self.samples]
        for data in [*inputs, *([] if self.damaged is None else [self.damaged])]:
            file = io.BytesIO(data)
            try:
                for _ in self.reader.read(Source("trace", file), ReadOptions()).batches:
                    pass
            except InputError:
                pass
            assert file.closed

    def test_a_pipe_and_a_compressed_file_are_read_like_a_file(self) -> None:
        for sample in self.samples:
            file = _trace_contents(*self._batches(sample.data, sample.name))

            for how, stored in (
                ("a pipe", _Bytes(sample.data, 7)),
                ("gzip", io.BytesIO(gzip.compress(sample.data))),
                ("xz", _Bytes(lzma.compress(sample.data), 100)),
                ("a file with a byte order mark", io.BytesIO(_MARK + sample.data)),
                ("gzip of one with a mark", io.BytesIO(gzip.compress(_MARK + sample.data))),
            ):
                source = Source(sample.name, stored)
                source.head()
                trace = self.reader.read(source, ReadOptions())
                assert _trace_contents(trace, list(trace.batches)) == file, (
                    f"{sample.name} from {how}"
                )

    def _is_recognised(self, data: bytes, name: str) -> bool:
        """Return whether an input is one of the format, by its beginning."""
        head = data[:HEAD_BYTES]
        # what is declared is recognised by its signs, and what a package adds by its reader
        if any(each.format == self.reader.FORMAT for each in FORMATS):
            return [*seen(head, name)] == [self.reader.FORMAT]
        return bool(self.reader.recognises(head, name))

    def _read(self, data: bytes, name: str, **options: Any) -> tuple[Trace, list[Batch]]:
        """Return a trace and its batches, after building a history of them."""
        trace, batches = self._batches(data, name, **options)
        trace.batches = iter(batches)
        build(trace)
        return trace, batches

    def _batches(self, data: bytes, name: str, **options: Any) -> tuple[Trace, list[Batch]]:
        """Return a trace and its batches, after checking these."""
        source = Source(name, io.BytesIO(data), stored_bytes=len(data))
        source.head()
        trace: Trace = self.reader.read(source, ReadOptions(**options))
        batches = []
        for batch in trace.batches:
            _check(trace, batch)
            batches.append(batch)
        stacks = 0 if trace.stacks is None else len(trace.stacks)
        for batch in batches:
            if isinstance(batch, Samples):
                _check_codes(batch.stack, "stack", -1, stacks)
        return trace, batches

    def _read_or_refuse(self, data: bytes, what: str) -> None:
        for lenient in (False, True):
            try:
                self._read(data, "trace", lenient=lenient)
            except InputError:
                continue
            except Exception as error:
                error.add_note(f"{what}, {'lenient' if lenient else 'strict'}")
                raise
            # what is read strictly has nothing for lenient reading to leave out
            break

    def _refused(self, data: bytes) -> bool:
        try:
            self._read(data, "damaged")
        except InputError:
            return True
        return False


def _offsets(length: int) -> range:
    """Return offsets all over an input: every one, or some hundreds at equal distances."""
    return range(0, length, -(-length // _MOST_DAMAGED) or 1)


def _columns(batch: Any) -> Iterator[tuple[str, Any]]:
    for column in fields(batch):
        value = getattr(batch, column.name)
        if is_dataclass(value):
            yield from _columns(value)
        elif value is not None:
            yield column.name, value


def _check(trace: Trace, batch: Batch) -> None:
    """Check that a batch's columns are as `meantime.model.trace` documents them."""
    if isinstance(batch, Events):
        assert batch.time_ns.dtype == np.int64
        return
    rows = rows_of(batch)
    for name, column in _columns(batch):
        assert len(column) == rows, f"{name} has {len(column)} rows, not {rows}"
        if name.endswith("_ns"):
            assert column.dtype == np.int64, f"{name} is {column.dtype}"
            inside = (column > -_LAST_NS) & (column < _LAST_NS)
            assert inside.all(), f"{name} has {column[~inside][0]}"
        elif table := _TABLE_OF.get(name):
            assert column.dtype == np.int32, f"{name} is {column.dtype}"
            least = -1 if name in _MAY_BE_NONE else 0
            _check_codes(column, name, least, len(getattr(trace, table)))
    if isinstance(batch, Spans):
        assert (batch.end_ns >= batch.start_ns).all(), "a span ends before it starts"


def _check_codes(column: Int32s, name: str, least: int, codes: int) -> None:
    wrong = column[(column < least) | (column >= codes)]
    assert not len(wrong), f"{name} has {wrong[0]}, and there are {codes}"


def _trace_contents(trace: Trace, batches: list[Batch]) -> tuple[Any, ...]:
    """Return the contents of a trace, to be compared."""
    contents: list[Any] = []
    for batch in batches:
        if isinstance(batch, Events):
            contents.append([repr(event) for event in batch])
        else:
            columns = [(name, column.tolist()) for name, column in _columns(batch)]
            contents.append((type(batch).__name__, repr(columns)))
    stacks = trace.stacks or StackTable(np.empty(0, np.int32), np.empty(0, np.int32), [])
    metadata = {each.name: getattr(trace, each.name) for each in fields(TraceMetadata)}
    return (
        contents,
        [stacks.frames_of(row) for row in range(len(stacks))],
        ([*trace.paths], trace.values, trace.tags, trace.categories, trace.ends),
        {**metadata, "anomalies": dict(trace.anomalies)},
    )


class HistoryContract:
    """The tests that every history passes, whatever it was built from.

    Every attribute is queried at every time at which anything changes, and at the times beside it,
    so the history should have some hundreds of intervals at most.
    """

    def build(self, path: Path | None) -> History:
        """Return the history; with a path, stored in that new directory."""
        raise NotImplementedError

    def test_the_intervals_of_an_attribute_tile_the_history(self) -> None:
        history = self.build(None)
        for quark in range(len(history.attributes)):
            at_ns = history.start_ns
            for interval in history.intervals([quark], history.start_ns, history.end_ns):
                assert interval.start_ns == at_ns < interval.end_ns, interval
                at_ns = interval.end_ns
            assert at_ns == history.end_ns, history.attributes.text(quark)

    def test_shares_add_up_to_the_width_of_their_part(self) -> None:
        history = self.build(None)
        quarks = list(range(len(history.attributes)))
        length_ns = history.end_ns - history.start_ns
        for bins in (1, 3, 7):
            shares = history.shares(quarks, history.start_ns, history.end_ns, bins)
            for part in range(bins):
                begin, end = (-(-n * length_ns // bins) for n in (part, part + 1))
                for quark in quarks:
                    assert sum(shares.cell(quark, part).values()) == end - begin, (quark, part)

    def test_all_queries_for_a_state_agree(self) -> None:
        history = self.build(None)
        quarks = list(range(len(history.attributes)))
        times_ns = _times_of(history)
        sampled = history.sample(quarks, times_ns).rows()
        for column, time_ns in enumerate(times_ns):
            at = history.at(time_ns)
            for quark in quarks:
                interval = history.state(quark, time_ns)
                assert interval.start_ns <= time_ns < interval.end_ns
                # compared as text, since NaN differs from itself
                assert repr(at[quark]) == repr(interval)
                assert repr(sampled[quark][column]) == repr(interval.value)

    def test_a_history_that_is_opened_again_is_the_same(self, tmp_path: Path) -> None:
        built = self.build(tmp_path / "contract.mth")
        for opened in (open_history(tmp_path / "contract.mth"), self.build(None)):
            assert _contents(opened) == _contents(built)


def _times_of(history: History) -> list[int]:
    quarks = list(range(len(history.attributes)))
    starts_ns = (
        history.intervals(quarks, history.start_ns, history.end_ns).start_ns.tolist()
        if quarks
        else []
    )
    near = {time_ns + step for time_ns in {*starts_ns, history.end_ns} for step in (-1, 0, 1)}
    return sorted(time_ns for time_ns in near if history.start_ns <= time_ns < history.end_ns)


def _contents(history: History) -> tuple[Any, ...]:
    quarks = list(range(len(history.attributes)))
    return (
        [history.attributes.path(quark) for quark in quarks],
        [repr(interval) for interval in history.intervals(quarks, history.start_ns, history.end_ns)]
        if quarks
        else [],
        (history.start_ns, history.end_ns, history.bounds, history.title),
        [dict(tag) for tag in history.tags],
        (history.names, history.descriptions, history.sort_keys, history.facts),
        dict(history.anomalies),
        [repr(table.columns()) for table in (history.spans(), history.samples(event="*"))],
    )
