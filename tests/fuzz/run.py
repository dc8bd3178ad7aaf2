"""Fuzz the readers: damaged inputs of every format, each to end as a history or an `InputError`.

    python tests/fuzz/run.py --minutes 5                     all formats, one after the other
    python tests/fuzz/run.py --format perf --seed 12         this one input
    python tests/fuzz/run.py --sanitize --minutes 30         the core compiled to see bad accesses
    python tests/fuzz/run.py --quick --minutes 60            ten times as many inputs, asked less

What is found is made smaller and kept, to be repaired and then replayed by the tests.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from sanitized import compiled, environment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from containers import Files
    from corpus import Format
    from worker import Limits, Outcome, Trial

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_FOUND = _HERE / "found"
_SANITIZED_BYTES = 4  # so many times the memory is taken by a sanitizer's red zones and shadow
_SMALLER_S = 15.0
# How many of the inputs that are tried quickly are asked everything, and are read as a format that
# is given instead of recognised; how many are tried in one process.
_ASKED, _GIVEN = 1 / 12, 0.5
_QUICK_BATCH = 1000
_FRESH = _ROOT / "build" / "fuzz-fresh"
_MOST_FRESH, _LARGEST_FRESH = 400, 1 << 14


@dataclass(slots=True)
class _Tally:
    """What was tried of one format, and what went wrong the first time each."""

    results: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0


def main() -> int:
    """Run and return the exit status: 1 if anything was found."""
    options = _options()
    if options.sanitize and "MEANTIME_SANITIZE" not in os.environ:
        return _run_sanitized(options.compiler)
    from corpus import FORMATS  # noqa: PLC0415 - not of the normal build before a sanitized one
    from exercise import import_all  # noqa: PLC0415 - as above
    from worker import Limits  # noqa: PLC0415 - as above

    import_all()
    chosen = [FORMATS[name] for name in options.format or FORMATS]
    if options.data is not None:
        for kind in chosen:
            kind.add_from(options.data)
    limits = Limits()
    if options.sanitize:
        limits = limits._replace(
            bytes=_SANITIZED_BYTES * limits.bytes,
            bytes_per_byte=_SANITIZED_BYTES * limits.bytes_per_byte,
            seconds=_SANITIZED_BYTES * limits.seconds,
        )
    tallies = (
        _fuzzed(chosen, options, limits)
        if options.replay is None
        else ((kind.name, _replayed(kind, options.replay, limits)) for kind in chosen)
    )
    failed = 0
    for name, tally in tallies:
        failed += len(tally.failures)
        print(_summary(name, tally), flush=True)
        for where, outcome in tally.failures.items():
            print(f"  {outcome.result}: {where}: {outcome.trial.name}", flush=True)
            if options.keep is not None:
                _keep(outcome, options.keep, limits)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="how long to run: as long for each format")
    parser.add_argument("--inputs", type=int, help="how many inputs to try of each format")
    parser.add_argument("--format", action="append", help="only this format; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="the first input's seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes try inputs")
    parser.add_argument("--keep", type=Path, help="where to keep what is found; a good place is\n"
                        f"{_FOUND.relative_to(_ROOT)}, which the tests replay")  # fmt: skip
    parser.add_argument("--data", type=Path, help="a folder with more samples to damage")
    parser.add_argument("--replay", type=Path, help="only replay what was kept in this folder")
    parser.add_argument(
        "--sanitize", action="store_true", help="compile with sanitizers and run that"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="open all inputs, but ask few of them everything; damage again what was new in one",
    )
    parser.add_argument("--fresh", type=Path, default=_FRESH,
                        help="where --quick keeps inputs that are new")  # fmt: skip
    parser.add_argument("--compiler", default="gcc", help="the compiler for --sanitize")
    options = parser.parse_args()
    if options.minutes is None and options.inputs is None:
        options.inputs = 1
    return options


def _fuzzed(
    chosen: list[Format], options: argparse.Namespace, limits: Limits
) -> Iterator[tuple[str, _Tally]]:
    """Try inputs of each format until their number or its time is reached; yield how they went.

    All have the same time, however much longer the last input of one takes.
    """
    share_s = None if options.minutes is None else 60 * options.minutes / len(chosen)
    for kind in chosen:
        until_s = None if share_s is None else time.monotonic() + share_s
        last = None if options.inputs is None else options.seed + options.inputs
        parts = [
            _Part(
                kind.name,
                options.seed + job,
                options.jobs,
                last,
                until_s,
                limits,
                options.data,
                options.fresh if options.quick else None,
            )
            for job in range(options.jobs)
        ]
        began_s = time.monotonic()
        if options.jobs == 1:
            tallies = [_of_seeds(parts[0])]
        else:
            with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
                tallies = pool.map(_of_seeds, parts)
        whole = _Tally(seconds=time.monotonic() - began_s)
        for tally in tallies:
            whole.results += tally.results
            whole.failures = {**tally.failures, **whole.failures}
        yield kind.name, whole


class _Part(NamedTuple):
    """What one process tries: of a format the inputs of every so many seeds."""

    format: str
    first: int
    step: int
    last: int | None
    until_s: float | None
    limits: Limits
    data: Path | None
    fresh: Path | None


def _of_seeds(part: _Part) -> _Tally:
    from corpus import FORMATS  # noqa: PLC0415 - as in main
    from exercise import import_all  # noqa: PLC0415 - as in main
    from worker import BATCH, tries  # noqa: PLC0415 - as in main

    kind = FORMATS[part.format]
    if part.step > 1:  # this is a process of its own
        import_all()
        if part.data is not None:
            kind.add_from(part.data)

    tally = _Tally()
    fresh = None if part.fresh is None else _Fresh(kind, part.fresh)
    for outcome in tries(
        _trials(part, kind), part.limits, BATCH if fresh is None else _QUICK_BATCH
    ):
        tally.results[outcome.result] += 1
        if outcome.failed:
            tally.failures.setdefault(outcome.where, outcome)
        elif fresh is not None:
            fresh.look_at(outcome)
    return tally


def _trials(part: _Part, kind: Format) -> Iterator[Trial]:
    from corpus import input_of  # noqa: PLC0415 - as in main
    from worker import Trial  # noqa: PLC0415 - as in main

    for seed in count(part.first, part.step):
        if part.last is not None and seed >= part.last:
            return
        is_late = part.until_s is not None and time.monotonic() > part.until_s
        if is_late and seed != part.first:
            return
        random = Random(seed)  # noqa: S311 - it has to be repeatable
        lenient, share = random.random() < 0.3, random.random()
        draw = (share < 0.2) + (share < 0.003)
        trial = Trial(kind, str(seed), input_of(kind, seed), lenient, draw)
        if part.fresh is not None:
            ask = random.random() < _ASKED
            given = kind.reader is not None and random.random() < _GIVEN
            trial = trial._replace(ask=ask, draw=draw * ask, recognise=not given)
        yield trial


class _Fresh:
    """Inputs of which something was seen that was not seen before, which are damaged again.

    What is seen of an input is its message without numbers, or the anomalies and sizes of its
    history: less than its branches, but without a compiler.
    """

    def __init__(self, kind: Format, folder: Path) -> None:
        self._kind, self._folder = kind, folder / kind.name
        self._seen: set[str] = set()
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            kind.added.append(files_of(path))
        del kind.added[_MOST_FRESH:]

    def look_at(self, outcome: Outcome) -> None:
        """Keep an input if it is new."""
        trial = outcome.trial
        if outcome.where in self._seen or trial.size_bytes > _LARGEST_FRESH:
            return
        self._seen.add(outcome.where)
        self._kind.added.append(trial.files)
        if len(self._kind.added) > _MOST_FRESH:
            del self._kind.added[int(trial.name) % _MOST_FRESH]
        name = f"{zlib.crc32(outcome.where.encode()):08x}"
        for file, data in trial.files.items():
            target = self._folder / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def files_of(path: Path) -> Files:
    """Return the files of an input that was kept, a file or a folder."""
    if not path.is_dir():
        return {path.name: path.read_bytes()}
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def _replayed(kind: Format, folder: Path, limits: Limits) -> _Tally:
    """Try what was kept of a format, each also leniently."""
    from worker import Trial, tries  # noqa: PLC0415 - as in main

    trials = []
    for path in sorted((folder / kind.name).iterdir()) if (folder / kind.name).is_dir() else ():
        files = files_of(path)
        trials += [Trial(kind, path.name, files, lenient) for lenient in (False, True)]
    tally = _Tally()
    for outcome in tries(trials, limits):
        tally.results[outcome.result] += 1
        if outcome.failed:
            tally.failures.setdefault(outcome.where, outcome)
    return tally


def _summary(name: str, tally: _Tally) -> str:
    tried = tally.results.total()
    rate = f", {tried / tally.seconds:.0f}/s" if tally.seconds else ""
    rest = tally.results - Counter(
        accepted=tally.results["accepted"], refused=tally.results["refused"]
    )
    failed = ", ".join(f"{number} {result}" for result, number in sorted(rest.items()))
    return (
        f"{name}: {tried} inputs{rate}: {tally.results['accepted']} accepted,"
        f" {tally.results['refused']} refused{', ' if failed else ''}{failed}"
    )


def _keep(outcome: Outcome, folder: Path, limits: Limits) -> None:
    """Write what failed, made smaller, and beside the folder what went wrong."""
    trial = _smaller(outcome, limits)
    name = "".join(c if c.isalnum() else "-" for c in outcome.where)[:70].strip("-").lower()
    target = folder / trial.format.name / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if trial.format.is_directory:
        shutil.rmtree(target, ignore_errors=True)
        for file, data in trial.files.items():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (target / file).write_bytes(data)
    else:
        ((file, data),) = trial.files.items()
        target = target.with_name(name + Path(file).suffix)
        target.write_bytes(data)
    report = {
        "seed": trial.name, "lenient": trial.lenient, "draw": trial.draw, "result": outcome.result,
        "where": outcome.where, "detail": outcome.detail,
    }  # fmt: skip
    with (folder / "reports.jsonl").open("a") as reports:
        reports.write(json.dumps({"path": str(target.relative_to(folder)), **report}) + "\n")


def _smaller(outcome: Outcome, limits: Limits) -> Trial:
    """Return a trial that fails in the same way with chunks of its files left out."""
    from worker import attempt  # noqa: PLC0415 - as in main

    trial = outcome.trial
    if outcome.result == "hang":
        return trial  # each try takes as long
    until_s = time.monotonic() + _SMALLER_S
    for name in sorted(trial.files, key=lambda file: -len(trial.files[file])):
        if trial.format.name == "mth":
            break  # a checksum or a length shows what is missing
        size = max(1, len(trial.files[name]) // 2)
        while size and time.monotonic() < until_s:
            place = 0
            while place < len(trial.files[name]) and time.monotonic() < until_s:
                data = trial.files[name]
                less = {**trial.files, name: data[:place] + data[place + size :]}
                if attempt(trial._replace(files=less), limits).where == outcome.where:
                    trial = trial._replace(files=less)
                else:
                    place += size
            size //= 2
    return trial


def _run_sanitized(compiler: str) -> int:
    """Run this program with a core that is compiled with sanitizers."""
    copy = compiled(compiler)
    if copy is None:
        return 2
    environment = environment_of(copy, compiler)
    return subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
