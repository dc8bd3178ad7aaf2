"""Lines that are exchanged, doubled or late are counted wherever lines have an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.model.input_path import input_path
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINES = 60
# By format: what comes before the lines, and the line of each number. Times are not whole ms.
_NS = 1_700_000_000_000_000_001
TEXTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "jsonl": ("", lambda n: f'{{"time_ns": {_NS + 10**7 * n}, "name": "a{n % 3}", "n": 5}}'),
    "jsonl dates": (
        "",
        lambda n: f'{{"timestamp": "2026-03-02T08:00:{n:02}.000123Z", "message": "got {n % 5}"}}',
    ),
    "log": ("", lambda n: f"2026-03-02 08:00:{n:02},123 INFO - app - message {n % 5}"),
    "table": ("time_ns,name,users\n", lambda n: f"{_NS + 10**7 * n},a{n % 3},{n % 7}"),
    "table of changes": (
        "time_ns,entity,state\n",
        lambda n: f"{_NS + 10**7 * n},e{n % 3},s{n % 2}",
    ),
    "table of intervals": (
        "start_ns,end_ns,entity,state\n",
        lambda n: f"{_NS + 10**7 * n},{_NS + 10**7 * n + 25 * 10**6},e{n % 3},s{n % 4}",
    ),
    "ninja": (
        "# ninja log v5\n",
        lambda n: f"{n * 100}\t{n * 100 + 250}\t{_NS + (n * 100 + 250) * 10**6}\tout{n}\tabc{n}",
    ),
    "ftrace": ("# tracer: nop\n", lambda n: f"  a-7 [000] 1.{n:06}: x: y=1"),
    "perf": ("", lambda n: f"a 7 [000] 1.{n:06}: sched:x: y=1\n"),
}
# What is counted, of which one is enough.
ORDER = {"line_went_back", "cpu_time_went_back"}
DOUBLED = {"repeated_line", "repeated_row", "doubled_row"}
# Whose doubled lines look like lines that are equal by chance, unless times go back.
_SAME_BY_CHANCE = {"log", "ftrace", "perf"}


def _counted(folder: Path, format_: str, lines: list[str]) -> set[str]:
    head, _ = TEXTS[format_]
    path = folder / "damaged"
    path.write_text(head + "".join(f"{line}\n" for line in lines))
    trace = open_trace(input_path(path, format_=format_.split(maxsplit=1)[0]))
    for _ in trace.batches:
        pass
    return {name for name, count in dict(trace.anomalies).items() if count} & (ORDER | DOUBLED)


@pytest.mark.parametrize("format_", TEXTS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_lines_in_the_wrong_place_are_counted(
    format_: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    lines = [TEXTS[format_][1](number) for number in range(LINES)]
    assert _counted(folder, format_, lines) == set()

    first, second = sorted(
        data.draw(st.lists(st.integers(1, LINES), min_size=2, max_size=2, unique=True))
    )
    third = data.draw(st.integers(second, LINES))
    kind = data.draw(st.sampled_from(["double", "exchange", "late"]))
    if kind == "double":
        damaged = [*lines[:second], *lines[first - 1 : second], *lines[second:]]
        if second - first == 0 and format_ in _SAME_BY_CHANCE:
            return
    elif kind == "exchange":
        damaged = [*lines[: first - 1], *lines[second - 1 : third], *lines[first - 1 : second - 1],
                   *lines[third:]]  # fmt: skip
    else:
        damaged = [*lines[: first - 1], *lines[first:second], lines[first - 1], *lines[second:]]
    assert _counted(folder, format_, damaged) != set()


@pytest.mark.parametrize("format_", ["jsonl", "log", "table", "table of intervals"])
def test_newest_first_is_an_order_and_none_is_no_damage(
    format_: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    lines = [TEXTS[format_][1](number) for number in range(LINES)]
    assert _counted(folder, format_, lines[::-1]) == set()
    assert _counted(folder, format_, [*lines[40:], *lines[:40]][::-1]) == {"line_went_back"}
    shuffled = [lines[number * 37 % LINES] for number in range(LINES)]
    assert _counted(folder, format_, shuffled) == set()


@pytest.mark.parametrize("format_", ["table of changes", "table of intervals"])
def test_rows_that_are_grouped_by_entity_are_in_order(
    format_: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    lines = [TEXTS[format_][1](number) for number in range(LINES)]
    grouped = [line for number in range(3) for line in lines[number::3]]
    assert _counted(folder, format_, grouped) == set()
    grouped[3], grouped[9] = grouped[9], grouped[3]
    assert _counted(folder, format_, grouped) == {"line_went_back"}


def test_a_single_line_that_is_doubled_is_counted_by_its_nanosecond(tmp_path: Path) -> None:
    for format_, name in (("jsonl", "repeated_line"), ("table", "repeated_row")):
        lines = [TEXTS[format_][1](number) for number in range(LINES)]
        assert _counted(tmp_path, format_, [*lines[:9], *lines[8:]]) == {name}
    # messages that are equal within a millisecond may be
    log = [TEXTS["log"][1](number) for number in range(LINES)]
    assert _counted(tmp_path, "log", [*log[:9], *log[8:]]) == set()


# By format, the line of a time and a thread.
_THREADS: dict[str, Callable[[int, int], str]] = {
    "jsonl": lambda ns, thread: f'{{"time_ns": {ns}, "name": "a", "tid": {thread}}}',
    "log": lambda ns, thread: (
        f"2026-03-02 08:00:{ns // 10**9:02},{ns // 10**6 % 1000:03} [worker-{thread}] INFO - a"
    ),
    "logfmt": lambda ns, thread: (
        f"time=2026-03-02T08:00:{ns // 10**9:02}.{ns // 10**6 % 1000:03}Z thread={thread} msg=a"
    ),
    "table": lambda ns, thread: f"{ns},{thread},a",
}


def _of_threads(format_: str, lines: list[tuple[int, int]], folder: Path) -> dict[str, int]:
    path = folder / f"threads.{format_}"
    head = "time_ns,thread,state\n" if format_ == "table" else ""
    path.write_text(head + "".join(_THREADS[format_](*line) + "\n" for line in lines))
    trace = open_trace(input_path(path, format_=format_))
    for _ in trace.batches:
        pass
    return {name: count for name, count in dict(trace.anomalies).items() if name in ORDER}


@pytest.mark.parametrize("message", ["w{0} did {1}", "worker w{0}: job {1} of w{0}", "by={0} {1}"])
def test_threads_are_known_by_a_word_of_messages(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def line(ns: int, thread: int) -> str:
        said = message.format(thread, ns)
        return f"2026-03-02 08:00:{ns // 10**9:02}.{ns // 10**6 % 1000:03} INFO {said}"

    monkeypatch.setitem(_THREADS, "log", line)
    test_threads_that_write_late_have_an_order_of_their_own("log", tmp_path)


def test_words_that_only_divide_lines_are_not_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ["open file", "open port", "shut file", "shut port"]
    monkeypatch.setitem(
        _THREADS, "log", lambda ns, word: f"2026-03-02 08:00:{ns // 10**9:02} INFO {said[word]}"
    )
    lines = [((second - (second % 8 == 5)) * 10**9, second * 7 % 5 % 4) for second in range(1, 59)]
    late = [each for pair in zip(lines[1::2], lines[::2], strict=True) for each in pair]
    assert _of_threads("log", lines, tmp_path) == {}
    assert _of_threads("log", lines[:20] + late[20:40] + lines[40:], tmp_path)["line_went_back"] > 2


@pytest.mark.parametrize("format_", _THREADS)
def test_threads_that_write_late_have_an_order_of_their_own(format_: str, tmp_path: Path) -> None:
    """Every second of each thread, of which the second one writes its lines a second late."""
    ms = 10**6
    lines = [
        ((1000 * second + 100 * thread - 990 * (thread == 2)) * ms, thread)
        for second in range(1, 40)
        for thread in range(4)
    ]
    assert _of_threads(format_, lines, tmp_path) == {}
    # a part that is late is damage, whoever wrote it
    late = [*lines[:40], *lines[60:100], *lines[40:60], *lines[100:]]
    assert _of_threads(format_, late, tmp_path) == {"line_went_back": 4}
