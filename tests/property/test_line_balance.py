"""Every line of a text is used, skipped with a reason, or counted as lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.model.input_path import input_path
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

# By format: lines before the records, and a record of each number.
TEXTS: dict[str, tuple[bytes, bytes]] = {
    "folded": (b"", b"main;f%d;g 1\n"),
    "jsonl": (b"", b'{"time_ns": %d, "name": "a"}\n'),
    "log": (b"", b"2026-03-02 08:00:00,123 INFO - app - message %d\n"),
    "ninja": (b"# ninja log v5\n", b"1\t2\t3\tout%d\tabc\n"),
    "strace": (b"", b"7 1770000000.%06d read(3) = 0 <0.000001>\n"),
    "ftrace": (b"# tracer: nop\n", b"  a-7 [000] 1.%06d: x: y=1\n"),
    "table": (b"time_ns,name\n", b"17%d00000000,name of it\n"),
    # a line behind a sample would be a frame
    "perf": (b"", b"a 7 [000] 1.%06d: sched:x: y=1\n\n"),
}
# What is counted for lines that are not used.
SKIPPED = {
    "doubled_row",
    "bad_record",
    "unknown_line",
    "unread_event",
    "event_without_time",
    "late_event",
}
GARBAGE = (b"something else\n", b"}{\n", b"\xff\xfe\n", b"a b\n", b"1 2 3 x\n")
RECORDS = 12


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Return some damages: what, and at which two lines."""
    kinds = st.sampled_from(["double", "exchange", "drop", "insert"])
    lines = st.integers(0, RECORDS - 1)
    return draw(st.lists(st.tuples(kinds, lines, lines), max_size=5))


def damaged(lines: list[bytes], damage: list[tuple[str, int, int]]) -> list[bytes]:
    found = list(lines)
    for kind, first, second in damage:
        a, b = first % len(found), second % len(found)
        if kind == "double":
            found[a:a] = found[min(a, b) : max(a, b) + 1]
        elif kind == "exchange":
            found[a], found[b] = found[b], found[a]
        elif kind == "drop" and len(found) > 6:
            del found[a]
        elif kind == "insert":
            found.insert(a, GARBAGE[b % len(GARBAGE)])
    return found


@pytest.mark.parametrize("format_", TEXTS)
@settings(max_examples=40)
@given(damage=damages(), cut=st.integers(0, 12))
def test_lines_are_used_or_counted(
    format_: str,
    damage: list[tuple[str, int, int]],
    cut: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    head, record = TEXTS[format_]
    lines = damaged([record % number for number in range(1, RECORDS + 1)], damage)
    # the last record may be cut
    text = head + b"".join(lines) + record % 99
    text = text[: len(text) - cut]
    path: Path = tmp_path_factory.getbasetemp() / f"balance.{format_}"
    path.write_bytes(text)

    trace = open_trace(input_path(path, format_=format_), lenient=True)
    for _ in trace.batches:
        pass

    whole = len(lines) + 1
    if format_ == "ftrace":
        # what the program printed before the first event
        whole -= next((at for at, line in enumerate(lines) if line not in GARBAGE), len(lines))
    used = trace.records
    skipped = sum(count for name, count in dict(trace.anomalies).items() if name in SKIPPED)
    lost = dict(trace.anomalies).get("truncated", 0)
    if format_ == "log":
        # other lines belong to the record before them
        garbage = sum(line in GARBAGE for line in lines)
        assert whole - garbage - 1 <= used + skipped <= whole
        return
    assert whole <= used + skipped + lost <= whole + lost
