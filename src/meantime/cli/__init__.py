"""The command line: dispatch and exit statuses; one module per command, imported when asked for.

Exit statuses are decided in `main` alone: 0 done, 1 could not, 2 the command line is wrong.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import click

from meantime import __version__
from meantime.errors import MeantimeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS = {
    "statemap": "Draw a statemap of each FILE, one above the other, as an interactive SVG.",
    "record": "Run a command and record what its tasks, event loops and pools do.",
    "pack": "Pack a recording into one compressed file, which every command takes in its place.",
    "top": "Show what a program that is being recorded is doing.",
    "info": "Tell what a trace is: its format, span, entities, states and anomalies.",
    "heatmap": "Draw a subsecond-offset heat map: what happens at which offset of each second.",
    "stats": "Tell where the time went: per state or entity, or per name of spans or samples.",
    "dump": "Print what a trace holds, one JSON object a line.",
    "flame": "Draw where the time went: a flame graph, or with --chart a flame chart.",
    "build": "Turn a trace into a history on disk, which every command takes in its place.",
    "query": "Ask a history, or any trace: all states at a time, intervals, shares, attributes.",
    "sql": "Ask a history, or any trace, in SQL: intervals, attributes, tags, states are tables.",
    "check": "Check every byte of a history on disk, and save what is whole of a damaged one.",
    "convert": "Write a trace in another format, and say what that cannot hold.",
}

_CONTEXT = {"help_option_names": ["--help", "-?"], "max_content_width": 100}


class _Commands(click.Group):
    """Knows every command's name and first sentence without importing its module."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"meantime.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings=_CONTEXT,
    epilog="Example:  meantime statemap disks.statemap -o disks.svg",
)
@click.version_option(__version__, prog_name="meantime")
def cli() -> None:
    """Show what everything was doing, in the meantime.

    meantime turns any trace into a history of states, and draws it.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit status."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY))  # writing to it fails
    try:
        with _one_line_warnings():
            status = cli.main(
                list(sys.argv[1:] if arguments is None else arguments) or ["--help"],
                prog_name="meantime",
                standalone_mode=False,
            )
        sys.stdout.flush()
    except click.UsageError as error:
        _complain(error.ctx.command_path if error.ctx else "meantime", _sentence(error))
        status = 2
    except click.ClickException as error:
        _complain("meantime", error.format_message())
        status = 1
    except MeantimeError as error:
        _complain("meantime", str(error))
        status = error.exit_status
    except (click.Abort, KeyboardInterrupt):
        _complain("meantime", "interrupted")
        status = 1
    except BrokenPipeError:
        _abandon_output()
        status = 1
    except OSError as error:
        # files' errors have become sentences where they were met: only output has none yet
        place = error.filename or "standard output"
        _complain("meantime", f"{place}: cannot be written: {error.strerror or 'it is closed'}")
        _abandon_output()
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Print warnings without the line of source that raised them."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"meantime: warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _abandon_output() -> None:
    """See to it that Python does not fail again when it flushes standard output at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(command: str, message: str) -> None:
    line = " ".join(message.splitlines())
    click.echo(f"{command}: {line}", err=True)


def _sentence(error: click.UsageError) -> str:
    """Return the sentence that the original statemap has for this mistake, or click's own."""
    if isinstance(error, click.NoSuchOption):
        hint = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        return f"Unrecognized option: '{error.option_name.lstrip('-')}'{hint}"
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        return f"Argument to option '{error.option_name.lstrip('-')}' missing"
    return error.format_message()
