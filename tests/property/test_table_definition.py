"""The reader of tables reads what a plain definition reads, row by row."""

from __future__ import annotations

import csv
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meantime.errors import InputError, UsageError
from meantime.model.attributes import parse_pattern
from meantime.model.trace import Samples, StateChanges
from meantime.readers import table
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBERS = st.one_of(
    st.integers(-3, 30).map(str),
    st.sampled_from(
        ["", "-", " 7", "+3", "1_0", "007", "-0", "1.0", "٣", str(2**63 - 2), "9" * 30]
    ),
    st.integers(-(2**63) - 1, -(2**63) + 1).map(str),
)
TEXTS = st.one_of(
    st.sampled_from(
        ["a", "b", "a/b", "c\\/d", "", "é", "a*", 'x"y', 'a"b,c', "a\nb", "a\rb", "\udcff"]
    ),
    st.text(alphabet="ab/*\\ ,\"'", max_size=4),
)
INTERVALS = ("start_ns", "end_ns", "path", "value")
EVENTS = ("time_ns", "name", "weight")


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[str, ...], list[list[str]]]:
    names = draw(st.sampled_from([INTERVALS, EVENTS, EVENTS[:2], ("x", *INTERVALS)]))
    rows = draw(
        st.lists(
            st.tuples(*[NUMBERS if name.endswith(("_ns", "weight")) else TEXTS for name in names]),
            max_size=8,
        )
    )
    if draw(st.booleans()):  # ascending, so that most tables are read
        rows = [
            tuple(_ascending(n, v, i) for n, v in zip(names, row, strict=True))
            for i, row in enumerate(rows)
        ]
    return names, [list(row) for row in rows]


def _ascending(name: str, value: str, row: int) -> str:
    shift = {"start_ns": 0, "end_ns": 2, "time_ns": 1, "weight": 1}.get(name)
    return value if shift is None else str(2 * row + shift)


def whole(text: str) -> int:
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def a_time(text: str) -> int:
    number = whole(text)
    if not -(2**63) < number < 2**63 - 2:
        raise ValueError
    return number


def whole_or_none(text: str) -> int | None:
    try:
        return whole(text)
    except ValueError:
        return None


def defined(names: Sequence[str], rows: list[list[str]]) -> Any:
    """Return what is read of rows: changes or samples in order, or None if they are refused."""
    table_rows = [dict.fromkeys(names, "") | dict(zip(names, row, strict=False)) for row in rows]
    try:
        if "path" not in names:
            return [
                (a_time(row["time_ns"]), row["name"], whole(row.get("weight", "1")))
                for row in table_rows
            ]
        intervals = [
            (a_time(row["start_ns"]), a_time(row["end_ns"]), row["path"], row["value"])
            for row in table_rows
        ]
        return changes_of(intervals)
    except (ValueError, UsageError):
        return None


def changes_of(table_rows: list[tuple[int, int, str, str]]) -> list[Any]:
    by_path: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
    if any(end < start for start, end, _, _ in table_rows):
        raise ValueError
    for start, end, text, value in table_rows:
        if start < end:
            path = parse_pattern(text)
            if not path or not all(isinstance(element, str) for element in path):
                raise ValueError
            by_path.setdefault(tuple(map(str, path)), []).append((start, end, value))
    changes: list[tuple[int, tuple[str, ...], str | None]] = []
    for path, intervals in lanes_of(by_path).items():
        starts = {start for start, _, _ in intervals}
        for start, end, value in intervals:
            changes.append((start, path, value))
            if end not in starts:
                changes.append((end, path, None))
    return in_order(changes)


def in_order(changes: list[tuple[int, tuple[str, ...], str | None]]) -> list[Any]:
    """Return changes by time and path: those of different paths at one time have no order."""
    return sorted(changes, key=lambda change: change[:2])


def lanes_of(
    by_path: dict[tuple[str, ...], list[tuple[int, int, str]]],
) -> dict[tuple[str, ...], list[tuple[int, int, str]]]:
    """Return the intervals of each path, or of its lanes if some overlap."""
    found = {}
    for path, intervals in by_path.items():
        lanes: list[list[tuple[int, int, str]]] = []
        for interval in sorted(intervals, key=lambda interval: interval[:2]):
            free = next((lane for lane in lanes if lane[-1][1] <= interval[0]), None)
            if free is None:
                lanes.append([interval])
            else:
                free.append(interval)
        for number, lane in enumerate(lanes, 1):
            label = f"lane {number:0{len(str(len(lanes)))}}"
            found[path if len(lanes) == 1 else (*path, label)] = lane
    return found


def read(data: bytes) -> Any:
    trace = table.read(Source("x", io.BytesIO(data)), ReadOptions())
    try:
        [batch] = trace.batches
    except InputError:
        return None
    if isinstance(batch, StateChanges):
        assert (batch.time_ns[1:] >= batch.time_ns[:-1]).all()
        return in_order(
            [
                (time, trace.paths[entity], None if state < 0 else trace.values[state])
                for time, entity, state in zip(
                    batch.time_ns.tolist(), batch.entity.tolist(), batch.state.tolist(), strict=True
                )
            ]
        )
    assert isinstance(batch, Samples)
    assert batch.name is not None
    assert [trace.paths[thread] for thread in batch.thread.tolist()] == [
        (trace.values[name],) for name in batch.name.tolist()
    ]
    names = [trace.values[name] for name in batch.name.tolist()]
    return list(zip(batch.time_ns.tolist(), names, batch.weight.tolist(), strict=True))


@given(tables(), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans(), st.integers(0, 3))
@example(
    (INTERVALS, [["0", "2", "a", "x"], ["2", "4", "a", "y"], ["1", "2", "b", "x"]]), "\n", False, 0
)
def test_csv_is_read_as_rows_of_texts(
    table_rows: tuple[tuple[str, ...], list[list[str]]],
    end: str,
    quoted: bool,  # noqa: FBT001 - a case
    cut: int,
) -> None:
    names, rows = table_rows
    text = io.StringIO()
    writer = csv.writer(
        text, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    )
    writer.writerows([names, *rows])
    data = text.getvalue().removesuffix(end)[: -cut or None].encode("utf-8", "surrogateescape")
    # what `csv` makes of it, with nothing read in another way
    decoded = io.StringIO(data.decode("utf-8", "backslashreplace"), newline="")
    [head, *lines] = [row for row in csv.reader(decoded) if row]

    if head == list(names):
        assert read(data) == defined(names, lines)


@given(tables(), st.integers(1, 4), st.booleans())
def test_parquet_is_read_as_rows_of_texts(
    table_rows: tuple[tuple[str, ...], list[list[str]]],
    group: int,
    whole_numbers: bool,  # noqa: FBT001 - a case
) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    names, rows = table_rows
    columns: dict[str, Any] = {}
    for at, name in enumerate(names):
        texts = [row[at].encode("utf-8", "replace").decode() for row in rows]
        column: Any = texts
        if whole_numbers and name.endswith(("_ns", "weight")):
            numbers = [whole_or_none(text) for text in texts]
            column = pa.array(numbers, pa.int64())
            texts = [str(number) for number in numbers]
        elif name in ("value", "name"):
            column = [None if text == "" else text for text in texts]
            texts = [text or "None" for text in texts]
        columns[name] = column
        for row, text in zip(rows, texts, strict=True):
            row[at] = text
    file = io.BytesIO()
    if not rows:
        return
    import_module("pyarrow.parquet").write_table(pa.table(columns), file, row_group_size=group)

    assert read(file.getvalue()) == defined(names, rows)
