from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.cli import main
from meantime.errors import UsageError
from meantime.kernels.varints import encoded
from meantime.model.trace import Samples
from meantime.query.offsets import (
    CellsBuilder,
    Choice,
    Fold,
    OffsetMap,
    SampleStream,
    Source,
    find,
    offset_map,
    samples_in_band,
)
from meantime.readers import open_trace
from meantime.server.answers import Asked, heat, statistics
from meantime.server.answers import flame as answered_flame
from meantime.server.lanes import LaneTree
from meantime.testing import history_from_picture
from meantime.views.heatmap.document import document as document_of
from meantime.views.heatmap.figure import draw
from meantime.views.heatmap.grid import Grid
from meantime.views.heatmap.look import Look
from meantime.views.heatmap.selection import Selection, layers

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main(["heatmap", *map(str, arguments)])
    assert isinstance(left.value.code, int)
    return left.value.code


def document(path: Path, *arguments: object) -> dict[str, Any]:
    out = path.parent / "out.json"
    assert run(path, *arguments, "-o", out) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def perf(tmp_path: Path, *samples: tuple[str, float], name: str = "perf.txt") -> Path:
    path = tmp_path / name
    lines = [f"{comm} {ord(comm[0])} [000] {time:.6f}: 7 x: \n\n" for comm, time in samples]
    path.write_text("".join(lines))
    return path


def mapped(**times: list[float]) -> OffsetMap:
    builder = CellsBuilder(Fold(0, S, 10))
    for key, name in enumerate(sorted(times)):
        found = np.array([round(time * S) for time in times[name]], np.int64)
        builder.add_times(found, keys=np.full(len(found), key, np.int64))
    last = max(max(each) for each in times.values())
    span = ((0, round(last * S) + 1),)
    return OffsetMap.of(builder, "count", names=sorted(times), sources=[Source("x", span)])


def test_the_json_has_every_cell_by_column_then_row(tmp_path: Path) -> None:
    path = perf(tmp_path, ("b", 5.02), ("a", 4.5), ("a", 5.02), ("a", 4.999999))

    found = document(path)

    assert list(found) == [
        "origin_ns",
        "period_ns",
        "rows",
        "x",
        "y",
        "value",
        "columns",
        "cells",
        "by",
        "recorded",
        "anomalies",
    ]
    assert found["origin_ns"] == 4 * S
    assert found["cells"] == [[0, 25, 1], [0, 49, 1], [1, 1, 2]]
    assert found["by"] == {"a": [[0, 25, 1], [0, 49, 1], [1, 1, 1]], "b": [[1, 1, 1]]}
    assert (found["columns"], found["recorded"]) == ([0, 1], [[0, 1]])
    assert (found["period_ns"], found["rows"], found["value"]) == (S, 50, "count")


def test_the_json_has_the_selection(tmp_path: Path) -> None:
    path = perf(tmp_path, ("a", 4.5), ("b", 4.5), ("c", 4.52))

    alone = document(path, "--isolate", "b")
    others = document(path, "--exclude", "b")

    assert (alone["cells"], alone["by"]) == ([[0, 25, 1]], {"b": [[0, 25, 1]]})
    assert others["cells"] == [[0, 25, 1], [0, 26, 1]]
    assert list(others["by"]) == ["a", "c"]


def test_an_event_of_a_table_is_chosen_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("time_ns,name,weight\n1,read,5\n2,write,7\n30000000,read,9\n")

    found = document(path, "--event", "read", "--weight")
    status = run(path, "--event", "seek")

    assert found["by"] == {"read": [[0, 0, 5], [0, 1, 9]]}
    assert status == 1
    assert "there is no event 'seek'" in capsys.readouterr().err


def test_a_name_with_a_comma_can_be_selected(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('time_ns,name\n1,"a,b"\n2,a\n3,b\n')

    found = document(path, "--isolate", "a\\,b,b")

    assert list(found["by"]) == ["a,b", "b"]


@pytest.mark.parametrize(
    ("options", "origin", "cells"),
    [
        (["--period", "100ms", "--rows", 2], 4 * S + 500_000_000, [[0, 0, 1], [5, 0, 1]]),
        (["--origin", "first"], 4 * S + 500_000_000, [[0, 0, 1], [0, 26, 1]]),
        (["--origin", "abs:250ms", "--rows", 4], S // 4, [[4, 1, 1], [4, 3, 1]]),
        (["--rows", 49], 4 * S, [[0, 24, 1], [1, 0, 1]]),
        (["--weight"], 4 * S, [[0, 25, 7], [1, 1, 7]]),
        (["--from", "abs:5s"], 5 * S, [[0, 1, 1]]),
        (["--to", "abs:5s"], 4 * S, [[0, 25, 1]]),
        (["--from", "100ms", "--origin", "0s"], 4 * S + 500_000_000, [[0, 26, 1]]),
        (["--period", "1h"], 0, [[0, 0, 2]]),
    ],
)
def test_each_fold_is_exact(
    tmp_path: Path, options: list[object], origin: int, cells: list[list[int]]
) -> None:
    found = document(perf(tmp_path, ("a", 4.5), ("a", 5.02)), *options)

    assert (found["origin_ns"], found["cells"]) == (origin, cells)


def test_samples_of_several_events_are_kept_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "perf.txt"
    path.write_text("a 7 1.000000: 1 x: \n\na 7 1.000000: 1 y: \n\na 7 1.500000: 1 y: \n\n")

    apart = document(path)["by"]
    chosen = document(path, "--event", "y", "--by", "name")["by"]
    status = run(path, "--by", "name")

    assert apart == {"x": [[0, 0, 1]], "y": [[0, 0, 1], [0, 25, 1]]}
    assert chosen == {"a": [[0, 0, 1], [0, 25, 1]]}
    assert status == 1
    assert "several events; choose one with --event: y (2), x (1)" in capsys.readouterr().err


def test_inputs_add_up_and_say_how_many_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = perf(tmp_path, ("a", 1.5), ("a", 3.5), name="one.txt")
    two = perf(tmp_path, ("a", 0.5), ("b", 1.5), name="two.txt")
    out = tmp_path / "both.json"

    refused = run(one, two, "-o", out)
    message = capsys.readouterr().err
    added = run(one, two, "--assume-aligned", "--by", "host", "-o", out)
    parallel = run(one, two, two, "-j", 2, "--offset", f"{two}=1s", "-o", tmp_path / "j.json")

    assert (refused, added, parallel) == (1, 0, 0)
    assert "two.txt: its clock cannot be aligned" in message
    found = json.loads(out.read_text())
    assert (found["origin_ns"], found["cells"]) == (0, [[0, 25, 1], [1, 25, 2], [3, 25, 1]])
    assert found["by"] == {"one": [[1, 25, 1], [3, 25, 1]], "two": [[0, 25, 1], [1, 25, 1]]}
    assert [source["name"] for source in found["sources"]] == ["one", "two"]
    assert found["reporting"] == [[0, 0, 1], [1, 1, 2], [2, 3, 1]]
    assert json.loads((tmp_path / "j.json").read_text())["cells"] == [
        [0, 25, 3],
        [1, 25, 2],
        [2, 25, 1],
    ]


@pytest.mark.parametrize("by", ["name", "thread", "process", "cpu", "event", "host"])
@pytest.mark.parametrize("value", ["count", "weight"])
def test_samples_mapped_while_they_are_read_make_the_same_map(
    root: Path, by: str, value: Any
) -> None:
    path = root / "examples" / "jobs.perf.gz"
    choice = Choice(value=value, by=by, window=(1_700 * S, None))
    history = meantime.open(path)
    trace = open_trace(path)
    fold = Fold(0, S, 49)
    stream = SampleStream(trace, fold, choice, offset_ns=7)

    stream.read(batch for batch in trace.batches if isinstance(batch, Samples))

    streamed = stream.found("vm", by)
    held = offset_map(history, fold, choice, source="vm", offset_ns=7)
    assert streamed.by.keys() == held.by.keys()
    for name, cells in held.by.items():
        np.testing.assert_array_equal(streamed.by[name], cells)
    np.testing.assert_array_equal(streamed.total, held.total)
    assert streamed.sources == held.sources


def test_the_idle_task_is_hidden_by_its_number_and_not_by_its_name(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "perf.txt"
    path.write_text(
        "swapper 0 [000] 1.000000: x: \n\nidle 0 [001] 1.100000: x: \n\n"
        "swapper/x 7 [000] 1.200000: x: \n\n"
    )

    for option in ([], ["--origin", "first"]):
        assert run(path, *option) == 0
        assert b"all: 1\n" in capfdbinary.readouterr().out
    assert run(path, "--idle") == 0
    assert b"all: 3\n" in capfdbinary.readouterr().out


IDLE = (
    "java 100 [000] 1.000000: 5 cpu-clock: \n\t 7f A::a (/tmp/perf.map)\n"
    "\t 7e Main (/tmp/perf.map)\n\n"
    # a CPU that waits, also where its innermost frame has no name
    "swapper 0 [001] 1.020000: 5 cpu-clock: \n\tff xen_hypercall_sched_op+0xa ([kernel])\n"
    "\tfe cpu_idle ([kernel])\n\n"
    "swapper 0 [001] 1.030000: 5 cpu-clock: \n\tff [unknown] ([kernel])\n"
    "\tfe mwait_idle_with_hints.constprop.0 ([kernel])\n\n"
    # work on top of it, and what shows nothing
    "swapper 0 [001] 1.040000: 5 cpu-clock: \n\tff tasklet_action+0xa ([kernel])\n"
    "\tfe irq_exit ([kernel])\n\tfd cpu_idle ([kernel])\n\n"
    "swapper 0 [001] 1.060000: 5 cpu-clock: \n\n"
)


@pytest.mark.parametrize("options", [[], ["--origin", "first"], ["--by", "cpu"], ["--by", "event"]])
def test_work_on_an_idle_cpu_is_shown_and_its_waiting_is_not(
    tmp_path: Path, options: list[str]
) -> None:
    (path := tmp_path / "perf.txt").write_text(IDLE)

    found, whole = document(path, *options), document(path, *options, "--idle")

    assert sum(value for *_, value in found["cells"]) == 2
    assert found["idle"] == 3
    assert sum(value for *_, value in whole["cells"]) == 5
    assert "idle" not in whole
    sums = {name: sum(value for *_, value in cells) for name, cells in whole["by"].items()}
    assert {count for name, count in sums.items() if name.endswith(" (idle)")} == {3}
    assert sum(sums.values()) == 5
    shown = {name for name in whole["by"] if not name.endswith(" (idle)")}
    assert found["by"].keys() == shown


def test_all_that_counts_samples_counts_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "perf.txt").write_text(IDLE)
    history = meantime.open(path)
    tree = LaneTree(history)
    everything = Asked(None, None, None)
    counts = [
        sum(row["count"] for row in statistics(tree, "name", everything)["rows"]),
        sum(answered_flame(tree, everything)["count"]),
        sum(value for *_, value in heat(tree, everything, 10**9, 50, None)["cells"]),
    ]
    assert counts == [2] * 3
    assert statistics(tree, "name", everything)["idle"] == 3
    with pytest.raises(SystemExit):
        main(["explain", str(path)])
    assert "The time of 2 samples" in capsys.readouterr().out

    with pytest.raises(SystemExit):
        main(["stats", str(path), "--json"])
    out, err = capsys.readouterr()
    assert json.loads(out)["idle_samples"] == 3
    assert err == "3 samples of idle CPUs are left out; --idle counts them\n"
    for options, count in (([], 2), (["--idle"], 5), (["--filter", "swapper"], 4)):
        with pytest.raises(SystemExit):
            main(["flame", str(path), "--json", *options])
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert sum(row["self_ns"] for row in rows) == 5 * count


def test_switches_are_measured_to_the_nanosecond(tmp_path: Path) -> None:
    path = tmp_path / "sched.txt"
    path.write_text(
        "idle 0 [001] 1.000000: sched:sched_switch: swapper/1:0 [120] R ==> a:7 [120]\n"
        "a 7 [001] 1.030001: sched:sched_switch: a:7 [120] S ==> swapper/1:0 [120]\n"
    )

    found = document(path, "--state", "running", "--by", "cpu")

    assert found["value"] == "ns"
    assert found["by"] == {"CPU 1": [[0, 0, 20_000_000], [0, 1, 10_001_000]]}


def test_states_are_measured_over_columns() -> None:
    history = history_from_picture("disk0  aab.bb")
    fold = Fold(0, 2, 2)

    states = offset_map(history, fold, Choice(by="state"), source="x")
    only = offset_map(history, fold, Choice(by="thread", states=("b*",)), source="x")
    starts = offset_map(history, fold, Choice(value="starts", by="state"), source="x")

    assert {name: cells.number.tolist() for name, cells in states.by.items()} == {
        "a": [0, 1],
        "b": [2, 4, 5],
    }
    assert only.total.number.tolist() == [2, 4, 5]
    assert starts.by["b"].number.tolist() == [2, 4]


def test_the_selected_and_the_rest_are_all_there_is() -> None:
    found = mapped(a=[0.1, 0.2], b=[0.2], c=[1.3])

    rest, own = layers(found, Selection(("b",)))
    (alone,) = layers(found, Selection(("b",), "isolate"))
    (without,) = layers(found, Selection(("b",), "exclude", hidden=("c",)))
    rainbow = layers(found, Selection(mode="decompose"))

    assert (rest.index, own.index, own.name) == (0, 1, "b")
    assert rest.cells.number.tolist() == [1, 2, 13]
    assert own.cells.number.tolist() == alone.cells.number.tolist() == [2]
    assert without.cells.number.tolist() == [1, 2]
    assert [layer.name for layer in rainbow] == ["a", "b", "c"]


def test_columns_that_do_not_fit_are_added_up() -> None:
    found = mapped(a=[0.05, 1.05, 2.05, 3.05, 4.95])

    grid = Grid.of(found, 3)

    assert (grid.group, grid.width) == (2, 3)
    assert grid.values(found.total)[:, 0].tolist() == [2, 2, 0]


def test_a_stray_time_leaves_a_break_and_not_a_desert() -> None:
    found = mapped(a=[0.0, 1.0, 10**7 + 0.5])

    grid = Grid.of(found, 1000)

    assert grid.runs == ((0, 2), (10**7, 1))
    assert grid.width == 2 + 3 + 1
    assert grid.values(found.total).sum() == 3


def test_what_was_not_recorded_is_known_to_the_cell() -> None:
    found = mapped(a=[0.05, 1.35])
    grid = Grid.of(found, 100)

    cells = found.cells_of([(S // 4, S + S // 10)])
    assert grid.within(cells).astype(int).tolist() == [
        [0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
        [1] + [0] * 9,
    ]


def test_numbers_are_packed_as_leb128() -> None:
    assert encoded(np.array([0, 2**35 + 1, 5])).hex() == "00818080808001" + "05"


def test_periods_stripes_gaps_and_fillers_are_found() -> None:
    drift = [0.3 + 1.1 * i for i in range(90)]
    steady = [i / 10 + 0.05 for i in range(1000) if not (400 <= i < 430 or 700 <= i < 740)]
    filler = [i / 10 + 0.05 for i in range(1000) if 400 <= i < 430 or 700 <= i < 740]
    line = [i + 0.55 for i in range(100) if not 40 <= i < 43]

    found = find(mapped(drift=drift, line=line, steady=steady, filler=filler))

    periods = {each.name: each.period_ns for each in found if each.kind == "period"}
    assert periods["drift"] == pytest.approx(1.1 * S, rel=0.003)
    assert periods["line"] == pytest.approx(S, rel=0.003)
    assert [each.span_ns for each in found if each.kind == "stripe" and each.name == "line"] == [
        (S // 2, 6 * S // 10)
    ]
    assert ("filler", "steady") in {(e.name, e.other) for e in found if e.kind == "filler"}


def test_empty_columns_are_gaps() -> None:
    gaps = [each.span_ns for each in find(mapped(a=[0.1, 1.1, 4.1, 5.2])) if each.kind == "gap"]

    assert gaps == [(2 * S, 4 * S)]


@pytest.mark.parametrize("suffix", ["svg", "html", "png"])
def test_each_picture_is_drawn(tmp_path: Path, root: Path, suffix: str) -> None:
    out = tmp_path / f"out.{suffix}"

    status = run(root / "examples" / "jobs.perf.gz", "--highlight", "tick1s", "-o", out)

    assert status == 0
    starts = {"svg": b"<svg ", "html": b"<!DOCTYPE html>", "png": b"\x89PNG"}
    assert out.read_bytes().startswith(starts[suffix])


def test_the_terminal_gets_text(root: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(root / "examples" / "jobs.perf.gz", "--isolate", "tick1s") == 0

    lines = capfdbinary.readouterr().out.decode().splitlines()
    busy = [line[8:] for line in lines[:25] if line[8:].strip()]
    # 240 to 320 ms: rows 6 and 7 of 25, and a few late ones above
    assert sum(len(line.split()) for line in busy) > 0
    assert lines[-1].strip() == "tick1s: 837"


@pytest.mark.parametrize(
    ("variables", "is_terminal", "is_colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colours_go_to_terminals_that_want_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_terminal: bool,  # noqa: FBT001 - a parameter of the test
    is_colored: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    path = perf(tmp_path, ("a", 1.5), ("a", 2.5))
    written = bytearray()
    monkeypatch.setattr(
        "meantime.cli.heatmap.write", lambda _, chunks, __: written.extend(b"".join(chunks))
    )
    run(path)

    assert (b"\x1b[" in written) == is_colored


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--rows", "0"], 2, "into 0 rows"),
        (["--period", "fast"], 2, "'fast' is not a time"),
        (["--isolate", "a", "--exclude", "b"], 2, "isolate and exclude are mutually exclusive"),
        (
            ["--isolate", "nobody", "-o", "x.svg"],
            1,
            "unknown name 'nobody'; the most frequent names are: 'a'",
        ),
        (["--exclude", "nobody", "-o", "x.json"], 1, "unknown name 'nobody'"),
        (["--state", "idle"], 1, "nothing is ever in a state that matches --state idle"),
        (["--isolate", ","], 2, "--isolate ',' contains no name"),
        (["-o", "x.jpg"], 2, "cannot infer the format from 'x.jpg'; use one of"),
        (["--scale", "big", "-o", "x.svg"], 2, "unknown scale 'big'; choose auto, lock"),
        (["--event", "z"], 1, "there is no event 'z'; choose one of: x (1)"),
        (["--by", "state"], 2, "cannot group samples by 'state'; choose one of"),
        (["--value", "ns"], 2, "samples have no ns"),
        (["--origin", "wall"], 2, "needs the start of the trace in UTC"),
        (["--from", "3s", "--to", "2s"], 1, "the range from 3s to 2s is empty"),
    ],
)
def test_mistakes_get_a_line_and_a_status(  # noqa: PLR0917 - three fixtures, three parameters
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    status: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(perf(tmp_path, ("a", 1.5)), *options) == status
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("x.*"))


def test_a_flame_graph_of_a_band_has_what_ran_at_those_offsets(tmp_path: Path, root: Path) -> None:
    out = tmp_path / "band.txt"

    with pytest.raises(SystemExit) as left:
        main(
            [
                "flame",
                str(root / "examples" / "jobs.perf.gz"),
                "--band",
                "0.25s..0.29s",
                "--from",
                "91s",
                "--to",
                "100s",
                "-o",
                str(out),
            ]
        )

    assert left.value.code == 0
    assert sum(int(line.rpartition(" ")[2]) for line in out.read_text().splitlines()) > 0


def test_a_band_has_exactly_the_samples_at_its_offsets(tmp_path: Path) -> None:
    path = perf(tmp_path, ("a", 1.25), ("b", 1.249999), ("c", 7.279999), ("d", 7.28))
    samples = meantime.open(path).samples()

    found = samples_in_band(samples, (250_000_000, 280_000_000), S)

    assert found.name.to_list() == ["a", "c"]
    around = samples_in_band(samples, (280_000_000, 250_000_000), S)
    assert around.name.to_list() == ["b", "d"]
    with pytest.raises(UsageError, match="not within a period"):
        samples_in_band(samples, (0, 2 * S), S)


def test_utilisation_is_the_part_of_all_entities_that_was_busy() -> None:
    history = history_from_picture("disk0  aaaa\ndisk1  bbbb\ndisk2  aa..\n")
    found = offset_map(history, Fold(0, 4, 2), Choice(by="state", states=("a",)), source="x")

    assert document_of(found, "concurrency")["cells"] == [[0, 0, 2.0], [0, 1, 1.0]]
    assert document_of(found, "utilisation")["cells"] == [[0, 0, 2 / 3], [0, 1, 1 / 3]]


def test_a_mistake_in_an_input_read_beside_others_gets_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [perf(tmp_path, ("a", 1.5), name=f"{name}.txt") for name in ("one", "two")]
    bad = tmp_path / "bad.csv"
    bad.write_text("time_ns,name\nx,y\n")

    status = run(*good, bad, "--assume-aligned", "-j", 2, "-o", tmp_path / "out.svg")

    assert status == 1
    assert "bad.csv: row 1: its time_ns is not an integer of nanoseconds" in capsys.readouterr().err
    assert not (tmp_path / "out.svg").exists()


def test_times_are_in_utc_where_the_clock_is_known(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "perf.txt"
    header = "# ========\n# captured on    : Sat\n# clockid: realtime (0)\n# ========\n#\n"
    lines = [f"cron 1 [000] {1_763_683_200 + hour * 3600}.000000: x: \n\n" for hour in range(49)]
    path.write_text(header + "".join(lines))

    assert run(path, "--period", "1h", "-o", tmp_path / "out.svg") == 0
    assert run(path, "--period", "1h") == 0

    picture = (tmp_path / "out.svg").read_text()
    assert "each column 1 h, each of its 60 rows 1 min; colour is the count" in picture
    assert ">2025-11-21</text>" in picture
    assert b"2025-11-21" in capfdbinary.readouterr().out


def test_thousands_of_names_are_drawn_in_little_memory() -> None:
    names = [f"n{number}" for number in range(3000)]
    found = mapped(**{name: [number / 100] for number, name in enumerate(names)})

    figure = draw(found, Selection(mode="decompose"), Look(), title="")
    tracemalloc.start()
    image = figure.colors()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert image.shape == (10, 30, 3)
    assert peak < 20_000_000
    assert "2,976 more names are drawn but not listed." in figure.notes


def test_the_note_has_the_number_of_samples_a_cell_can_have(root: Path) -> None:
    history = meantime.open(root / "examples" / "jobs.perf.gz")
    found = offset_map(history, Fold(0, S, 50), Choice(by="name"), source="vm")

    figure = draw(found, Selection(), Look(), title="")

    assert figure.notes == [
        "Sampled every 10.101ms: a thread that runs all the time has about 2.0 samples in a cell."
    ]


def test_findings_are_printed_and_the_map_is_drawn(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(root / "examples" / "jobs.perf.gz", "--find", "-o", tmp_path / "out.svg")

    assert status == 0
    assert "drift1.1s runs every 1.1s" in capsys.readouterr().out
    assert (tmp_path / "out.svg").exists()


def totals(found: dict[str, Any]) -> dict[str, int]:
    return {name: sum(cell[2] for cell in cells) for name, cells in found["by"].items() if cells}


def intervals(tmp_path: Path, name: str, *rows: tuple[int, int]) -> Path:
    path = tmp_path / name
    lines = [f"{start},{end},{path.stem},on\n" for start, end in rows]
    path.write_text("start_ns,end_ns,path,value\n" + "".join(lines))
    return path


def times(tmp_path: Path, name: str, *rows: int) -> Path:
    path = tmp_path / name
    path.write_text("time_ns,name\n" + "".join(f"{time},{path.stem}\n" for time in rows))
    return path


@pytest.mark.parametrize("kind", ["states", "samples"])
def test_an_input_outside_the_range_adds_nothing(tmp_path: Path, kind: str) -> None:
    if kind == "states":
        one = intervals(tmp_path, "one.csv", (0, S))
        other = intervals(tmp_path, "other.csv", (5 * S, 6 * S + S // 2))
    else:
        one = times(tmp_path, "one.csv", 0, S // 2, S - 1)
        other = times(tmp_path, "other.csv", 5 * S, 6 * S, 6 * S + S // 2 - 1)
    late = document(one, other, "--assume-aligned", "--by", "host", "--from", "5s", "--to", "6s")
    early = document(one, other, "--assume-aligned", "--by", "host", "--to", "3s")

    assert [each["recorded_ns"] for each in late["sources"]] == [[], [[5 * S, 6 * S]]]
    assert [each["recorded_ns"] for each in early["sources"]] == [[[0, S]], []]
    assert totals(late) == {"other": S if kind == "states" else 1}
    assert totals(early) == {"one": S if kind == "states" else 3}


@pytest.mark.parametrize("kind", ["states", "samples", "perf"])
@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["--from", "9s"], "from 9s on"),
        (["--to", "abs:1s"], "to -1s"),
        (["--from", "9s", "--to", "10s"], "from 9s to 10s"),
    ],
)
def test_a_range_in_which_nothing_was_recorded_is_an_empty_map(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    arguments: list[str],
    asked: str,
) -> None:
    if kind == "states":
        path = intervals(tmp_path, "x.csv", (2 * S, 3 * S + 1))
    elif kind == "samples":
        path = times(tmp_path, "x.csv", 2 * S, 3 * S)
    else:
        path = perf(tmp_path, ("a", 2.0), ("a", 3.0))

    for suffix in ("svg", "json"):
        assert run(path, *arguments, "-o", tmp_path / f"x.{suffix}") == 0
        assert capsys.readouterr().err == (
            f"there is nothing {asked}; the trace is from 0s to 1.000000001s\n"
        )
    document = json.loads((tmp_path / "x.json").read_text())
    assert (document["columns"], document["cells"], document["recorded"]) == ([0, 0], [], [])


def test_what_ends_with_the_trace_counts_as_ended(tmp_path: Path) -> None:
    trace = tmp_path / "x.json"
    spans = [(500_000, 100), (0, 10), (700, 0)]
    trace.write_text(
        json.dumps(
            [{"name": "a", "ph": "X", "pid": 1, "tid": 1, "ts": t, "dur": d} for t, d in spans]
        )
    )
    table = intervals(tmp_path, "y.csv", (0, 10_000), (500_000_000, 500_100_000))

    for path, count in ((trace, 3), (table, 2)):
        for value in ("starts", "ends"):
            assert sum(totals(document(path, "--value", value)).values()) == count
        # a range that is given is half-open
        given = document(path, "--value", "ends", "--to", "500100us")
        assert sum(totals(given).values()) == count - 1
        given = document(path, "--value", "ends", "--to", "500100001ns")
        assert sum(totals(given).values()) == count


def test_lost_switches_are_counted_and_hatched(tmp_path: Path) -> None:
    def switch(time: str, cpu: int, leaving: int, coming: int) -> str:
        return (
            f"x {leaving} [{cpu:03}] {time}: sched:sched_switch: prev_comm=x prev_pid={leaving}"
            f" prev_prio=120 prev_state=S ==> next_comm=y next_pid={coming} next_prio=120\n"
        )

    path = tmp_path / "perf.txt"
    path.write_text(
        switch("1.000000", 0, 1, 2)
        + switch("1.200000", 1, 7, 8)
        + switch("1.500000", 0, 2, 3)
        + switch("1.750000", 0, 4, 5)
        + switch("1.900000", 1, 8, 7)
        + switch("2.000000", 0, 5, 1)
        + switch("2.100000", 1, 9, 7)
    )

    found = document(path, "--state", "running", "--by", "cpu")

    assert found["anomalies"] == {"lost_switch": 2, "unknown_time": 2}
    assert found["lost_ns"] == [[1_500_000_000, 1_750_000_000], [1_900_000_000, 2_100_000_000]]
    # thread 7 comes in the last nanosecond of the trace
    assert totals(found) == {"CPU 0": 750_000_000, "CPU 1": 700_000_001}
    assert run(path, "--state", "running", "--by", "cpu", "-o", tmp_path / "x.svg") == 0
    # one for what was not recorded, one for what was lost
    assert (tmp_path / "x.svg").read_text().count('fill="url(#hatch)"') == 2


def test_a_quiet_window_is_an_empty_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "quiet.statemap"
    lines = [
        '{"start": [1, 0], "title": "t", "states": {"run": {"value": 0}, "stop": {"value": 1}}}',
        '{"time": "0", "entity": "a", "state": 0}',
        f'{{"time": "{S}", "entity": "a", "state": 1}}',
        f'{{"time": "{9 * S}", "entity": "b", "state": 1}}',
        f'{{"time": "{10 * S}", "entity": "b", "state": 1}}',
    ]
    path.write_text("\n".join(lines) + "\n")
    window = ("--from", "5s", "--to", "6s")

    assert document(path, "--state", "run", *window)["cells"] == []
    assert document(path, "--by", "name", "--isolate", "b", *window)["cells"] == []
    assert run(path, "--state", "fly", *window) == 1
    assert capsys.readouterr().err.endswith("nothing is ever in a state that matches --state fly\n")
    assert run(path, "--by", "name", "--isolate", "c", *window) == 1
    assert capsys.readouterr().err.endswith(
        "unknown name 'c'; the most frequent names are: 'a', 'b'\n"
    )


def test_ratios_are_for_json_alone_in_python_too(tmp_path: Path) -> None:
    view = meantime.heatmap(
        history_from_picture("disk0  aabbaabb"), period=4, states="a", value="utilisation"
    )

    assert json.loads(b"".join(view.render("json")))["value"] == "utilisation"
    for form in ("svg", "html", "png"):
        with pytest.raises(UsageError, match=r"--value utilisation applies to \.json"):
            view.save(tmp_path / f"x.{form}")
