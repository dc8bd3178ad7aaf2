"""A history that one process writes while another asks, and damage to what it wrote."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.errors import HistoryClosedError, InputError, QuarkError
from meantime.history import HistoryBuilder, event_rows, merging
from meantime.history.directory.check import check, save

if TYPE_CHECKING:
    from pathlib import Path

# Row n of each table is known from n alone: it is at 10 * n, and what it has is a function of n.
WRITER = """
import os, sys, time
from meantime.history import HistoryBuilder, event_rows
event_rows.BLOCK_ROWS = 3000
builder = HistoryBuilder(sys.argv[1])
sealer = builder.contents.store.sealer
sealer._segment_changes = 4000
sealer.tail.capacity = sealer.full_rows
threads = [builder.quark("threads", str(i)) for i in range(4)]
state = builder.quark("state")
n = 0
while not os.path.exists(sys.argv[2]):
    rows = range(n, n + 1 + n * 7919 % 300)
    times = [10 * i for i in rows]
    builder.add_spans(
        [threads[i % 4] for i in rows],
        [f"n{i % 50 + i // 5000}" for i in rows],
        times,
        [10 * i + 35 + (i % 13 == 0) * 1000 for i in rows],
        arguments=[f"[{i}]" if i % 3 == 0 else None for i in rows],
    )
    builder.add_points([state] * len(rows), ["p"] * len(rows), times)
    stacks = [["main", f"f{i % 97}"] for i in rows]
    builder.add_samples([threads[0]] * len(rows), stacks, times, weights=list(rows))
    builder.modify_many(times, [state] * len(rows), list(rows))
    n += len(rows)
    time.sleep(0.005)
builder.close()
print(n)
"""


def end_of(row: int) -> int:
    return 10 * row + 35 + (row % 13 == 0) * 1000


def compare(history: meantime.History, low_ns: int) -> int:
    """Compare all answers about some time with what the rows so far say; return how many."""
    high_ns = low_ns + 60
    rows = len(history.spans())
    spans = history.spans(start_ns=low_ns, end_ns=high_ns)
    near = range(max(0, low_ns // 10 - 110), min(rows, low_ns // 10 + 7))
    open_then = [row for row in near if 10 * row < high_ns and end_of(row) > low_ns]
    assert sorted(spans.rows.tolist()) == open_then
    for row, number in enumerate(spans.rows.tolist()):
        assert spans.start_ns[row] == 10 * number
        assert spans.end_ns[row] == end_of(number)
        assert spans.name[row] == f"n{number % 50 + number // 5000}"
        assert spans.arguments(row) == (f"[{number}]" if number % 3 == 0 else None)
        assert history.attributes.path(spans.thread_at(row)) == ("threads", str(number % 4))
    # the writer adds the points of these rows after the spans, and the samples after the points
    points, samples = len(history.points()), len(history.samples())
    assert rows >= points >= samples
    inside = [10 * row for row in near if low_ns <= 10 * row < high_ns]
    found = history.points(start_ns=low_ns, end_ns=high_ns).time_ns.tolist()
    assert found == [time_ns for time_ns in inside if time_ns < 10 * points]
    samples_then = history.samples(start_ns=low_ns, end_ns=high_ns)
    found = samples_then.time_ns.tolist()
    assert found == [time_ns for time_ns in inside if time_ns < 10 * samples]
    stacks = zip(samples_then.stack.tolist(), samples_then.weight.tolist(), strict=True)
    for stack, weight in stacks:
        assert samples_then.stacks.frames_of(stack) == ["main", f"f{weight % 97}"]
    state = history.find("state")
    if state is not None and history.has_values([state])[0]:
        last = history.maximum(state, history.start_ns, history.end_ns)
        assert isinstance(last, int)
        asked_ns = min(low_ns, 10 * last)
        assert history.state(state, asked_ns).value == asked_ns // 10
    return rows


def test_one_process_writes_while_another_asks(tmp_path: Path) -> None:
    path, ending = tmp_path / "x.mth", tmp_path / "ending"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(ending)], stdout=subprocess.PIPE, text=True
    )
    while not (path / "manifest").exists():
        assert writer.poll() in {None, 0}
    history = meantime.open(path)
    chosen = np.random.default_rng(1)
    seen, built = [0], False
    while not built:
        assert writer.poll() in {None, 0}
        built = history.built
        seen.append(compare(history.snapshot(), int(chosen.integers(10 * seen[-1] + 1))))
        assert seen[-1] >= seen[-2]
        if seen[-1] > 25_000 and len(set(seen)) > 20:
            ending.touch()
    rows, _ = writer.communicate()
    assert writer.returncode == 0
    assert seen[-1] == compare(meantime.open(path), 0) == int(rows)
    check(path)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("growing") / "x.mth"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_rows, "BLOCK_ROWS", 4)
        builder = HistoryBuilder(path)
        main = builder.quark("main")
        for first in (0, 5):
            rows = range(first, first + 5)
            names, texts = list("abcde"), [f"[{i}]" for i in rows]
            starts, ends = list(rows), [i + 3 for i in rows]
            builder.add_spans([main] * 5, names, starts, ends, arguments=texts)
            builder.add_points([main] * 5, names, starts, arguments=texts)
            builder.add_samples([main] * 5, [["main", name] for name in names], starts)
            builder.add_flows([main] * 5, starts, [main] * 5, ends, names)
        builder.modify(3, main, "x")
        builder.leave()
    return path


def all_rows(path: Path) -> list[object]:
    history = meantime.open(path)
    spans, points = history.spans(), history.points()
    samples, flows = history.samples(), history.flows()
    return [
        spans.name.to_list(),
        [spans.rows.tolist(), spans.end_ns.tolist(), spans.parent.tolist()],
        [spans.arguments(row) for row in range(len(spans))],
        [points.arguments(row) for row in range(len(points))],
        [samples.stacks.frames_of(stack) for stack in samples.stack.tolist()],
        flows.to_ns.tolist(),
    ]


def answer(path: Path) -> str:
    try:
        return repr(all_rows(path))
    except InputError:
        return "refused"


def test_damage_to_the_rows_of_a_growing_history_is_found(unfinished: Path) -> None:
    before = repr(all_rows(unfinished))
    names = sorted(file.name for file in (unfinished / "events").iterdir())
    assert [name for name in names if name.startswith(("spans", "stacks"))] == [
        "spans-000000.rows",
        "spans-000001.rows",
        "spans-000002.log",
        "stacks-000000.log",
    ]
    for name in names:
        file = unfinished / "events" / name
        whole = file.read_bytes()
        changed = [
            bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in range(0, len(whole), 59)
        ]
        for damaged in [whole[:-1], whole[:130], b"", *changed]:
            file.write_bytes(damaged)
            # what pads texts is not checked
            assert answer(unfinished) in {before, "refused"}
        file.write_bytes(whole)
        file.unlink()
        with pytest.raises(InputError, match="events"):
            all_rows(unfinished)
        file.write_bytes(whole)
    assert repr(all_rows(unfinished)) == before


def test_what_precedes_damaged_rows_is_saved(unfinished: Path, tmp_path: Path) -> None:
    file = unfinished / "events" / "spans-000001.rows"
    whole = file.read_bytes()
    file.write_bytes(whole[:-70] + bytes([whole[-70] ^ 1]) + whole[-69:])
    try:
        with pytest.raises(InputError, match="damaged"):
            check(unfinished)
        missing = save(unfinished, tmp_path / "saved.mth")
    finally:
        file.write_bytes(whole)
    assert "spans-000001" in missing[0]
    saved = meantime.open(tmp_path / "saved.mth")
    assert (len(saved.spans()), len(saved.points())) == (4, 10)
    assert saved.state("main", 4).value == "x"


def test_rows_that_cannot_be_are_refused_when_they_are_added() -> None:
    builder = HistoryBuilder()
    main = builder.quark("main")
    with pytest.raises(ValueError, match="span 0 ends at 1 ns, before it starts at 2 ns"):
        builder.add_spans([main], ["a"], [2], [1])
    with pytest.raises(ValueError, match="the columns differ in length"):
        builder.add_points([main, main], ["a"], [2])
    with pytest.raises(meantime.errors.QuarkError):
        builder.add_flows([main], [1], [main + 1], [2], ["a"])
    with pytest.raises(TypeError):
        builder.add_spans([main], ["a"], [2.5], [3])  # type: ignore[list-item] # what is tested
    assert len(builder.history.spans()) == 0
    builder.close()
    with pytest.raises(HistoryClosedError):
        builder.add_points([main], ["a"], [2])


def put_rows(builder: HistoryBuilder, batches: range) -> None:
    """Add rows in batches, each of which depends on its number alone, out of order in time."""
    main = builder.quark("main")
    for batch in batches:
        rows = range(5 * batch, 5 * batch + 5)
        texts = [f"[{row}]" for row in rows]
        starts = [50 - row if row % 2 else row for row in rows]
        builder.add_spans(
            [main] * 5, list("abcde"), starts, [start + 9 for start in starts], arguments=texts
        )
        builder.add_points([main] * 5, list("abcde"), starts, arguments=texts)
        builder.add_samples([main] * 5, [["main", str(row % 7)] for row in rows], starts)
        builder.modify(batch, main, batch)


@pytest.mark.parametrize("killed_after", [1, 4, 7])
def test_a_resumed_build_skips_what_it_has_and_writes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    monkeypatch.setattr(event_rows, "BLOCK_ROWS", 8)
    with HistoryBuilder(tmp_path / "whole.mth") as builder:
        builder.position = "start"
        put_rows(builder, range(8))

    path = tmp_path / "x.mth"
    builder = HistoryBuilder(path)
    builder.position = "start"
    put_rows(builder, range(killed_after))
    builder.leave()
    builder = HistoryBuilder(path, resume=True)
    assert builder.position == "start"
    put_rows(builder, range(8))
    builder.close()

    for name in ("manifest", "tables"):
        assert (path / name).read_bytes() == (tmp_path / "whole.mth" / name).read_bytes()
    assert meantime.open(path).spans().rows.tolist() != list(range(40))


def test_a_moment_of_a_history_stays_readable_when_its_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_rows, "BLOCK_ROWS", 8)
    builder = HistoryBuilder(tmp_path / "x.mth")
    put_rows(builder, range(4))
    builder.flush()
    mine, others = builder.history.snapshot(), meantime.open(tmp_path / "x.mth").snapshot()
    put_rows(builder, range(4, 6))
    builder.close()

    for then in (mine, others):
        spans = then.spans()
        assert sorted(spans.rows.tolist()) == list(range(20))
        assert sorted(spans.arguments(row) or "" for row in range(20)) == sorted(
            f"[{row}]" for row in range(20)
        )


def test_a_moment_of_a_history_has_no_attributes_and_tags_that_came_later() -> None:
    builder = HistoryBuilder()
    builder.lanes("*/Status")
    first = builder.quark("a", "Status")
    builder.modify(0, first, "x", builder.tag({"n": 1}))
    then = builder.history.snapshot()
    for name in "abc":
        builder.modify(5, builder.quark(name, "Status"), "y", builder.tag({"n": name}))

    assert len(then.attributes) == len(then.at(0)) == 2
    assert then.intervals("*/*").quark.tolist() == then.quarks("*/*").tolist() == [first]
    assert then.find("b") is None
    assert then.attributes.children().tolist() == [0]
    assert [lane.quarks.tolist() for lane in then.lanes] == [[first]]
    assert list(then.tags) == [{"n": 1}]
    assert len(builder.history.attributes) == 6
    with pytest.raises(QuarkError):
        then.state(2, 0)


def test_more_lanes_than_a_byte_can_number_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_rows, "BLOCK_ROWS", 100)
    monkeypatch.setattr(merging, "_MERGED_ROWS", 64)
    monkeypatch.setattr(merging, "_WINDOW_ROWS", 16)
    lanes = []
    for path in (None, tmp_path / "x.mth"):
        builder = HistoryBuilder(path)
        main = builder.quark("main")
        rows = range(300)
        builder.add_spans([main] * 300, ["a"] * 300, list(rows), [1000 + row for row in rows])
        spans = builder.close().spans()
        lanes.append(spans.lane.tolist())
        assert spans.lane.dtype == np.uint16
    assert lanes[0] == lanes[1]
    assert max(lanes[0]) == 299


def test_a_snapshot_keeps_its_spans_while_the_history_is_finished() -> None:
    builder = HistoryBuilder()
    threads = [builder.quark(name) for name in ("b", "a")]

    def add(first_ns: int) -> None:
        rows = 5000
        start_ns = np.arange(first_ns, first_ns + rows)
        quarks = np.resize(np.array(threads, np.int32), rows)
        builder.add_spans(quarks, ["run"] * rows, start_ns, start_ns + 7)

    add(0)
    before = builder.history.snapshot().spans()
    known = before.start_ns.tolist(), before.thread.tolist(), before.end_ns.tolist()
    add(5000)
    finished = builder.close().spans()

    assert known == (before.start_ns.tolist(), before.thread.tolist(), before.end_ns.tolist())
    assert sorted(finished.start_ns.tolist()) == list(range(10_000))
    assert (finished.end_ns - finished.start_ns == 7).all()
    assert finished.rows.tolist() == finished.start_ns.tolist()
