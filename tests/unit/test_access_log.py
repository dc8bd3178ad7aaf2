"""Access logs of web servers: when requests ended, how long they took, and what is private."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.errors import InputError
from meantime.readers import access_log

if TYPE_CHECKING:
    from pathlib import Path

S, MS = 10**9, 10**6
# 13:55:36 in a zone of two hours
NOON_NS = 1_791_633_336 * S
USUAL = '{client} - - [10/Oct/2026:13:55:{second:02} +0200] "{request}" {status} {size}'


def line(
    rest: str = "",
    *,
    client: str = "10.0.0.1",
    second: int = 36,
    request: str = "GET /a HTTP/1.1",
    status: str = "200",
    size: str = "5",
) -> str:
    found = USUAL.format(client=client, second=second, request=request, status=status, size=size)
    return f"{found} {rest}".rstrip()


def opened(tmp_path: Path, *lines: str, **options: Any) -> meantime.History:
    path = tmp_path / "access.log"
    path.write_text("\n".join(lines) + "\n")
    return meantime.open(path, **options)


def spans(history: meantime.History) -> list[tuple[str, int, int]]:
    """Return each span's name, and when it ended and how long it was in nanoseconds."""
    table = history.spans()
    names = [table.name.names[code] for code in table.name.codes.tolist()]
    times = zip(table.start_ns.tolist(), table.end_ns.tolist(), strict=True)
    return [
        (name, end - NOON_NS, end - start) for name, (start, end) in zip(names, times, strict=True)
    ]


@pytest.mark.parametrize(
    ("rest", "length_ns"),
    [
        ("0.250", 250 * MS),
        ('"-" "Mozilla/5.0 (X11; Linux)" 0.250', 250 * MS),
        ('"-" "curl" rt=0.250 uct="0.001" urt="0.249"', 250 * MS),
        ('"-" "curl" "-" "0.250"', 250 * MS),
        ('"-" "curl" 12 "front" "back" 250ms', 250 * MS),
        ('"-" "curl" duration=17us', 17_000),
    ],
)
def test_a_length_is_where_its_unit_is_seen(tmp_path: Path, rest: str, length_ns: int) -> None:
    assert spans(opened(tmp_path, line(rest))) == [("GET /a", 0, length_ns)]


def test_a_whole_number_without_a_unit_is_no_length_unless_it_is_given(tmp_path: Path) -> None:
    lines = [line('"-" "curl" 1500'), line('"-" "curl" 2500', second=37)]

    history = opened(tmp_path, *lines)
    assert len(history.spans()) == 0
    assert history.facts["lengths"].startswith("not known: if extra3 is one, --columns duration")
    assert history.points().time_ns.tolist() == [NOON_NS, NOON_NS + S]

    history = opened(tmp_path, *lines, columns="duration=extra3:us")
    assert spans(history) == [("GET /a", 0, 1_500_000), ("GET /a", S, 2_500_000)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("duration=extra3", "the unit of extra3 is not known"),
        ("time=extra3:us", "which field is the length of a request"),
        ("duration=later:us", "which field is the length of a request"),
    ],
)
def test_other_columns_are_refused(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(tmp_path, line("9 9 9"), columns=columns)


def test_ids_in_paths_are_one_route(tmp_path: Path) -> None:
    requests = [
        "GET /items/17 HTTP/1.1",
        "GET /items/123e4567-e89b-12d3-a456-426614174000/parts HTTP/1.1",
        "POST /items/0123456789abcdef?x=1 HTTP/2.0",
        "GET /version2/app.min.js HTTP/1.1",
        "OPTIONS * HTTP/1.0",
        "\\x16\\x03\\x01",
        "-",
    ]
    lines = [line("0.001", request=each) for each in requests]

    assert sorted(name for name, _, _ in spans(opened(tmp_path, *lines))) == [
        "-",
        "GET /items/:id",
        "GET /items/:id/parts",
        "GET /version2/app.min.js",
        "OPTIONS *",
        "POST /items/:id",
        "malformed",
    ]


def test_requests_of_a_client_that_overlap_are_in_lanes(tmp_path: Path) -> None:
    history = opened(
        tmp_path,
        line("0.500"),
        line("0.250"),
        line("0.250", second=37),
        line("1.000", client="::1"),
    )

    assert sorted(history.attributes.path(quark)[-1] for quark in history.spans().threads) == [
        "10.0.0.1", "10.0.0.1 (2)", "::1",
    ]  # fmt: skip


def test_errors_of_the_server_are_points(tmp_path: Path) -> None:
    history = opened(tmp_path, line("0.001", status="503"), line("0.001", status="404"))

    points = history.points()
    assert [points.name[row] for row in range(len(points))] == ["503"]


def test_queries_and_browsers_are_private(tmp_path: Path) -> None:
    lines = [line('"https://b.org/?q=1" "Mozilla" 0.001', request="GET /a?token=1 HTTP/1.1")]
    kept, whole = (opened(tmp_path, *lines, include=what) for what in ((), "env"))

    assert json.loads(kept.spans().arguments(0) or "") == {"path": "/a", "status": 200, "bytes": 5}
    assert kept.anomalies["private_field"] == 3
    assert json.loads(whole.spans().arguments(0) or "") == {
        "path": "GET /a?token=1 HTTP/1.1",
        "status": 200,
        "bytes": 5,
        "rest": '"https://b.org/?q=1" "Mozilla" 0.001',
    }


def test_lines_of_other_forms_are_counted(tmp_path: Path) -> None:
    good = line('"-" "a \\"quoted\\" browser" 0.003')
    history = opened(
        tmp_path,
        line('"-" "curl" 0.001'),
        "an error",
        good,
        "",
        line('"-" "curl" 0.002', second=61),
        line('"-" "curl" -'),
        good.replace("- - [", "- two words ["),
    )

    assert [length for _, _, length in spans(history)] == [3 * MS, 3 * MS, 0, MS]
    assert history.anomalies["unknown_line"] == 2
    assert history.anomalies["span_without_duration"] == 1


def test_a_virtual_host_may_stand_before_the_client(tmp_path: Path) -> None:
    history = opened(tmp_path, f"example.org:443 {line('0.001')}", f"b.org:443 {line('0.001')}")

    assert {history.attributes.path(quark)[-1] for quark in history.spans().threads} == {
        "10.0.0.1", "10.0.0.1 (2)",
    }  # fmt: skip


def test_a_zone_that_is_missing_is_named(tmp_path: Path) -> None:
    history = opened(tmp_path, line("0.001").replace(" +0200]", "]"))

    assert history.facts["times"].endswith("; dates without a zone, read as UTC")
    assert spans(history) == [("GET /a", 2 * 3600 * S, MS)]
    assert "zone" not in opened(tmp_path, line("0.001")).facts["times"]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters='"\\ \n\r\0[]'), min_size=1)
LINES = st.builds(
    line,
    st.builds(
        '"{}" "{}" {}'.format,
        st.sampled_from(["-", "https://example.org/", r"a \"b\" c"]),
        st.sampled_from(["-", "Mozilla/5.0 (X11)", "a\tb", "x  y"]),
        st.sampled_from(["0.000", "0.125", "12.345", "-"]),
    ),
    client=st.sampled_from(["10.0.0.1", "::1", "b.org"]),
    second=st.integers(0, 59),
    request=st.one_of(
        st.builds("GET /{} HTTP/1.1".format, TEXTS), st.sampled_from(["-", "", r"GET /\"a HTTP/1"])
    ),
    status=st.sampled_from(["200", "404", "500", "-", "20"]),
    size=st.sampled_from(["0", "-", "0017", "x"]),
)


@given(st.lists(st.one_of(LINES, st.sampled_from(["", "no request", '"'])), min_size=1))
def test_lines_together_are_read_as_each_by_itself(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    # the first line decides what the others have
    first = line('"-" "-" 0.001')
    history = opened(tmp_path_factory.mktemp("log"), first, *lines)

    expected = []
    for each in [first, *lines]:
        match = access_log.LINE.match(each.encode())
        if match is not None and not each.endswith(" x"):
            length = each.rpartition(" ")[2]
            expected.append(0 if length == "-" else int(length.replace(".", "")) * MS)
    assert sorted(length for _, _, length in spans(history)) == sorted(expected)
    unknown = sum(bool(each.rstrip()) for each in lines) + 1 - len(expected)
    assert history.anomalies["unknown_line"] == unknown
