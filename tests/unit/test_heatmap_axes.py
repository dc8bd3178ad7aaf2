"""Heat maps whose rows are durations, shares, entities or weekdays, against plain definitions."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

import meantime
from meantime import Clock, HistoryBuilder
from meantime.cli import main
from meantime.errors import UsageError
from meantime.query.offsets.axis import durations
from meantime.testing import history_from_samples, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History
    from meantime.query.offsets import OffsetMap

HOUR = 3600 * 10**9
Interval = tuple[int, int, str]


def made(entities: dict[str, list[Interval]], end_ns: int, utc_ns: int | None = None) -> History:
    """Return a history of the states of entities, each of which has one from 0 on."""
    clock = Clock() if utc_ns is None else Clock("realtime", utc_at_origin_ns=utc_ns)
    builder = HistoryBuilder(clock=clock)
    changes = [
        (start, name, state) for name, parts in entities.items() for start, _, state in parts
    ]
    for start, name, state in sorted(changes):
        builder.modify(start, builder.quark(name), state)
    return builder.close(end_ns)


def randomly(seed: int, count: int, end_ns: int) -> dict[str, list[Interval]]:
    """Return the states of entities, one after the other, no two neighbours alike."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    found = {}
    for number in range(count):
        edges = sorted({0, *chance.sample(range(1, end_ns), chance.randint(1, 9))})
        states = [
            "abc"[(chance.randint(0, 1) + place) % 3] if place % 2 else "abc"[place % 3]
            for place in range(len(edges))
        ]
        parts: list[Interval] = []
        for start, end, state in zip(edges, [*edges[1:], end_ns], states, strict=True):
            if parts and parts[-1][2] == state:
                parts[-1] = (parts[-1][0], end, state)
            else:
                parts.append((start, end, state))
        found[f"cpu{number}"] = parts
    return found


def cells(found: OffsetMap, name: str | None = None) -> dict[tuple[int, int], int]:
    chosen = found.total if name is None else found.by[name]
    rows = found.fold.rows
    return {
        (number // rows, number % rows): value
        for number, value in zip(chosen.number.tolist(), chosen.value.tolist(), strict=True)
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("value", ["count", "ends"])
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_duration_is_counted_once_where_it_begins_or_ends(
    seed: int, value: Any, scale: Any
) -> None:
    states = randomly(seed, 5, 1000)

    found = meantime.heatmap(
        made(states, 1000), y="duration", spacing=scale, period=70, value=value, states="a"
    ).data

    edges = found.fold.y.edges
    expected = Counter[tuple[int, int]]()
    for parts in states.values():
        for start, end, state in parts:
            at = end if value == "ends" else start
            if state == "a":
                row = max(row for row, edge in enumerate(edges[:-1]) if edge <= end - start)
                expected[at // 70, row] += 1
    assert cells(found) == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("start", "end"), [(None, None), (130, 905)])
def test_a_share_is_that_of_the_recorded_time_of_its_column(
    seed: int, start: int | None, end: int | None
) -> None:
    states = randomly(seed, 7, 1000)
    rows, period = 8, 90

    view = meantime.heatmap(
        made(states, 1000),
        y="utilisation",
        states=["a", "b"],
        rows=rows,
        period=period,
        start=start,
        end=end,
    )

    low, high = start or 0, end or 1000
    expected = Counter[tuple[int, int]]()
    first = low // period
    for parts in states.values():
        for column in range(first, -(-high // period)):
            begin, finish = max(low, column * period), min(high, (column + 1) * period)
            busy = sum(
                max(0, min(to, finish) - max(since, begin))
                for since, to, state in parts
                if state in {"a", "b"}
            )
            row = min(rows - 1, busy * rows // (finish - begin))
            expected[column - first, row] += 1
    assert cells(view.data) == expected
    assert sorted(view.data.by) == sorted(states)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_has_the_time_of_its_entity(seed: int) -> None:
    states = randomly(seed, 12, 1000)

    found = meantime.heatmap(made(states, 1000), y="row", states="a", period=90).data

    assert found.fold.y.labels == tuple(f"cpu{number}" for number in range(11, -1, -1))
    expected = Counter[tuple[int, int]]()
    for name, parts in states.items():
        row = found.fold.y.labels.index(name)
        for start, end, state in parts:
            for column in range(12):
                inside = min(end, (column + 1) * 90) - max(start, column * 90)
                if state == "a" and inside > 0:
                    expected[column, row] += inside
    assert cells(found) == expected


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_an_hour_of_the_week_has_all_weeks(zone: str | None) -> None:
    # three weeks in which summer time ends
    begin = datetime(2026, 10, 14, 5, 20, tzinfo=UTC)
    chance = random.Random(2)  # noqa: S311 - not for secrets
    starts = sorted(chance.sample(range(1, 21 * 24 * 60), 80))
    clock = Clock("realtime", utc_at_origin_ns=int(begin.timestamp()) * 10**9)
    builder = HistoryBuilder(clock=clock)
    quark = builder.quark("job")
    minute = 60 * 10**9
    for start in starts:
        builder.modify(start * minute, quark, f"on {start}")
    history = builder.close(21 * 24 * HOUR)

    found = meantime.heatmap(history, y="weekday", zone=zone, value="starts").data

    expected = Counter[tuple[int, int]]()
    for start in starts:
        at = datetime.fromtimestamp(begin.timestamp() + 60 * start, ZoneInfo(zone or "UTC"))
        expected[at.hour, 6 - at.weekday()] += 1
    assert cells(found) == expected
    assert found.cells_of(found.recorded) == [(0, 24 * 7 - 1)]


def test_hours_that_were_not_recorded_are_not_of_the_map() -> None:
    monday = int(datetime(2026, 10, 12, tzinfo=UTC).timestamp()) * 10**9
    history = made({"a": [(0, 3 * HOUR, "on")]}, 3 * HOUR, monday + 23 * HOUR)

    found = meantime.heatmap(history, y="weekday").data

    # 23:00 of Monday, 0:00 and 1:00 of Tuesday; Monday is the last row
    assert sorted(cells(found)) == [(0, 5), (1, 5), (23, 6)]
    assert found.cells_of(found.recorded) == [(5, 5), (12, 12), (167, 167)]


@pytest.mark.parametrize(
    "options",
    [
        {"y": "duration"},
        {"y": "duration", "spacing": "linear"},
        {"y": "utilisation", "states": "a"},
        {"y": "row", "states": "a"},
    ],
)
def test_hosts_add_up(options: dict[str, Any]) -> None:
    one, other = randomly(1, 4, 1000), randomly(2, 5, 1700)
    histories = [made(one, 1000), made(other, 1700)]

    both = meantime.heatmap(
        histories, names=["x", "y"], period=100, assume_aligned=True, **options
    ).data
    apart = [meantime.heatmap(each, period=100, **options).data for each in histories]

    assert both.total.value.sum() == sum(each.total.value.sum() for each in apart)
    if options["y"] == "row":
        assert both.fold.y.labels[:2] == ("y cpu4", "y cpu3")
        assert both.fold.y.labels[-2:] == ("x cpu1", "x cpu0")
    if options["y"] == "utilisation":
        assert cells(both, "cpu4") == cells(apart[1], "cpu4")


def test_the_one_busy_entity_of_many_is_alone_at_the_top() -> None:
    parts: dict[str, list[Interval]] = {}
    for cpu in range(512):
        busy = 98 if cpu == 78 else 30 if cpu % 2 else 2
        parts[f"cpu{cpu}"] = [
            part
            for at in range(0, 1000, 100)
            for part in ((at, at + busy, "busy"), (at + busy, at + 100, "idle"))
        ]

    found = meantime.heatmap(made(parts, 1000), y="utilisation", states="busy", period=100).data

    assert {key: count for key, count in cells(found).items() if key[1] > 20} == {
        (column, 49): 1 for column in range(10)
    }
    assert set(cells(found, "cpu78")) == {(column, 49) for column in range(10)}


def test_spans_have_durations_at_every_depth_and_threads_shares_of_their_outermost() -> None:
    history = history_from_spans(
        {"main": [("a", 0, 100), ("b", 20, 50)], "other": [("a", 150, 200)]}
    )

    lengths = meantime.heatmap(history, y="duration", period=100, spacing="linear").data
    shares = meantime.heatmap(history, y="utilisation", period=100, rows=4).data

    assert lengths.by["b"].value.tolist() == [1]
    assert lengths.total.value.sum() == 3
    assert cells(shares) == {(0, 3): 1, (0, 0): 1, (1, 0): 1, (1, 2): 1}


@pytest.mark.parametrize("rows", [1, 3, 10, 50])
def test_durations_have_rows_without_gaps(rows: int) -> None:
    edges = durations(rows).edges

    assert edges[0] == 0
    assert edges[-1] == 2**63 - 1
    assert list(edges) == sorted(set(edges))


def test_the_document_says_what_its_axes_are(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    history = made({"a": [(0, 10, "on"), (10, 40, "off")]}, 40)

    meantime.heatmap(history, y="duration", period=20).save(out)

    found = json.loads(out.read_text())
    assert found["x"] == {"kind": "time", "unit": "ns", "begin": 0, "width": 20}
    assert found["y"]["kind"] == "duration"
    assert found["y"]["edges"][0] == 10
    assert found["cells"] == [[0, 0, 1], [0, 4, 1]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--y-scale", "linear"], "--y-scale does not apply to --y offset"),
        (["--y", "row", "--state", "a", "--rows", "3"], "--rows does not apply to --y row"),
        (["--y", "weekday", "--period", "1s"], "--period does not apply to --y weekday"),
        (["--y", "weekday"], "--y weekday needs the start of the trace in UTC"),
        (["--y", "utilisation"], "--y utilisation needs the states that count: --state a"),
        (["--y", "utilisation", "--state", "a", "--value", "ns"], "--value does not apply"),
        (["--y", "duration", "--value", "ns"], "a map by duration of states has no ns"),
        (["--y", "duration", "--rows", "0"], "a map of durations has 1 to 1000 rows"),
        (["--y", "weekday", "--find"], "--find does not apply to --y weekday"),
        (["--between", "1ms..2ms"], "--during and --between apply to other rows than offsets"),
        (["--y", "duration", "--between", "5"], "write two values, such as 10ms..1s"),
        (["--y", "duration", "--between", "4ns..x"], "write values such as 10ms..1s"),
        (["--y", "duration", "--between", "9s..4s"], "ends before it begins"),
        (["--y", "duration", "--between", "1s..4s"], "is outside of the map"),
        (["--y", "duration", "--during", "0ns..9ns"], "there is no rest"),
        (["--y", "row", "--state", "a", "--between", "z"], "there is no row 'z'"),
    ],
)
def test_what_does_not_apply_is_an_error(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("start,end,entity,state\n0,5,x,a\n5,9,x,b\n")
    columns = "start=start:ns,end=end:ns,entity=entity,state=state"

    with pytest.raises(SystemExit):
        main(["heatmap", str(path), "--columns", columns, *words])

    assert message in capsys.readouterr().err


def test_samples_have_rows_and_no_durations() -> None:
    history = history_from_samples(
        [(5, "main", ["a"], 1), (6, "other", ["c"], 1), (25, "main", ["b"], 1)]
    )

    found = meantime.heatmap(history, y="row", period=10, by="thread").data

    assert found.value == "count"
    assert sorted(cells(found)) == [(0, 0), (0, 1), (2, 1)]
    with pytest.raises(UsageError, match="samples have no duration, as they are moments"):
        meantime.heatmap(history, y="duration")


@pytest.mark.parametrize(
    "options",
    [
        {"y": "duration"},
        {"y": "utilisation", "states": "a"},
        {"y": "row", "states": "a"},
        {"y": "weekday"},
    ],
)
@pytest.mark.parametrize("form", ["svg", "html", "json"])
def test_every_kind_is_drawn_and_says_its_rows(options: dict[str, Any], form: str) -> None:
    history = made(randomly(3, 4, 1000), 1000, 10**18)

    text = b"".join(meantime.heatmap(history, **options).render(form)).decode()

    assert {"duration": "duration", "utilisation": "100 %", "row": "cpu3", "weekday": "Monday"}[
        options["y"]
    ] in text or form == "json"
    assert f'"kind": "{options["y"]}"' in text or form != "json"


def test_what_distinguishes_cells_is_counted_by_every_attribute(tmp_path: Path) -> None:
    path = tmp_path / "requests.json"
    chance = random.Random(4)  # noqa: S311 - not for secrets
    things = [
        (chance.choice([1, 2, 3]), "GET" if number % 3 else "PUT", number) for number in range(200)
    ]
    events = [
        {
            "ph": "X",
            "pid": 1,
            "tid": number % 4,
            "name": name,
            "ts": 100 * number,
            "dur": 90 if size == 3 else 2,
            "args": {"size": size, "deep": {"a": [size]}},
        }
        for size, name, number in things
    ]
    path.write_text(json.dumps(events))

    view = meantime.heatmap(path, y="duration")
    found = view.against_rest(between="80us..100us")

    slow = [thing for thing in things if thing[0] == 3]
    fast = [thing for thing in things if thing[0] != 3]
    assert (found.inside, found.outside) == (len(slow), len(fast))
    by = {(each.attribute, each.value): each for each in found.differences}
    assert by["argument size", "3"].inside_share == 1
    assert by["argument size", "3"].outside == 0
    assert by["argument deep", '{"a": [3]}'].inside == len(slow)
    for name in ("GET", "PUT"):
        shares = [sum(thing[1] == name for thing in part) / len(part) for part in (slow, fast)]
        if abs(shares[0] - shares[1]) >= 0.01:
            assert by["name", name][4:] == pytest.approx(shares)
    assert found.differences[0].inside_share - found.differences[0].outside_share == 1


@pytest.mark.parametrize("seed", range(3))
def test_time_is_compared_by_state_and_entity(seed: int) -> None:
    states = randomly(seed, 5, 1000)

    found = meantime.heatmap(made(states, 1000), y="row", states="[ab]", period=100).against_rest(
        during="200ns..500ns", between="cpu1..cpu3"
    )

    inside, outside = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for name, parts in states.items():
        for start, end, state in parts:
            if state == "c":
                continue
            here = (
                max(0, min(end, 500) - max(start, 200)) if name in {"cpu1", "cpu2", "cpu3"} else 0
            )
            for trait in (("state", state), ("entity", name)):
                inside[trait] += here
                outside[trait] += end - start - here
    for each in found.differences:
        trait = (each.attribute, each.value)
        assert (each.inside, each.outside) == (inside[trait], outside[trait])
    assert found.inside == sum(value for (kind, _), value in inside.items() if kind == "state")


def test_what_is_apart_is_found_and_named() -> None:
    parts: dict[str, list[Interval]] = {}
    for cpu in range(100):
        busy = 97 if cpu == 7 else 20
        parts[f"cpu{cpu}"] = [
            part
            for at in range(0, 1000, 100)
            for part in ((at, at + busy, "busy"), (at + busy, at + 100, "idle"))
        ]

    view = meantime.heatmap(made(parts, 1000), y="utilisation", states="busy", period=100)

    assert [each.sentence for each in view.findings] == [
        "cpu7: 96 % to 98 % of the time, apart from all others"
    ]
    same = {name: part for name, part in parts.items() if name != "cpu7"}
    assert not meantime.heatmap(made(same, 1000), y="utilisation", states="busy").findings
