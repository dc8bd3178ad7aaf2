"""A range of a statemap file is drawn the same whether all of the file was read or that range."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meantime.cli import main
from meantime.errors import MeantimeError, UsageError
from meantime.history import HistoryBuilder
from meantime.history.ingest import build, ingest
from meantime.model.units import MAX_NS
from meantime.opening.history_from_path import open_history
from meantime.query.statistics import state_statistics
from meantime.readers import statemap
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source
from meantime.readers.statemap import reader
from meantime.view_functions.heatmap import heatmap
from meantime.views.statemap import StatemapOptions, document
from meantime.views.statemap import build as draw

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History
    from meantime.kernels.scan_statemap import Scanner
    from meantime.model.trace import Trace

META = '{"start": [1, 0], "states": {"a": {"value": 0}, "b": {"value": 1}, "c": {"value": 2}}}\n'


def trace_of(text: str, range_ns: tuple[int, int] | None) -> Trace:
    source = Source("x", io.BytesIO(text.encode()), stored_bytes=len(text))
    start, end = range_ns or (None, None)
    return statemap.read(source, ReadOptions(start=start, end=end))


def facts(history: History, begin_ns: int | None, end_ns: int | None, **options: Any) -> Any:
    """Return all that a picture of a window shows, its statistics and the anomalies."""
    try:
        drawn = draw([history], StatemapOptions(begin_ns=begin_ns, end_ns=end_ns, **options))
    except MeantimeError as error:
        return str(error)
    anomalies = dict(history.anomalies)
    # with data that go backwards this count depends on where batches end
    anomalies.pop("event_after_end", None)
    map_, *others = json.loads(document.render(drawn))["maps"]
    assert not others
    map_.pop("anomalies", None)
    window = drawn.panels[0]
    range_ns = window.start_ns, min(window.end_ns, history.end_ns)
    rows = None
    if range_ns[0] < range_ns[1]:
        rows = state_statistics(history, by="entity", start_ns=range_ns[0], end_ns=range_ns[1]).rows
    return map_, window.existed, rows, anomalies


@st.composite
def data(draw: st.DrawFn) -> str:
    """Return the data of a few entities; the times of each ascend, those of all need not."""
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
    step = st.sampled_from([0, 1, 1, 2, 5])
    time_ns = dict.fromkeys(range(4), 0)
    ordered = draw(st.booleans())
    valued = draw(st.booleans())
    lines = []
    for entity, state in rows:
        time = max(time_ns.values()) if ordered else time_ns[entity]
        time_ns[entity] = time + draw(step)
        record: dict[str, Any] = {"time": str(time_ns[entity]), "entity": f"e{entity}"}
        match draw(st.integers(0, 9)):
            case 0:
                record["event"] = "woken"
            case 1:
                record |= {"state": state, "tag": "t"}
            case 2 if valued:
                record |= {"state": state, "value": draw(st.integers(0, 3))}
            case _:
                record["state"] = state
        lines.append(json.dumps(record))
    return META + "\n".join(lines)


def answers(history: History, begin_ns: int, end_ns: int) -> Any:
    """Return what queries answer about a range, and the heat map of it."""
    try:
        heat = json.loads(
            b"".join(heatmap(history, period=7, rows=3, start=begin_ns, end=end_ns).render("json"))
        )
        del heat["anomalies"]  # compared with the picture
    except MeantimeError as error:
        heat = str(error)
    begin_ns, end_ns = max(begin_ns, history.start_ns), min(end_ns, history.end_ns)
    if begin_ns >= end_ns:
        return heat
    # attributes are numbered in the order of batches
    every = sorted(map(history.attributes.text, range(len(history.attributes))))
    return (
        heat,
        frame(history.intervals(every, begin_ns, end_ns)),
        frame(history.intervals(every, begin_ns, begin_ns + 1)),
        frame(history.intervals(every, end_ns - 1, end_ns)),
        frame(history.shares(every, begin_ns, end_ns, 3)),
        history.count(every, begin_ns, end_ns).tolist(),
    )


def frame(table: Any) -> Any:
    """Return the columns of a result as lists, with paths in place of attributes."""
    columns = {name: list(column) for name, column in table.with_paths().items()}
    del columns["quark"]
    return columns


@settings(max_examples=60, deadline=None)
@given(
    data(),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(1, 30),
    st.sampled_from([3, 5, 1 << 18]),
    st.sampled_from([{}, {"filter": "e[01]"}, {"sort_by": "b", "ignore_tags": True}]),
)
# the last state after the range is the one that began after it, with another one between
@example(
    META + "".join(f'["{t}","e",{s},null]' for t, s in ((0, 0), (5, 1), (7, 2), (9, 1))),
    2,
    2,
    3,
    {},
)
def test_a_range_is_drawn_as_that_of_all_data(
    text: str, begin_ns: int | None, length_ns: int | None, rows: int, options: dict[str, Any]
) -> None:
    end_ns = None if length_ns is None else (begin_ns or 0) + length_ns
    with mock.patch.object(reader, "BATCH_ROWS", rows):
        part = build(trace_of(text, (begin_ns or 0, end_ns or MAX_NS)))
    whole = build(trace_of(text, None))

    assert facts(part, begin_ns, end_ns, **options) == facts(whole, begin_ns, end_ns, **options)
    asked = begin_ns or 0, MAX_NS if end_ns is None else end_ns
    assert answers(part, *asked) == answers(whole, *asked)
    assert (part.start_ns, part.end_ns, part.bounds) == (whole.start_ns, whole.end_ns, whole.bounds)


def test_a_part_of_a_trace_is_not_stored(tmp_path: Path) -> None:
    trace = trace_of(META + '["1","e",0,null]', (0, 5))

    with pytest.raises(UsageError, match="a part of it was read, which is not stored"):
        ingest(HistoryBuilder(tmp_path / "x.mth"), trace)


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        ("2ns", "4ns", (2, 4)),
        ("abs:2ns", None, (2, MAX_NS)),
        ("1970-01-01T00:00:01.000000002Z", 4, (2, 4)),
        (None, "@1.000000004", (0, 4)),
        (4, 2, None),  # an error of whoever asks
        (-1, 0, None),  # 0 is the end of the data for the original program
    ],
)
def test_a_range_can_be_given_in_every_form_of_time(
    start: Any, end: Any, read: tuple[int, int] | None, tmp_path: Path
) -> None:
    file = tmp_path / "x.statemap"
    file.write_text(META + "".join(f'["{time}","e",{time % 3},null]' for time in range(9)))

    assert open_history(file, start=start, end=end).metadata.range_ns == read


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "FILE", "intervals", "**", "--from", "3ns", "--to", "5ns", "--json"],
        ["query", "FILE", "at", "abs:4ns", "--json"],
        ["query", "FILE", "state", "e", "1970-01-01T00:00:01.000000004Z", "--json"],
        ["stats", "FILE", "--from", "abs:3ns", "--json"],
        ["dump", "FILE", "--kind", "intervals", "--from", "3ns", "--to", "5ns"],
        ["heatmap", "FILE", "--period", "7ns", "--rows", "3", "--from", "3ns", "-o", "OUT.json"],
        ["statemap", "FILE", "-b", "1970-01-01T00:00:01.000000003Z", "-d", "2ns", "-o", "OUT.svg"],
    ],
)
def test_commands_read_only_their_range(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, made = tmp_path / "x.statemap", tmp_path / f"out{arguments[-1][3:]}"
    file.write_text(META + "".join(f'["{time}","e",{time % 3},null]' for time in range(900)))
    words = [{"FILE": str(file)}.get(word, word) for word in arguments]
    words = [str(made) if word.startswith("OUT") else word for word in words]
    read: list[Any] = []
    new_scanner = reader.Reader._new_scanner

    def noted(self: reader.Reader, range_ns: tuple[int, int] | None) -> Scanner:
        read.append(range_ns)
        return new_scanner(self, range_ns)

    def run() -> tuple[str, bytes | None]:
        with pytest.raises(SystemExit) as left:
            main(words)
        assert not left.value.code
        return capsys.readouterr().out, made.read_bytes() if made.exists() else None

    with mock.patch.object(reader.Reader, "_new_scanner", noted):
        part = run()
    with mock.patch.object(ReadOptions, "range_in", return_value=None):
        whole = run()

    assert part == whole
    assert [range_ns for range_ns in read if range_ns is not None and range_ns[0] >= 3]
