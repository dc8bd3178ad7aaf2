"""HTTP archives: requests, their phases and what is private of them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**6
BEGIN = "2026-01-02T03:04:05.000Z"


def entry(
    url: str = "https://example.org/a", *, at: str = BEGIN, status: int = 200, **more: Any
) -> dict[str, Any]:
    return {
        "startedDateTime": at,
        "request": {"method": "GET", "url": url},
        "response": {"status": status},
        **more,
    }


def opened(tmp_path: Path, entries: list[Any], **options: Any) -> meantime.History:
    path = tmp_path / "a.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return meantime.open(path, **options)


def spans(history: meantime.History) -> list[tuple[str, int, int]]:
    """Return the name of each span, and its begin and end in nanoseconds from the first."""
    table = history.spans()
    first_ns = int(table.start_ns.min())
    names = [table.name.names[code] for code in table.name.codes.tolist()]
    times = (table.start_ns - first_ns).tolist(), (table.end_ns - first_ns).tolist()
    return list(zip(names, *times, strict=True))


def test_phases_follow_each_other_and_ssl_is_the_end_of_connect(tmp_path: Path) -> None:
    timings = {"blocked": 1, "dns": 2, "connect": 50, "ssl": 30, "send": 0, "wait": 9, "receive": 1}

    assert spans(opened(tmp_path, [entry(time=63, timings=timings)])) == [
        ("GET example.org/a", 0, 63 * MS),
        ("blocked", 0, 1 * MS),
        ("dns", 1 * MS, 3 * MS),
        ("connect", 3 * MS, 53 * MS),
        ("ssl", 23 * MS, 53 * MS),
        ("wait", 53 * MS, 62 * MS),
        ("receive", 62 * MS, 63 * MS),
    ]


def test_ssl_is_apart_where_the_total_is_the_sum_of_both(tmp_path: Path) -> None:
    timings = {"blocked": -1, "connect": 20, "ssl": 30, "send": 1, "wait": 9, "receive": 1}

    assert spans(opened(tmp_path, [entry(time=61, timings=timings)]))[1:3] == [
        ("connect", 0, 20 * MS),
        ("ssl", 20 * MS, 50 * MS),
    ]


def test_a_length_is_exact_and_may_follow_from_the_phases(tmp_path: Path) -> None:
    history = opened(tmp_path, [entry(timings={"wait": 0.123456, "receive": 1})])

    assert spans(history) == [
        ("GET example.org/a", 0, 1_123_456),
        ("wait", 0, 123_456),
        ("receive", 123_456, 1_123_456),
    ]


def test_requests_that_overlap_on_a_connection_are_in_lanes(tmp_path: Path) -> None:
    later = "2026-01-02T03:04:05.005Z"
    history = opened(
        tmp_path,
        [
            entry(time=9, connection="7"),
            entry("https://example.org/b", at=later, time=9, connection="7"),
            entry("https://example.org/c", at=later, time=9),
        ],
    )

    assert {history.attributes.path(quark) for quark in history.spans().thread.tolist()} == {
        thread_path("example.org #7", "requests"),
        thread_path("example.org #7 (2)", "requests"),
        thread_path("example.org", "requests"),
    }


def test_queries_are_private(tmp_path: Path) -> None:
    url = "https://u:p@example.org/a?token=1#part"
    kept, whole = (opened(tmp_path, [entry(url, time=1)], include=what) for what in ((), "env"))

    assert spans(kept) == [("GET example.org/a", 0, MS)]
    assert kept.spans().arguments(0) == '{"status": 200}'
    assert kept.anomalies["private_field"] == 1
    assert whole.spans().arguments(0) == '{"status": 200, "query": "token=1"}'


def test_the_recorded_pages_are_as_their_json_says(root: Path) -> None:
    path = root / "tests" / "samples" / "requests" / "shop.har"
    log = json.loads(path.read_text(), parse_float=Decimal)["log"]

    found = spans(meantime.open(path))

    lengths = sorted(end - begin for name, begin, end in found if name.startswith("GET "))
    assert lengths == sorted(int(each["time"] * MS) for each in log["entries"])
    waits = sum(end - begin for name, begin, end in found if name == "wait")
    assert waits == sum(int(each["timings"]["wait"] * MS) for each in log["entries"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"log": {"entries": [5]}}', r"log.entries\[0\]: startedDateTime is not a date"),
        (
            '{"log": {"entries": [{"startedDateTime": "5s"}]}}',
            "startedDateTime is '5s', not a date",
        ),
        ('{"log": {"entries": [{"startedDateTime": "2026-01-01"}]}}', "request.url is not a text"),
        ('{"log": {"entries": [', "Expecting value"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.har").write_text(text)

    with pytest.raises(InputError, match=message):
        meantime.open(tmp_path / "a.har")
