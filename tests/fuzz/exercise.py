"""What users do with an input: open it, ask what it is, query it, draw it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pkgutil
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import meantime
from meantime.cli.info import command as info
from meantime.errors import InputError, MeantimeError, ProviderError
from meantime.query.critical_path import scheduled_threads
from meantime.query.statistics import state_statistics
from meantime.query.threads import thread_of
from meantime.query.trees import by_name, call_tree
from meantime.readers.contract import ReadOptions
from meantime.readers.ctf import read_text
from meantime.readers.ctf.babeltrace import BabeltraceText
from meantime.views.export import TARGETS, export, nothing_for
from meantime.views.flame import chart_page
from meantime.views.flame import svg as flame_svg
from meantime.views.flame.data import graph
from meantime.views.flame.span_chart import chart
from meantime.views.statemap import StatemapOptions, build
from meantime.views.statemap import svg as statemap_svg

if TYPE_CHECKING:
    from pathlib import Path

    from meantime import History

__all__ = ["BABELTRACE", "Used", "WrongHistoryError", "exercise", "import_all"]

# The suffix of inputs that are not a CTF trace, but the text that babeltrace2 prints of one.
BABELTRACE = ".babeltrace"
_MOST_QUARKS = 16
_BINS = 7
_NUMBERS = re.compile(r"\d+|'[^']*'|\"[^\"]*\"")


class WrongHistoryError(AssertionError):
    """A history contradicts itself."""


def import_all() -> None:
    """Import what inputs need, once for all processes that are forked from this one."""
    # no input may start babeltrace2, whose faults are not found here
    os.environ["PATH"] = ""
    for package in ("cli", "history", "query", "readers", "views"):
        path = importlib.import_module(f"meantime.{package}").__path__
        for module in pkgutil.walk_packages(path, f"meantime.{package}."):
            importlib.import_module(module.name)
    importlib.import_module("pyarrow.parquet")


class Used(NamedTuple):
    """How an input was used: whether it was accepted, and what that tells from other inputs."""

    accepted: bool
    seen: str = ""


def exercise(
    path: Path,
    *,
    provider: Path | None,
    lenient: bool,
    ask: bool,
    draw: int,
    exact: bool,
    reader: str | None = None,
) -> Used:
    """Return how an input was used, after asking its history everything.

    Args:
        path: Where it is.
        provider: What makes states of its events, if anything.
        lenient: Whether to pass over bad records.
        ask: Whether to ask its history everything, or only to make it.
        draw: 1 to draw it, too, 2 to also convert it and conclude what there is: half a second.
        exact: Whether its intervals must tile the time. Those of a history on disk need not: to
            know that each row of it is right would be to read it all.
        reader: The format as which it is read, also if it is not recognised.

    Raises:
        WrongHistoryError: If answers contradict each other.
        Exception: Whatever else should not happen.
    """
    is_text = path.suffix == BABELTRACE
    try:
        if is_text:
            history = _of_babeltrace(path)
        else:
            history = meantime.open(path, provider=provider, lenient=lenient, format=reader)
    except (InputError, ProviderError) as error:
        return Used(accepted=False, seen=_NUMBERS.sub("#", str(error).replace(str(path), ""))[:100])
    try:
        if ask:
            _ask(history, exact=exact)
        else:
            _facts(history)
    except InputError as error:
        # a history's rows are checked when they are first read
        return Used(accepted=False, seen=type(error).__name__)
    if draw:
        _draw(history)
        if draw > 1:
            _conclude(history)
        if not is_text:
            _info(path, provider, lenient=lenient, reader=reader)
    sizes = (len(history.attributes), len(history.spans()), len(history.points()))
    orders = [size.bit_length() for size in sizes]
    return Used(accepted=True, seen=f"{sorted(history.anomalies)} {sorted(history.facts)} {orders}")


def _of_babeltrace(path: Path) -> History:
    """Return the history of what babeltrace2 might print of a trace."""
    with path.open("rb") as text:
        running = BabeltraceText(str(path), text, is_old=False)
        return meantime.build(read_text(running, ReadOptions()))


def _ask(history: History, *, exact: bool) -> None:
    _facts(history)
    start_ns, end_ns = history.start_ns, history.end_ns
    if end_ns > start_ns:
        every = np.arange(min(len(history.attributes), _MOST_QUARKS), dtype=np.int32)
        _states(history, every, exact=exact)
        _numbers(history, every)
        _near(history, every)
        state_statistics(history)
        state_statistics(history, by="entity", start_ns=start_ns, end_ns=end_ns)
    for found in meantime.findings(history):
        assert found.sentence
        assert found.start_ns <= found.end_ns
        assert found.lost_ns >= 0
        json.dumps(found.as_json())
    _tables(history)


def _facts(history: History) -> None:
    assert repr(history)
    for fact in (
        *(history.title, history.bounds, history.clock, history.descriptions, history.names),
        *(history.sort_keys, history.facts, history.lost, history.tags, history.provenance),
        *(history.lanes, history.size_bytes, history.anomalies.lines()),
    ):
        repr(fact)
    for quark in range(min(len(history.attributes), _MOST_QUARKS)):
        path = history.attributes.path(quark)
        if history.attributes.quark(*path) != quark:
            raise WrongHistoryError(f"{path} is not the path of {quark}")
        thread_of(history, quark)


def _states(
    history: History, quarks: np.ndarray[tuple[int], np.dtype[np.int32]], *, exact: bool
) -> None:
    start_ns, end_ns = history.start_ns, history.end_ns
    length_ns = end_ns - start_ns
    history.at(start_ns)
    history.at(end_ns - 1)
    middle_ns = start_ns + length_ns // 2
    intervals = history.intervals(quarks, start_ns, end_ns)
    columns = (intervals.quark, intervals.start_ns, intervals.end_ns)
    rows = list(
        zip(*(column.tolist() for column in columns), intervals.value.to_list(), strict=True)
    )
    by_quark: dict[int, list[tuple[int, int, object]]] = {}
    for quark, first_ns, last_ns, value in rows:
        by_quark.setdefault(quark, []).append((first_ns, last_ns, value))
    if exact:
        for quark, parts in by_quark.items():
            ends = [start_ns, *(last_ns for _, last_ns, _ in parts)]
            starts = [*(first_ns for first_ns, _, _ in parts), end_ns]
            if starts != ends or any(first_ns >= last_ns for first_ns, last_ns, _ in parts):
                raise WrongHistoryError(f"the intervals of {quark} do not tile the history")
    for quark in quarks[:8].tolist():
        found = history.state(quark, middle_ns)
        if exact and not found.start_ns <= middle_ns < found.end_ns:
            raise WrongHistoryError(f"the state of {quark} at {middle_ns} is {found}")
    history.states(quarks, np.full(len(quarks), middle_ns))
    history.sample(quarks, np.array([start_ns, middle_ns, end_ns - 1]))
    history.intervals(quarks, middle_ns, end_ns, max(1, length_ns // 10))
    bins = min(_BINS, length_ns)
    shares = history.shares(quarks, start_ns, end_ns, bins)
    history.shares(quarks, bins=bins)
    repr(shares)
    history.shares(quarks[:3], middle_ns, end_ns)
    history.dominant(quarks, bins=bins)
    width_ns = max(1, length_ns // 5)
    history.state_tile(quarks[:64], start_ns - width_ns, width_ns, 8)
    history.counter_tile(quarks[:64], start_ns, width_ns, 8)
    if len(quarks) and exact:
        whole_ns = sum(sum(shares.cell(0, part).values()) for part in range(bins))
        if whole_ns != length_ns:
            raise WrongHistoryError(f"the shares of an attribute sum to {whole_ns} of {length_ns}")


def _near(history: History, quarks: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
    middle_ns = (history.start_ns + history.end_ns) // 2
    for value in (..., None, "x", 0, 0.5):
        repr(history.following(quarks, middle_ns, value=value))
        repr(history.preceding(quarks, middle_ns, value=value))
        repr(history.count(quarks, middle_ns, value=value).tolist())


def _numbers(history: History, quarks: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
    for quark in quarks[:8].tolist():
        try:
            history.maximum(quark, history.start_ns, history.end_ns)
            history.minimum(quark, history.start_ns, history.end_ns)
            history.average(quark, history.start_ns, history.end_ns)
        except TypeError:  # it holds text
            continue


def _tables(history: History) -> None:
    start_ns, end_ns = history.bounds
    spans, samples = history.spans(), history.samples()
    for table in (spans, samples):
        repr(table)
        for column in table.columns().values():
            list(column.to_list() if hasattr(column, "to_list") else column)
    for row in range(min(len(spans), _MOST_QUARKS)):
        spans.arguments(row)
    repr((spans.self_ns, spans.unfinished))
    for quark in set(spans.threads.tolist()) | set(samples.thread.tolist()[:_MOST_QUARKS]):
        thread_of(history, quark)
    repr((len(history.spans(start_ns=start_ns, end_ns=end_ns)), spans.clipped(start_ns, end_ns)))
    history.samples(start_ns=start_ns, end_ns=end_ns)
    middle_ns = (start_ns + end_ns) // 2
    part = history.spans(start_ns=middle_ns, end_ns=middle_ns + (end_ns - start_ns) // 100 + 1)
    repr(
        [column.tolist() for column in (part.rows, part.parent, part.depth, part.lane, part.flags)]
    )
    if len(part):
        part.around(len(part) - 1)
    for quark in spans.threads.tolist()[:_MOST_QUARKS]:
        repr(history.spans([quark], start_ns=middle_ns).self_ns.tolist())
    repr((len(history.points(start_ns=middle_ns)), len(history.flows(end_ns=middle_ns))))
    points, flows = history.points(), history.flows()
    repr((points.name.to_list(), points.quark.tolist(), flows.name.to_list(), flows.to_ns.tolist()))
    by_name(call_tree(history)[0])


def _draw(history: History) -> None:
    with contextlib.suppress(MeantimeError):  # there is nothing to draw
        statemap_svg.render(build([history], StatemapOptions()))
    tree, unit = call_tree(history)
    if len(tree):
        flame_svg.render(graph(tree, title="t", unit=unit))
    if len(history.spans()):
        start_ns, end_ns = history.bounds
        chart_page.render(chart(history, title="t", start_ns=start_ns, end_ns=end_ns))


def _conclude(history: History) -> None:
    for conclude in (meantime.explain, _critical, meantime.heatmap, _page, _compared, _exported):
        with contextlib.suppress(MeantimeError):  # there is nothing to conclude from
            conclude(history)


def _exported(history: History) -> None:
    for target in TARGETS:
        if nothing_for(history, target) is None:
            for _ in export(history, target, Counter()):
                pass


def _critical(history: History) -> None:
    for thread in [*scheduled_threads(history)][:2]:
        meantime.critical_path(history, thread)


def _page(history: History) -> None:
    for _ in meantime.view(history).render("html"):
        pass


def _compared(history: History) -> None:
    for _ in meantime.diff(history, history).render("svg"):
        pass


def _info(path: Path, provider: Path | None, *, lenient: bool, reader: str | None) -> None:
    arguments = [str(path), "--json", *(["--lenient"] if lenient else [])]
    arguments += ["--format", reader] if reader is not None else []
    if provider is None:  # what a provider makes is kept in the user's cache
        with contextlib.redirect_stdout(io.StringIO()):
            info.main(arguments, standalone_mode=False)
