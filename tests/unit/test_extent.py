"""Times as text: they count from where the trace begins, and what is printed can be given back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import main
from meantime.errors import TimeRangeError, UsageError
from meantime.model.clocks import Clock
from meantime.model.extent import Extent
from meantime.query.offsets.sources import SampleSource
from meantime.testing import history_from_picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.model.trace import Trace

S = 10**9
EPOCH = 1_712_195_495 * S
DATED = Extent(2 * S, 12 * S, Clock(utc_at_origin_ns=EPOCH))


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("0s", 2 * S),
        ("-1s", S),
        ("abs:3s", 3 * S),
        ("abs:3000000000", 3 * S),
        (f"@{EPOCH // S + 5}.5", 5 * S + S // 2),
        ("2024-04-04T01:51:40.5Z", 5 * S + S // 2),
        ("2024-04-04T03:51:40.5+02:00", 5 * S + S // 2),
        (7, 7),
    ],
)
def test_a_time_counts_from_the_beginning_and_an_integer_is_the_traces_own(
    text: str | int, time_ns: int
) -> None:
    assert DATED.time_ns(text) == time_ns


def test_a_date_needs_a_trace_with_a_date() -> None:
    with pytest.raises(UsageError, match="this trace's dates are unknown"):
        Extent(0, 5, Clock()).time_ns("2024-04-04T01:38:15Z")


@pytest.mark.parametrize("time_ns", [2 * S, 2 * S + 1, 2 * S + 1_234_567, 11_999_999_999, S])
def test_a_printed_time_can_be_given_back(time_ns: int) -> None:
    assert DATED.time_ns(DATED.text(time_ns)) == time_ns
    utc = DATED.utc(time_ns)
    assert utc is not None
    assert DATED.time_ns(utc) == time_ns


def test_a_part_may_be_outside_of_the_trace_but_is_never_empty() -> None:
    assert DATED.part(None, "1s") == (2 * S, 3 * S)
    assert DATED.part("-5s", "1s") == (-3 * S, 3 * S)
    for start, end, part in (
        ("20s", None, (22 * S, 22 * S + 1)),
        (None, "0s", (2 * S - 1, 2 * S)),
        ("10s", "11s", (12 * S, 13 * S)),
        (None, "-5s", (-3 * S - 1, -3 * S)),
    ):
        assert DATED.part(start, end) == part
        assert DATED.misses(*part)
    with pytest.raises(TimeRangeError, match="from 2s to 1s is empty: it must begin"):
        DATED.part("2s", "1s")


def test_a_builders_bounds_begin_at_the_first_change() -> None:
    builder = meantime.HistoryBuilder()
    builder.modify(EPOCH, builder.quark("disk"), "idle")
    builder.modify(EPOCH + S, builder.quark("disk"), "busy")
    history = builder.close(EPOCH + 3 * S)

    assert history.bounds == (EPOCH, EPOCH + 3 * S)
    assert (history.start_ns, history.clock.kind) == (0, "realtime")
    assert meantime.statemap(history, start="1s", end="2s").data.panels[0].start_ns == EPOCH + S


def test_a_builders_bounds_begin_where_it_was_begun() -> None:
    builder = meantime.HistoryBuilder(start_ns=0)
    builder.modify(5, builder.quark("disk"), "idle")

    assert builder.close(8).bounds == (0, 8)
    assert history_from_picture("disk ..aa").bounds == (0, 4)


def test_the_bounds_of_a_growing_history_begin_at_the_first_change(tmp_path: Path) -> None:
    builder = meantime.HistoryBuilder(tmp_path / "x.mth")
    builder.modify(5, builder.quark("disk"), "idle")
    builder.modify(9, builder.quark("disk"), "busy")

    assert builder.history.bounds == (5, 10)
    builder.leave()
    assert meantime.open(tmp_path / "x.mth").bounds == (5, 10)


def test_the_bounds_are_kept_on_disk(tmp_path: Path) -> None:
    with meantime.HistoryBuilder(tmp_path / "x.mth") as builder:
        builder.modify(5, builder.quark("disk"), "idle")
        builder.close(8)

    assert meantime.open(tmp_path / "x.mth").bounds == (5, 8)


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> Callable[..., tuple[object, str, str]]:
    monkeypatch.chdir(root)

    def run(*arguments: object) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(map(str, arguments)))
        return stopped.value.code, *capsys.readouterr()

    return run


JOBS = "examples/jobs.perf.gz"
POSTGRES = "examples/postgres.statemap.gz"
KERNEL = "tests/samples/ftrace/kernel.txt"
SERVICES = "tests/samples/services/example.otlp.json"


@pytest.mark.parametrize(
    "command",
    [
        ["stats", POSTGRES],
        ["stats", JOBS],
        ["stats", JOBS, "--tree"],
        ["statemap", POSTGRES, "-o"],
        ["heatmap", JOBS],
        ["heatmap", JOBS, "-o"],
        ["heatmap", POSTGRES, "-o"],
        ["heatmap", POSTGRES, "--find"],
        ["flame", JOBS, "-o"],
        ["query", POSTGRES, "intervals", "**"],
        ["query", POSTGRES, "shares", "**"],
        ["query", POSTGRES, "count", "**"],
        ["query", POSTGRES, "points"],
        ["dump", JOBS, "--kind", "samples"],
        ["findings", POSTGRES],
        ["findings", JOBS, "--json"],
        ["explain", JOBS],
        ["explain", POSTGRES, "--json"],
        ["why", KERNEL, "--thread", "58", "--json"],
        ["why", KERNEL, "--thread", "58"],
        ["explain", KERNEL, "58"],
        ["stats", SERVICES, "--by", "service"],
    ],
)
def test_a_range_outside_is_an_empty_answer_with_the_traces_range(
    command: list[str], tmp_path: Path, run: Callable[..., tuple[object, str, str]]
) -> None:
    output = [tmp_path / "x.svg"] if command[-1] == "-o" else []

    for *window, said in (
        ("--from", "400s", "--to", "500s", "from 400s to 500s"),
        ("--from", "400s", "from 400s on"),
        ("--from=-9s", "--to=-3s", "from -9s to -3s"),
    ):
        status, _, err = run(*command, *output, *window)

        assert (status, err.count("there is nothing")) == (0, 1)
        assert f"there is nothing {said}; the trace is from 0s to " in err
        assert not output or output[0].stat().st_size
    status, _, err = run(*command, *output, "--from", "500s", "--to", "400s")
    assert status in {1, 2}
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("a 1 [000] 1.000000: x: \n\t1 f (x)\n\na 1 [000] 9.000000: x: \n\t1 f (x)\n\n", "flame"),
        ("a 1 [000] 1.000000: x: \n\t1 f (x)\n\na 1 [000] 9.000000: x: \n\t1 f (x)\n\n", "stats"),
        ("start_ns,end_ns,path,value\n0,1000000000,a,on\n8000000000,9000000000,a,on\n", "stats"),
    ],
)
def test_an_empty_range_inside_the_trace_is_an_empty_answer(
    text: str, command: str, tmp_path: Path, run: Callable[..., tuple[object, str, str]]
) -> None:
    (tmp_path / "x").write_text(text)
    window = ["--from", "3s", "--to", "5s"]

    status, out, err = run(command, tmp_path / "x", *window, "--json")

    assert (status, json.loads(out)["rows"]) == (0, [])
    assert err.startswith("there is nothing from 3s to 5s; the trace is from 0s to ")
    if command == "flame":
        for suffix in ("svg", "html", "folded", "json"):
            file = tmp_path / f"x.{suffix}"
            assert run(command, tmp_path / "x", *window, "-o", file)[0] == 0
            assert file.exists()
        chart = tmp_path / "chart.svg"
        assert run(command, tmp_path / "x", *window, "--chart", "-o", chart)[0] == 0


def test_a_name_of_another_range_is_an_empty_answer(
    tmp_path: Path, run: Callable[..., tuple[object, str, str]]
) -> None:
    (tmp_path / "x").write_text(
        "a 1 [000] 1.000000: x: \n\t1 f (x)\n\na 1 [000] 9.000000: x: \n\t1 f (x)\n\n"
    )
    window = ["--from", "3s", "--to", "5s", "--json"]

    assert run("stats", tmp_path / "x", *window, "--callers", "f")[0] == 0
    status, _, err = run("stats", tmp_path / "x", *window, "--callers", "g")
    assert (status, err) == (1, "meantime: 'g' does not occur in this part of the trace\n")


def test_an_instant_outside_is_the_same_sentence(
    run: Callable[..., tuple[object, str, str]],
) -> None:
    status, out, err = run("query", POSTGRES, "at", "5s")

    assert (status, out) == (1, "")
    assert err.startswith("meantime: 5s is outside the trace, which is from 0s to 999.997482ms")


def test_info_has_both_ends_their_dates_and_the_clock(
    run: Callable[..., tuple[object, str, str]],
) -> None:
    _, out, _ = run("info", JOBS)

    assert "from        0s  2026-11-21T08:21:48.416634415Z" in out
    assert "to          299.929318001s  2026-11-21T08:26:48.345952416Z" in out
    assert "clock       monotonic; 0s is abs:1609.038454s" in out


def test_a_date_a_relative_and_a_raw_time_are_the_same(
    run: Callable[..., tuple[object, str, str]],
) -> None:
    found = [
        json.loads(run("stats", JOBS, "--json", "--from", start, "--to", end)[1])
        for start, end in (
            ("10s", "20s"),
            ("abs:1619.038454s", "abs:1629.038454s"),
            ("2026-11-21T08:21:58.416634415Z", "2026-11-21T08:22:08.416634415Z"),
        )
    ]

    # the command that is suggested has the range as it was written
    following = [each.pop("next")[0]["command"] for each in found]
    assert found[0]["range_ns"] == [1_619_038_454_000, 1_629_038_454_000]
    assert "--from 10s --to 20s" in following[0]
    assert found[0] == found[1] == found[2]


def test_times_of_the_epoch_are_dates(
    tmp_path: Path, run: Callable[..., tuple[object, str, str]]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"start_ns,end_ns,path,value\n{EPOCH},{EPOCH + S},a,x\n")

    _, out, _ = run("info", path)

    assert "from        0s  2024-04-04T01:51:35.000000000Z" in out
    assert run("stats", path, "--from", "2024-04-04T01:51:35.5Z")[0] == 0


def test_the_times_of_a_table_can_be_given_back(
    run: Callable[..., tuple[object, str, str]],
) -> None:
    _, table, _ = run("query", POSTGRES, "state", "22530", "0.2s")
    _, start, end, *_ = table.splitlines()[4].split()
    rows = [
        json.loads(run("query", POSTGRES, "state", "22530", time, "--json")[1])
        for time in ("0.2s", start)
    ]

    assert rows[0] == rows[1]
    assert rows[0]["end_ns"] == DATED.time_ns(end) - 2 * S


def test_perf_text_whose_first_batch_is_not_the_earliest_counts_from_the_earliest(
    tmp_path: Path, run: Callable[..., tuple[object, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perf.txt"
    path.write_text("".join(f"a 7 {time}.000000: 1 x: \n\n" for time in (5, 9, 3)))
    original = SampleSource.__init__

    def first_batch_is_late(source: SampleSource, trace: Trace, name: str) -> None:
        original(source, trace, name)
        source.extent = source.extent._replace(start_ns=5 * S)

    monkeypatch.setattr(SampleSource, "__init__", first_batch_is_late)

    status, *_ = run("heatmap", path, "--from", "1s", "--to", "3s", "-o", tmp_path / "x.json")

    assert status == 0
    assert json.loads((tmp_path / "x.json").read_text())["cells"] == [[1, 0, 1]]
