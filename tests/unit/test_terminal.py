"""Tables in terminals of four widths: no number is cut, and every row keeps its name."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from meantime.cli import main
from meantime.cli.tables import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

WIDTHS = (60, 80, 100, 200)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:ns|us|ms|s|%)?")
POSTGRES = "examples/postgres.statemap.gz"
SPANS = "tests/samples/chrome/chromium-devtools.json.gz"
TORCH = "examples/training.json.gz"
COMMANDS = {
    "stats": ["stats", POSTGRES],
    "stats by entity": ["stats", POSTGRES, "--by", "entity"],
    "stats of spans": ["stats", SPANS],
    "stats of long names": ["stats", TORCH],
    "stats compared": ["stats", SPANS, "--against", SPANS],
    "stats tree": ["stats", SPANS, "--tree"],
    "stats longest": ["stats", SPANS, "--longest", "RunTask"],
    "stats histogram": ["stats", SPANS, "--histogram", "RunTask"],
    "stats callees": ["stats", SPANS, "--callees", "RunTask"],
    "info of states": ["info", POSTGRES],
    "info of threads": ["info", SPANS],
    "query at": ["query", POSTGRES, "at", "0.2s"],
    "query shares": ["query", POSTGRES, "shares", "**", "--bins", "3"],
    "query tree": ["query", SPANS, "tree"],
    "sql": ["sql", POSTGRES, "select * from intervals join attributes using (quark) limit 5"],
    "heatmap findings": ["heatmap", "examples/jobs.perf.gz", "--find"],
}


@pytest.fixture
def on_terminal(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> Callable[[int, Sequence[str]], tuple[str, object]]:
    """Run a command with a terminal of this width; return what it printed, and its status."""
    monkeypatch.chdir(root)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def run(columns: int, arguments: Sequence[str]) -> tuple[str, object]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        printed: list[bytes] = []
        reading = Thread(target=read_all, args=(ours, printed))
        reading.start()
        with monkeypatch.context() as patch, open(theirs, "w") as terminal:  # noqa: PTH123 - a descriptor
            patch.setattr(sys, "stdout", terminal)
            with pytest.raises(SystemExit) as stopped:
                main(arguments)
        reading.join()
        os.close(ours)
        return b"".join(printed).decode().replace("\r\n", "\n"), stopped.value.code

    return run


def read_all(descriptor: int, printed: list[bytes]) -> None:
    # Linux reports with an error that the other end is closed
    with suppress(OSError):
        while read := os.read(descriptor, 65536):
            printed.append(read)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_fits_and_keeps_names_and_whole_numbers(
    command: str,
    on_terminal: Callable[[int, Sequence[str]], tuple[str, object]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command == "sql":
        pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    with pytest.raises(SystemExit):
        main(COMMANDS[command])
    numbers = set(NUMBER.findall(capsys.readouterr().out))
    monkeypatch.setenv("NO_COLOR", "1")

    for columns in WIDTHS:
        shown, status = on_terminal(columns, COMMANDS[command])

        assert status == 0
        assert "\x1b" not in shown
        table = [line for line in shown.splitlines() if line.startswith("  ")]
        assert table or command.startswith("info")
        assert [line for line in table if len(line) > columns] == []
        # each word that is a number is one of the numbers that a pipe gets
        words = [word for line in table for word in line.split() if "…" not in line]
        assert {word for word in words if NUMBER.fullmatch(word)} <= numbers
        for rule, first in pairwise(table):
            assert "---" not in rule or first.strip()


@pytest.mark.parametrize("columns", ["0", "wide", "\N{SUPERSCRIPT TWO}"])
def test_columns_that_are_no_width_are_ignored(
    columns: str,
    on_terminal: Callable[[int, Sequence[str]], tuple[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, _ = on_terminal(80, COMMANDS["query at"])
    monkeypatch.setenv("COLUMNS", columns)

    assert on_terminal(80, COMMANDS["query at"]) == (asked, 0)


def test_columns_are_dropped_in_order_and_named() -> None:
    columns = [Column("name"), *(Column(name, numeric=True) for name in ("a", "b", "c"))]
    rows = [["x" * 30, "1" * 10, "2" * 10, "3" * 10]]

    lines = [*table_lines(columns, rows, width=50, drop=["b"])]

    assert lines[0].split() == ["name", "a", "c"]
    name, *numbers = lines[2].split()
    assert numbers == ["1" * 10, "3" * 10]
    assert re.fullmatch(r"x+…x+", name)
    assert lines[-1] == "  too narrow to show: b"


def test_a_name_keeps_16_characters_even_if_numbers_do_not_fit() -> None:
    columns = [Column("name"), Column("n", numeric=True)]

    _, _, row, *note = table_lines(columns, [["n" * 40, "1" * 20]], width=12)

    assert row.strip() == "nnnnnnnn…nnnnnnn"
    assert " ".join(" ".join(note).split()) == "too narrow to show: n"


def test_wide_characters_count_twice() -> None:
    columns = [Column("name"), Column("n", numeric=True)]

    *_, row = table_lines(columns, [["漢字" * 12, "1"]], width=30)

    assert row.endswith("  1")
    assert "…" in row
    assert sum(2 if character in "漢字" else 1 for character in row) <= 30


def test_sentences_are_wrapped_and_not_cut() -> None:
    sentence = "nothing happened for four seconds from the third second of the recording on"

    lines = [
        *table_lines([Column("kind"), Column("finding", prose=True)], [["gap", sentence]], width=50)
    ]

    assert " ".join(" ".join(lines[2:]).split()) == f"gap {sentence}"
    assert all(len(line) <= 50 for line in lines)


@pytest.mark.parametrize(
    ("environment", "styled"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
@pytest.mark.parametrize(
    "arguments", [["stats", POSTGRES], ["info", POSTGRES], ["heatmap", "examples/jobs.perf.gz"]]
)
def test_colour_follows_the_environment(
    arguments: list[str],
    environment: dict[str, str],
    styled: object,
    on_terminal: Callable[[int, Sequence[str]], tuple[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    shown, status = on_terminal(80, arguments)

    assert (status, "\x1b[" in shown) == (0, styled)


def test_colour_can_be_forced_into_a_pipe(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "meantime", "heatmap", "examples/jobs.perf.gz"],
        cwd=root,
        env=os.environ | {"FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "\x1b[38;2;" in done.stdout
