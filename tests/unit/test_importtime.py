"""What -X importtime prints: each module with those that it imported below it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import meantime

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "import time: self [us] | cumulative | imported package\n"
US = 1000


def opened(tmp_path: Path, text: str) -> meantime.History:
    (path := tmp_path / "imports.txt").write_text(text)
    return meantime.open(path)


def spans(history: meantime.History) -> list[tuple[str, int, int, int]]:
    """Return each module with its begin and end in microseconds, and its depth."""
    table = history.spans()
    names = [table.name.names[code] for code in table.name.codes.tolist()]
    times = (table.start_ns // US).tolist(), (table.end_ns // US).tolist()
    return list(zip(names, *times, table.depth.tolist(), strict=True))


def line(own: int, total: int, name: str) -> str:
    return f"import time: {own:9} | {total:10} | {name}\n"


def test_a_module_is_above_those_that_it_imported(tmp_path: Path) -> None:
    text = HEADER + line(3, 3, "    a") + line(2, 5, "  b") + line(4, 4, "  c") + line(1, 11, "d")
    text += "warning: of the program\n" + line(7, 7, "e")
    history = opened(tmp_path, text)

    assert spans(history) == [
        ("d", 0, 11, 0),
        ("b", 0, 5, 1),
        ("a", 0, 3, 2),
        ("c", 5, 9, 1),
        ("e", 11, 18, 0),
    ]
    assert history.anomalies["unknown_line"] == 1


def test_a_module_is_not_shorter_than_what_it_imported(tmp_path: Path) -> None:
    text = HEADER + line(1, 1, "  a") + line(1, 1, "  b") + line(0, 1, "c")

    assert spans(opened(tmp_path, text))[0] == ("c", 0, 2, 0)


def test_what_a_module_imported_that_did_not_end_is_kept(tmp_path: Path) -> None:
    history = opened(tmp_path, HEADER + line(2, 2, "a") + line(3, 3, "    b"))

    assert spans(history) == [("a", 0, 2, 0), ("b", 2, 5, 0)]
    assert history.anomalies["parent_not_in_input"] == 1


def test_deep_imports_take_no_recursion(tmp_path: Path) -> None:
    text = "".join(line(1, 900 - depth, "  " * depth + "a") for depth in range(899, -1, -1))

    assert len(spans(opened(tmp_path, HEADER + text))) == 900


def test_times_of_this_python_add_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import json, decimal"],
        capture_output=True,
        text=True,
        check=True,
    )
    printed = re.findall(r"import time:\s+(\d+) \|\s+(\d+) \| (.*)", done.stderr)

    history = opened(tmp_path, done.stderr)

    assert history.anomalies["parent_not_in_input"] == 0
    assert sorted(name for name, *_ in spans(history)) == sorted(
        each[2].strip() for each in printed
    )
    outer = sum(int(total) for _, total, name in printed if not name.startswith(" "))
    length = max(end for _, _, end, _ in spans(history))
    # each time is rounded up to a microsecond
    assert outer <= length <= outer + len(printed)
