"""Cached histories are rebuilt when the same input would give different figures.

`meantime.opening.cache.READING_RULES` says so, and somebody has to remember to increase it: this
test does.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import meantime
from meantime.opening.cache import READING_RULES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meantime.history import History

RULES = 18
DIGESTS = {
    "examples/files.jsonl": "36adefdb374db2ea",
    "examples/jobs.perf.gz": "feec9e32bccd51ce",
    "examples/postgres.statemap.gz": "73964824487a6b89",
    "tests/samples/chrome/nestable_async.json": "fcbac2493327722e",
    "tests/samples/chrome/invalid-x-nesting.json": "fc39ef1587d3bfa0",
    "tests/samples/chrome/multi-thread-with-samples.json": "b511f388dbf2638e",
    "tests/samples/chrome/triton_example.json.gz": "b5bb6a15e1164665",
    "tests/samples/ftrace/kernel.txt": "73f47c31c47bc944",
    "tests/samples/ftrace/trace-cmd.txt": "3b304db4901e6c5b",
    "tests/samples/perf/idle-and-java.txt": "e15415154e6b9121",
    "tests/samples/statemap/tokio-tasks.statemap": "cf6a9a943acb39b1",
    "tests/samples/statemap/tst.tag_redefined.in": "495444bd7bea9fe2",
}


def figures(history: History) -> Iterator[object]:
    intervals, spans, samples = (
        history.intervals(range(len(history.attributes)), history.start_ns, history.end_ns),
        history.spans(),
        history.samples(),
    )
    yield [history.attributes.path(quark) for quark in range(len(history.attributes))]
    for column in (intervals.quark, intervals.start_ns, intervals.end_ns, intervals.tag):
        yield column.tolist()
    yield intervals.value.to_list()
    for column in (spans.start_ns, spans.end_ns, spans.self_ns, spans.depth, spans.lane):
        yield column.tolist()
    yield spans.name.to_list()
    for column in (samples.time_ns, samples.weight):
        yield column.tolist()
    yield [samples.stacks.frames_of(stack) for stack in samples.stack.tolist()]


def digest(history: History) -> str:
    found = hashlib.blake2b(digest_size=8)
    for part in figures(history):
        found.update(repr(part).encode())
    return found.hexdigest()


def test_rules_are_increased_when_the_figures_of_a_file_change(root: Path) -> None:
    found = {}
    for name in DIGESTS:
        file = root / name
        provider = file.with_suffix(".toml") if file.suffix == ".jsonl" else None
        found[name] = digest(meantime.open(file, provider=provider))

    changed = [name for name in DIGESTS if found[name] != DIGESTS[name]]

    assert not changed, (
        f"{', '.join(changed)}: no longer the same figures. If that is meant, increase"
        f" READING_RULES in meantime/opening/cache.py, and put that and these digests here: {found}"
    )
    assert READING_RULES == RULES
