"""Several traces in one file of Chrome JSON, one behind the other, and other text there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.readers import chrome

if TYPE_CHECKING:
    from pathlib import Path


def _event(name: str, ts: int) -> dict[str, object]:
    return {"ph": "X", "name": name, "ts": ts, "dur": 10, "pid": 1, "tid": 1}


_ARRAYS = [json.dumps([_event(name, ts)]) for name, ts in (("a", 0), ("b", 20), ("c", 40))]
_OBJECTS = [
    json.dumps({"displayTimeUnit": name, "traceEvents": [_event(name, ts)], "host_name": name})
    for name, ts in (("a", 0), ("b", 20), ("c", 40))
]
_LINES = ",\n".join(json.dumps(_event(name, ts)) for name, ts in (("b", 20), ("c", 40)))


@pytest.mark.parametrize("block", [5, 64, 1 << 20])
@pytest.mark.parametrize(
    ("text", "further"),
    [
        ("\n".join(_ARRAYS), 2),
        ("".join(_OBJECTS), 2),
        (_ARRAYS[0] + "\r\n\r\n" + _OBJECTS[1] + _ARRAYS[2], 2),
        (_OBJECTS[0] + "\n" + _ARRAYS[1] + _OBJECTS[2] + "\n", 2),
        (_ARRAYS[0] + "\n" + _LINES, 1),
        # a trace that is empty, too
        (_ARRAYS[0] + '{"traceEvents":[]}' + _ARRAYS[1] + _ARRAYS[2], 3),
    ],
)
def test_all_traces_in_a_file_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, further: int, block: int
) -> None:
    monkeypatch.setattr(chrome, "BLOCK_BYTES", block)
    (tmp_path / "a.json").write_text(text)
    history = meantime.open(tmp_path / "a.json")

    spans = history.spans()
    assert [
        (spans.name[row], spans.start_ns[row], spans.end_ns[row]) for row in range(len(spans))
    ] == [("a", 0, 10_000), ("b", 20_000, 30_000), ("c", 40_000, 50_000)]
    assert dict(history.anomalies) == {"further_trace": further}


def test_the_first_trace_says_what_its_clock_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("".join(_OBJECTS))
    history = meantime.open(tmp_path / "a.json")

    assert history.clock.host == "a"
    assert history.facts["displayTimeUnit"] == "a"


@pytest.mark.parametrize("tail", ["[0.3s] done", "{x}", "]}", "[", "[1, 2]", "}, {" + _ARRAYS[0]])
def test_other_text_behind_a_trace_is_counted_in_bytes(tmp_path: Path, tail: str) -> None:
    (tmp_path / "a.json").write_text(_ARRAYS[0] + "\n" + tail)
    history = meantime.open(tmp_path / "a.json")

    assert len(history.spans()) == 1
    assert dict(history.anomalies) == {"trailing_text": len(tail)}


def test_a_further_trace_may_be_cut(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(_ARRAYS[0] + _OBJECTS[1][:-60])
    history = meantime.open(tmp_path / "a.json")

    assert dict(history.anomalies) == {"further_trace": 1, "truncated": 1}
