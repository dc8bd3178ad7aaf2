"""Rows that short-lived entities share, against what they are: without overlap, with every time."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from meantime import HistoryBuilder
from meantime.query.lifetimes import lifetimes
from meantime.query.statistics import state_statistics
from meantime.views.statemap import StatemapOptions, build

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.views.statemap.data import StatemapPanel

# for each task: where it was created, when it begins, and how long its states last
TASKS = st.lists(
    st.tuples(
        st.sampled_from(["serve (app.py:3)", "query (db.py:9)"]),
        st.sampled_from(["", "17.", "9."]),
        st.integers(0, 40),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=20,
)


def history_of(tasks: list[tuple[str, str, int, list[tuple[str, int]]]]) -> History:
    builder = HistoryBuilder()
    builder.lanes("Tasks/*/*", entity_kind="Task", short_lived=True)
    for number, (site, process, start_ns, states) in enumerate(tasks):
        quark = builder.quark("Tasks", site, f"{process}{number}")
        time_ns = start_ns
        for state, length_ns in states:
            builder.modify(time_ns, quark, state)
            time_ns += length_ns
        builder.modify(time_ns, quark, None)
    return builder.close(100)


def totals(panel: StatemapPanel) -> Counter[str]:
    found: Counter[str] = Counter()
    held = panel.rectangles.with_times()
    for state, ns in zip(held.state_index.tolist(), held.state_ns.tolist(), strict=True):
        found[panel.states[state].name] += ns
    return found


@given(tasks=TASKS)
def test_no_two_entities_of_a_row_overlap_and_no_row_is_too_many(
    tasks: list[tuple[str, str, int, list[tuple[str, int]]]],
) -> None:
    history = history_of(tasks)
    panel = build([history]).panels[0]
    shared = panel.shared
    assert shared is not None
    quarks = history.quarks("Tasks/*/*")
    found = lifetimes(history, quarks)
    names = history.attributes.names(quarks)
    times = zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    lived = dict(zip(names, times, strict=True))

    of_site = defaultdict(list)
    seen: list[str] = []
    for row, site in enumerate(shared.site.tolist()):
        part = slice(*shared.row_offsets[row : row + 2].tolist())
        spans = [lived[name] for name in shared.names[part]]
        assert spans
        assert all(end_ns <= start_ns for (_, end_ns), (start_ns, _) in pairwise(spans))
        assert [start_ns for start_ns, _ in spans] == shared.start_ns[part].tolist()
        of_site[site].append(spans)
        seen += shared.names[part]
    assert sorted(seen) == sorted(lived)
    for rows in of_site.values():
        spans = [span for row in rows for span in row]
        at_once = max(sum(a <= time < b for a, b in spans) for time, _ in spans)
        assert len(rows) == at_once
    sites = {(site, process) for site, process, _, _ in tasks}
    assert len(of_site) == len(sites)


@settings(deadline=None)
@given(tasks=TASKS, coalesce=st.none() | st.integers(1, 30), start_ns=st.integers(0, 40))
def test_merging_keeps_the_times_that_unshared_rows_and_statistics_have(
    tasks: list[tuple[str, str, int, list[tuple[str, int]]]], coalesce: int | None, start_ns: int
) -> None:
    history = history_of(tasks)
    window = StatemapOptions(begin_ns=start_ns, end_ns=start_ns + 30)
    packed = StatemapOptions(begin_ns=start_ns, end_ns=start_ns + 30, coalesce=coalesce)
    alone = StatemapOptions(begin_ns=start_ns, end_ns=start_ns + 30, packed=False)

    panel = build([history], packed).panels[0]
    each = build([history], alone).panels[0]
    lossless = build([history], window).panels[0]

    assert totals(panel) == totals(each) == totals(lossless)
    rows = state_statistics(history, start_ns=start_ns, end_ns=start_ns + 30).rows
    assert totals(panel) == {row.key: row.total_ns for row in rows}
    assert panel.intervals == lossless.intervals == len(lossless.rectangles)
    assert lossless.coalesced == 0
    if coalesce is not None:
        assert len(panel.rectangles) <= max(coalesce, len(panel.entities))
    held = panel.rectangles.with_times()
    for index in range(len(held)):
        part = slice(*held.state_offsets[index : index + 2].tolist())
        covered_ns = int(held.state_ns[part].sum())
        assert 0 < covered_ns <= held.end_ns[index] - held.start_ns[index]
    for row in range(len(panel.entities)):
        part = slice(*held.row_offsets[row : row + 2].tolist())
        assert (held.end_ns[part][:-1] <= held.start_ns[part][1:]).all()
