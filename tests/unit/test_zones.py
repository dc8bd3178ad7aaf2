"""Local times and UTC, over every kind of change that zones make."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import meantime
from meantime.errors import UsageError
from meantime.model.zones import Zone

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 10**9
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
# A zone, a day with a change, and by how many hours the day is longer than 24.
CHANGES = [
    ("Europe/Berlin", "2026-03-29", -1),
    ("Europe/Berlin", "2026-10-25", 1),
    ("America/New_York", "2026-03-08", -1),
    ("America/New_York", "2026-11-01", 1),
    ("Australia/Sydney", "2026-10-04", -1),  # the southern hemisphere
    ("Australia/Sydney", "2026-04-05", 1),
    ("Australia/Adelaide", "2026-04-05", 1),  # 9.5 hours ahead
    ("Australia/Lord_Howe", "2026-04-05", 0.5),  # a change of half an hour
    ("Australia/Lord_Howe", "2026-10-04", -0.5),
    ("Asia/Kathmandu", "2026-03-29", 0),  # 5.75 hours ahead, without changes
    ("Europe/Moscow", "2011-03-27", -1),  # new rules: summer time for ever
    ("Europe/Moscow", "2014-10-26", 1),  # and winter time for ever
    ("Pacific/Apia", "2011-12-29", 0),  # the next day was left out
    ("Asia/Pyongyang", "2018-05-04", -0.5),
]


def ns_of(text: str) -> int:
    """Return a date as if it were one of UTC."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def plain(utc_ns: int, zone: str) -> int:
    """Return a local time by Python's own arithmetic."""
    local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=utc_ns // SECOND)
    return ns_of(local.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat())


@pytest.mark.parametrize(("zone", "day", "longer_h"), CHANGES)
def test_every_minute_of_28_days_has_the_local_time_that_python_computes(
    zone: str, day: str, longer_h: float
) -> None:
    start = ns_of(day) - 14 * DAY
    minutes = np.arange(start, start + 28 * DAY, MINUTE)

    local = Zone(zone).offsets(start, start + 28 * DAY).local(minutes)

    assert local.tolist() == [plain(each, zone) for each in minutes.tolist()]
    of_day = (local >= ns_of(day)) & (local < ns_of(day) + DAY)
    assert of_day.sum() * MINUTE == DAY + longer_h * HOUR


@pytest.mark.parametrize(("zone", "day", "longer_h"), CHANGES)
def test_a_log_of_local_minutes_is_read_as_it_was_written(
    zone: str, day: str, longer_h: float
) -> None:
    minutes = np.arange(ns_of(day) - 14 * DAY, ns_of(day) + 14 * DAY, MINUTE)
    known = Zone(zone)
    local = known.offsets(int(minutes[0]), int(minutes[-1])).local(minutes)

    assert (known.to_utc(local) == minutes).all()
    # alone, a time that occurs twice is the first of the two
    for row in range(0, len(minutes), 997):
        one = int(known.to_utc(local[row : row + 1])[0])
        assert one == minutes[row] or (longer_h > 0 and one == minutes[row] - longer_h * HOUR)


def test_of_a_log_that_is_not_in_order_only_a_large_step_back_is_the_clock() -> None:
    zone = Zone("Europe/Berlin")
    at = [ns_of(f"2026-10-25T{text}") for text in ("01:59:59", "01:59:58", "02:10", "02:05")]
    again = [*at, ns_of("2026-10-25T02:50"), ns_of("2026-10-25T02:06"), ns_of("2026-10-25T03:00")]

    hours = [
        (each - local) // HOUR
        for each, local in zip(zone.to_utc(np.array(again)), again, strict=True)
    ]

    assert hours == [-2, -2, -2, -2, -2, -1, -1]


def test_local_times_that_do_not_occur_are_after_the_change() -> None:
    for zone, text, expected in (
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:30"),
        ("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:45"),
        ("Australia/Lord_Howe", "2026-10-04T02:45", "2026-10-03T15:45"),
    ):
        column = np.array([ns_of("2026-01-01"), ns_of(text)], np.int64)

        assert Zone(zone).to_utc(column)[1] == ns_of(expected)
        assert Zone(zone).to_utc(column[1:])[0] == ns_of(expected)


def test_ranges_of_local_time_are_none_one_or_two_of_utc() -> None:
    offsets = Zone("Europe/Berlin").offsets(ns_of("2026-01-01"), ns_of("2026-12-31"))

    def utc(start: str, end: str) -> list[tuple[int, int]]:
        return offsets.utc(ns_of(start), ns_of(end))

    assert utc("2026-03-29T02:10", "2026-03-29T02:50") == []
    day = ns_of("2026-03-28T23:00")
    assert utc("2026-03-29", "2026-03-30") == [(day, day + 23 * HOUR)]
    day = ns_of("2026-10-24T22:00")
    assert utc("2026-10-25", "2026-10-26") == [(day, day + 25 * HOUR)]
    first = day + 2 * HOUR + 10 * MINUTE
    assert utc("2026-10-25T02:10", "2026-10-25T02:20") == [
        (first, first + 10 * MINUTE),
        (first + HOUR, first + HOUR + 10 * MINUTE),
    ]
    assert offsets.skipped == [(ns_of("2026-03-29T02:00"), ns_of("2026-03-29T03:00"))]
    assert offsets.repeated == [(ns_of("2026-10-25T02:00"), ns_of("2026-10-25T03:00"))]


def test_a_time_is_written_with_the_distance_from_utc() -> None:
    noon = ns_of("2026-07-01T12:00") + 5

    assert Zone("Europe/Berlin").text(noon) == "2026-07-01T14:00:00.000000005+02:00"
    assert Zone("America/St_Johns").text(noon) == "2026-07-01T09:30:00.000000005-02:30"
    assert Zone("UTC").text(noon) == "2026-07-01T12:00:00.000000005+00:00"
    # of a time before there were zones, to the second
    old = Zone("Europe/Amsterdam").text(ns_of("1890-01-01"))
    assert datetime.fromisoformat(old[:19] + old[29:]).timestamp() * SECOND == ns_of("1890-01-01")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", r"did you mean Europe/Berlin\?"),
        ("new york", r"did you mean America/New_York\?"),
        ("../../etc/passwd", "unknown time zone"),
        ("Europe", "write a name such as Europe/Berlin"),
        ("", "unknown time zone ''"),
    ],
)
def test_an_unknown_zone_is_refused_with_those_that_are_called_alike(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        Zone(name)


EVENT = '{"timestamp":"2026-01-01T00:00:00@","name":"x"}\n'
SUITE = '<testsuite name="a" timestamp="2026-01-01T00:00:00@"/>'
REQUEST = json.dumps(
    {
        "startedDateTime": "2026-01-01T00:00:00@",
        "time": 1,
        "request": {"method": "GET", "url": "http://a/"},
        "response": {"status": 200},
        "timings": {"send": 0, "wait": 1, "receive": 0},
    }
)


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "time,name,value\n2026-01-01T00:00:00@,a,x\n2026-01-01T00:00:01@,a,y\n"),
        ("a.jsonl", EVENT),
        ("late.jsonl", EVENT.replace("@", "Z") + EVENT),
        ("nested.jsonl", '{"a":{"time":"2026-01-01T00:00:00@"},"msg":"x"}\n'),
        ("a.log", "2026-01-01 00:00:00,123@ INFO app: hello\n"),
        ("a.xml", SUITE),
        ("a.har", f'{{"log":{{"entries":[{REQUEST}]}}}}'),
    ],
)  # fmt: skip
def test_dates_without_a_zone_are_not_taken_for_utc_in_silence(
    tmp_path: Path, name: str, text: str, zone: str
) -> None:
    path = tmp_path / name
    path.write_text(text.replace("@", zone))
    columns = "time=a.time,name=msg" if name == "nested.jsonl" else None

    times = meantime.open(path, columns=columns).facts.get("times", "")

    assert ("dates without a zone, read as UTC" in times) == (not zone)
