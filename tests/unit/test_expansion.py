"""That what a small input expands to in memory is bounded by its size.

The most that this process had resident is compared before and after, so nothing depends on speed.
"""

from __future__ import annotations

import ctypes
import gc
import gzip
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")

# A history has some room of its own, and a row of two bytes becomes two times and two codes.
OWN_BYTES, TIMES = 24_000_000, 60
INTERVALS, LINES = "start_ns,end_ns,entity,state\n", '{{"time_ns":{n},"name":"e","k{n}":{n}}}\n'
STATES = '{"start":[0,0],"title":"t","states":{"a":{"value":0}}}\n'
SPEEDSCOPE = '{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":['


def repeated(head: str, line: str, count: int, tail: str = "", between: str = "") -> str:
    return head + between.join(line.format(n=n) for n in range(count)) + tail


SHAPES = {
    "rows without a time.csv": lambda n: repeated(INTERVALS, ",,,\n", n // 4),
    "rows of quotes.csv": lambda n: repeated(INTERVALS, '"""",,,\n', n // 8),
    "rows that are cut.csv": lambda n: repeated(INTERVALS, "1\n", n // 2),
    "rows at the same time.csv": lambda n: repeated(INTERVALS, "1,2,,\n", n // 6),
    "times that are none.csv": lambda n: repeated(INTERVALS, "x,x,,\n", n // 12),
    "columns.csv": lambda n: INTERVALS[:-1] + "," * n + "\n1,2,,\n",
    "wide rows.csv": lambda n: repeated(
        INTERVALS[:-1] + "," * 999 + "\n", "1,2" + "," * 1001 + "\n", n // 1000
    ),
    "one wide cell.csv": lambda n: repeated(INTERVALS, "1,2,e,s\n", n // 16) + f"1,2,{'x' * 9**5},",
    "deep names.csv": lambda n: repeated(INTERVALS, f"1,2,{'a/' * 200}{{n}},s\n", n // 420),
    "other keys.jsonl": lambda n: repeated("", LINES, n // 40),
    "deep values.jsonl": lambda n: repeated(
        "", '{{"time_ns":1,"name":"e","a":' + "[" * 200 + "]" * 200 + "}}\n", n // 430
    ),
    "empty objects.json": lambda n: repeated("[", "{{}}", n // 3, "]", ","),
    "empty spans.json": lambda n: repeated("[", '{{"ph":"X","ts":{n},"dur":1}}', n // 30, "]", ","),
    "threads.json": lambda n: repeated(
        "[", '{{"ph":"X","tid":{n},"ts":1,"dur":1}}', n // 40, "]", ","
    ),
    "frames.speedscope.json": lambda n: (
        SPEEDSCOPE + "{}," * (n // 3) + '{"name":"f"}]},"profiles":[]}'
    ),
    "entities.statemap": lambda n: repeated(
        STATES, '{{"time":"{n}","entity":"{n}","state":0}}\n', n // 42
    ),
    "depth.folded": lambda n: ";".join(map(str, range(n // 6))) + " 1\n",
    "names.folded": lambda n: repeated("", "{n} 1\n", n // 8),
    "unfinished calls.strace": lambda n: repeated("", "{n} 1.0 f( <unfinished ...>\n", n // 28),
    "CPUs.ftrace": lambda n: repeated(
        "# tracer: nop\n", " t-{n} [{n}] {n}.0: sched_waking: comm=t pid={n} prio=1\n", n // 60
    ),
    "targets.ninja_log": lambda n: repeated("# ninja log v5\n", "0\t1\t0\tt{n}\t{n:x}\n", n // 18),
    "fields.logfmt": lambda n: repeated("", "time=2024-01-01T00:00:00Z msg=m k{n}={n}\n", n // 45),
}


def resident_bytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def growth_bytes(path: Path) -> int:
    """Return how much more memory was resident at most while a file was opened."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what other tests have freed
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the system does not forget the peak")
    before = resident_bytes("VmRSS")
    try:
        history = meantime.open(path)
    except InputError:
        history = None
    peak = resident_bytes("VmHWM")
    del history
    return peak - before


@pytest.mark.parametrize("name", SHAPES)
def test_memory_is_bounded_by_the_size_of_the_input(name: str, tmp_path: Path) -> None:
    content: Callable[[int], str] = SHAPES[name]
    small, large = tmp_path / f"small {name}", tmp_path / name
    small.write_text(content(2000))
    large.write_text(content(600_000))
    growth_bytes(small)  # imports its reader

    growth = growth_bytes(large)

    assert growth < OWN_BYTES + TIMES * large.stat().st_size


def test_a_table_expands_less_than_what_is_read_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.readers.source._OBJECTS_EXPANDED_FREELY", 1 << 16)
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(repeated(INTERVALS, "1\n", 500_000).encode()))

    with pytest.raises(InputError, match="over 100 times as many: if you trust the file"):
        meantime.open(path)


def test_more_rows_than_fit_into_memory_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(repeated(INTERVALS, "1\n", 1_100_000))

    with pytest.raises(InputError, match=r"has 1,100,001 rows, which take at least 70\.4 MB"):
        meantime.open(path, memory=50_000_000)
