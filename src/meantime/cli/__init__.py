"""The command line: dispatch and exit statuses; one module per command, imported on use.

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
    "pack": "Pack a recording into one compressed file, which every command can read.",
    "top": "Show what a program is doing while it is being recorded.",
    "info": "Show a summary of a trace: format, time range, entities, states and anomalies.",
    "heatmap": "Draw a subsecond-offset heat map: activity by its offset in each second.",
    "stats": "Show where the time went: by state or entity, or by name of spans or samples.",
    "dump": "Print the content of a trace, one JSON object per line.",
    "flame": "Draw a flame graph, or with --chart a flame chart.",
    "build": "Turn a trace into a history on disk, which every command can read.",
    "query": "Query a history or a trace: states at a time, intervals, shares, attributes.",
    "sql": "Query a history or a trace with SQL.",
    "check": "Check a history on disk, or recover the intact part of a damaged one.",
    "convert": "Convert a trace to another format, and report what that format cannot represent.",
}

_CONTEXT = {"help_option_names": ["--help", "-?"], "max_content_width": 100}


class _Commands(click.Group):
    """Lists the commands with their first sentences without importing their modules."""

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
    """Turn any trace into a history of states, query it and draw it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit status."""
    if sys.stdout is None:  # closed by the parent process
        # opened for reading, so that writing fails: the exit status must not report a success
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    try:
        with _one_line_warnings():
            status = cli.main(
                list(sys.argv[1:] if arguments is None else arguments) or ["--help"],
                prog_name="meantime",
                standalone_mode=False,
            )
        # here, where an error can still be reported, rather than by the interpreter at exit
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
        # errors of inputs are MeantimeErrors already, so this one comes from an output
        path = error.filename or "standard output"
        _complain("meantime", f"{path}: cannot be written: {error.strerror or 'it is closed'}")
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
    """Redirect standard output, so that Python does not fail again when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(command: str, message: str) -> None:
    line = " ".join(message.splitlines())
    click.echo(f"{command}: {line}", err=True)


def _sentence(error: click.UsageError) -> str:
    """Return the original statemap's message for this mistake, or click's."""
    if isinstance(error, click.NoSuchOption):
        hint = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        return f"Unrecognized option: '{error.option_name.lstrip('-')}'{hint}"
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        return f"Argument to option '{error.option_name.lstrip('-')}' missing"
    return error.format_message()
