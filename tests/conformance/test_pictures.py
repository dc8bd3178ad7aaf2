"""Pictures open as what they hold: those of meantime, the original statemap and flame graphs."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import InputError
from meantime.query.statistics import state_statistics
from meantime.testing import history_from_samples

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


def intervals(history: History) -> list[tuple[str, int, int, Any]]:
    """Return the states of a history that are there."""
    first_ns, last_ns = history.bounds
    return sorted(
        (history.attributes.text(each.quark), each.start_ns, each.end_ns, each.value)
        for each in history.intervals("**", first_ns, last_ns)
        if each.value is not None
    )


def totals(history: History) -> dict[tuple[str, str], int]:
    rows = state_statistics(history, by="entity").rows
    return {(row.entity or "", row.key): row.total_ns for row in rows}


def spans(history: History) -> list[tuple[str | None, int, int]]:
    found = history.spans()
    lengths = (found.end_ns - found.start_ns).tolist()
    return sorted(zip(found.name.to_list(), lengths, found.self_ns.tolist(), strict=True), key=str)


def folded(history: History) -> bytes:
    return b"".join(meantime.flame(history).render("folded"))


def maps(source: History | Path) -> Any:
    return json.loads(b"".join(meantime.statemap(source).render("json")))["maps"][0]


def drawn(path: Path, history: History, **options: Any) -> History:
    meantime.statemap(history, **options).save(path)
    return meantime.open(path)


def test_a_statemap_opens_with_its_states_tags_and_colors(root: Path, tmp_path: Path) -> None:
    trace = meantime.open(root / "examples" / "postgres.statemap.gz")

    opened = drawn(tmp_path / "x.svg", trace)

    assert (opened.metadata.format, dict(opened.anomalies)) == ("picture", {})
    assert totals(opened) == totals(trace)
    assert opened.bounds[1] - opened.bounds[0] == trace.bounds[1] - trace.bounds[0]
    assert opened.tags == trace.tags
    [lane] = opened.metadata.lanes
    assert {state.name for state in lane.states} >= {"on-cpu", "runnable"}
    assert maps(trace)["states"] == maps(opened)["states"]


def test_what_a_statemap_merged_keeps_its_time_and_is_counted(root: Path, tmp_path: Path) -> None:
    trace = meantime.open(root / "examples" / "postgres.statemap.gz")

    opened = drawn(tmp_path / "x.svg", trace, coalesce=500)

    assert totals(opened) == totals(trace)
    assert opened.anomalies["merged_states"] > 100


def test_tasks_in_shared_rows_and_two_maps_open_as_entities(root: Path, tmp_path: Path) -> None:
    trace = meantime.open(root / "tests" / "samples" / "statemap" / "tokio-tasks.statemap")

    assert totals(drawn(tmp_path / "x.svg", trace)) == totals(trace)
    meantime.statemap([trace, trace]).save(tmp_path / "two.svg")
    both = totals(meantime.open(tmp_path / "two.svg"))
    assert sum(both.values()) == 2 * sum(totals(trace).values())


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_flame_graph_opens_as_its_stacks(suffix: str, tmp_path: Path) -> None:
    stacks = [(0, "t", ["a", "b<c>"], 3), (3, "t", ["a"], 2), (5, "u", ["d", "e"], 7)]
    trace = history_from_samples(stacks)
    path = tmp_path / f"x.{suffix}"
    meantime.flame(trace).save(path)

    assert sorted(folded(meantime.open(path)).split(b"\n")) == sorted(folded(trace).split(b"\n"))


def test_a_flame_chart_opens_as_its_spans(root: Path, tmp_path: Path) -> None:
    trace = meantime.open(root / "examples" / "compile.json.gz")
    path = tmp_path / "x.html"
    meantime.flame(trace, chart=True).save(path)

    assert spans(meantime.open(path)) == spans(trace)


def test_a_statemap_of_the_original_program_opens(root: Path) -> None:
    history = meantime.open(root / "tests" / "samples" / "pictures" / "original.statemap.svg")

    assert intervals(history) == [
        ("a", 0, 400, "on-cpu"),
        ("a", 400, 600, "waiting"),
        ("a", 600, 700, "on-cpu"),
        ("a", 700, 1000, "waiting"),
        (r"b \/ 2", 100, 1000, "waiting"),
    ]
    assert dict(history.anomalies) == {"merged_states": 1}
    assert history.state("a", 0).tag is not None
    assert history.tags == [{"pid": 7}]
    assert (history.title, history.clock.utc_at_origin_ns) == ("a service", 1563306000 * 10**9 + 5)
    assert [*history.metadata.descriptions.values()] == ["worker 1"]


def cells(path: Path | History, **options: Any) -> Any:
    """Return the cells of a heat map, and from when to when something was recorded."""
    found = json.loads(b"".join(meantime.heatmap(path, **options).render("json")))
    return [
        found[key]
        for key in ("origin_ns", "cells", "by", "recorded", "value", "idle")
        if key in found
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("examples/jobs.perf.gz", {}),
        ("examples/jobs.perf.gz", {"value": "weight"}),
        ("examples/postgres.statemap.gz", {}),
        ("examples/postgres.statemap.gz", {"stacks": False}),
        ("examples/postgres.statemap.gz", {"zone": "Europe/Berlin", "period": "100ms"}),
        ("examples/compile.json.gz", {"rows": 20}),
        ("tests/samples/perf/idle-and-java.txt", {}),
    ],
)
@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_heat_map_opens_with_the_same_cells(
    root: Path, tmp_path: Path, name: str, options: dict[str, Any], suffix: str
) -> None:
    path, trace = tmp_path / f"x.{suffix}", meantime.open(root / name)
    meantime.heatmap(trace, **options).save(path)

    opened = meantime.open(path)

    # samples without stacks are told apart by thread
    folded_as = {key: options[key] for key in options.keys() & {"zone", "period", "rows", "value"}}
    assert cells(opened, **folded_as) == cells(trace, **options)
    assert opened.bounds == trace.bounds


def test_what_cells_have_opens_as_states_stacks_and_spans(root: Path, tmp_path: Path) -> None:
    states = meantime.open(root / "examples" / "postgres.statemap.gz")
    path = tmp_path / "x.svg"
    meantime.heatmap(states).save(path)
    assert totals(meantime.open(path)) == totals(states)
    assert meantime.open(path).anomalies["cells_of_time"] > 100

    stacks = [(0, "t", ["a", "b<c>"], 1), (3, "t", ["a"], 1), (5, "u", ["d", "e"], 1)]
    trace = history_from_samples(stacks)
    meantime.heatmap(trace).save(path)
    # a thread without a name is called by its path
    names = re.sub(rb"Processes/1/Threads/[tu];", b"", folded(meantime.open(path)))
    assert sorted(names.split(b"\n")) == sorted(folded(trace).split(b"\n"))

    meantime.heatmap(states, y="duration").save(path)
    assert b"disk wait;20us to 25us 251" in folded(meantime.open(path))


def boxes(*rows: tuple[str, str, float, float, int], form: str = "") -> str:
    text = "".join(
        (
            form
            or '<g><title>{name} ({title})</title><rect x="{x}" y="{y}" width="{w}" h="1"/></g>'
        ).format(name=name, title=title, x=x, w=w, y=y)
        for name, title, x, w, y in rows
    )
    return f"<svg><!-- Flame graph stack visualization. -->{text}</svg>"


STACKS = (
    ("all", "1,010 samples, 100%", 10, 101, 37),
    ("a", "1,010 samples, 100%", 10, 101, 21),
    ("f&lt;T&gt; (x)", "1,000 samples, 99.01%", 10, 100, 5),
)


def test_a_flame_graph_of_others_opens_as_its_stacks(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    older = '<rect x="{x}" y="{y}" width="{w}" onmouseover="s(\'{name} ({title})\')" />'
    upside_down = [(*row[:4], 42 - row[4]) for row in STACKS]
    for text in (boxes(*STACKS), boxes(*STACKS, form=older), boxes(*upside_down)):
        path.write_text(text)
        history = meantime.open(path)
        assert folded(history) == b"a 10\na;f<T> (x) 1000\n"
        assert history.metadata.sample_units == {"samples": "count"}
    # what was too narrow counts for its caller
    path.write_text(boxes(STACKS[0], STACKS[2]))
    assert folded(meantime.open(path)).endswith(b" 1000\n")


def replaced(text: str, block: str, content: bytes) -> str:
    coded = base64.b64encode(content).decode()
    return re.sub(f'(<metadata data-block="{block}">)[^<]*', rf"\g<1>{coded}", text)


def test_what_a_picture_lacks_or_hides_is_one_sentence(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    jobs = root / "examples" / "jobs.perf.gz"
    meantime.flame(jobs, against=jobs).save(path)
    compared = path.read_text()
    meantime.heatmap(jobs).save(path)
    heat = path.read_text()
    meantime.flame(root / "examples" / "compile.json.gz", chart=True).save(path)
    chart = path.read_text()
    meantime.statemap(root / "examples" / "postgres.statemap.gz").save(path)
    states = path.read_text()
    for text, problem in (
        (compared, "this compares two profiles"),
        (replaced(heat, "cells", b"\1" + b"\xff" * 8 + b"\0" + bytes(9)), "more cells than there"),
        (replaced(heat, "cells", b"\1" + b"\xfe" * 8 + b"\0" + bytes(5)), "outside of the map"),
        (replaced(heat, "stack-table", zlib.compress(b"\5\0")), "a caller or a function"),
        (re.sub('"rows": ?50', '"rows":0', heat), "times that do not fit"),
        (replaced(chart, "gap", zlib.compress(bytes(10**7))), "cut, or expands too much"),
        (replaced(chart, "length", zlib.compress(b"\1")), "columns of different lengths"),
        (replaced(states, "p0", b"\x05"), "malformed"),
        (replaced(states, "p0", b"\x01\x01\x01\x7e\x00" + bytes(40)), "malformed"),
        (boxes(("f", "no weight", 1, 2, 3)), "has no weight in its title"),
        (boxes(), "no box with a title and a weight"),
        (f"<!DOCTYPE svg [<!ENTITY a 'b'>]>{boxes(*STACKS)}", "declares entities of XML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=problem):
            meantime.open(path)


def test_a_picture_is_redrawn_with_the_same_data(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    meantime.statemap(root / "examples" / "postgres.statemap.gz").save(path)

    assert maps(path)["rows"] == maps(root / "examples" / "postgres.statemap.gz")["rows"]
