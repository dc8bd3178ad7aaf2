"""Every recorded Chrome trace, against what Perfetto's trace processor (v52) says of it.

It counts instants and async spans as slices too, drops what partly overlaps, and ends a span only
by an end of its name. Where ours differs on purpose, `DIFFERENT` says why.
"""

from __future__ import annotations

import functools
import gzip
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


class Facts(NamedTuple):
    """Spans and instants, the time of finished spans, the greatest depth, spans left open."""

    slices: int
    total_ns: int
    depth: int | None
    unfinished: int


LEGACY_ASYNC = "S, T, p and F are async spans here, and nothing there"
NO_DURATION = "complete events without a duration are empty spans here, and dropped there"
OVERLAPS = "what partly overlaps is kept here in a lane, and dropped there"
BY_ORDER = "an end ends the latest begin here, and only one of its name there"
SNAPSHOTS = "snapshots of objects are points here, and nothing there"
INSTANTS_NEST = "instants count for the depth there"
TWO_THREADS = "threads of equal numbers in two processes are one there"

DIFFERENT: dict[str, tuple[Facts, str]] = {
    "catapult/async_begin_end.json": (Facts(22, 2_270_000, 1, 5), LEGACY_ASYNC),
    "catapult/chromeos_system_trace.json": (Facts(12, 0, None, 0), SNAPSHOTS),
    "catapult/gpu_state_trace.json": (Facts(1, 0, None, 0), SNAPSHOTS),
    "catapult/picture_trace.json": (Facts(2, 1_000_000_000, 0, 0), SNAPSHOTS),
    "catapult/quads_with_render_passes.json": (Facts(2, 0, None, 0), SNAPSHOTS),
    "catapult/simple_trace.json": (Facts(18, 99_000, 2, 0), BY_ORDER),
    "catapult/simple_trace_gz.gz": (Facts(16, 99_000, 2, 0), BY_ORDER),
    "catapult/simple_trace_zip.zip": (Facts(16, 99_000, 2, 0), BY_ORDER),
    "catapult/tcmalloc_trace.json.gz": (Facts(2652, 3_331_386_000, 3, 0), SNAPSHOTS),
    "catapult/thread_time_visualisation.json.gz": (
        Facts(43_869, 19_812_408_000, 13, 1),
        f"{LEGACY_ASYNC}; {NO_DURATION}",
    ),
    "catapult/trace-with-bad-world-bounds.json": (Facts(1, 0, None, 0), "refused there"),
    "catapult/webview.json.gz": (
        Facts(8715, 9_277_744_000, 4, 0),
        f"{LEGACY_ASYNC}; {NO_DURATION}; {SNAPSHOTS}",
    ),
    "catapult/x_event_trace.json": (
        Facts(3477, 1_659_774_000, 7, 0),
        f"{LEGACY_ASYNC}; {BY_ORDER}",
    ),
    "firefox-profiler/test.chrome-unchunked.json": (Facts(108, 905_113_000, 2, 6), LEGACY_ASYNC),
    "kineto/benchmark_result_2869224_1695835535_trace.json.gz": (
        Facts(870, 307_784_449_000, 8, 0),
        OVERLAPS,
    ),
    "kineto/benchmark_result_493459_1694039959_trace.json.gz": (
        Facts(840, 306_668_311_000, 8, 0),
        OVERLAPS,
    ),
    "kineto/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (
        Facts(45_422, 3_437_226_132, 8, 0),
        OVERLAPS,
    ),
    "recorded/jax-cpu.trace.json.gz": (Facts(19_177, 663_065_818, 46, 0), OVERLAPS),
    "recorded/node-http.json.gz": (
        Facts(11_532, 109_199_811_000, 4, 276),
        "an async end ends the latest begin of its name here",
    ),
    "recorded/torch-cpu.json.gz": (Facts(34_365, 66_270_364_218, 20, 0), OVERLAPS),
    "speedscope/bex-interaction.json": (Facts(12, 20_000, 1, 0), OVERLAPS),
    "speedscope/chrome65-simple-timeline.json": (
        Facts(3001, 1_129_760_000, 5, 17),
        f"{LEGACY_ASYNC}; {NO_DURATION}",
    ),
    "speedscope/end-non-top-of-stack.json": (Facts(3, 10_000, 1, 1), BY_ORDER),
    "speedscope/invalid-x-nesting.json": (Facts(2, 20_000, 0, 0), OVERLAPS),
    "speedscope/mismatched-name.json": (Facts(1, 10_000, 0, 0), BY_ORDER),
    "speedscope/multiprocess.json": (Facts(8, 8000, 0, 0), TWO_THREADS),
    "speedscope/out-of-order-unbalanced-name.json": (Facts(2, 18_000, 1, 0), BY_ORDER),
    "speedscope/simple-object.json": (Facts(3, 26_000, 2, 0), NO_DURATION),
    "speedscope/simple-partial-trailing-comma.json": (Facts(4, 31_000, 2, 0), NO_DURATION),
    "speedscope/simple-partial-whitespace.json": (Facts(4, 31_000, 2, 0), NO_DURATION),
    "speedscope/simple-partial.json": (Facts(4, 31_000, 2, 0), NO_DURATION),
    "speedscope/simple.json": (Facts(4, 31_000, 2, 0), NO_DURATION),
    "speedscope/unbalanced-name.json": (Facts(2, 18_000, 1, 0), BY_ORDER),
    "speedscope/zero-duration-events.json": (Facts(4, 10_000, 1, 0), BY_ORDER),
    "tracecompass/bing-truncated.json": (
        Facts(3757, 1_471_455_000, 178, 343),
        f"{LEGACY_ASYNC}; {SNAPSHOTS}",
    ),
    "recorded/viztracer-threads-huge.json.zst": (Facts(1_899_356, 0, None, 0), "too large there"),
}
NOT_TRACES = {
    "catapult/google_cloud_trace.json": "this is a trace of Google Cloud",
}
# An instant is a slice there, so the depth there may be one more.
WITH_INSTANTS = {
    "catapult/nestable_async.json",
    "catapult/nestable_async_annotation.json",
    "catapult/instant_events.json",
    "kineto/event_sync_trace.json.gz",
}
LARGE = {"recorded/viztracer-threads-huge.json.zst"}


@functools.cache
def truths(recordings: Path) -> dict[str, Any]:
    every = json.loads((recordings / "ground-truth.json").read_text())
    prefix = "chrome-json/"
    return {
        name.removeprefix(prefix): truth for name, truth in every.items() if name.startswith(prefix)
    }


def facts(history: History) -> Facts:
    spans = history.spans()
    finished = ~spans.unfinished
    return Facts(
        len(spans) + len(history.points()),
        int((spans.end_ns - spans.start_ns)[finished].sum()),
        int(spans.depth.max()) if len(spans) else None,
        int(np.count_nonzero(spans.unfinished)),
    )


def sums_of_clang(path: Path) -> list[int]:
    """Return the times in ns that clang adds up by name."""
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]
    return [1000 * each["dur"] for each in events if each["name"].startswith("Total ")]


def test_every_recorded_trace_is_read_as_the_trace_processor_reads_it(recordings: Path) -> None:
    found, expected = {}, {}
    for name, truth in truths(recordings).items():
        if name in NOT_TRACES or name in LARGE:
            continue
        found[name] = facts(build(open_trace(recordings / "chrome-json" / name)))
        if name in DIFFERENT:
            expected[name] = DIFFERENT[name][0]
            continue
        peer = truth["trace_processor"]
        depth = peer["max_depth"]
        if name in WITH_INSTANTS:
            depth = found[name].depth
        # they are spans there, and a fact here
        sums = sums_of_clang(recordings / "chrome-json" / name) if ".clang." in name else []
        expected[name] = Facts(
            peer["slices"] - len(sums),
            (peer["sum_dur_ns"] or 0) - sum(sums),
            depth,
            peer["unfinished"] or 0,
        )

    assert found == expected


@pytest.mark.parametrize("name", ["recorded/torch-cpu.json.gz", "recorded/jax-cpu.trace.json.gz"])
def test_overlaps_are_as_many_as_the_trace_processor_drops(recordings: Path, name: str) -> None:
    dropped = truths(recordings)[name]["trace_processor"]["import_errors"]

    history = build(open_trace(recordings / "chrome-json" / name))

    expected = dropped["slice_drop_overlapping_complete_event"]
    assert history.anomalies["overlapping_span"] == expected


def test_a_large_recorded_trace_has_all_its_events(recordings: Path) -> None:
    name = "recorded/viztracer-threads-huge.json.zst"

    history = build(open_trace(recordings / "chrome-json" / name))

    assert len(history.spans()) == truths(recordings)[name]["by_ph"]["X"]
    assert not history.anomalies


@pytest.mark.parametrize("name", sorted(NOT_TRACES))
def test_files_beside_the_traces_are_rejected(recordings: Path, name: str) -> None:
    with pytest.raises(InputError, match=NOT_TRACES[name]):
        build(open_trace(recordings / "chrome-json" / name))


def test_flows_are_those_the_trace_processor_links(recordings: Path) -> None:
    found, expected = {}, {}
    for name, truth in truths(recordings).items():
        if not name.startswith("kineto/"):
            continue
        found[name] = len(build(open_trace(recordings / "chrome-json" / name)).flows())
        expected[name] = truth["trace_processor"]["flows"]

    assert found == expected
