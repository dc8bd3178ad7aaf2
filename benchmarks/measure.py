"""What the benchmarks share: CPU time, memory, the machine, and a calibration.

Figures are CPU time (user + system), not wall time: machines are shared and noisy. Compare figures
of one run only; the calibration (how fast `memchr` walks memory) says what machine it was.
"""

from __future__ import annotations

import compileall
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import meantime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Run", "best_cpu_s", "header", "memchr_gb_s", "run"]


class Run(NamedTuple):
    """What one process cost: CPU seconds and the most memory it had resident."""

    cpu_s: float
    peak_bytes: int


def run(command: Sequence[str], *, times: int = 3) -> Run:
    """Return the cheapest of several runs of a command in processes of their own."""
    return min(_once(command) for _ in range(times))


# A process inherits its parent's peak when it is forked, so a small one stands between.
_WRAPPER = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
"""


def _once(command: Sequence[str]) -> Run:
    wrapped = [sys.executable, "-S", "-c", _WRAPPER, *command]
    printed = subprocess.run(wrapped, capture_output=True, text=True, check=True).stdout
    status, cpu_s, peak_bytes = printed.split()
    if status != "0":
        raise SystemExit(f"{command} left with status {status}")
    return Run(float(cpu_s), int(peak_bytes))


def best_cpu_s(function: Callable[[], object], *, times: int = 5) -> float:
    """Return the least CPU time of several calls in this process."""
    return min(_cpu_s(function) for _ in range(times))


def _cpu_s(function: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    function()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memchr_gb_s() -> float:
    """Return how fast this machine looks for a byte that is not there, now."""
    haystack = b"\1" * (256 * 1024 * 1024)
    haystack.find(b"x")
    began = time.process_time()
    haystack.find(b"x")
    return len(haystack) / (time.process_time() - began) / 1e9


def header(what: str) -> str:
    """Return a line that says what was measured, where and when."""
    # without bytecode each start would compile all modules, if Python may not write it
    compileall.compile_dir(Path(meantime.__file__).parent, quiet=1)
    return (
        f"{what}: {_processor()}, {os.cpu_count()} CPUs, Python {platform.python_version()},"
        f" {datetime.now(UTC):%Y-%m-%d}; memchr {memchr_gb_s():.1f} GB/s"
    )


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or sys.platform
