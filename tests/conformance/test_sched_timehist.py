"""Run times of threads against `perf sched timehist -s` of a recording whose ring overflowed.

They differ in four ways, each of which is found here. Where the thread that leaves a CPU is not
the one that came, timehist gives it the time since the switch before, and here only what other
events prove. Where events were lost, nothing is known here until the next event, although the same
thread left afterwards. What ran before the first switch of a CPU, and after the last one, timehist
leaves out. And once a thread
has begun to exit, perf has no id for its samples, and timehist leaves out what it ran from then on.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from typing import TYPE_CHECKING

from plain_scheduling import Line, proven_runs

import meantime
from meantime.query.statistics import state_statistics

if TYPE_CHECKING:
    from pathlib import Path

_LINE = re.compile(
    r".{16} +-?\d+/(?P<tid>-?\d+) +\[(?P<cpu>\d+)\] (?P<s>\d+)\.(?P<ns>\d{9}): +(?P<rest>.*)"
)
_SWITCH = re.compile(r"sched:sched_switch: .* prev_pid=(\d+) .* next_pid=(\d+) ")
_ROW = re.compile(r".*\[(\d+)(?:/\d+)?\] +-?\d+ +(\d+) +(\d+)\.(\d{3}) ")


def test_every_difference_from_timehist_is_a_marked_stretch_or_an_exit(samples: Path) -> None:
    path = samples / "perf" / "overrun.txt.gz"
    printed: Counter[int] = Counter()
    for row in (samples / "perf" / "overrun.timehist.txt").read_text().splitlines():
        tid, _, ms, us = map(int, _ROW.match(row).groups())  # type: ignore[union-attr] # all match
        printed[tid] += ms * 1000 + us
    by_timehist: Counter[int] = Counter()
    expected: Counter[int] = Counter()
    marked = []
    came: dict[str, int | None] = {}
    switched: dict[str, int] = {}
    seen: dict[str, int] = {}
    lost: dict[str, list[tuple[int, int]]] = {}
    begin_ns = exits = 0
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        found = _LINE.match(line)
        assert found, line
        cpu, time_ns = found["cpu"], int(found["s"]) * 10**9 + int(found["ns"])
        begin_ns = begin_ns or time_ns
        if found["rest"].startswith("PERF_RECORD_LOST"):
            lost.setdefault(cpu, []).append((seen.get(cpu, begin_ns), time_ns))
        elif switch := _SWITCH.match(found["rest"]):
            leaving, coming = map(int, switch.groups())
            stretches = lost.pop(cpu, [])
            if cpu in came:
                ran_ns = time_ns - switched[cpu]
                by_timehist[int(found["tid"])] += ran_ns
                if stretches:
                    if came[cpu]:
                        expected[came[cpu] or 0] += stretches[0][0] - switched[cpu]
                    marked.append((stretches[0][0], time_ns))
                elif came[cpu] == leaving:
                    expected[leaving] += ran_ns
                    exits += int(found["tid"]) == -1
                else:
                    marked.append((switched[cpu], time_ns))
            came[cpu], switched[cpu] = coming, time_ns
        seen[cpu] = time_ns
    # this is how timehist counts; it prints microseconds without what is below them
    assert {tid: us for tid, us in printed.items() if us != by_timehist[tid] // 1000} == {}

    history = meantime.open(path)
    running = {
        int(str(row.entity).removesuffix("/Status").rpartition("/")[2]): row.total_ns
        for row in state_statistics(history, by="entity").rows
        if row.key == "running"
    }

    del expected[0]
    proven: Counter[int] = Counter()
    lines = lines_of(path)
    for run in proven_runs(lines, (begin_ns, lines[-1].time_ns + 1)):
        proven[run.thread] += run.to_ns - run.from_ns
    del proven[0]
    assert running == {tid: ns for tid, ns in proven.items() if ns}
    # what other events prove comes to what the switches do
    assert {tid: ns for tid, ns in expected.items() if ns > proven[tid]} == {}
    # their beginnings, as they end with the first event that names a thread
    assert {start_ns for start_ns, _ in marked} <= {start_ns for start_ns, _ in history.lost}
    assert (len(marked), exits) == (16, 4)


def lines_of(path: Path) -> list[Line]:
    """Return the lines of the text, with the thread that each names."""
    lines = []
    for row in gzip.decompress(path.read_bytes()).decode().splitlines():
        found = _LINE.match(row)
        assert found, row
        line = Line(int(found["s"]) * 10**9 + int(found["ns"]), int(found["cpu"]), None)
        if found["rest"].startswith("PERF_RECORD_LOST"):
            line = line._replace(is_lost=True)
        elif switch := _SWITCH.match(found["rest"]):
            line = line._replace(switch=(int(switch[1]), int(switch[2])))
        elif found["tid"] != "-1":
            line = line._replace(thread=int(found["tid"]))
        lines.append(line)
    return lines
