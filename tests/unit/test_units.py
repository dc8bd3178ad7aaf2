from __future__ import annotations

import pytest

from meantime.errors import UsageError
from meantime.model.units import (
    bin_edge,
    format_bytes,
    format_ns,
    parse_duration,
    parse_instant,
    rounded_ns,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("12", 12),
        ("-7", -7),
        ("+5us", 5_000),
        ("1.5ms", 1_500_000),
        (".5s", 500_000_000),
        ("2.", 2),
        ("3sec", 3_000_000_000),
        ("2m", 120_000_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1d", 86_400_000_000_000),
        ("1e3us", 1_000_000),
        ("1.0000000019s", 1_000_000_001),
        ("-1.9", -1),
        ("inf", 2**63 - 1),
        ("-infs", -(2**63)),
        ("1e40", 2**63 - 1),
    ],
)
def test_a_duration_is_exact_and_cut_towards_zero(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "s", "1 s", "nan", "1x", "0x10", "1_000", "1msec", "--1", "1S"]
)
def test_an_invalid_duration_is_rejected_with_the_units(text: str) -> None:
    with pytest.raises(UsageError, match="ns, us, ms"):
        parse_duration(text)


def test_an_instant_counts_from_the_beginning_from_1970_or_from_the_clocks_zero() -> None:
    assert parse_instant("@0.000000001")[:2] == (1, "utc")
    assert parse_instant("1970-01-01T00:00:01.25")[:2] == (1_250_000_000, "utc")
    assert parse_instant("1970-01-01T01:00:00+01:00")[:2] == (0, "utc")
    assert parse_instant("1969-12-31T23:59:59.999999999Z")[:2] == (-1, "utc")
    assert parse_instant("1970-01-02") == (86_400_000_000_000, "utc", True)
    assert parse_instant("-5ms")[:2] == (-5_000_000, "start")
    assert parse_instant("abs:-5ms")[:2] == (-5_000_000, "trace")


def test_an_impossible_date_is_refused() -> None:
    with pytest.raises(UsageError, match="ISO 8601"):
        parse_instant("2024-13-41")


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [(0, "0ns"), (999, "999ns"), (1_000, "1us"), (-1_500, "-1.5us"), (9 * 10**9, "9s")],
)
def test_a_duration_is_written_in_the_unit_that_fits(duration_ns: int, expected: str) -> None:
    assert format_ns(duration_ns) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((59.9994, "59.999s"), (59.9996, "1 min"), (61, "1 min 1 s"), (89.6, "1 min 30 s")),
        *((3599.4, "59 min 59 s"), (3599.6, "1 h"), (86_369, "23 h 59 min"), (86_370, "1 d")),
        *((-90_000, "-1 d 1 h"), (4166 * 86_400 + 82_800, "4,166 d 23 h")),
    ],
)
def test_a_duration_of_a_minute_or_more_has_two_units_and_can_be_given_back(
    seconds: float, expected: str
) -> None:
    duration_ns = round(seconds * 10**9)

    text = format_ns(duration_ns)

    assert text == expected
    assert abs(parse_duration(text) - duration_ns) <= abs(duration_ns) / 50
    if seconds > 0:
        in_words = rounded_ns(duration_ns)
        assert in_words == ("1 min" if text == "59.999s" else text)


def test_a_size_is_written_with_three_digits() -> None:
    assert [format_bytes(size) for size in (0, 999, 1000, 999_600, 10**15)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1 MB",
        "1000 TB",
    ]


def test_bins_tile_the_range_without_floats() -> None:
    edges = [bin_edge(-(2**62), 2**62, 7, index) for index in range(8)]

    assert edges[0] == -(2**62)
    assert edges[-1] == 2**62
    assert edges == sorted(edges)
