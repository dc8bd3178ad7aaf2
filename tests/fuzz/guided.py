"""Fuzz the readers guided by coverage: what reaches a branch that nothing reached is damaged again.

    python tests/fuzz/guided.py --minutes 480                all formats in turn, for a night
    python tests/fuzz/guided.py --minutes 10 --format perf   only this one

libFuzzer chooses what to damage, by the branches of the compiled core and of the readers in Python.
Half of the damage is its own, the other half that of run.py, which keeps lengths and checksums
right. Inputs are tried in one process, which is started again after a crash.

It needs clang and Atheris: `python -m pip install atheris`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from sanitized import compiled, environment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from containers import Files
    from corpus import Format

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_CORPUS = _ROOT / "build" / "fuzz-corpus"
_SLICE_S = 300
_LARGEST_BYTES = 1 << 16
_SECONDS = 60
_CONTRACT = "meantime.readers.contract"
_MEMORY_MB = 3000
_LENGTH_BYTES = 4
_ABSENT = 0xFFFFFFFF
# Asking a history everything takes several times as long as reading it: one input of so many.
_ASKED_OF = 12
_DRAWN_OF, _CONCLUDED_OF = 96, 1152
_SEGMENT_CHANGES = 64
# How often damage is libFuzzer's own.
_OWN = 0.5
_EXECUTED = re.compile(r"number_of_executed_units: *(\d+)")
_COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


def main() -> int:
    """Run and return the exit status: 1 if anything was found."""
    options = _options()
    if options.child:
        _fuzz(options.child, options.keep, options.seconds)
        return 0
    runtime = _runtime()
    copy = compiled("clang", guided=True) if runtime is not None else None
    if copy is None:
        return 2
    from corpus import FORMATS  # noqa: PLC0415 - a moment, not for a message of what is missing
    from kernels import KERNELS  # noqa: PLC0415 - as above

    environment = environment_of(copy, "clang", runtime) | {"PYTHONMALLOC": "pymalloc"}
    names = options.format or [*KERNELS, *FORMATS]
    until_s = time.monotonic() + 60 * options.minutes
    share_s = min(_SLICE_S, max(1, round(60 * options.minutes / len(names))))
    executed, crashes = Counter[str](), 0
    while time.monotonic() < until_s:
        for name in names:
            left_s = until_s - time.monotonic()
            if left_s > 0:
                number, crashed, covered = _slice(
                    name, options.keep, min(share_s, max(1, round(left_s))), environment
                )
                executed[name] += number
                crashes += crashed
                print(
                    f"{name}: {executed[name]} inputs, {covered}{', CRASHED' if crashed else ''};"
                    f" {executed.total()} of all formats",
                    flush=True,
                )
    reports = options.keep / "reports.jsonl"
    return 1 if crashes or reports.exists() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="how long to run in all")
    parser.add_argument("--format", action="append", help="only this format; may be repeated")
    parser.add_argument("--keep", type=Path, default=_ROOT / "build" / "fuzz-found",
                        help="where to write what is found")  # fmt: skip
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _runtime() -> Path | None:
    """Return Atheris's library of libFuzzer with a sanitizer; None after a message."""
    found = importlib.util.find_spec("atheris")
    if found is None or found.origin is None:
        print("Atheris is not installed: python -m pip install atheris", file=sys.stderr)
        return None
    return Path(found.origin).parents[1] / "asan_with_fuzzer.so"


def _slice(
    name: str, keep: Path, seconds: int, environment: dict[str, str]
) -> tuple[int, bool, str]:
    """Fuzz a format for a while; return how many inputs, whether one crashed, what is covered."""
    log = _CORPUS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, __file__, "--child", name, "--keep", str(keep)]
    with log.open("wb") as output:
        done = subprocess.run(
            [*program, "--seconds", str(seconds)],
            env=environment,
            stdout=output,
            stderr=output,
            check=False,
        )
    text = log.read_text(errors="replace")
    executed, covered = _EXECUTED.search(text), _COVERED.findall(text)
    tried = int(executed[1]) if executed else _last_number(text)
    if done.returncode:
        log.replace(keep / f"{name}-{int(time.time())}.log")
    described = "{} branches, {} features, {} kept".format(*covered[-1]) if covered else "none"
    return tried, done.returncode != 0, described


def _last_number(text: str) -> int:
    """Return how many inputs a process had tried that crashed, as far as it said so."""
    return max(map(int, re.findall(r"^#(\d+)", text, re.MULTILINE)), default=0)


class Packing:
    """The files of an input as one, which libFuzzer keeps: which names it has, then the files."""

    def __init__(self, kind: Format) -> None:
        self.names = [*dict.fromkeys(tuple(files) for files in seeds_of(kind))]
        every = dict.fromkeys(name for names in self.names for name in names)
        if kind.is_directory:
            self.names = [tuple(every)]  # of a directory any file may be missing

    def packed(self, files: Files) -> bytes:
        shape = next(number for number, names in enumerate(self.names) if files.keys() <= {*names})
        names = self.names[shape]
        parts = [bytes([shape])]
        for name in names:
            if len(names) > 1:
                size = len(files[name]) if name in files else _ABSENT
                parts.append(size.to_bytes(_LENGTH_BYTES, "little"))
            parts.append(files.get(name, b""))
        return b"".join(parts)

    def unpacked(self, data: bytes) -> Files:
        names = self.names[data[0] % len(self.names)] if data else self.names[0]
        if len(names) == 1:
            return {names[0]: data[1:]}
        files, at = {}, 1
        for name in names:
            size = int.from_bytes(data[at : at + _LENGTH_BYTES], "little")
            at += _LENGTH_BYTES
            if size != _ABSENT:
                files[name] = data[at : at + size]
                at += len(files[name])
        return files


class _Target(NamedTuple):
    """What is fuzzed: how an input is tried and damaged, and what to begin with."""

    seeds: list[bytes]
    run: Callable[[bytes], None]
    damaged: Callable[[bytes, Random, Callable[[bytes], bytes]], bytes]


def _fuzz(name: str, keep: Path, seconds: int) -> None:
    """Fuzz one format or kernel in this process, which ends with a crash or after some time."""
    atheris = import_module("atheris")
    memory = Path("/dev/shm")  # noqa: S108 - faster than a disk
    seeds, corpus = _CORPUS / f"{name}-seeds", _CORPUS / name
    for needed in (seeds, corpus, keep / name):
        needed.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="fuzz-", dir=memory if memory.is_dir() else None
    ) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        if name.startswith("kernel-"):
            target = _kernel(name, keep / name)
        else:
            with atheris.instrument_imports(
                include=["meantime.readers"], enable_loader_override=False
            ):
                import_module("exercise").import_all()
            target = _reader(name, keep / name)
        for number, data in enumerate(target.seeds):
            (seeds / str(number)).write_bytes(data)

        def damaged(data: bytes, most: int, seed: int) -> bytes:
            random = Random(seed)  # noqa: S311 - it has to be repeatable
            mutate = partial(_mutated, atheris.Mutate, most)
            return target.damaged(bytes(data), random, mutate)[:most]

        options = [
            f"-max_total_time={seconds}",
            f"-max_len={_LARGEST_BYTES}",
            f"-timeout={_SECONDS}",
            f"-rss_limit_mb={_MEMORY_MB}",
            f"-artifact_prefix={keep / name}/",
            "-print_final_stats=1",
            "-reload=0",
        ]
        atheris.Setup(
            [sys.argv[0], str(corpus), str(seeds), *options], target.run, custom_mutator=damaged
        )
        atheris.Fuzz()


def _mutated(mutate: Callable[[bytes, int], bytes], most: int, data: bytes) -> bytes:
    return mutate(data, min(most, 2 * len(data) + 16))


def _kernel(name: str, keep: Path) -> _Target:
    """Return a kernel that is called with bytes."""
    from corpus import FORMATS  # noqa: PLC0415 - as in main
    from kernels import KERNELS, REFUSALS  # noqa: PLC0415 - as in main
    from worker import place_of  # noqa: PLC0415 - as in main

    kernel = KERNELS[name]
    kinds = [FORMATS[each] for each in kernel.formats]
    seen: set[str] = set()

    def run(data: bytes) -> None:
        try:
            kernel.read(data)
        except REFUSALS:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, that is what is looked for
            if place_of(error) not in seen:
                seen.add(place_of(error))
                _keep(keep, place_of(error), data, {}, traceback.format_exc())

    def damaged(data: bytes, random: Random, mutate: Callable[[bytes], bytes]) -> bytes:
        kind = random.choice(kinds)
        if random.random() < _OWN or kind.is_directory:
            return mutate(data)
        (changed,) = kind.damaged({"x": data}, random).values()
        return changed

    seeds = [data for kind in kinds for files in seeds_of(kind) for data in files.values()]
    return _Target(seeds, run, damaged)


def _reader(name: str, keep: Path) -> _Target:
    """Return the reader of a format, whose history is asked questions now and then."""
    from corpus import FORMATS  # noqa: PLC0415 - after what is instrumented
    from worker import put, tried  # noqa: PLC0415 - as above

    _make_small()
    kind = FORMATS[name]
    packing = Packing(kind)
    folder = Path(os.environ["XDG_CACHE_HOME"], "input")
    seen: set[str] = set()

    def run(data: bytes) -> None:
        files, number = packing.unpacked(data), zlib.crc32(data)
        result, where, detail = tried(
            kind,
            put(kind, files, folder),
            lenient=number % 3 == 0,
            ask=number % _ASKED_OF == 0,
            draw=(number % _DRAWN_OF == 0) + (number % _CONCLUDED_OF == 0),
        )
        if result in ("exception", "memory") and where not in seen:
            seen.add(where)
            _keep(keep, where, data, files, detail)

    def damaged(data: bytes, random: Random, mutate: Callable[[bytes], bytes]) -> bytes:
        files = packing.unpacked(data)
        if random.random() < _OWN:
            changed = random.choice([*files])
            files[changed] = mutate(files[changed])
            if kind.mended is not None:
                files = kind.mended(files)
        else:
            files = kind.damaged(files, random)
        return packing.packed(files)

    return _Target([packing.packed(files) for files in seeds_of(kind)], run, damaged)


def _make_small() -> None:
    """Let histories be of small segments, whose room a sanitizer would take long to prepare."""
    sealer: Any = import_module("meantime.history.sealer")
    contract: Any = import_module(_CONTRACT)
    import_module("meantime.history.store").Store.__init__.__defaults__ = (_SEGMENT_CHANGES,)
    sealer._CHUNK_ROWS = _SEGMENT_CHANGES
    contract.keep_freed = lambda: None


def seeds_of(kind: Format) -> Iterator[Files]:
    """Yield the samples of a format that are small enough, and all that was found."""
    for files in kind.samples():
        if sum(map(len, files.values())) < _LARGEST_BYTES:
            yield files
    folder = _HERE / "found" / kind.name
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file():
            yield {path.name: path.read_bytes()}
        else:
            yield {
                file.relative_to(path).as_posix(): file.read_bytes()
                for file in path.rglob("*")
                if file.is_file()
            }


def _keep(folder: Path, where: str, data: bytes, files: Files, detail: str) -> None:
    """Write what was no crash, but should not be either."""
    name = "".join(c if c.isalnum() else "-" for c in where)[:70].strip("-").lower()
    (folder / name).write_bytes(data)
    for file, content in files.items():
        target = folder / f"{name}.files" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    report: dict[str, Any] = {"path": f"{folder.name}/{name}", "where": where, "detail": detail}
    with (folder.parent / "reports.jsonl").open("a") as reports:
        reports.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    sys.exit(main())
