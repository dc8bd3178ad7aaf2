"""Logs of HAProxy: requests and connections with their phases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**6
BEGIN_NS = 1_770_380_054_655_000_000  # 2026-02-06 12:14:14.655
# From the documentation of HAProxy, with a query.
REQUEST = (
    "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2026:12:14:14.655] http-in"
    " static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {}"
    ' "GET /a/17?k=1 HTTP/1.1"'
)
OVERLAPS = REQUEST.replace("14.655", "14.700").replace(" 200 ", " 503 ")
REFUSED = (
    "10.0.1.2:33318 [06/Feb/2026:12:14:15.000] http-in~ static/<NOSRV> 5/-1/-1/-1/+5 -1 +0"
    ' - - SC-- 0/0/0/0/0 0/0 "<BADREQ>"'
)
CONNECTION = "::1:33 [06/Feb/2026:12:14:14.655] fnt bck/srv1 0/7/5007 212 -- 0/0/0/0/3 0/0"


def opened(tmp_path: Path, *lines: str, **options: Any) -> meantime.History:
    path = tmp_path / "haproxy.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return meantime.open(path, **options)


def spans(history: meantime.History) -> set[tuple[str, int, int]]:
    """Return each span's name, and its begin and end in milliseconds from `BEGIN_NS`."""
    table = history.spans()
    names = [table.name.names[code] for code in table.name.codes.tolist()]
    times = [((column - BEGIN_NS) // MS).tolist() for column in (table.start_ns, table.end_ns)]
    return set(zip(names, *times, strict=True))


def test_a_request_has_its_phases_and_nothing_private(tmp_path: Path) -> None:
    history = opened(tmp_path, REQUEST)

    assert spans(history) == {
        ("GET /a/:id", 0, 109),
        ("request", 0, 10),
        ("connect", 10, 40),
        ("response", 40, 109),
    }
    assert history.anomalies["private_field"] == 1
    assert "read as UTC" in history.facts["times"]


def test_a_connection_has_the_data_behind_its_phases(tmp_path: Path) -> None:
    history = opened(tmp_path, CONNECTION)

    assert spans(history) == {("connection", 0, 5007), ("connect", 0, 7), ("data", 7, 5007)}
    table = history.spans()
    texts = [table.arguments(row) for row in range(len(table))]
    assert [json.loads(text) for text in texts if text] == [
        {"client": "::1", "bytes": 212, "retries": 3}
    ]


def test_requests_to_a_server_that_overlap_are_in_lanes_and_failures_are_points(
    tmp_path: Path,
) -> None:
    history = opened(tmp_path, REQUEST, OVERLAPS, REFUSED)

    assert {history.attributes.path(quark)[-1] for quark in history.spans().threads} == {
        "static/srv1", "static/srv1 (2)", "static/<NOSRV>"
    }  # fmt: skip
    points = history.points()
    assert sorted(str(points.name[row]) for row in range(len(points))) == ["503", "no status"]


@pytest.mark.parametrize(
    "line",
    [
        REQUEST.replace("10/0/30/69/109", "10/0/30"),
        REQUEST.replace("Feb/2026", "Feb/2026".replace("Feb", "Fob")),
        REQUEST.replace("10/0/30/69/109", f"{9**20}/0/30/69/109"),
        REQUEST.replace("Feb/2026", "Feb/3026"),
    ],
)
def test_lines_whose_numbers_do_not_fit_are_counted(tmp_path: Path, line: str) -> None:
    history = opened(tmp_path, REQUEST, line, CONNECTION)

    assert history.anomalies["unknown_line"] == 1
    assert len(history.spans()) == 7
    with pytest.raises(InputError, match="no line is one of HAProxy"):
        opened(tmp_path, line, format="haproxy-log")


def test_queries_are_copied_on_request(tmp_path: Path) -> None:
    history = opened(tmp_path, REQUEST, include="env")

    assert not history.anomalies
    assert '"query": "k=1"' in str(history.spans().arguments(0))
