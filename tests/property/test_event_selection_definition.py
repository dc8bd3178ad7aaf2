"""Points and flows of some attributes in a range, compared with a search of all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.history.results import Flows, Points
from meantime.model.columns import Coded
from meantime.model.trace import ArgumentText

TIMES = st.integers(0, 40)
QUARKS = st.integers(0, 4)
EDGES = st.none() | TIMES


def int32s(numbers: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


@given(st.lists(st.tuples(TIMES, QUARKS)), EDGES, EDGES, st.none() | st.lists(QUARKS))
def test_selected_points_are_those_of_the_attributes_in_the_range(
    rows: list[tuple[int, int]], start_ns: int | None, end_ns: int | None, quarks: list[int] | None
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    texts = [b"%d" % row for row in range(len(rows))]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    points = Points(
        np.array([time_ns for time_ns, _ in rows], np.int64),
        int32s([quark for _, quark in rows]),
        Coded(int32s([quark % 2 for _, quark in rows]), ["x", "y"]),
        offsets[:-1],
        np.diff(offsets).astype(np.int32),
        ArgumentText(b"".join(texts)),
    )

    found = points.select(quarks, start_ns=start_ns, end_ns=end_ns)

    expected = [
        (time_ns, quark, "xy"[quark % 2], str(row))
        for row, (time_ns, quark) in enumerate(rows)
        if (start_ns is None or time_ns >= start_ns)
        and (end_ns is None or time_ns < end_ns)
        and (quarks is None or quark in quarks)
    ]
    assert [
        (int(found.time_ns[row]), int(found.quark[row]), found.name[row], found.arguments(row))
        for row in range(len(found))
    ] == expected


@given(
    st.lists(st.tuples(TIMES, QUARKS, TIMES, QUARKS)),
    EDGES,
    EDGES,
    st.none() | st.lists(QUARKS),
)
def test_selected_flows_are_under_way_in_the_range(
    rows: list[tuple[int, int, int, int]],
    start_ns: int | None,
    end_ns: int | None,
    quarks: list[int] | None,
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    flows = Flows(
        np.array([row[0] for row in rows], np.int64),
        int32s([row[1] for row in rows]),
        np.array([row[2] for row in rows], np.int64),
        int32s([row[3] for row in rows]),
        Coded(int32s([0] * len(rows)), ["f"]),
    )

    found = flows.select(quarks, start_ns=start_ns, end_ns=end_ns)

    expected = [
        row
        for row in rows
        if (start_ns is None or max(row[0], row[2]) >= start_ns)
        and (end_ns is None or min(row[0], row[2]) < end_ns)
        and (quarks is None or row[1] in quarks or row[3] in quarks)
    ]
    columns = (found.from_ns, found.from_quark, found.to_ns, found.to_quark)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
