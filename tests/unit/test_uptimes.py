"""Numbers that are dates in microseconds, and in nanoseconds the time since a machine's start."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError
from meantime.model.column_mapping import mapping_of
from meantime.model.input_path import input_path

if TYPE_CHECKING:
    from pathlib import Path

# 12, 20 and 40 days after a machine was started, in ns: dates of 2002, 2024 and 2079 in us.
_DAYS = [86_400 * 10**9 * days for days in (12, 20, 40)]


def _asked(path: Path) -> str:
    with pytest.raises(InputError, match=r"choose us or ns, as in --columns ") as error:
        meantime.open(path)
    return shlex.split(str(error.value))[-1]


@pytest.mark.parametrize("first", _DAYS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "time,name\n{0},a\n{1},b\n"),
        ("a.csv", "timestamp,entity,state\n{0},a,x\n{1},a,y\n"),
        ("a.csv", "start,end,state\n{0},{1},a\n{1},{1},b\n"),
        ("a.csv", "start,duration,state\n{0},5000,a\n{1},5000,b\n"),
        ("a.json", '[{{"start": {0}, "end": {1}, "thread": "a", "name": "b"}}]'),
        ("a.jsonl", '{{"time": {0}, "event": "a"}}\n{{"time": {1}, "event": "b"}}\n'),
    ],
)
def test_what_could_be_either_is_asked_for_with_a_command_that_works(
    tmp_path: Path, first: int, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text.format(first, first + 10**6))

    printed = _asked(path)

    assert ":us" in printed
    for unit, length_ns in (("us", 10**9), ("ns", 10**6)):
        columns = mapping_of(printed.replace(":us", f":{unit}"))
        history = meantime.open(input_path(path, columns))
        assert history.bounds[1] - history.bounds[0] - length_ns in range(5_000_001)
        assert (history.clock.utc_at_origin_ns is not None) == (unit == "us")


@pytest.mark.parametrize("name", ["unix_time", "epoch", "utc", "date", "created", "wall_time"])
def test_names_of_dates_decide(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{name},name\n{_DAYS[1]},a\n{_DAYS[1] + 10**6},b\n")

    history = meantime.open(input_path(path, mapping_of(f"time={name},name=name")))

    assert history.bounds[1] - history.bounds[0] == 10**9 + 1
    assert history.facts["times"] == "numbers of us"


@pytest.mark.parametrize("number", [1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000])
def test_names_of_other_clocks_are_no_dates(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"monotonic,name\n{number},a\n{number + 1},b\n")

    with pytest.raises(InputError, match="by its name, monotonic does not count from a date"):
        meantime.open(input_path(path, mapping_of("time=monotonic,name=name")))


@pytest.mark.parametrize(("duration", "unit"), [("900us", "ns"), ("0.9s", "us"), ("1us", None)])
def test_durations_with_a_unit_decide(tmp_path: Path, duration: str, unit: str | None) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{_DAYS[1] + each * 10**6},{duration},t,s\n" for each in range(20))
    path.write_text("start,duration,thread,state\n" + rows)
    if unit is None:
        _asked(path)
        return

    history = meantime.open(path)

    assert history.facts["times"].startswith(f"numbers of {unit} (in ")
