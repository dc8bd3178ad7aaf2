"""What many hosts as one history cost: joining, states at a time, shares, against one history.

python benchmarks/fleet.py [HOSTS]
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from measure import best_cpu_s, header

import meantime
from meantime.history import HistoryBuilder
from meantime.model.clocks import Clock
from meantime.view_functions.joining import write_join

S = 10**9
LANES = 8
CHANGES = 100_000
BINS = 2_000
STATES = ("idle", "user", "system", "irq", "softirq", "wait")
# hosts have their states in different orders, and begin and end at different times
_APART_NS = 7_000_001


def build_hosts(folder: Path, hosts: int) -> tuple[list[Path], Path]:
    """Build a history for each host, and one of all with the prefix from the start."""
    paths = [folder / f"host{number:03}.mth" for number in range(hosts)]
    whole = HistoryBuilder(folder / "all.mth", clock=Clock("realtime", utc_at_origin_ns=0))
    names = [whole.quark("Hosts", path.stem) for path in paths]
    times, quarks, codes = [], [], []
    for number, path in enumerate(paths):
        random = np.random.default_rng(number)
        origin_ns = number * _APART_NS
        builder = HistoryBuilder(path, clock=Clock("realtime", utc_at_origin_ns=origin_ns))
        order = np.roll(np.arange(len(STATES)), number)
        quark = np.array([builder.quark("CPUs", str(lane), "Status") for lane in range(LANES)])
        time_ns = np.cumsum(random.integers(1, 20 * S // CHANGES, CHANGES))
        lane = random.integers(0, LANES, CHANGES)
        code = random.integers(0, len(STATES), CHANGES)
        values = [STATES[order[index]] for index in range(len(STATES))]
        builder.modify_many(time_ns, quark[lane], [values[each] for each in code.tolist()])
        end_ns = int(time_ns[-1]) + 1
        builder.close(end_ns)
        below = np.array(
            [
                whole.quark("CPUs", str(each), "Status", parent=names[number])
                for each in range(LANES)
            ]
        )
        times += [time_ns + origin_ns, np.full(LANES, end_ns + origin_ns)]
        quarks += [below[lane], below]
        codes += [order[code], np.full(LANES, -1)]
    order = np.argsort(np.concatenate(times), kind="stable")
    all_times, all_quarks, all_codes = (
        np.concatenate(each)[order] for each in (times, quarks, codes)
    )
    states = [*STATES, None]
    for first in range(0, len(order), 1 << 20):
        part = slice(first, first + (1 << 20))
        values_of = [states[each] for each in all_codes[part].tolist()]
        whole.modify_many(all_times[part], all_quarks[part], values_of)
    whole.close(int(all_times[-1]) + 1)
    return paths, folder / "all.mth"


def main() -> None:
    """Print the figures."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(header(f"{hosts} hosts of {CHANGES:,} changes"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths, whole = build_hosts(folder, hosts)
        write_join(folder / "all.mtj", paths)
        opened = best_cpu_s(lambda: [meantime.open(path) for path in paths])
        joined = best_cpu_s(lambda: len(meantime.open(folder / "all.mtj").attributes))
        print(f"opened one by one {opened:.3f} s, joined {joined:.3f} s")
        both = {"one history": meantime.open(whole), "joined": meantime.open(folder / "all.mtj")}
        for label, history in both.items():
            lanes = history.quarks("Hosts/*/CPUs/*/Status")
            middle_ns = (history.start_ns + history.end_ns) // 2
            first_s = best_cpu_s(partial(history.at, middle_ns), times=1)
            at_s = best_cpu_s(partial(history.at, middle_ns), times=20)
            shares_s = best_cpu_s(partial(history.shares, lanes, bins=BINS))
            longest_s = best_cpu_s(partial(history.dominant, lanes, bins=BINS))
            print(
                f"{label}: all states at a time {at_s * 1000:.2f} ms (first {first_s:.3f} s),"
                f" shares of {len(lanes):,} lanes x {BINS:,} bins {shares_s * 1000:.0f} ms,"
                f" longest {longest_s * 1000:.0f} ms"
            )


if __name__ == "__main__":
    main()
