"""Event tables while they grow, compared with lists of all that was added."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.history import HistoryBuilder, event_rows, merging
from meantime.history.directory.check import check, save
from meantime.history.directory.open import open_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history import History

TIMES = st.integers(0, 40)
LENGTHS = st.sampled_from([0, 0, 1, 2, 5, 30])
THREADS = 3


class Span(NamedTuple):
    thread: int
    start_ns: int
    end_ns: int
    name: str
    arguments: str | None


SPANS = st.builds(
    lambda thread, start_ns, length, name, text: Span(
        thread, start_ns, start_ns + length, name, text
    ),
    st.integers(0, THREADS - 1),
    TIMES,
    LENGTHS,
    st.sampled_from("abc"),
    st.none() | st.sampled_from(['{"x":1}', "[2]", "é"]),
)


class Script(NamedTuple):
    """Batches of spans, and what happens after each: a question, a change, a flush."""

    batches: list[tuple[list[Span], str]]
    block_rows: int
    on_disk: bool


SCRIPTS = st.builds(
    Script,
    st.lists(
        st.tuples(
            st.lists(SPANS, max_size=12), st.sampled_from(["", "ask", "change", "flush", "look"])
        ),
        max_size=8,
    ),
    st.sampled_from([1, 2, 5, 9]),
    st.booleans(),
)


@contextmanager
def blocks_of(rows: int) -> Iterator[None]:
    """Make blocks, and the parts that are merged at once, this small."""
    before = event_rows.BLOCK_ROWS, merging._MERGED_ROWS, merging._WINDOW_ROWS
    event_rows.BLOCK_ROWS, merging._MERGED_ROWS, merging._WINDOW_ROWS = rows, 2 * rows, rows
    try:
        yield
    finally:
        event_rows.BLOCK_ROWS, merging._MERGED_ROWS, merging._WINDOW_ROWS = before


def in_order(spans: list[Span]) -> list[int]:
    """Return the numbers of spans in the order of the table."""
    return sorted(
        range(len(spans)),
        key=lambda n: (spans[n].thread, spans[n].start_ns, -spans[n].end_ns, n),
    )


def parents_of(spans: list[Span], order: list[int]) -> dict[int, int | None]:
    """Return by number the latest begun span that is open when it begins and contains it."""
    parents: dict[int, int | None] = {}
    for index, number in enumerate(order):
        span = spans[number]
        parents[number] = next(
            (
                above
                for above in reversed(order[:index])
                if spans[above].thread == span.thread
                and spans[above].end_ns > span.start_ns
                and spans[above].end_ns >= span.end_ns
            ),
            None,
        )
    return parents


def overlaps(span: Span, low_ns: int, high_ns: int) -> bool:
    return span.start_ns < high_ns and (span.end_ns > low_ns or span.start_ns >= low_ns)


def compare(history: History, spans: list[Span], threads: list[int], asked: range) -> None:
    """Compare the spans of all times, and those of a range, with what they should be."""
    order = in_order(spans)
    parents = parents_of(spans, order)

    def depth_of(number: int | None) -> int:
        return -1 if number is None else depth_of(parents[number]) + 1

    for chosen in (None, [threads[1], threads[0]]):
        for low_ns, high_ns in ((None, None), (asked.start, asked.stop)):
            table = history.spans(chosen, start_ns=low_ns, end_ns=high_ns)
            expected = [
                number
                for number in order
                if (chosen is None or threads[spans[number].thread] in chosen)
                and (low_ns is None or high_ns is None or overlaps(spans[number], low_ns, high_ns))
            ]
            assert table.rows.tolist() == expected
            assert table.thread.tolist() == [threads[spans[n].thread] for n in expected]
            assert table.start_ns.tolist() == [spans[n].start_ns for n in expected]
            assert table.end_ns.tolist() == [spans[n].end_ns for n in expected]
            assert table.name.to_list() == [spans[n].name for n in expected]
            assert [table.arguments(row) for row in range(len(table))] == [
                spans[n].arguments for n in expected
            ]
            assert table.depth.tolist() == [depth_of(n) for n in expected]
            for number, above in zip(expected, table.parent.tolist(), strict=True):
                there = parents[number]
                while there is not None and there not in expected:
                    there = parents[there]
                assert (None if above < 0 else expected[above]) == there
            for row, number in enumerate(expected):
                assert table.row_of(number) == row


def add(builder: HistoryBuilder, spans: list[Span], threads: list[int]) -> None:
    """Add spans, and with each a point where it begins, a flow to where it ends, and a sample."""
    quarks = [threads[span.thread] for span in spans]
    starts, ends = [span.start_ns for span in spans], [span.end_ns for span in spans]
    names = [span.name for span in spans]
    texts = [span.arguments for span in spans]
    builder.add_spans(quarks, names, starts, ends, arguments=texts)
    builder.add_points(quarks, names, starts, arguments=texts)
    builder.add_flows(quarks, starts, quarks[::-1], ends, names)
    builder.add_samples(quarks, [["main", name] for name in names], starts, weights=ends)


def compare_others(history: History, spans: list[Span], threads: list[int], asked: range) -> None:
    """Compare points, flows and samples, of which one was added with each span."""
    order = sorted(range(len(spans)), key=lambda n: (spans[n].start_ns, n))
    inside = [n for n in order if spans[n].start_ns in asked]
    for found, low_ns, high_ns in ((order, None, None), (inside, asked.start, asked.stop)):
        points = history.points(start_ns=low_ns, end_ns=high_ns)
        assert points.time_ns.tolist() == [spans[n].start_ns for n in found]
        assert [points.arguments(row) for row in range(len(points))] == [
            spans[n].arguments for n in found
        ]
        samples = history.samples(start_ns=low_ns, end_ns=high_ns)
        assert samples.weight.tolist() == [spans[n].end_ns for n in found]
        assert samples.thread.tolist() == [threads[spans[n].thread] for n in found]
        assert [samples.stacks.frames_of(stack) for stack in samples.stack.tolist()] == [
            ["main", spans[n].name] for n in found
        ]
    flows = history.flows(start_ns=asked.start, end_ns=asked.stop)
    assert flows.from_ns.tolist() == [
        spans[n].start_ns
        for n in order
        if spans[n].start_ns < asked.stop and spans[n].end_ns >= asked.start
    ]


class Growing:
    """A history that grows, and all that was added to it."""

    def __init__(self, folder: Path, script: Script, asked: range) -> None:
        self.path = folder / "x.mth" if script.on_disk else None
        self.asked = asked
        self.builder = HistoryBuilder(self.path)
        self.threads = [self.builder.quark("threads", str(thread)) for thread in range(THREADS)]
        self.state = self.builder.quark("state")
        self.added: list[Span] = []
        self.then: list[tuple[History, list[Span]]] = []
        self.readers: list[History] = []

    def add(self, spans: list[Span]) -> None:
        add(self.builder, spans, self.threads)
        self.added += spans

    def do(self, what: str) -> None:
        """Do what a script says."""
        if what == "change":
            self.builder.modify(len(self.added), self.state, len(self.added))
        elif what == "ask":
            self.compare(self.builder.history)
            self.then.append((self.builder.history.snapshot(), list(self.added)))
        elif what == "look" and self.path is not None:
            self.builder.flush()
            self.readers = self.readers or [open_history(self.path)]
            self.compare(self.readers[0])
        elif what == "flush":
            self.builder.flush()

    def compare(self, history: History) -> None:
        """Compare all tables of a history with what was added."""
        compare(history, self.added, self.threads, self.asked)
        compare_others(history, self.added, self.threads, self.asked)

    def resume(self) -> None:
        """Check what is there of the unfinished history, save it elsewhere, and resume it."""
        assert self.path is not None
        self.builder.flush()
        check(self.path)
        saved = self.path.with_name("saved.mth")
        assert not save(self.path, saved)
        self.compare(open_history(saved))
        self.builder.leave()
        self.builder = HistoryBuilder(self.path, resume=True)
        self.compare(self.builder.history)
        self.add(self.added[:3])

    def finish(self) -> None:
        """Close the history, and compare what every reader has of it with what was added."""
        self.compare(self.builder.close())
        for then, added in self.then:
            compare(then, added, self.threads, self.asked)
        if self.path is None:
            return
        check(self.path)
        again = open_history(self.path)
        for history in (again, *self.readers):
            self.compare(history)
            assert history.built
        assert again.spans().lane.tolist() == lanes(self.added).tolist()
        assert not (self.path / "events").exists()


@settings(max_examples=20)
@given(SCRIPTS, st.builds(lambda low, size: range(low, low + size), TIMES, st.integers(1, 30)))
def test_what_was_added_is_seen_at_once_and_stays_as_it_was(script: Script, asked: range) -> None:
    with blocks_of(script.block_rows), tempfile.TemporaryDirectory() as folder:
        growing = Growing(Path(folder), script, asked)
        for spans, what in script.batches:
            growing.add(spans)
            growing.do(what)
        added = growing.added
        if added:
            begin_ns, end_ns = growing.builder.history.bounds
            assert begin_ns == min(span.start_ns for span in added)
            assert end_ns == max(max(span.end_ns, span.start_ns + 1) for span in added)
            assert growing.builder.history.end_ns >= end_ns
        if script.on_disk and script.block_rows > 2:
            growing.resume()
        growing.finish()


def lanes(spans: list[Span]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the lanes of spans that are added at once, in memory."""
    builder = HistoryBuilder()
    threads = [builder.quark("threads", str(thread)) for thread in range(THREADS)]
    add(builder, spans, threads)
    return builder.close().spans().lane.astype(np.int64)
