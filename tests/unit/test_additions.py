"""Readers and formats that installed packages add."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime import additions
from meantime.cli import main
from meantime.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

READER = """
from meantime.readers.contract import lazy_trace
FORMAT = "dots"
def recognises(head, name):
    return head.startswith(b"...")
def read(source, options):
    return lazy_trace(source, FORMAT, batches, options)
def batches(source, trace, options):
    with source:
        trace.title = bytes(source.whole()).decode().strip()
    yield from ()
"""
WRITER = """
SUFFIX = ".dots"
def write(history, lost):
    lost["commas"] += 2
    yield f"...{history.title}\\n".encode()
"""


def run(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install packages: by name, what their entry points are and the source of their module."""

    def install(name: str, group: str, source: str, point: str = "dots") -> None:
        site = tmp_path / "site"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{point} = {name}\n")
        (site / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, name, raising=False)

    additions.additions.cache_clear()
    additions._warn.cache_clear()
    yield install
    additions.additions.cache_clear()
    additions._warn.cache_clear()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.write_text("... a title\n")
    return path


def test_a_reader_that_a_package_adds_reads_its_format(
    install: Callable[..., None], trace: Path
) -> None:
    install("acme_dots", "meantime.readers", READER)

    assert meantime.open(trace).title == "... a title"


def test_formats_that_packages_add_are_named_where_none_fits(
    install: Callable[..., None], trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme_dots", "meantime.readers", READER)
    trace.write_text("neither nor\n")

    status = run(["info", str(trace)])

    assert status == 1
    assert "and packages add dots; --format" in capsys.readouterr().err
    with pytest.raises(InputError, match="packages add dots"):
        meantime.open(trace)


def test_what_meantime_reads_itself_is_not_looked_up(
    install: Callable[..., None], trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme_dots", "meantime.readers", "raise SystemError")
    trace.write_text("main;work 3\n")
    monkeypatch.setattr(
        "meantime.readers.recognition.additions", lambda *_: pytest.fail("looked up")
    )

    assert len(meantime.open(trace).samples()) == 1


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import not_there", r"cannot be loaded \(ModuleNotFoundError.*not_there.*\)"),
        ("FORMAT = 'x'", r"is not one \(broken\)"),
        (
            READER.replace('return head.startswith(b"...")', "return head[10**6]"),
            r"fails to recognise inputs \(IndexError.*\)",
        ),
    ],
)
def test_a_reader_that_is_broken_is_skipped_with_one_warning(
    install: Callable[..., None], trace: Path, source: str, reason: str
) -> None:
    install("broken", "meantime.readers", source, point="a")
    install("acme_dots", "meantime.readers", READER)

    with pytest.warns(
        RuntimeWarning,
        match=rf"^broken: its entry point 'a' in meantime.readers {reason}; it is skipped$",
    ) as caught:
        first = meantime.open(trace)
    second = meantime.open(trace)

    assert first.title == second.title == "... a title"
    assert len(caught) == 1


def test_a_command_prints_such_a_warning_on_one_line(
    install: Callable[..., None], trace: Path, tmp_path: Path
) -> None:
    install("broken", "meantime.readers", 'raise SystemError("one\\ntwo")', point="a")
    install("acme_dots", "meantime.readers", READER)
    paths = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])

    done = subprocess.run(
        [sys.executable, "-m", "meantime", "info", str(trace)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr == (
        "meantime: warning: broken: its entry point 'a' in meantime.readers cannot be loaded"
        " (SystemError('one\\ntwo')); it is skipped\n"
    )


@pytest.mark.parametrize("options", [["--to-format", "dots"], []])
def test_a_format_that_a_package_adds_is_written(
    install: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
) -> None:
    install("acme_out", "meantime.views", WRITER)
    (tmp_path / "in.folded").write_text("main;work 3\n")
    output = tmp_path / "out.dots"

    status = run(["convert", str(tmp_path / "in.folded"), str(output), *options])

    assert status == 0
    assert output.read_bytes() == b"...None\n"
    assert capsys.readouterr().err == "not in the result: 2 commas\n"


def test_a_format_with_the_name_of_another_is_skipped(
    install: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme_out", "meantime.views", WRITER, point="folded")
    (tmp_path / "in.folded").write_text("main;work 3\n")

    with pytest.warns(RuntimeWarning, match=r"^acme_out: .* has the name of another format;"):
        status = run(["convert", str(tmp_path / "in.folded"), str(tmp_path / "out.dots")])

    assert status == 2
    assert "use --to-format with one of chrome, " in capsys.readouterr().err
