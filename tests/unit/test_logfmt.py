"""Lines of key=value are events, with values of any form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.readers import open_trace, recognise
from meantime.readers.source import open_source

if TYPE_CHECKING:
    from pathlib import Path

LINES = r"""time=2026-01-02T03:04:05.250Z level=info msg="request \"done\"" path=/a?b took=12ms ok
time=2026-01-02T03:04:06Z level=warn msg=late attempts=3 share=0.5 id=007 empty= quoted="" odd="\d"
panic: a line of the program
time=2026-01-02T03:04:07Z level=info msg=late "a b"
time=2026-01-02T03:04:08Z level=info msg=over
"""
BEGIN_NS = 1_767_323_045 * 10**9


def events(path: Path) -> list[tuple[int, str, dict[str, Any]]]:
    trace = open_trace(path)
    found = [event for batch in trace.batches for event in batch]  # type: ignore[union-attr] # events
    assert trace.anomalies["unknown_line"] == 2
    return [(event.time_ns - BEGIN_NS, event.name, event.fields) for event in found]


def test_pairs_are_fields(tmp_path: Path) -> None:
    (path := tmp_path / "a.log").write_text(LINES)

    assert events(path) == [
        (
            250_000_000,
            'request "done"',
            {"level": "info", "path": "/a?b", "took": "12ms", "ok": True},
        ),
        (
            10**9,
            "late",
            {
                "level": "warn",
                "attempts": 3,
                "share": 0.5,
                "id": "007",
                "empty": "",
                "quoted": "",
                "odd": r"\d",
            },
        ),
        (3 * 10**9, "over", {"level": "info"}),
    ]


def test_fields_may_be_a_table(tmp_path: Path) -> None:
    (path := tmp_path / "a.log").write_text(LINES.splitlines()[0] + "\n")

    history = meantime.open(path, columns="end=time,duration=took,entity=path,state=level")

    [quark] = history.quarks("*")
    found = [each for each in history.intervals([quark]) if each.value is not None]
    assert [(each.value, each.end_ns - each.start_ns) for each in found] == [("info", 12_000_000)]


@pytest.mark.parametrize(
    "text",
    [
        "a=1 b=2\n",
        "level=info\n",
        "export level=info time=3\n",
        'level=info msg="a\n',
        "a;b=1 level=2\n",
    ],
)
def test_other_lines_with_pairs_are_no_logs(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "a.txt").write_text(text * 3)

    with open_source(path) as source:
        try:
            found = recognise(source).reader.FORMAT
        except meantime.MeantimeError:
            found = "none"
    assert found != "logfmt"
