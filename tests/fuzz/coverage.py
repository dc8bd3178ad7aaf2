"""Print how many branches of the compiled core the corpus takes, kernel by kernel.

    python tests/fuzz/coverage.py                    samples, what was found, 300 damaged of each
    python tests/fuzz/coverage.py --inputs 3000

The core is compiled with gcc's counters, in a copy. A branch is a way out of a condition or a loop
that is in the source, as many as its `and` and `or` have. What Cython adds is not counted: whether
a call raised, whether an object is of a type. In headers in C all are counted, and in the
translation those whose line has no call of Cython or Python and is not marked as unlikely.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitized import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_SOURCE_LINE = re.compile(r'^ *\* *"meantime/|^ */\* "meantime/')
_FIRST, _LAST = "/* #### Code section: module_code ### */", "/* #### Code section: module_exttypes"
_CONDITION = re.compile(r"^\s*(?:\} else )?(?:if|for|while) \(")
_ADDED = re.compile(r"likely\(|__Pyx|__PYX|Py[A-Z_]|CYTHON|memview|== NULL|!= NULL|0 == sizeof")
# To open each input takes a tenth of asking it everything.
_ASKED_OF = 4


def main() -> int:
    """Run and return the exit status: 2 if the core cannot be compiled."""
    options = _options()
    if options.child:
        _use(options.inputs, options.fresh)
        return 0
    copy = compiled("gcc", counted=True)
    if copy is None:
        return 2
    for old in copy.rglob("*.gcda"):
        old.unlink()
    subprocess.run(
        [sys.executable, __file__, "--child", *sys.argv[1:]],
        env={**os.environ, "PYTHONPATH": str(copy / "src")},
        check=True,
    )
    _print(_branches(copy), options.missing)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=int, default=300, help="how many are damaged, of each format"
    )
    parser.add_argument("--fresh", type=Path, default=_ROOT / "build" / "fuzz-fresh",
                        help="what `run.py --quick` kept, which is used, too")  # fmt: skip
    parser.add_argument("--missing", metavar="KERNEL", help="print the lines that lack a branch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _use(inputs: int, fresh: Path) -> None:
    """Use the corpus in this process, whose end writes the counters."""
    from corpus import FORMATS, input_of  # noqa: PLC0415 - of the counted core
    from exercise import import_all  # noqa: PLC0415 - as above
    from guided import seeds_of  # noqa: PLC0415 - as above
    from kernels import KERNELS, REFUSALS  # noqa: PLC0415 - as above
    from run import files_of  # noqa: PLC0415 - as above
    from worker import put, tried  # noqa: PLC0415 - as above

    import_all()
    memory = Path("/dev/shm")  # noqa: S108 - faster than a disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for kind in FORMATS.values():
            kept = fresh / kind.name
            every = [*seeds_of(kind)]
            every += [files_of(path) for path in sorted(kept.iterdir())] if kept.is_dir() else []
            every += [input_of(kind, seed) for seed in range(inputs)]
            for number, files in enumerate(every):
                path = put(kind, files, Path(folder, "input"))
                ask = number % _ASKED_OF == 0
                tried(kind, path, lenient=number % 3 == 0, draw=ask, ask=ask)
            for kernel in KERNELS.values():
                for data in (data for files in every for data in files.values()):
                    if kind.name in kernel.formats:
                        try:
                            kernel.read(data)
                        except REFUSALS:
                            continue


def _branches(copy: Path) -> dict[str, Counter[tuple[str, int, bool]]]:
    """Return of each kernel the branches by file, line and whether they were taken."""
    found = {}
    for notes in sorted(copy.rglob("*.gcno")):
        done = subprocess.run(
            ["gcov", "--json-format", "--branch-probabilities", "--stdout", str(notes)],  # noqa: S607 - that of gcc
            cwd=copy,
            capture_output=True,
            check=True,
        )
        counted: Counter[tuple[str, int, bool]] = Counter()
        for file in json.loads(done.stdout)["files"]:
            counted += Counter(_counted(copy / file["file"], file["lines"]))
        if counted:
            found[notes.stem] = counted
    return found


def _counted(path: Path, lines: list[dict[str, Any]]) -> Iterator[tuple[str, int, bool]]:
    if path.suffix == ".h" and "meantime" not in path.parts:
        return
    own = None if path.suffix == ".h" else _conditions(path)
    for line in lines:
        if own is None or line["line_number"] in own:
            for branch in line["branches"]:
                yield path.name, line["line_number"], branch["count"] > 0


def _conditions(path: Path) -> set[int]:
    """Return the lines of a translation that are conditions of its source."""
    found, is_code = set(), False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(_FIRST):
            is_code = True
        elif line.startswith(_LAST):
            break
        elif is_code and _CONDITION.match(line) and not _ADDED.search(line):
            found.add(number)
    return found


def _print(found: dict[str, Counter[tuple[str, int, bool]]], missing: str | None) -> None:
    every, taken = 0, 0
    for name, counted in sorted(found.items()):
        of_this = counted.total()
        of_these = sum(number for (_, _, is_taken), number in counted.items() if is_taken)
        every, taken = every + of_this, taken + of_these
        print(
            f"{name:20} {of_these:6,} of {of_this:6,} branches, {100 * of_these / of_this:5.1f} %"
        )
        if name == missing:
            for file, line, is_taken in sorted(counted):
                if not is_taken:
                    print(f"  {file}:{line}")
    print(f"{'all':20} {taken:6,} of {every:6,} branches, {100 * taken / max(1, every):5.1f} %")


if __name__ == "__main__":
    sys.exit(main())
