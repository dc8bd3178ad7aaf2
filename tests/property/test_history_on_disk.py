from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.history import HistoryBuilder, chain, overview
from meantime.history.directory import overviews
from meantime.history.directory import write as directory
from meantime.history.directory.open import open_history
from meantime.history.directory.tail_log import read_blocks
from meantime.history.store import Store
from meantime.testing.strategies import Change, changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history import History

QUARKS = 5
TAGS = 3


@pytest.fixture(autouse=True)
def every_change_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_LOG_EVERY_S", 0)
    # also of a few changes
    monkeypatch.setattr(overview, "_most_bytes", lambda row_bytes: 10 * row_bytes)
    monkeypatch.setattr(overview, "_FEWEST_BINS", 0)
    # Nothing cuts the power in these tests.
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def builder_at(path: Path | None, segment_changes: int, *, resume: bool = False) -> HistoryBuilder:
    original = Store.__init__.__kwdefaults__, Store.__init__.__defaults__
    Store.__init__.__defaults__ = (segment_changes,)
    try:
        return HistoryBuilder(path, resume=resume)
    finally:
        Store.__init__.__kwdefaults__, Store.__init__.__defaults__ = original


def feed(builder: HistoryBuilder, script: list[Change], first: int = 0) -> Iterator[int]:
    """Make the changes from one on, and yield how many are made; the position is set now and then.

    One batch is made of up to four changes.
    """
    row = first
    if builder.position is None:
        builder.position = 0
    while row < len(script):
        change = script[row]
        quark = builder.quark(str(change.quark))
        if row % 3 == 0:
            part = script[row : row + 4]
            quarks = [builder.quark(str(change.quark)) for change in part]
            tags = [-1 if c.tag is None else builder.tag({"number": c.tag}) for c in part]
            values = [change.value for change in part]
            builder.modify_many([change.time_ns for change in part], quarks, values, tags)
            row += len(part)
        elif row % 3 == 1:
            builder.modify(change.time_ns, quark, change.value)
            counter = builder.quark("counter", str(change.quark))
            for _ in range(3):
                builder.increment(change.time_ns, counter)
            row += 1
        else:
            stack = builder.quark("stack", str(change.quark))
            builder.push(change.time_ns, stack, "x")
            if row % 2:
                builder.pop(change.time_ns, stack)
                builder.later(change.time_ns + 3, builder.quark("later", str(row)), row)
            row += 1
        if row % 5:
            builder.position = row
        yield row


def answers(history: History) -> list[str]:
    """All that a history says, as text: NaN is unequal to itself."""
    if history.start_ns == history.end_ns:
        return []
    rows = [tuple(interval) for interval in history.intervals(range(len(history.attributes)))]
    names = [history.attributes.text(quark) for quark in history.attributes]
    return [*map(repr, rows), *names, repr(list(history.tags)), repr(dict(history.anomalies))]


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@given(changes(quarks=QUARKS, tags=TAGS), st.sampled_from([1, 2, 5, 1000]))
@settings(max_examples=25, deadline=None)
def test_a_history_on_disk_answers_like_one_in_memory(
    script: list[Change], segment_changes: int
) -> None:
    memory = builder_at(None, segment_changes)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.mth"
        disk = builder_at(path, segment_changes)
        growing = open_history(path)
        for _, _ in zip(feed(memory, script), feed(disk, script), strict=True):
            disk.flush()

            assert answers(growing) == answers(memory.history)

        assert answers(disk.close()) == answers(memory.close())
        assert answers(open_history(path)) == answers(memory.history)
        assert growing.built


@given(changes(quarks=QUARKS, tags=TAGS), st.sampled_from([1, 2, 5]), st.data())
@settings(max_examples=25, deadline=None)
def test_a_killed_build_is_resumed_to_the_same_bytes(
    script: list[Change], segment_changes: int, data: st.DataObject
) -> None:
    # without logs in between, most single changes are only counted
    every_s = data.draw(st.sampled_from([0, 3600]))
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(directory, "_LOG_EVERY_S", every_s),
    ):
        whole = Path(name) / "whole.mth"
        builder = builder_at(whole, segment_changes)
        killed = Path(name) / "killed.mth"
        last = data.draw(st.integers(0, len(script)))
        for made in feed(builder, script):
            if made >= last and not killed.exists():
                builder.flush()
                shutil.copytree(whole, killed)
        if not killed.exists():
            shutil.copytree(whole, killed)
        builder.close()
        for log in killed.glob("tail-*.log"):
            # What a new log begins with was on the disk before it got its name.
            begun = 0 if log.name == "tail-000000.log" else next(read_blocks(log)).end
            length = data.draw(st.integers(begun, log.stat().st_size))
            log.write_bytes(log.read_bytes()[:length])

        again = builder_at(killed, segment_changes, resume=True)
        for _ in feed(again, script, again.position or 0):
            pass
        again.close()

        assert contents(killed) == contents(whole)


# Late changes: bins of the overview had been wider before them than what was left needs.
LATE = [
    Change(2**33 * time, quark, value, tag)
    for time, quark, value, tag in (
        (0, 1, None, 0),
        (8, 3, "a", 2),
        (37, 0, None, None),
        (16, 1, None, 0),
        (12, 3, None, None),
        (1, 4, -2183, 1),
        (17, 3, None, 0),
        (17, 4, None, None),
        (24, 1, None, None),
        (5, 2, None, 2),
        (20, 4, 2282004, None),
        (27, 1, "a", None),
        (37, 3, None, None),
        (33, 1, None, 2),
        (38, 3, "b", 0),
        (39, 1, "", None),
        (40, 1, None, None),
        (35, 4, 10863, 2),
    )
]


@given(
    changes(quarks=QUARKS, tags=TAGS),
    st.sampled_from([1, 2, 5, 1000]),
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0, 1)), min_size=2, max_size=4),
)
@example(LATE, 2, [(0.95, False, 0.0), (0.5, True, 0.75)])
@settings(max_examples=25, deadline=None)
def test_a_build_may_be_killed_again_and_again(
    script: list[Change], segment_changes: int, kills: list[tuple[float, bool, float]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        whole, path = Path(name) / "whole.mth", Path(name) / "0.mth"
        builder = builder_at(whole, segment_changes)
        for _ in feed(builder, script):
            pass
        builder.close()
        for number, (part, flush, left) in enumerate(kills, 1):
            builder = builder_at(path, segment_changes, resume=True)
            first = builder.position or 0
            last = first + round(part * (len(script) - first))
            # all of it, as a batch that is repeated must be the same
            steps, made = feed(builder, script, first), first
            while made < last:
                made = next(steps)
            if flush:
                builder.flush()
            # As a kill leaves it: the next builder cannot count on anything after the last flush.
            killed = Path(name) / f"{number}.mth"
            shutil.copytree(path, killed)
            builder.leave()
            for log in killed.glob("tail-*.log"):
                begun = 0 if log.name == "tail-000000.log" else next(read_blocks(log)).end
                length = begun + round(left * (log.stat().st_size - begun))
                log.write_bytes(log.read_bytes()[:length])
            path = killed
            answers(open_history(path))

        again = builder_at(path, segment_changes, resume=True)
        for _ in feed(again, script, again.position or 0):
            pass
        again.close()

        assert contents(path) == contents(whole)


@given(
    changes(quarks=QUARKS, tags=TAGS),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([0, 16]),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_the_first_state_that_is_asked_for_is_that_of_all_segments(
    script: list[Change], segment_changes: int, changes_per_full_run: int, data: st.DataObject
) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(chain, "_CHANGES_PER_FULL_RUN", changes_per_full_run),
    ):
        path = Path(name) / "x.mth"
        builder = builder_at(path, segment_changes)
        for _ in feed(builder, script):
            pass
        history = builder.close()
        if history.start_ns == history.end_ns:
            return
        whole = history.intervals(range(len(history.attributes)))
        for row in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=5, max_size=9)):
            expected = whole[row]
            times = st.integers(expected.start_ns, expected.end_ns - 1)

            found = open_history(path).state(expected.quark, data.draw(times))

            assert repr(found) == repr(expected)


@given(changes(quarks=QUARKS, tags=TAGS), st.data())
@settings(max_examples=25, deadline=None)
def test_a_flipped_byte_is_named_or_harmless_and_the_rest_can_be_saved(
    script: list[Change], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.mth"
        builder = builder_at(path, 3)
        for _ in feed(builder, script):
            pass
        told = answers(builder.close())
        file = data.draw(st.sampled_from([f for f in sorted(path.rglob("*")) if f.is_file()]))
        damaged = bytearray(file.read_bytes())
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
        file.write_bytes(damaged)

        try:
            found = answers(open_history(path))
        except InputError as error:
            complaint = str(error)

            found = [complaint]

        assert found == told or (str(file) in found[0] and "byte" in found[0])


def test_a_file_cut_anywhere_is_named(folder: Path) -> None:
    path = folder / "x.mth"
    builder = builder_at(path, 3)
    script = [Change(time, 0, value, None) for time, value in enumerate("abcabcabc")]
    for _ in feed(builder, script):
        pass
    told = answers(builder.close())
    for file in [file for file in sorted(path.rglob("*")) if file.is_file()]:
        whole = file.read_bytes()
        for length in range(0, len(whole), 7):
            file.write_bytes(whole[:length])
            if file.name == "manifest":
                # A line that is not finished is a build that was killed.
                with contextlib.suppress(InputError):
                    answers(open_history(path))
            elif file.name == overviews.NAME:
                # answers do without it
                assert answers(open_history(path)) == told
            else:
                with pytest.raises(InputError, match=file.name):
                    answers(open_history(path))
        file.write_bytes(whole)
    assert answers(open_history(path)) == told
