"""Rows that short-lived entities share: their order, names, options and documents."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime import HistoryBuilder
from meantime.cli import main
from meantime.errors import UsageError
from meantime.kernels.nest import first_free
from meantime.query.statistics import state_statistics
from meantime.views.statemap import StatemapOptions, build, document
from meantime.views.statemap.packed import blocks, head
from meantime.views.statemap.svg import render

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History


def server(path: Path | None = None) -> History:
    """Return a loop and tasks of two sites in two processes; at most two of one site at once."""
    with HistoryBuilder(path) as builder:
        builder.lanes("Loops/*", label="Event loops", states=["running", "parked"])
        builder.lanes(
            "Tasks/*/*",
            entity_kind="Task",
            label="Tasks",
            states=["running", "waiting", "never"],
            short_lived=True,
        )
        builder.modify(0, builder.quark("Loops", "main"), "running")
        lives = [("serve", "9.1", 0, 4), ("serve", "9.2", 2, 6), ("serve", "9.3", 6, 8)]
        lives += [("query", "9.4", 0, 2), ("query", "9.5", 2, 4), ("serve", "10.1", 1, 3)]
        for site, name, start_ns, end_ns in lives:
            task = builder.quark("Tasks", site, name)
            builder.modify(start_ns, task, "waiting" if site == "serve" else "running")
            builder.modify(end_ns, task, None)
        builder.close(10)
    return builder.history if path is None else meantime.open(path)


def test_rows_are_named_by_process_site_and_lane_in_natural_order() -> None:
    loops, tasks = build([server()]).panels

    assert loops.entities == ["Loops/main"]
    assert tasks.entities == [
        "9 query",
        "9 serve · lane 1 of 2",
        "9 serve · lane 2 of 2",
        "10 serve",
    ]
    assert tasks.shared
    assert tasks.shared.names == ["9.4", "9.5", "9.1", "9.3", "9.2", "10.1"]
    assert tasks.shared.row_offsets.tolist() == [0, 2, 4, 5, 6]


def test_only_tasks_of_the_window_have_rows() -> None:
    drawn = build([server()], StatemapOptions(begin_ns=6, end_ns=8))

    assert drawn.panels[1].entities == ["9 serve"]
    assert drawn.panels[1].clipped.before == 5
    assert drawn.panels[1].clipped.after == 0


def test_rows_of_a_site_stay_together_when_they_are_sorted_by_a_state() -> None:
    tasks = build([server()], StatemapOptions(sort_by="waiting")).panels[1]

    assert tasks.entities == [
        "9 serve · lane 1 of 2",
        "9 serve · lane 2 of 2",
        "10 serve",
        "9 query",
    ]
    assert tasks.shared
    assert tasks.shared.names == ["9.1", "9.3", "9.2", "10.1", "9.4", "9.5"]
    assert tasks.shared.start_ns.tolist() == [0, 6, 2, 1, 0, 2]


def test_a_filter_selects_tasks_and_not_rows() -> None:
    drawn = build([server()], StatemapOptions(filter="serve/9[.][23]")).panels

    assert [panel.entities for panel in drawn] == [[], ["9 serve"]]
    assert drawn[1].clipped.filtered == 4


def test_a_panel_whose_tasks_are_all_filtered_is_drawn_without_rows() -> None:
    drawn = build([server()], StatemapOptions(filter="nothing"))

    assert [panel.entities for panel in drawn.panels] == [[], []]
    assert head(drawn)["panels"][1]["shared"] == {"count": 0, "sites": [], "site": []}
    assert b"svg" in render(drawn)


def test_tasks_at_the_top_of_the_tree_share_rows() -> None:
    builder = HistoryBuilder()
    builder.lanes("*", short_lived=True)
    for name, start_ns in (("a", 0), ("b", 5)):
        builder.modify(start_ns, builder.quark(name), "running")
        builder.modify(start_ns + 5, builder.quark(name), None)

    [panel] = build([builder.close(20)]).panels

    assert panel.shared
    assert panel.entities == ["/"]
    assert panel.shared.names == ["a", "b"]


def test_unpacked_tasks_have_a_row_each_and_the_same_times() -> None:
    packed, alone = (build([server()], StatemapOptions(packed=each)) for each in (True, False))

    assert len(alone.panels[1].entities) == 6
    assert alone.panels[1].shared is None
    times_ns = [each.panels[1].rectangles.with_times().state_ns for each in (packed, alone)]
    assert times_ns[0].sum() == times_ns[1].sum()


def test_states_of_two_tasks_that_touch_are_two_rectangles() -> None:
    tasks = build([server()]).panels[1]

    part = slice(*tasks.rectangles.row_offsets[:2].tolist())
    assert tasks.rectangles.start_ns[part].tolist() == [0, 2]
    assert tasks.rectangles.end_ns[part].tolist() == [2, 4]


def test_the_document_names_the_tasks_of_a_row() -> None:
    rows = json.loads(document.render(build([server()])))["maps"][1]["rows"]

    assert rows[0]["entities"] == [{"name": "9.4", "start_ns": 0}, {"name": "9.5", "start_ns": 2}]


def test_one_trace_has_one_title_and_its_panels_have_labels() -> None:
    drawn = build([server()])

    assert [panel["title"] for panel in head(drawn)["panels"]] == ["Event loops", "Tasks"]
    assert "Tasks: 6 Tasks in 4 rows; 6 rectangles of 6 intervals" in head(drawn)["footer"]


def test_the_legend_of_the_picture_has_the_states_that_occur() -> None:
    texts = re.findall("<text[^>]*>([^<]*)</text>", render(build([server()])).decode())

    assert {"running", "waiting"} < set(texts)
    assert not {"never", "parked"} & set(texts)


def test_names_that_are_numbers_are_packed_as_numbers() -> None:
    builder = HistoryBuilder()
    builder.lanes("Tasks/*/*", short_lived=True)
    for number in range(20):
        task = builder.quark("Tasks", "serve", str(number))
        builder.modify(number, task, "a")
        builder.modify(number + 1, task, None)
    history = builder.close(30)

    assert blocks(build([history])).keys() == {"p0", "s0", "i0"}
    assert blocks(build([server()])).keys() == {"p0", "p1", "s1", "n1"}


def test_events_that_are_more_than_the_rectangles_allowed_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.statemap"
    lines = [f'{{"time": "{time_ns}", "entity": "a", "event": "tick"}}' for time_ns in range(5)]
    lines += [f'{{"time": "{time_ns}", "entity": "a", "state": 0}}' for time_ns in (0, 9)]
    path.write_text('{"start": [0, 0], "states": {"on": {"value": 0}}}' + "\n".join(lines))
    history = meantime.open(path)

    some, none = (build([history], StatemapOptions(coalesce=limit)).panels[0] for limit in (5, 4))

    assert (len(some.events), some.events_left_out) == (5, 0)
    assert (len(none.events), none.events_left_out) == (0, 5)
    notes = head(build([history], StatemapOptions(coalesce=4)))["footer"]
    assert any(note.startswith("Left out: 5 events") for note in notes)


def test_a_row_exists_from_its_first_state_to_its_last_also_outside_the_window() -> None:
    builder = HistoryBuilder()
    builder.lanes("**", states=["on"])
    always, early, gone = (builder.quark(name) for name in ("always", "early", "gone"))
    for quark, times in ((always, (0, 1, 8, 9)), (early, (0, 5)), (gone, (0, 1))):
        for number, time_ns in enumerate(times):
            builder.modify(time_ns, quark, None if number % 2 else "on")
    history = builder.close(10)

    panel = build([history], StatemapOptions(begin_ns=2, end_ns=6)).panels[0]
    statistics = state_statistics(history, start_ns=2, end_ns=6)

    # one has no state in the window, between two outside it
    assert panel.existed == {panel.entities.index("always"): (2, 6)}
    assert [(row.key, row.total_ns, row.share) for row in statistics.rows] == [("on", 3, 3 / 7)]


def test_the_command_draws_shared_rows_or_one_for_each_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server(tmp_path / "x.mth")

    counts = []
    for options in ([], ["--unpacked"]):
        output = tmp_path / "x.json"
        with pytest.raises(SystemExit) as stopped:
            main(["statemap", str(tmp_path / "x.mth"), *options, "-o", str(output)])
        assert stopped.value.code == 0
        counts.append([len(each["rows"]) for each in json.loads(output.read_text())["maps"]])
    capsys.readouterr()

    assert counts == [[1, 4], [1, 6]]


def test_statistics_are_printed_for_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server(tmp_path / "x.mth")

    with pytest.raises(SystemExit):
        main(["stats", str(tmp_path / "x.mth")])
    text = capsys.readouterr().out

    assert text.index("Event loops: time in states") < text.index("Tasks: time in states")
    assert "waiting" not in text[: text.index("Tasks:")]


def test_whether_a_lane_is_short_lived_is_true_or_false() -> None:
    with pytest.raises(UsageError, match="short_lived is 'yes'"):
        HistoryBuilder().lanes("*", short_lived="yes")  # type: ignore[arg-type]


def test_each_range_is_in_the_first_lane_that_is_free() -> None:
    start = np.array([0, 1, 2, 3, 0, 0], np.int64)
    end = np.array([3, 2, 9, 4, 5, 5], np.int64)

    assert first_free(start, end, np.array([0, 4, 6])).tolist() == [0, 1, 1, 0, 0, 1]
    assert first_free(start[:0], end[:0], np.array([0])).tolist() == []
