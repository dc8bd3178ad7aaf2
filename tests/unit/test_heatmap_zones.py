"""Heat maps of local time: days of 23, 24 and 25 hours, and what is found in them."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import meantime
from meantime import Clock, HistoryBuilder
from meantime.cli import main
from meantime.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

SECOND = 10**9
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
# A zone, a day on which its clock changes, the hour that is missing or doubled, and how many of its
# minutes are left or there.
CHANGES = [
    ("Europe/Berlin", "2026-03-29", 2, 0),
    ("Europe/Berlin", "2026-10-25", 2, 120),
    ("Australia/Sydney", "2026-10-04", 2, 0),
    ("Australia/Sydney", "2026-04-05", 2, 120),
    ("Australia/Adelaide", "2026-04-05", 2, 120),
    ("Australia/Lord_Howe", "2026-10-04", 2, 30),
    ("Australia/Lord_Howe", "2026-04-05", 1, 90),
    ("America/St_Johns", "2026-11-01", 1, 120),
    ("Europe/Moscow", "2011-03-27", 2, 0),
    ("Europe/Moscow", "2014-10-26", 1, 120),
]


def midnight(zone: str, day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))


def write(path: Path, events: list[tuple[float, str]]) -> Path:
    rows = "".join(f"{round(time * SECOND)},{name}\n" for time, name in sorted(events))
    path.write_text("time,name\n" + rows)
    return path


def states(start_ns: int, end_ns: int) -> History:
    """Return a history of one entity that is busy all of the time, in UTC."""
    builder = HistoryBuilder(clock=Clock("realtime", utc_at_origin_ns=start_ns))
    builder.modify(0, builder.quark("cpu"), "busy")
    return builder.close(end_ns - start_ns)


@pytest.mark.parametrize(("zone", "day", "hour", "minutes"), CHANGES)
def test_28_days_of_minutes_have_their_hours_by_the_clock_on_the_wall(
    tmp_path: Path, zone: str, day: str, hour: int, minutes: int
) -> None:
    first = midnight(zone, day) - timedelta(days=14)
    start, end = (int(each.timestamp()) for each in (first, first + timedelta(days=28)))
    log = write(tmp_path / "log.csv", [(time, "tick") for time in range(start, end, 60)])

    found = meantime.heatmap(log, period="1d", rows=24, zone=zone).data

    expected = np.full((28, 24), 60)
    expected[14, hour] = minutes
    assert (found.grid(found.total) == expected).all()
    assert found.total.value.sum() == (end - start) // 60
    assert len(found.repeated) == (minutes > 60)
    lacking = 60 - minutes
    recorded = sum(stop - begin for begin, stop in found.recorded)
    assert abs(recorded - (28 * DAY - max(0, lacking) * MINUTE)) < 2 * MINUTE


@pytest.mark.parametrize(("zone", "day", "hour", "minutes"), CHANGES)
def test_states_are_cut_where_the_clock_changes(
    zone: str, day: str, hour: int, minutes: int
) -> None:
    first = midnight(zone, day)
    ends = [round(each.timestamp()) * SECOND for each in (first, first + timedelta(days=1))]
    history = states(*ends)

    view = meantime.heatmap(history, period="1d", rows=24, zone=zone, states="busy")

    expected = np.full((1, 24), HOUR)
    expected[0, hour] = minutes * MINUTE
    assert (view.data.grid(view.data.total) == expected).all()
    ratios = meantime.heatmap(
        history, period="1d", rows=24, zone=zone, states="busy", value="concurrency"
    )
    cells = json.loads(b"".join(ratios.render("json")))["cells"]
    # an hour of 30 minutes is not busy for all of its cell; one of 90 or 120 is not busier than 1
    assert {ratio for *_, ratio in cells} <= {1.0, min(1.0, minutes / 60)}


def test_a_page_hatches_the_missing_hour_and_frames_the_doubled_one() -> None:
    pages = {}
    for day in ("2026-03-29", "2026-10-25"):
        first = midnight("Europe/Berlin", day)
        ends = [round(each.timestamp()) * SECOND for each in (first, first + timedelta(days=3))]
        view = meantime.heatmap(states(*ends), period="1d", zone="Europe/Berlin", states="*")
        pages[day] = b"".join(view.render("svg")).decode()

    spring, autumn = pages.values()
    assert "2026-03-29 02:00 to 03:00 does not occur, as clocks were set forward" in spring
    assert 'class="twice"' not in spring
    assert "2026-10-25 02:00 to 03:00 occurs twice, as clocks were set back" in autumn
    assert 'class="twice"' in autumn
    for page in pages.values():
        assert "times in Europe/Berlin" in page
        assert all(f">{hour:02}:00</text>" in page for hour in (0, 6, 12, 18))


def daily(path: Path, zone: str, day: str, days: int = 14) -> Path:
    """Write a job that begins at 07:30 each day and takes 20 minutes, and other events."""
    chance = random.Random(1)  # noqa: S311 - it is no secret
    events = []
    for number in range(days):
        morning = (midnight(zone, day) + timedelta(days=number)).replace(hour=7, minute=30)
        at = morning.timestamp()
        events += [(at + 6 * each, "backup") for each in range(200)]
        events += [(at + chance.uniform(-7.5, 16) * 3600, "noise") for _ in range(500)]
    return write(path, events)


@pytest.mark.parametrize("period", ["1d", "1h", "7d"])
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", "2026-10-19"),
        ("Europe/Berlin", "2026-03-20"),
        ("Australia/Adelaide", "2026-03-30"),
    ],
)
def test_a_daily_job_is_daily_across_a_change_of_the_clock(
    tmp_path: Path, zone: str, day: str, period: str
) -> None:
    log = daily(tmp_path / "daily.csv", zone, day)

    in_zone = meantime.heatmap(log, period=period, zone=zone, by="name").findings
    in_utc = meantime.heatmap(log, period=period, by="name").findings

    [found] = [each for each in in_zone if each.kind == "period"]
    assert found.sentence.startswith(
        "backup runs every day, 07:" if period != "7d" else "backup runs every day, 07:00 to 08:00"
    )
    assert found.period_ns is not None
    assert abs(found.period_ns - DAY) < 5 * MINUTE
    assert not [each for each in in_zone if each.kind == "stripe"]
    # most of the distances are a day; none is what all of them together are per run
    if period != "7d":  # of which a cell is an hour
        sentences = [each.sentence for each in in_utc if each.kind == "period"]
        assert sentences == ["backup runs every day"]


def weekly(path: Path) -> Path:
    """Write eight weeks of office hours, and a burst on each Sunday at 03:00, in UTC."""
    chance = random.Random(2)  # noqa: S311 - it is no secret
    monday = 1_761_523_200
    events = []
    for hour in range(8 * 168):
        day, of_day = hour // 24 % 7, hour % 24
        count = 20 + 60 * (day < 5 and 8 <= of_day < 18) + 200 * (day == 6 and of_day == 3)
        events += [(monday + (hour + chance.random()) * 3600, "req") for _ in range(count)]
    return write(path, events)


@pytest.mark.parametrize("fold", [("1d", 24), ("7d", 168)])
def test_office_hours_are_found_and_bursts_at_equal_distances_are_one_finding(
    tmp_path: Path, fold: tuple[str, int]
) -> None:
    found = meantime.heatmap(weekly(tmp_path / "weekly.csv"), period=fold[0], rows=fold[1]).findings

    assert [each.sentence for each in found] == [
        "Monday to Friday, 08:00 to 18:00, 4.0 times the load of other hours",
        "11.0 times the usual load for 1 h every Sunday at 03:00 (8 times), most of it req",
    ]


def test_an_even_load_and_one_that_is_different_every_day_have_no_hours(tmp_path: Path) -> None:
    chance = random.Random(3)  # noqa: S311 - it is no secret
    even = [(1_761_523_200 + chance.uniform(0, 28 * 86_400), "req") for _ in range(20_000)]
    uneven = [
        (1_761_523_200 + 3600 * (hour + chance.random()), "req")
        for hour in range(28 * 24)
        for _ in range(chance.choice((10, 80)))
    ]

    for events in (even, uneven):
        log = write(tmp_path / "log.csv", events)
        found = meantime.heatmap(log, period="1d", rows=24).findings
        assert not [each.sentence for each in found if "load of other hours" in each.sentence]


def test_a_time_of_a_long_recording_with_a_date_is_a_date(tmp_path: Path) -> None:
    start = datetime.fromisoformat("2025-11-10T00:00+00:00").timestamp()
    times = [start + 20 * each for each in range(9 * 4320)]
    gap = start + 6 * 86_400 + 3 * 3600
    log = write(tmp_path / "log.csv", [(t, "x") for t in times if not gap <= t < gap + 7200])

    utc = meantime.heatmap(log, period="1h").findings
    local = meantime.heatmap(log, period="1h", zone="America/New_York").findings

    assert [each.sentence for each in utc if each.kind == "gap"] == [
        "nothing happened for 2 h on Sunday 2025-11-16 at 03:00"
    ]
    assert [each.sentence for each in local if each.kind == "gap"] == [
        "nothing happened for 2 h on Saturday 2025-11-15 at 22:00"
    ]


def test_a_zone_needs_a_known_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,name\n1.5,a\n2.5,b\n")

    with pytest.raises(UsageError, match="needs the start of the trace in UTC"):
        meantime.heatmap(trace, zone="Europe/Berlin")
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["heatmap", str(trace), "--zone", "Mars/Olympus"])
    assert "unknown time zone 'Mars/Olympus'" in capsys.readouterr().err


def test_dates_are_read_and_printed_in_the_zone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = daily(tmp_path / "daily.csv", "Europe/Berlin", "2026-10-19", 7)

    # outside of the trace there is nothing, which is no error
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["heatmap", str(log), "--zone", "Europe/Berlin", "--from", "2027-01-01"])
    error = capsys.readouterr().err
    with meantime.in_zone("Europe/Berlin"):
        local = meantime.heatmap(log, period="1d", start="2026-10-25T02:30").data
    # of the hour that occurs twice, the first; and from there on, both are recorded in part
    zulu = meantime.heatmap(log, period="1d", start="2026-10-25T00:30Z", zone="Europe/Berlin").data

    assert "2026-10-19T00:0" in error
    assert "+02:00" in error
    assert local.total.number.tolist() == zulu.total.number.tolist()
    assert (local.fold.origin_ns, local.recorded) == (zulu.fold.origin_ns, zulu.recorded)
