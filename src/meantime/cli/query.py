"""`meantime query`: states, intervals, shares and attributes of a history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, load_joined, notify_of_nothing
from meantime.cli.options import (
    file_argument,
    input_options,
    once,
    range_options,
    reading_options,
    session_option,
)
from meantime.cli.rows import Form, form_options, show
from meantime.errors import UsageError
from meantime.model.extent import instant_of, parse_handle
from meantime.model.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from meantime.history import History, Intervals
    from meantime.model.columns import Coded, Int32s
    from meantime.model.extent import Extent
    from meantime.model.tabular import Column, ColumnBatches, Tabular
    from meantime.model.units import Instant

__all__ = ["command"]

# How many arguments each needs; one that needs none can have one.
_QUESTIONS = {
    "at": 1,
    "state": 2,
    "intervals": 1,
    "shares": 1,
    "tree": 0,
    "next": 2,
    "previous": 2,
    "count": 1,
    "points": 0,
    "flows": 0,
    "span": 1,
}
_SPAN = "span "
_IN_RANGE = ("intervals", "shares", "count", "points", "flows")


class _Question(click.Choice):  # type: ignore[type-arg]  # click 8.1 has none
    """A question, or a handle, which is one by itself."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        return (
            text if _is_handle(text) or _is_file(text) else str(super().convert(text, param, ctx))
        )


def _is_handle(text: str) -> bool:
    return "@" in text or text.startswith(_SPAN)


def _is_file(text: str) -> bool:
    """Return whether a word is one more history: a question is never one."""
    return text not in _QUESTIONS and (Path(text).exists() or any(mark in text for mark in "*?["))


@click.command("query", epilog="Example:  meantime query disks.mth intervals 'disks/*' --to 5ms")
@input_options
@session_option
@file_argument("history", "HISTORY...")
@click.argument("question", type=_Question(list(_QUESTIONS)))
@click.argument("words", metavar="[PATH|PATTERN|NUMBER] [TIME]", nargs=-1)
@range_options
@once(
    "--resolution",
    metavar="TIME",
    help="Only intervals at multiples of this time from the start.",
    more="And the one at the end of the range.",
)
@once(
    "--bins",
    metavar="N",
    type=click.IntRange(1),
    help="Number of parts to split the range into.  [1]",
    more="They are equal, and for `shares`.",
)
@once(
    "--value",
    metavar="VALUE",
    help="Only states with this value.",
    more="For `next`, `previous` and `count`.",
)
@reading_options
@form_options
def command(
    *,
    history: str,
    question: str,
    words: tuple[str, ...],
    from_: str | None,
    to: str | None,
    resolution: str | None,
    bins: int | None,
    value: str | None,
    as_json: bool,
    as_csv: bool,
    arrow: str | None,
    parquet: str | None,
    **reading: Any,
) -> None:
    """Query a history or a trace: states at a time, intervals, shares, events, attributes.

    \b
    at TIME             state of every attribute at a time
    at PATH@TIME        state of an attribute and of those below it at a time
    state PATH TIME     state of one attribute at a time
    intervals PATTERN   states of the attributes, ordered by time
    shares PATTERN      time in each state, for each of --bins parts of the range
    tree [PATTERN]      paths of the attributes
    next PATTERN TIME   first state that begins after a time
    previous PATTERN TIME
                        last state that began before a time
    count PATTERN       number of states of each attribute
    points [PATTERN]    instants
    flows [PATTERN]     flows to and from the attributes
    span NUMBER         span with this number, as `dump` prints it

    A handle, as `findings --json` and the page of `view` print it, is PATH@TIME
    or "span NUMBER". It is accepted as the whole question, in place of a TIME
    after `at`, and in place of PATH TIME.
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    histories, question, words = _files_and_question(history, question, words)
    question, words = _with_handle(question, words)
    least = _QUESTIONS[question]
    if not least <= len(words) <= max(least, 1):
        raise UsageError(f"{question} needs {least} arguments, not {len(words)}; see --help")
    for option, given, questions in (
        ("--from", from_, _IN_RANGE),
        ("--to", to, _IN_RANGE),
        ("--value", value, ("next", "previous", "count")),
        ("--resolution", resolution, ("intervals",)),
        ("--bins", bins, ("shares",)),
    ):
        if given is not None and question not in questions:
            raise UsageError(f"{option} does not apply to {question}: {', '.join(questions)}")
    form = Form(as_json, as_csv, arrow, parquet).check()
    start, end = _needed(question, words, from_, to)
    asked = load_joined(histories, **reading, start=start, end=end)
    from meantime.query.parts import extent_of, given_range  # noqa: PLC0415 - NumPy is not for --help

    extent = extent_of(asked)
    range_ns = given_range(asked, from_, to)
    notify_of_nothing(asked, from_, to)
    answers: dict[str, Callable[[], ColumnBatches]] = {
        "at": lambda: _at(asked, words[0], extent),
        "state": lambda: _state(asked, words[0], extent.instant(words[1])),
        "intervals": lambda: _intervals(asked, words[0], range_ns, resolution),
        "shares": lambda: _shares(asked, words[0], range_ns, bins or 1),
        "tree": lambda: _tree(asked, words[0] if words else "**"),
        "next": lambda: _near(asked, words[0], extent.instant(words[1]), value, backwards=False),
        "previous": lambda: _near(asked, words[0], extent.instant(words[1]), value, backwards=True),
        "count": lambda: _count(asked, words[0], range_ns, value),
        "points": lambda: _table(asked.points(*_chosen(asked, words), **_range(range_ns))),
        "flows": lambda: _table(asked.flows(*_chosen(asked, words), **_range(range_ns))),
        "span": lambda: _span(asked, words[0]),
    }
    answer = answers[question]()
    show(question, answer, form, expanded(histories), extent=extent, drop=("tag", "bin", "end"))


def _files_and_question(
    history: str, question: str, words: tuple[str, ...]
) -> tuple[list[str], str, tuple[str, ...]]:
    """Return the histories, the question behind them, and its arguments.

    Raises:
        UsageError: If there is no question.
    """
    histories = [history]
    while _is_file(question) and not _is_handle(question):
        histories.append(question)
        if not words:
            raise UsageError(f"there is no question: write one of {', '.join(_QUESTIONS)}")
        question, *rest = words
        words = tuple(rest)
    if question not in _QUESTIONS and not _is_handle(question):
        raise UsageError(f"{question!r} is not a question: write one of {', '.join(_QUESTIONS)}")
    return histories, question, words


def _needed(
    question: str, words: tuple[str, ...], from_: str | None, to: str | None
) -> tuple[Instant | None, Instant | None]:
    """Return the range whose states a question needs; None is where the trace ends."""
    if question in {"at", "state"}:
        at = instant_of(parse_handle(words[-1])[1])
        return at, at._replace(ns=at.ns + 1)
    if question in _IN_RANGE:
        start, end = (None if text is None else instant_of(text) for text in (from_, to))
        return start, end
    return None, None


def _with_handle(question: str, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return a question and its arguments, with a handle replaced by what it means."""
    if question.startswith(_SPAN):
        return "span", (question.removeprefix(_SPAN), *words)
    if question not in _QUESTIONS:
        return "at", (question, *words)
    if question in {"state", "next", "previous"} and len(words) == 1 and "@" in words[0]:
        return question, parse_handle(words[0])
    return question, words


def _at(history: History, word: str, extent: Extent) -> ColumnBatches:
    path, time = parse_handle(word)
    time_ns = extent.instant(time)
    if path:
        _quarks(history, path)  # raises with similar names
        quarks = _quarks(history, f"{path}/**")
        intervals = history.intervals(quarks, time_ns, time_ns + 1)
        return _interval_columns(history, quarks, [intervals])
    intervals = history.at(time_ns)
    return _interval_columns(history, range(len(history.attributes)), [intervals])


def _state(history: History, path: str, time_ns: int) -> ColumnBatches:
    quarks = _quarks(history, path)
    if len(quarks) > 1:
        raise UsageError(f"{path} matches {len(quarks):,} attributes; state needs exactly one")
    intervals = history.intervals(quarks, time_ns, time_ns + 1)
    return _interval_columns(history, quarks, [intervals])


def _intervals(
    history: History, pattern: str, range_ns: tuple[int | None, int | None], resolution: str | None
) -> ColumnBatches:
    quarks = _quarks(history, pattern)
    step_ns = None if resolution is None else parse_duration(resolution)
    batches = history.interval_batches(quarks, *range_ns, step_ns)
    return _interval_columns(history, quarks, batches, batches.kinds)


def _shares(
    history: History, pattern: str, range_ns: tuple[int | None, int | None], bins: int
) -> ColumnBatches:
    from meantime.model.tabular import ColumnBatches  # noqa: PLC0415 - NumPy is not for --help

    quarks = _quarks(history, pattern)
    shares = history.shares(quarks, *range_ns, bins)
    paths = _Paths(history, quarks)
    columns: dict[str, Column] = {
        "path": paths.of(shares.quark),
        "bin": shares.bin,
        "start_ns": shares.edges_ns[shares.bin],
        "end_ns": shares.edges_ns[shares.bin + 1],
        "value": shares.value,
        "ns": shares.ns,
    }
    return ColumnBatches(lambda: iter([columns]))


def _tree(history: History, pattern: str) -> ColumnBatches:
    import numpy as np  # noqa: PLC0415 - it is not for --help

    from meantime.model.tabular import ColumnBatches  # noqa: PLC0415 - as above

    quarks = np.array(_quarks(history, pattern), np.int32)
    columns: dict[str, Column] = {
        "quark": quarks,
        "path": _Paths(history, quarks.tolist()).of(quarks),
    }
    return ColumnBatches(lambda: iter([columns]))


def _near(
    history: History, pattern: str, time_ns: int, value: str | None, *, backwards: bool
) -> ColumnBatches:
    quarks = _quarks(history, pattern)
    find = history.preceding if backwards else history.following
    found = [find(quarks, time_ns, value=each) for each in _values(value)]
    key = (max if backwards else min)(
        ((each.start_ns, each.quark) for each in found if each is not None), default=None
    )
    if key is None:
        # no rows, with the columns of all
        intervals = history.intervals([])
    else:
        intervals = history.intervals([key[1]], key[0], key[0] + 1)
    return _interval_columns(history, quarks, [intervals])


def _values(value: str | None) -> list[Any]:
    """Return what a value given as text can mean: the text, or also a number."""
    if value is None:
        return [...]
    try:
        return [value, int(value)]
    except ValueError:
        pass
    try:
        return [value, float(value)]
    except ValueError:
        return [value]


def _count(
    history: History, pattern: str, range_ns: tuple[int | None, int | None], value: str | None
) -> ColumnBatches:
    import numpy as np  # noqa: PLC0415 - it is not for --help

    from meantime.model.tabular import ColumnBatches  # noqa: PLC0415 - as above

    quarks = _quarks(history, pattern)
    counts = sum(history.count(quarks, *range_ns, value=each) for each in _values(value))
    columns: dict[str, Column] = {
        "path": _Paths(history, quarks).of(np.array(quarks, np.int32)),
        "count": np.asarray(counts),
    }
    return ColumnBatches(lambda: iter([columns]))


def _chosen(history: History, words: tuple[str, ...]) -> list[list[int]]:
    return [_quarks(history, word) for word in words]


def _range(range_ns: tuple[int | None, int | None]) -> dict[str, int | None]:
    return dict(zip(("start_ns", "end_ns"), range_ns, strict=True))


def _table(found: Tabular) -> ColumnBatches:
    from meantime.model.tabular import ColumnBatches  # noqa: PLC0415 - NumPy is not for --help

    columns = found.with_paths()
    for name in ("quark", "from_quark", "to_quark"):
        columns.pop(name, None)
    return ColumnBatches(lambda: iter([columns]))


def _span(history: History, number: str) -> ColumnBatches:
    from meantime.model.columns import Coded, Mixed  # noqa: PLC0415 - NumPy is not for --help
    from meantime.model.tabular import ColumnBatches  # noqa: PLC0415 - as above
    from meantime.query.handles import span_row  # noqa: PLC0415 - as above

    part, row = history.spans().around(span_row(history, number))
    part.attributes = history.attributes
    columns: dict[str, Column] = {}
    for name, column in part.with_paths().items():
        if isinstance(column, Coded):
            columns[name] = Coded(column.codes[row : row + 1], column.names)
        elif not isinstance(column, Mixed) and name != "thread":
            columns[name] = column[row : row + 1]
    columns["arguments"] = Coded.of([part.arguments(row)])
    return ColumnBatches(lambda: iter([columns]))


def _quarks(history: History, pattern: str) -> list[int]:
    from meantime.query.handles import matching_quarks  # noqa: PLC0415 - NumPy is not for --help

    found: list[int] = matching_quarks(history, pattern).tolist()
    return found


def _interval_columns(
    history: History,
    quarks: Iterable[int],
    batches: Iterable[Intervals],
    kinds: Iterable[int] = (),
) -> ColumnBatches:
    """Return intervals with their paths and tags."""
    from meantime.model.columns import Coded  # noqa: PLC0415 - NumPy is not for --help
    from meantime.model.tabular import ColumnBatches  # noqa: PLC0415 - as above

    paths = _Paths(history, quarks)
    tags = [json.dumps(fields) for fields in history.tags]

    def made() -> Iterator[dict[str, Column]]:
        for batch in batches:
            yield {
                "path": paths.of(batch.quark),
                "start_ns": batch.start_ns,
                "end_ns": batch.end_ns,
                "value": batch.value,
                "tag": Coded(batch.tag, tags),
            }

    return ColumnBatches(made, kinds)


class _Paths:
    """The paths of attributes as a column of strings."""

    def __init__(self, history: History, quarks: Iterable[int]) -> None:
        import numpy as np  # noqa: PLC0415 - it is not for --help

        known = np.fromiter(quarks, np.int32)
        self._names = [history.attributes.text(quark) for quark in known.tolist()]
        self._codes = np.zeros(len(history.attributes), np.int32)
        self._codes[known] = np.arange(len(known), dtype=np.int32)

    def of(self, quarks: Int32s) -> Coded:
        """Return the paths of these attributes."""
        from meantime.model.columns import Coded  # noqa: PLC0415 - as above

        return Coded(self._codes[quarks], self._names)
