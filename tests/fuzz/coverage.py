"""Print how many branches of the compiled core the corpus takes, kernel by kernel.

    python tests/fuzz/coverage.py                    samples, what was found, 300 damaged of each
    python tests/fuzz/coverage.py --inputs 3000

The core is compiled with gcc's counters, in a copy. A branch is a way out of a condition or a loop
that is in the source, as many as its `and` and `or` have. A branch of a header counts once for all
kernels that include it, and one that is compiled for several types once for all of them. Memory is
made to fail, allocation by allocation, so its branches count.

Not counted is what no input can decide:

- what Cython adds: whether a call raised, whether an object is of a type, how arguments are given.
  In a translation these are lines that call Cython or Python, or are marked as unlikely, and those
  that come from no file; `arrays.h` is this check for arrays, without Cython;
- limits that take 2 GiB to reach: lines that compare with `MOST_ROWS`, `INT32_MAX` or `HUGE_BYTES`;
- `_recorder`, which reads nothing of others, and is tried by `tests/collect`, and `_shared`, which
  is Cython's own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sanitized import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from containers import Files
    from corpus import Format

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
sys.path.insert(0, str(_HERE.parent / "faults"))
_SOURCE_LINE = re.compile(r'^ */\* "(\S*)":(\d+)')
_FIRST, _LAST = "/* #### Code section: module_code ### */", "/* #### Code section: module_exttypes"
_FUNCTION = re.compile(r"^\w.*\{")
_CONDITION = re.compile(r"^\s*(?:\} else )?(?:if|for|while) \(")
_ADDED = re.compile(
    r"likely\(|__Pyx|__PYX|Py[A-Z_]|CYTHON|memview|== NULL|!= NULL|0 == sizeof|__pyx_kwds"
    r"|__pyx_nargs|exc_type|__pyx_temp\b"
)
_OUT_OF_REACH = re.compile(r"MOST_ROWS|INT32_MAX|HUGE_BYTES")
_DIRECTORIES = frozenset({".mtr", ".mth", ".ctf"})
_OF_TYPES = frozenset({"arrays.h"})
_LEFT_OUT = frozenset({"_recorder", "_shared"})
# To be asked everything takes ten times as long as to be opened.
_ASKED_OF = 4
_CONCLUDED = 40
_MOST_ALLOCATIONS = 300
_STARVED = 8


class _Place(NamedTuple):
    """A condition of the source: which one of its line, in the order of the translation."""

    file: str
    line: int
    condition: int


class _Branch(NamedTuple):
    file: str
    line: int
    condition: int
    number: int


def main() -> int:
    """Run and return the exit status: 2 if the core cannot be compiled."""
    options = _options()
    if options.child:
        _use(options.inputs)
        return 0
    from library import preloaded  # noqa: PLC0415 - of the other folder

    copy = compiled("gcc", counted=True)
    if copy is None:
        return 2
    for old in copy.rglob("*.gcda"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        subprocess.run(
            [sys.executable, __file__, "--child", *sys.argv[1:]],
            env={**os.environ, **preloaded(Path(folder)), "PYTHONPATH": str(copy / "src")},
            check=True,
        )
    _print(*_branches(copy), options.missing, copy)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=int, default=300, help="how many are damaged, of each format"
    )
    parser.add_argument("--missing", metavar="KERNEL", help="print the lines that lack a branch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _use(inputs: int) -> None:
    """Use the corpus in this process, whose end writes the counters."""
    from corpus import FORMATS, input_of  # noqa: PLC0415 - of the counted core
    from exercise import exercise, import_all  # noqa: PLC0415 - as above
    from kernels import KERNELS, REFUSALS  # noqa: PLC0415 - as above
    from worker import put, tried  # noqa: PLC0415 - as above

    import_all()
    memory = Path("/dev/shm")  # noqa: S108 - faster than a disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for path in _own_files():
            with suppress(Exception):  # what should not be raised is for `run.py` to find
                exercise(path, provider=None, lenient=False, ask=True, draw=2, exact=False)
        for kind in FORMATS.values():
            kept = [*_kept(kind)]
            for number, files in enumerate([*kept, *(input_of(kind, n) for n in range(inputs))]):
                path = put(kind, files, Path(folder, "input"))
                ask = number < len(kept) or number % _ASKED_OF == 0
                draw = ask * (2 if number < _CONCLUDED else number % _ASKED_OF == 0)
                tried(kind, path, lenient=number % 3 == 0, draw=draw, ask=ask)
                if number < _STARVED:
                    _starve(partial(tried, kind, path, lenient=False, draw=0, ask=False))
        for name, kernel in KERNELS.items():
            own = _ROOT / "build" / "fuzz-corpus" / name
            given = [
                data
                for kind in map(FORMATS.__getitem__, kernel.formats)
                for files in _kept(kind)
                for data in files.values()
            ]
            for data in [*given, *_contents(own)]:
                try:
                    kernel.read(data)
                except REFUSALS:
                    continue
            for data in sorted(given, key=len)[:: max(1, len(given) // _STARVED)]:
                _starve(partial(kernel.read, data))


def _own_files() -> Iterator[Path]:
    """Yield all samples as they are, also those that are too large to be damaged."""
    for folder in (_ROOT / "tests" / "samples", _ROOT / "examples"):
        for path in sorted(folder.rglob("*")):
            inside = any(each.suffix in _DIRECTORIES for each in path.parents)
            if not inside and (path.is_file() or path.suffix in _DIRECTORIES):
                yield path


def _kept(kind: Format) -> Iterator[Files]:
    """Yield the samples of a format, and what the fuzzers kept of it."""
    from guided import Packing, seeds_of  # noqa: PLC0415 - of the counted core
    from run import files_of  # noqa: PLC0415 - as above

    yield from seeds_of(kind)
    fresh = _ROOT / "build" / "fuzz-fresh" / kind.name
    yield from map(files_of, sorted(fresh.iterdir()) if fresh.is_dir() else ())
    packing = Packing(kind)
    yield from map(packing.unpacked, _contents(_ROOT / "build" / "fuzz-corpus" / kind.name))


def _contents(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        yield path.read_bytes()


def _starve(use: Callable[[], object]) -> None:
    """Let each allocation of the core fail in turn."""
    from library import STATE  # noqa: PLC0415 - as in main
    from trials import FAULTS, Shared  # noqa: PLC0415 - of the counted core

    shared = Shared(Path(os.environ[STATE]))
    for first in range(1, _MOST_ALLOCATIONS):
        shared.arm(Path("/"), FAULTS["ENOMEM"], first)
        with suppress(Exception):  # `tests/faults` looks at what is said
            use()
        if not shared.disarm()[1]:
            return


def _branches(copy: Path) -> tuple[dict[str, set[_Branch]], set[_Branch]]:
    """Return the branches of each kernel, and which of all were taken."""
    found: dict[str, set[_Branch]] = defaultdict(set)
    taken: set[_Branch] = set()
    for notes in sorted(copy.rglob("*.gcno")):
        if notes.stem in _LEFT_OUT:
            continue
        done = subprocess.run(
            ["gcov", "--json-format", "--branch-probabilities", "--stdout", str(notes)],  # noqa: S607 - that of gcc
            cwd=copy,
            capture_output=True,
            check=True,
        )
        for file in json.loads(done.stdout)["files"]:
            for branch, is_taken in _counted(copy / file["file"], file["lines"]):
                found[notes.stem].add(branch)
                if is_taken:
                    taken.add(branch)
    return found, taken


def _counted(path: Path, lines: list[dict[str, Any]]) -> Iterator[tuple[_Branch, bool]]:
    if path.suffix == ".h" and ("meantime" not in path.parts or path.name in _OF_TYPES):
        return
    own = _conditions(path)
    for line in lines:
        if (place := own.get(line["line_number"])) is not None:
            for number, branch in enumerate(line["branches"]):
                yield _Branch(*place, number), branch["count"] > 0


@cache
def _conditions(path: Path) -> dict[int, _Place]:
    """Return the lines of a header or a translation that inputs can decide, with their source."""
    text = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".h":
        return {
            number: _Place(path.name, number, 0)
            for number, line in enumerate(text, 1)
            if not _OUT_OF_REACH.search(line)
        }
    found: dict[int, _Place] = {}
    is_code = is_source = False
    file, at = "", 0
    # how many conditions of a line of the source a function has had so far
    so_far: Counter[tuple[str, int]] = Counter()
    for number, line in enumerate(text, 1):
        if line.startswith(_FIRST):
            is_code = True
        elif line.startswith(_LAST):
            break
        elif mark := _SOURCE_LINE.match(line):
            file, at = mark[1].removeprefix("src/"), int(mark[2])
            is_source = "/" in file
        elif _FUNCTION.match(line):
            so_far.clear()
        elif (
            is_code
            and is_source
            and _CONDITION.match(line)
            and not _ADDED.search(line)
            and not _OUT_OF_REACH.search(line)
        ):
            found[number] = _Place(file, at, so_far[file, at])
            so_far[file, at] += 1
    return found


def _print(
    found: dict[str, set[_Branch]], taken: set[_Branch], missing: str | None, copy: Path
) -> None:
    from kernels import READING  # noqa: PLC0415 - NumPy is not for a message

    families = {
        "of these, which read bytes of others": READING,
        "of these, which answer questions": frozenset(found) - READING,
    }
    for title, names in families.items():
        for name in sorted(names & found.keys()):
            print(_figure(name, found[name], taken))
            if missing in {name, "all"}:
                _print_missing(found[name] - taken, copy)
        print(_figure(title, set().union(*(found[name] for name in names & found.keys())), taken))
    print(_figure("all", set().union(*found.values()), taken))


def _figure(name: str, branches: set[_Branch], taken: set[_Branch]) -> str:
    share = 100 * len(branches & taken) / max(1, len(branches))
    return f"{name:40} {len(branches & taken):6,} of {len(branches):6,} branches, {share:5.1f} %"


def _print_missing(branches: set[_Branch], copy: Path) -> None:
    """Print the lines of the source that lack a branch."""
    headers = {path.name: path for path in (copy / "src").rglob("*.h")}
    for file, line in sorted({(branch.file, branch.line) for branch in branches}):
        source = headers.get(file, copy / "src" / file)
        text = source.read_text(encoding="utf-8").splitlines()[line - 1]
        print(f"  {source.name}:{line}  {text.strip()}")


if __name__ == "__main__":
    sys.exit(main())
