"""How often a comparison of recordings finds a change that is there, and one that is not.

python benchmarks/compare_certainty.py --recordings 200

It records one program many times, by turns as it is and with a function that takes 5 % and 20 %
longer, and compares 100 times five recordings with five others: both of the program as it is, and
as it is with one of the others. On a busy machine the time in all varies by much more than 5 %, as
some sleeps end late, and so does the median; the shortest sleep is hardly ever late. Three
recordings take about three seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import measure
import numpy as np

import meantime

if TYPE_CHECKING:
    from meantime.query.compare import Comparison, Summary

PLANTED = "query"
FIGURES = ("total", "median", "shortest")
FACTORS = (1.0, 1.05, 1.2)
RUNS = 5
PAIRS = 100
SEED = 11
PROGRAM = """
import asyncio
import sys


def work(rounds):
    for _ in range(rounds):
        sum(range(100))


async def parse():
    work(500)


async def query():
    await asyncio.sleep(0.02 * float(sys.argv[1]))
    work(100)


async def render():
    work(800)


async def main():
    for _ in range(15):
        await asyncio.create_task(parse())
        await asyncio.gather(*(asyncio.create_task(query()) for _ in range(3)))
        await asyncio.create_task(render())


asyncio.run(main())
"""


def recorded(program: Path, folder: Path, factor: float) -> Summary:
    """Return the summary of a recording of the program, in which `query` waits so much longer."""
    path = folder / "run.mtr"
    command = [sys.executable, "-m", "meantime", "record", "-q", "--force", "-o", str(path)]
    subprocess.run([*command, "--", sys.executable, str(program), str(factor)], check=True)
    return meantime.summarize(path)


def names(found: Comparison) -> set[str]:
    """Return the functions that changed noticeably."""
    return {row.key[-1].partition(" ")[0] for row in found.rows if row.is_noticeable}


def found_in(unchanged: list[Summary], own: list[Summary], figure: str) -> tuple[int, int, int]:
    """Return in how many pairs the planted function was found, other functions, and either.

    `main` waits for the planted function: it is neither.
    """
    generator = np.random.default_rng(SEED)
    planted = others = either = 0
    for _ in range(PAIRS):
        # no run is on both sides
        order = generator.permutation(len(own))
        before = [unchanged[at] for at in order[:RUNS]]
        after = [own[at] for at in order[RUNS : 2 * RUNS]]
        found = names(meantime.compare(before, after, by="function", figure=figure)) - {"main"}
        planted += PLANTED in found
        others += bool(found - {PLANTED})
        either += bool(found)
    return planted, others, either


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="How sure the changes are that are found.")
    parser.add_argument("--recordings", type=int, default=200, help="of each of the three programs")
    number = parser.parse_args().recordings
    if number < 2 * RUNS:
        parser.error(f"--recordings: at least {2 * RUNS}")
    print(measure.header("compare_certainty"))
    runs: dict[float, list[Summary]] = {factor: [] for factor in FACTORS}
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "program.py"
        program.write_text(PROGRAM)
        for _ in range(number):
            for factor, own in runs.items():
                own.append(recorded(program, Path(name), factor))
    for factor, own in runs.items():
        what = "unchanged" if factor == 1 else f"{PLANTED} takes {factor - 1:.0%} more"
        for figure in FIGURES:
            planted, others, either = found_in(runs[1.0], own, figure)
            print(
                f"{what}, {figure}: {PLANTED} noticeable in {planted} of {PAIRS} pairs of {RUNS}"
                f" and {RUNS} runs, others in {others}, either in {either}"
            )


if __name__ == "__main__":
    main()
