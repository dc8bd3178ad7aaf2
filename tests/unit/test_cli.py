from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from meantime.cli import COMMANDS, cli, main
from meantime.cli.options import once
from meantime.errors import InputError, UsageError


@click.command("probe")
@once("-d", "--duration", default="7")
@click.argument("files", nargs=-1)
def probe(duration: str, files: tuple[str, ...]) -> None:
    if "bad" in files:
        raise InputError("x.statemap", "no\nsuch thing", line=3)
    if "worse" in files:
        raise UsageError("sort by what?")
    if "large" in files:
        raise MemoryError
    if "stop" in files:
        raise KeyboardInterrupt
    click.echo(f"{duration} {files}")


@pytest.fixture(autouse=True)
def with_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "probe", "Probe.")
    monkeypatch.setitem(sys.modules, "meantime.cli.probe", sys.modules[__name__])


command = probe


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    out, err = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, out, err


def test_a_command_that_succeeds_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "probe", "-d", "-3", "a") == (0, "-3 ('a',)\n", "")


def test_an_invalid_file_exits_with_1_and_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(capsys, "probe", "bad") == (1, "", "meantime: x.statemap:3: no such thing\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-z"], "Unrecognized option: 'z'"),
        (["-d"], "Argument to option 'd' missing"),
        (["-d1", "-d2"], "Option 'duration' given more than once"),
        (["worse"], "sort by what?"),
    ],
)
def test_what_the_command_line_shows_to_be_wrong_exits_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    status, out, err = run(capsys, "probe", *arguments)

    assert (status, out) == (2, "")
    assert err.startswith("meantime")
    assert f": {sentence}" in err
    # a mistake in the words themselves names the help, one in what they mean explains itself
    assert (arguments == ["worse"]) != err.endswith(" --help\n")
    assert err.count("\n") == 1


def test_a_lack_of_memory_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "probe", "large")

    assert (status, out) == (1, "")
    assert err == "meantime: there is not enough memory: a smaller range or file needs less\n"


def test_an_interrupt_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "probe", "stop")

    assert (status, out, err.strip()) == (130, "", "meantime: interrupted")


def test_the_list_of_commands_agrees_with_the_help_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    for name, sentence in COMMANDS.items():
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        assert (found.name, found.get_short_help_str(200)) == (name, sentence)
        assert found.epilog
        assert "Example" in found.epilog


def test_help_needs_neither_numpy_nor_a_command() -> None:
    code = (
        "import sys, meantime.cli; "
        "meantime.cli.cli.main(['--help'], standalone_mode=False); "
        "print([m for m in sys.modules if m in ('numpy', 'rich') "
        "or m.startswith(('meantime.cli.', 'meantime.kernels', 'meantime.history'))])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed.splitlines()[-1] == "[]"
    assert all(name in printed for name in cli.list_commands(click.Context(cli)) if name != "probe")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command_line", ["statemap", "info", "stats", "dump", "--help"])
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
def test_output_that_goes_nowhere_is_one_line_and_1(
    tmp_path: Path, command_line: str, redirection: str, reason: str
) -> None:
    trace = tmp_path / "t.statemap"
    trace.write_text(
        '{"start": [0, 0], "states": {"a": {"value": 0}}} {"time": 1, "entity": "x", "state": 0}'
    )
    file = "" if command_line == "--help" else f" '{trace}'"

    done = subprocess.run(
        ["/bin/sh", "-c", f"'{sys.executable}' -m meantime {command_line}{file} {redirection}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (
        1,
        f"meantime: standard output: cannot be written: {reason}\n",
    )


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys)

    assert (status, err) == (0, "")
    assert "\nDraw:\n" in out


def test_a_directory_that_is_not_a_trace_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, err = run(capsys, "info", str(tmp_path))

    reason = "it is a directory, but neither a recording nor a history; give a file in it"
    assert (status, err) == (1, f"meantime: {tmp_path}: {reason}\n")
