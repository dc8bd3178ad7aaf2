"""A range of a statemap file is drawn the same whether all of the file was read or that range."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meantime.errors import MeantimeError, UsageError
from meantime.history import HistoryBuilder
from meantime.history.ingest import build, ingest
from meantime.query.statistics import state_statistics
from meantime.readers import statemap
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source
from meantime.readers.statemap import reader
from meantime.units import MAX_NS
from meantime.views.statemap import StatemapOptions, document
from meantime.views.statemap import build as draw

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History
    from meantime.trace import Trace

META = '{"start": [1, 0], "states": {"a": {"value": 0}, "b": {"value": 1}, "c": {"value": 2}}}\n'


def trace_of(text: str, range_ns: tuple[int, int] | None) -> Trace:
    source = Source("x", io.BytesIO(text.encode()), stored_bytes=len(text))
    return statemap.read(source, ReadOptions(range_ns=range_ns))


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
    assert (part.start_ns, part.end_ns, part.bounds) == (whole.start_ns, whole.end_ns, whole.bounds)


def test_a_part_of_a_trace_is_not_stored(tmp_path: Path) -> None:
    trace = trace_of(META + '["1","e",0,null]', (0, 5))

    with pytest.raises(UsageError, match="a part of it was read, which is not stored"):
        ingest(HistoryBuilder(tmp_path / "x.mth"), trace)
