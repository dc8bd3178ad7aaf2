"""What each question to a history on disk costs as the history grows and the answer does not.

python benchmarks/growth.py --disk DIRECTORY
python benchmarks/growth.py --disk DIRECTORY --most 1000000000: 5 GB on disk
python benchmarks/growth.py --disk DIRECTORY --values integers --attributes 10000 --zipf

Histories of 1 million changes, 10 million and so on are asked in processes of their own. The growth
from one to the next is printed too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import measure
import numpy as np
from history import batches

from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.history import History
    from meantime.model.columns import Int32s, Int64s

Questions: TypeAlias = "dict[str, Callable[[], object]]"

STATES = 8
ASKED = 10_000
LANES = 1_000
# So long has about 2,000 changes in every history.
SHORT_NS = 4_000_000


def main() -> None:
    """Print the table, or answer for one history."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--disk", type=Path, help="where to keep histories; they are removed again")
    parser.add_argument("--most", type=int, default=100_000_000, help="changes of the largest")
    parser.add_argument("--attributes", type=int, default=1_000)
    parser.add_argument("--values", choices=("strings", "integers"), default="strings")
    parser.add_argument("--zipf", action="store_true", help="few attributes have most changes")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask is not None:
        print(json.dumps(dict(_costs(arguments.ask))))
        return
    if arguments.disk is None:
        parser.error("--disk says where the histories are kept")
    sizes = [10**power for power in range(6, 12) if 10**power <= arguments.most]
    if not sizes:
        parser.error("--most is at least 1000000")
    print(measure.header("growth"))
    costs: dict[str, list[float]] = {}
    for changes in sizes:
        path = arguments.disk / "growth.mth"
        shutil.rmtree(path, ignore_errors=True)
        for what, cost in (_built(path, changes, arguments) | _asked(path)).items():
            costs.setdefault(what, []).append(cost)
        shutil.rmtree(path)
    width = max(map(len, costs))
    print(f"{'milliseconds, if not said':{width}}", *(f"{size:>15,}" for size in sizes), "  growth")
    for what, each in costs.items():
        growth = ", ".join(
            f"{after / before:.1f}" if before else "-" for before, after in pairwise(each)
        )
        print(f"{what:{width}}", *(f"{cost:15.3f}" for cost in each), f"  {growth}", flush=True)


def _built(path: Path, changes: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Build a history; return how fast, and how large it is."""
    builder = HistoryBuilder(path)
    builder.attributes.add_many(map(str, range(arguments.attributes)))
    names = [f"state{index}" for index in range(STATES)]
    seconds = 0.0
    for time_ns, quark, code in batches(changes, arguments.attributes, STATES, zipf=arguments.zipf):
        values = code.astype(np.int64) if arguments.values == "integers" else Coded(code, names)
        before = time.process_time()
        builder.modify_many(time_ns, quark, values)
        seconds += time.process_time() - before
    # once, in one attribute, near the end
    rare = STATES if arguments.values == "integers" else "rare"
    before = time.process_time()
    builder.modify(builder.history.end_ns, arguments.attributes // 2, rare)
    builder.close()
    seconds += time.process_time() - before
    size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {
        "built, million changes a second": changes / seconds / 1e6,
        "bytes a change": size_bytes / changes,
    }


def _asked(path: Path) -> dict[str, float]:
    """Return what questions cost in a process of their own, which has only this history."""
    command = [sys.executable, __file__, "--ask", str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def _costs(path: Path) -> Iterator[tuple[str, float]]:
    """Yield what each question costs, in milliseconds."""
    open_history(path).end_ns  # noqa: B018 - what is imported for it is not measured
    yield "open", _ms(lambda: open_history(path).end_ns)
    before = _resident_bytes()
    history = open_history(path)
    history.end_ns  # noqa: B018 - is read with the rest
    yield "memory of an open history, MB", (_resident_bytes() - before) / 1e6
    yield "lanes", _ms(lambda: history.lanes, times=1)
    middle_ns = (history.start_ns + history.end_ns) // 2
    yield "the first state", _ms(lambda: history.state(0, middle_ns), times=1)
    yield "the first time all states", _ms(lambda: history.at(middle_ns), times=1)
    lanes = np.arange(min(LANES, len(history.attributes)), dtype=np.int32)
    whole = partial(history.sample, lanes, _spread_ns(history))
    yield "samples of the whole range, the first time, with checksums", _ms(whole, times=1)
    for what, ask in (_states(history) | _ranges(history, lanes) | _searches(history)).items():
        yield what, _ms(ask)
    aligned = _aligned(history, lanes)
    for what, ask in _limits(history, len(lanes), len(history.shares(*aligned))).items():
        yield what, _ms(ask)


def _states(history: History) -> Questions:
    random = np.random.default_rng(1)
    times_ns = random.integers(history.start_ns, history.end_ns, ASKED)
    quarks = random.integers(0, len(history.attributes), ASKED, dtype=np.int32)
    pairs = list(zip(quarks.tolist(), times_ns.tolist(), strict=True))
    return {
        f"{ASKED:,} states, one by one": lambda: [history.state(*pair) for pair in pairs],
        f"{ASKED:,} states at once": lambda: history.states(quarks, times_ns),
        "all states at 20 times": lambda: [history.at(time) for time in times_ns[:20].tolist()],
    }


def _ranges(history: History, lanes: Int32s) -> Questions:
    span_ns = history.end_ns - history.start_ns
    middle_ns = (history.start_ns + history.end_ns) // 2
    spread_ns = _spread_ns(history)
    near_ns = middle_ns + (spread_ns - history.start_ns) // 100
    short_ns = middle_ns, middle_ns + SHORT_NS
    asked: Questions = {
        f"{len(lanes):,} attributes at 1,000 times": partial(history.sample, lanes, spread_ns),
        "the same in 1 % of the range": partial(history.sample, lanes, near_ns),
        "intervals of some 2,000 changes": partial(history.intervals, lanes, *short_ns),
        "intervals at 100 instants": partial(
            history.intervals, lanes, resolution_ns=max(1, span_ns // 100)
        ),
    }
    for bins in (2_000, 200, 1):
        asked[f"shares of {len(lanes):,} in {bins:,} bins"] = partial(
            history.shares, lanes, bins=bins
        )
    asked["the longest alone, 2,000 bins"] = partial(history.dominant, lanes, bins=2_000)
    aligned = _aligned(history, lanes)
    asked["shares, 2,000 bins of 2^k ns"] = partial(history.shares, *aligned)
    asked["the longest alone, 2,000 bins of 2^k ns"] = partial(history.dominant, *aligned)
    width_ns = 2 ** (span_ns // 512).bit_length()
    deep_ns = max(1, width_ns >> 12)
    for what, start_ns, bin_ns in (
        ("the widest", 0, width_ns),
        ("zoomed in", middle_ns // deep_ns * deep_ns, deep_ns),
    ):
        tile = (lanes[:64], start_ns, bin_ns, 512)
        asked[f"tile of 64 x 512, {what}"] = partial(history.state_tile, *tile)
        if not isinstance(_value(history), str):
            asked[f"counters of 64 x 512, {what}"] = partial(history.counter_tile, *tile)
    return asked


def _searches(history: History) -> Questions:
    value = _value(history)
    rare = "rare" if isinstance(value, str) else STATES
    whole = 0, history.end_ns - 1
    asked: Questions = {
        "the next interval with a value": partial(history.following, "*", whole[0], value=value),
        "the only one with a value": partial(history.following, "*", whole[0], value=rare),
        "states counted": partial(history.count, "*"),
        "those with a value counted": partial(history.count, "*", value=value),
    }
    if not isinstance(value, str):
        asked["the maximum of an attribute"] = partial(history.maximum, 0, *whole)
        asked["the average of an attribute"] = partial(history.average, 0, *whole)
    return asked


def _value(history: History) -> str | int:
    """Return a value that is frequent."""
    found = history.following("*", history.start_ns)
    assert found is not None
    assert isinstance(found.value, str | int)
    return found.value


def _spread_ns(history: History) -> Int64s:
    return np.linspace(history.start_ns, history.end_ns - 1, 1_000).astype(np.int64)


def _aligned(history: History, lanes: Int32s) -> tuple[Int32s, int, int, int]:
    """Return the arguments for some 2,000 bins of a power of two."""
    span_ns = history.end_ns - history.start_ns
    bin_ns = 2 ** (span_ns // 2_000).bit_length() // 2
    bins = min(2_000, span_ns // bin_ns)
    return lanes, 0, bins * bin_ns, bins


def _limits(history: History, lanes: int, shares: int) -> Questions:
    """Return what reads and writes as much memory as answers do, and nothing else."""
    changes = history.estimate_count("*")
    # A line of sums, and one and a half of rows, in ascending order: 5 bytes a change.
    lines = np.ones((max(1, changes * 5 // 64), 8), np.int64)
    edges = np.sort(np.random.default_rng(1).integers(0, len(lines), lanes * 2_000 * 5 // 2))
    size_bytes = 5 * shares + 8 * lanes * 2_000
    return {
        "limit: the cache lines of 2,000 bins' edges": lambda: np.sum(lines[edges, 0]),
        "limit: writing the shares of 2,000 bins": lambda: np.empty(size_bytes, np.uint8).fill(1),
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def _ms(ask: Callable[[], object], *, times: int = 5) -> float:
    return measure.best_cpu_s(ask, times=times) * 1e3


if __name__ == "__main__":
    main()
