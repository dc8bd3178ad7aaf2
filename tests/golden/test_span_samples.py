"""The small span traces that come with the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meantime.history.ingest import build
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


def drawn(history: History) -> list[str]:
    spans = history.spans()
    return [
        f"{'  ' * int(spans.depth[row])}{spans.name[row]}"
        f" {spans.start_ns[row] / 1000:g}..{spans.end_ns[row] / 1000:g}"
        + (f" lane {spans.lane[row]}" if spans.lane[row] else "")
        + (" unfinished" if spans.unfinished[row] else "")
        for row in range(len(spans))
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("invalid-x-nesting.json", ["alpha 0..10", "beta 5..15 lane 1"]),
        (
            "simultaneous-anonymous-calls.json",
            [
                "anonymous 0..5",
                "  anonymous 1..3",
                "    function1 1..3",
                "      anonymous 1..3",
                "  anonymous 3..5",
                "    anonymous 3..5",
            ],
        ),
        (
            "nestable_async.json",
            [
                "REQUEST_BAR 10..100",
                "  URL_REQUEST_DELEGATE 20..30",
                "  URL_REQUEST_START_JOB 40..70",
                "    URL_REQUEST_INNER 50..60",
                "  URL_REQUEST_DELEGATE_UNMATCHED_BEGIN 80..100 unfinished",
                "REQUEST_FOO 110..200",
                "  URL_REQUEST_START_JOB 140..170",
                "    URL_REQUEST_INNER 150..160",
                "  URL_REQUEST_DELEGATE 180..190",
            ],
        ),
    ],
)
def test_a_sample_is_nested_as_its_begins_and_ends_say(
    samples: Path, name: str, lines: list[str]
) -> None:
    assert drawn(build(open_trace(samples / "chrome" / name))) == lines


def test_a_profile_keeps_its_processes_and_the_wall_clock(samples: Path) -> None:
    history = build(open_trace(samples / "chrome" / "triton_example.json.gz"))

    assert len(history.spans()) == 8
    assert len(history.points()) == 2
    assert "python3.10" in history.names.values()


def test_samples_of_several_threads_have_their_stacks(samples: Path) -> None:
    history = build(open_trace(samples / "chrome" / "multi-thread-with-samples.json"))

    table = history.samples()
    assert len(table) > 0
    assert table.stacks.frames_of(int(table.stack[0]))
