"""The page with everything inside, read back as its format is described."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from meantime.errors import MeantimeError
from meantime.server.onefile import page
from meantime.server.session import Session
from meantime.testing import history_from_picture, history_from_samples, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History


def written(*sources: str | History, most_bytes: int = 10**9) -> str:
    session = Session(sources)
    session.start()
    session.wait(600)
    return b"".join(page(session, most_bytes=most_bytes)).decode()


def element(text: str, name: str) -> str:
    found = re.search(rf'<script type="[^"]*" id="meantime-{name}">([^<]*)</script>', text)
    assert found is not None, name
    return found[1]


class Data:
    """The data of a file in a page."""

    def __init__(self, text: str, file: int = 0) -> None:
        self._text, self._file = text, file
        session = json.loads(element(text, "session"))
        self.directory: dict[str, Any] = session["embedded"]["files"][file]
        self.lanes: dict[str, Any] = json.loads(element(text, f"lanes-{file}"))

    def column(self, name: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
        width, count = (self.directory["columns"][name][each] for each in ("width", "count"))
        values = np.zeros(count, np.uint64)
        if width:
            data = zlib.decompress(b64decode(element(self._text, f"{self._file}-{name}")), -15)
            for plane in range(width):
                values |= np.frombuffer(data, np.uint8, count, plane * count).astype(
                    np.uint64
                ) << np.uint64(8 * plane)
        return values

    def boxes(self) -> list[tuple[str, int, int, int, str]]:
        """Return the boxes: name of the lane, row, start, end, name."""
        columns = [self.column(each).tolist() for each in ("gap", "length", "name")]
        rows = iter(zip(*columns, strict=True))
        found = []
        listed = self.directory["rows"]
        for lane, row, count in zip(*(listed[k] for k in ("lane", "row", "count")), strict=True):
            time = int(self.directory["origin_ns"])
            for _ in range(count):
                gap, length, name = next(rows)
                time += gap
                title = self.lanes["name"][lane]
                found.append((title, row, time, time + length, self.directory["names"][name]))
                time += length
        return found


def test_a_page_has_every_state_and_span() -> None:
    states = history_from_picture("cpu0  aab.bbc\ncpu1  .aaaacc")
    spans = history_from_spans({"main": [("f", 5, 90), ("g", 7, 9), ("g", 9, 9), ("h", 20, 30)]})
    text = written(states, spans)

    assert Data(text).boxes() == [
        ("cpu0", 0, 0, 2, "a"),
        ("cpu0", 0, 2, 3, "b"),
        ("cpu0", 0, 4, 6, "b"),
        ("cpu0", 0, 6, 7, "c"),
        ("cpu1", 0, 1, 5, "a"),
        ("cpu1", 0, 5, 7, "c"),
    ]
    assert Data(text, 1).boxes() == [
        ("main", 0, 5, 90, "f"),
        ("main", 1, 7, 9, "g"),
        ("main", 1, 9, 9, "g"),
        ("main", 1, 20, 30, "h"),
    ]
    assert Data(text).directory["missing"] is None


def test_spans_without_an_end_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    begins = [("B", 0, 1), ("E", 50, 1), ("B", 60, 1), ("B", 70, 2), ("E", 90, 2), ("B", 95, 2)]
    path.write_text(
        json.dumps([{"ph": ph, "name": "a", "ts": ts, "pid": 1, "tid": t} for ph, ts, t in begins])
    )

    data = Data(written(str(path)))

    is_open = np.cumsum(data.column("open")).tolist()
    assert [data.boxes()[box][2] for box in is_open] == [60_000, 95_000]


def test_samples_and_counters_are_in_the_page(tmp_path: Path) -> None:
    rows = [(time, "t", ["main", "a"], 2) for time in (3, 5, 9)]
    data = Data(written(history_from_samples(rows)))
    assert (data.directory["origin_ns"], data.column("sample_gap").tolist()) == ("3", [0, 2, 4])
    assert data.column("sample_weight").tolist() == [2, 2, 2]
    stack = int(data.column("sample_stack")[0]) - 1
    frame = data.directory["frames"][int(data.column("stack_frame")[stack])]
    assert frame == "a"

    trace = tmp_path / "trace.json"
    counts = [
        {"ph": "C", "pid": 1, "ts": t, "name": "n", "args": {"v": v}} for t, v in ((1, 4), (3, 7))
    ]
    flow = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "name": "f", "args": {"x": "</script>"}},
        {"ph": "i", "pid": 1, "tid": 1, "ts": 2, "name": "mark"},
    ]
    trace.write_text(json.dumps(counts + flow))
    text = written(str(trace))
    data = Data(text)
    assert data.column("counter_value").view(np.float64).tolist()[-2:] == [4.0, 7.0]
    assert json.loads(bytes(data.column("texts").astype(np.uint8))) == ['{"x": "</script>"}']
    assert data.directory["names"][int(data.column("point_name")[0])] == "mark"


def test_a_file_that_fails_after_a_part_of_it_was_shown_makes_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.server.session._SNAPSHOT_S", 0.0)
    monkeypatch.setattr("meantime.server.session._SNAPSHOT_SHARE", 100.0)
    monkeypatch.setattr("meantime.readers.statemap.reader.BATCH_ROWS", 1 << 12)
    path = tmp_path / "cut.statemap"
    head = '{"start": [0, 0], "title": "t", "states": {"on": {"value": 0}, "off": {"value": 1}}}'
    rows = (
        f'{{"time": "{time_ns}", "entity": "e", "state": {time_ns % 2}}}'
        for time_ns in range(80_000)
    )
    path.write_text("\n".join([head, *rows, '{"time": "x"}']))
    session = Session([str(path)])
    session.start()
    session.wait(600)
    (file,) = session.files

    assert file.shown is not None
    with pytest.raises(MeantimeError, match=r"cut\.statemap:80002: "):
        list(page(session, most_bytes=1 << 30))


def test_a_trace_without_any_lane_is_a_page(tmp_path: Path) -> None:
    trace = tmp_path / "empty.json"
    trace.write_text('{"traceEvents": []}')

    assert Data(written(str(trace))).lanes["count"] == 0


def test_names_are_text_and_only_the_page_s_script_runs() -> None:
    name = "</script><script>alert(1)</script><!--"
    text = written(history_from_spans({"main": [(name, 0, 9)]}))

    assert "alert(1)</script>" not in text
    assert Data(text).boxes() == [("main", 0, 0, 9, name)]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert re.search(r"script-src 'sha256-[\w+/=]+';", policy[1])
    assert "src=" not in re.sub(r"<script>.*</script>", "", text, flags=re.DOTALL)


def test_detail_shrinks_to_the_size_and_the_page_says_so() -> None:
    random = np.random.default_rng(1)
    starts = np.sort(random.integers(0, 10**9, 20_000)).tolist()
    ends = [
        min(a + 1 + int(random.pareto(1) * 100), b)
        for a, b in zip(starts, [*starts[1:], 2 * 10**9], strict=True)
    ]
    history = history_from_spans(
        {"main": [(f"f{i % 50}", a, b) for i, (a, b) in enumerate(zip(starts, ends, strict=True))]}
    )
    whole = written(history)
    bare = len(written(history_from_spans({"main": [("f", 0, 1)]})))
    limit = bare + (len(whole) - bare) // 2

    small = written(history, most_bytes=limit)

    assert len(small) <= limit
    data = Data(small)
    assert data.directory["missing"].startswith("Detail under ")
    # every span is one of a box, and their time is kept
    assert int(data.column("merged").sum()) == 20_000
    assert int(data.column("covered").sum()) == sum(ends) - sum(starts)
    with pytest.raises(MeantimeError, match="--max-size"):
        written(history, most_bytes=1000)


def test_merged_spans_that_overlap_are_inside_of_longer_ones() -> None:
    random = np.random.default_rng(1)
    starts = np.sort(random.integers(1_000, 10**6, 5_000))
    ends = starts + random.integers(1, 900, len(starts))
    inner = [
        (f"g{i % 7}", start, end)
        for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
    ]
    history = history_from_spans({"main": [("outer", 0, 2 * 10**6), *inner]})
    whole = written(history)
    bare = len(written(history_from_spans({"main": [("f", 0, 1)]})))

    small = Data(written(history, most_bytes=bare + (len(whole) - bare) // 2))

    steps = small.column("parent").astype(np.int64)
    parents = (np.cumsum((steps >> 1) ^ -(steps & 1)) - 2).tolist()
    names = [box[-1] for box in small.boxes()]
    assert len(parents) == len(names) < 5_001
    outer = names.index("outer")
    assert parents[outer] == -1
    reached = {outer}
    # each round adds those inside of the ones before: none is inside of itself
    for _ in names:
        reached |= {box for box, above in enumerate(parents) if above in reached}
        if len(reached) == len(names):
            break
    assert len(reached) == len(names)
