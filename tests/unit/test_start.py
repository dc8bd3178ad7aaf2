"""What a command loads before its work: few modules, and no threads for linear algebra."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from meantime.cli import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

STATES, SPANS, SAMPLES = (
    "examples/postgres.statemap.gz",
    "examples/training.json.gz",
    "examples/jobs.perf.gz",
)
READING = {
    "statemap": ["statemap", STATES, "-o", "OUT.svg"],
    "heatmap": ["heatmap", SAMPLES, "-o", "OUT.html"],
    "flame": ["flame", SAMPLES, "-o", "OUT.svg"],
    "chart": ["flame", "--chart", SPANS, "-o", "OUT.svg"],
    "info": ["info", STATES],
    "explain": ["explain", STATES],
    "findings": ["findings", SPANS],
    "stats": ["stats", SPANS],
    "assert": ["assert", STATES, "--rule", 'count of "futex" above 0'],
    "diff": ["diff", SAMPLES, "--ranges", "41s..91s,91s..141s"],
    "summary": ["summary", STATES, "-o", "OUT.mts"],
    "why": ["why", "examples/sched.perf.gz", "--thread", "pgbench"],
    "query": ["query", STATES, "at", "0.2s"],
    "dump": ["dump", STATES],
    "dump of intervals": ["dump", STATES, "--kind", "intervals"],
    "build": ["build", STATES, "-o", "OUT.mth"],
    "convert": ["convert", SPANS, "OUT.spall"],
    "check": ["check", "HISTORY.mth"],
    "join": ["join", STATES, SPANS, "-o", "OUT.mtj"],
    "hosts": ["hosts", STATES, "examples/lock.statemap.gz", "tests/samples/linux/cpu.statemap.gz"],
}
# DuckDB and a server have threads of their own, and a recording is needed for the others, or none
# is read.
NOT_READING = {
    *(
        "sql",
        "view",
        "attach",
        "record",
        "record-system",
        "top",
        "pack",
        "formats",
        "completion",
        "serve",
        "guide",
    ),
}
# What takes 1 to 26 ms to import, and few questions need; and the commands that need some of it.
SLOW = {
    *("concurrent.futures", "csv", "decimal", "fractions", "importlib.resources", "logging"),
    *("multiprocessing", "numpy.ma", "shutil", "string", "subprocess", "tempfile", "zipfile"),
}
USED = {
    # medians of the cells
    "heatmap": {"numpy.ma"},
    "findings": {"numpy.ma"},
    "summary": {"numpy.ma"},
    # directories that are deleted, and the cache
    "build": {"shutil"},
    "hosts": {"shutil", "tempfile"},
}
# A dataclass takes half a millisecond more to import if it is frozen at run time, and as much again
# with `==`: these are what programs compare, print or keep in sets. Others are `structs.struct`.
FROZEN = {
    *(
        "meantime.model.clocks.Clock",
        "meantime.model.metadata.State",
        "meantime.model.metadata.LaneDeclaration",
    ),
    # without slots, for an index that is computed when it is used
    "meantime.history.results.Flows",
}
RESULTS = {
    *("meantime.query.durations.SpanStatistics", "meantime.query.statistics.StateStatistics"),
    *("meantime.query.statistics.StatisticsRow", "meantime.query.stacks.CallTree"),
    *("meantime.query.stacks.Difference", "meantime.query.findings.finding.Finding"),
    *("meantime.query.explain.conclusion.Conclusion", "meantime.query.critical_path.CriticalPath"),
    *("meantime.query.explain.conclusion.Explanation", "meantime.query.groups.Group"),
    *("meantime.query.explain.activity_path.ActivityPath", "meantime.query.groups.GroupStatistics"),
    # what they and others are made of, or are
    *("meantime.model.durations.Durations", "meantime.model.durations.DurationColumns"),
    *("meantime.query.explain.resources.Latency", "meantime.query.findings.outliers.Usual"),
    *("meantime.query.offsets.map.Source", "meantime.shards.Total", "meantime.shards._Leaf"),
}
# The most modules of ours that a command may load: each takes 0.15 to 0.5 ms.
MOST_MODULES = {
    "statemap": 149,
    "heatmap": 170,
    "flame": 144,
    "chart": 156,
    "info": 172,
    "stats": 133,
    "query": 109,
}
REPORT = """
import os, sys
from meantime.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stopped:
    assert not stopped.code
frozen = {
    f"{each.__module__}.{each.__qualname__}"
    for name, module in sys.modules.items() if name.startswith("meantime.")
    for each in vars(module).values()
    if isinstance(each, type) and getattr(each, "__dataclass_params__", None)
    and each.__dataclass_params__.frozen
}
print("frozen:", *sorted(frozen), file=sys.stderr)
print(len(os.listdir("/proc/self/task")), *sorted(sys.modules), file=sys.stderr)
"""


class Loaded(NamedTuple):
    """What a command leaves: its threads, modules, and dataclasses that are frozen at run time."""

    threads: int
    modules: set[str]
    frozen: set[str]


def loaded(root: Path, words: list[str]) -> Loaded:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    (_, *frozen), (threads, *modules) = map(str.split, done.stderr.splitlines()[-2:])
    return Loaded(int(threads), set(modules), set(frozen))


def test_every_command_that_reads_is_tested() -> None:
    assert {words[0] for words in READING.values()} == set(COMMANDS) - NOT_READING


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("command", READING)
def test_a_command_has_no_threads_for_linear_algebra_and_loads_little(
    command: str, root: Path, tmp_path: Path
) -> None:
    if command == "check":
        loaded(root, ["build", STATES, "-o", str(tmp_path / "HISTORY.mth")])
    words = [
        str(tmp_path / word) if "OUT" in word or "HISTORY" in word else word
        for word in READING[command]
    ]

    found = loaded(root, words)

    assert found.threads == 1
    assert found.modules & SLOW <= USED.get(command, set())
    if command in MOST_MODULES:
        ours = {name for name in found.modules if name.split(".")[0] == "meantime"}
        assert len(ours) <= MOST_MODULES[command]
        assert found.frozen <= FROZEN | RESULTS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_needs_no_numpy(command: str, root: Path) -> None:
    modules = loaded(root, [command, "--help"]).modules

    assert modules.isdisjoint({"numpy", "meantime.history", "meantime.readers"})


def test_what_only_histories_on_disk_need_is_not_loaded_for_a_trace(root: Path) -> None:
    modules = loaded(root, READING["info"]).modules

    assert "meantime.history.directory" in modules
    assert modules.isdisjoint(
        {
            "meantime.opening.cache",
            "meantime.history.directory.read",
            "meantime.history.directory.write",
            "meantime.views",
            "fractions",
            "hashlib",
            "logging",
            "tempfile",
        }
    )


def test_recognising_an_input_imports_only_readers_that_may_read_it(root: Path) -> None:
    modules = loaded(root, READING["info"]).modules
    of_samples = loaded(root, ["info", SAMPLES]).modules

    of_spans = loaded(root, ["info", SPANS]).modules

    others = {f"meantime.readers.{name}" for name in ("spall", "speedscope", "table", "strace")}
    chrome = "meantime.readers.chrome"
    assert modules.isdisjoint({"meantime.readers.perf", chrome, *others})
    assert of_samples.isdisjoint({"meantime.readers.jsonl", chrome, *others})
    assert of_spans.isdisjoint({"meantime.readers.perf", "meantime.providers", *others})


def test_a_flame_graph_does_not_load_what_folds_time(root: Path, tmp_path: Path) -> None:
    modules = loaded(root, ["flame", SAMPLES, "-o", str(tmp_path / "OUT.svg")]).modules

    assert modules.isdisjoint(
        {"meantime.cli.build", "meantime.query.offsets.cells", "meantime.query.offsets.gather"}
    )


@pytest.mark.parametrize("command", ["statemap", "info"])
def test_states_need_neither_masked_arrays_nor_the_fold_of_heat_maps(
    command: str, root: Path, tmp_path: Path
) -> None:
    words = [str(tmp_path / word) if "OUT" in word else word for word in READING[command]]
    modules = loaded(root, words).modules

    assert modules.isdisjoint({"numpy.ma", "zipfile", "logging", "meantime.query.offsets"})


def test_what_shares_and_events_need_is_loaded_when_they_are_used(root: Path) -> None:
    modules = loaded(root, READING["query"]).modules

    assert modules.isdisjoint(
        {
            "meantime.history.shares",
            "meantime.kernels.event_cells",
            "meantime.kernels.event_rows",
            "meantime.kernels.shares_totals",
        }
    )
