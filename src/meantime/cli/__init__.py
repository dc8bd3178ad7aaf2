"""The command line: dispatch and exit statuses; one module per command, imported on use.

Exit statuses are decided in `main` alone: 0 done, 1 could not, 2 the command line is wrong.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
import warnings
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

from meantime import __version__
from meantime.errors import MeantimeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from click.shell_completion import CompletionItem

    SignalHandler = Callable[[int, FrameType | None], Any] | int | None

__all__ = ["COMMANDS", "SUGGESTS", "cli", "main", "status_of"]

COMMANDS = {
    "view": "Open traces on a page in the browser, on one time axis.",
    "statemap": "Draw a statemap of each FILE, one above the other, as an interactive SVG.",
    "heatmap": "Draw a subsecond-offset heat map: activity by its offset in each second.",
    "flame": "Draw a flame graph, or with --chart a flame chart.",
    "info": "Show a summary of a trace: format, time range, entities, states and anomalies.",
    "explain": "Explain what limited a trace: where its time went, which resources were full.",
    "findings": "Report what stands out: blocked loops, slow calls, long waits, stops, lost data.",
    "hosts": "Show which hosts are unlike the rest: in which state, how much, and since when.",
    "stats": "Show where the time went: by state or entity, or by name of spans or samples.",
    "diff": "Compare some runs with others: what changed, by how much, and how sure that is.",
    "assert": "Check whether rules hold for a trace, such as that a loop is never blocked.",
    "why": "Show why a thread took its time: what it waited for, and who woke it.",
    "query": "Query a history or a trace: states at a time, intervals, shares, events, attributes.",
    "sql": "Query a history or a trace with SQL.",
    "serve": "Keep traces open: commands with --session answer about them at once.",
    "dump": "Print the content of a trace, one JSON object per line.",
    "record": "Run a command and record what its tasks, event loops and pools do.",
    "attach": "Record a running Python program, for a time or until Ctrl-C.",
    "record-system": "Record what a Linux system does: CPUs, threads, disks, a PostgreSQL server.",
    "top": "Show what a program is doing, recorded or not.",
    "pack": "Pack a recording into one compressed file, which every command can read.",
    "build": "Turn a trace into a history on disk, which every command can read.",
    "summary": "Write what comparing a trace needs into a small file, such as a baseline for CI.",
    "join": "Join the histories of several hosts into one, without copying them.",
    "convert": "Convert a trace to another format, and report what that format cannot represent.",
    "check": "Check a history on disk, or recover the intact part of a damaged one.",
    "guide": "Print how to answer questions about a trace, for agents: tasks and their commands.",
    "formats": "List the formats that are read, how each is recognised, and how to make one.",
    "completion": "Print the script that completes commands, options and file names in a shell.",
}
# The modules of commands whose names modules cannot have, or another one has.
_MODULES = {"assert": "assert_rules", "summary": "summarize"}
# The first command of each group of the help, in the order of COMMANDS.
_GROUPS = {"view": "Draw", "info": "Query", "record": "Record", "build": "Files"}
# How long a callback in which an interrupt was ignored has to return.
_LEFT_S = 0.01
_READS = """\b
Reads statemap data, text of perf, ftrace and strace, Chrome and Perfetto
traces, OpenTelemetry, profiles, tables and logs with any columns, recordings
and histories, also compressed; `meantime formats` lists all.
`meantime FILE` shows what a file contains and which commands to use next.

Example:  meantime statemap disks.statemap -o disks.svg
"""

_CONTEXT = {"help_option_names": ["-h", "--help", "-?"], "max_content_width": 100}
# What `meantime FILE` is, in the meta of a click context.
SUGGESTS = "meantime.suggests"


class _Commands(click.Group):
    """Lists the commands with their first sentences without importing their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name.replace("-", "_"))
        command = import_module(f"meantime.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; a file is the arguments of `info`, which then suggests commands."""
        name = args[0]
        if name not in COMMANDS and (name == "-" or os.path.exists(name)):  # noqa: PTH110 - pathlib is slow to import
            ctx.meta[SUGGESTS] = True
            return "info", self.get_command(ctx, "info"), args
        if name not in COMMANDS and not name.startswith("-"):
            from meantime.cli.spelling import hint  # noqa: PLC0415 - only for a mistake

            meant = hint(name, list(COMMANDS))
            raise click.UsageError(f"{name!r} is neither a command nor a file{meant}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options, and file names."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - for completion only

        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        groups: dict[str, list[tuple[str, str]]] = {}
        title = ""
        for name, sentence in COMMANDS.items():
            title = _GROUPS.get(name, title)
            groups.setdefault(title, []).append((name, sentence))
        width = max(map(len, COMMANDS))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), sentence) for name, sentence in rows])


def _keep_version(context: click.Context, option: click.Parameter, value: bool) -> None:  # noqa: ARG001,FBT001 - click's signature
    context.meta["meantime.version"] = value


def _print_version(context: click.Context, option: click.Parameter, value: bool) -> None:  # noqa: ARG001,FBT001 - click's signature
    """Print the version if that was asked for, and end.

    Raises:
        UsageError: If more of it was asked for than there is.
    """
    if not context.meta["meantime.version"]:
        if value:
            raise click.UsageError("--verbose applies to --version", context)
        return
    click.echo(f"meantime, version {__version__}")
    if value:
        from meantime.confinement import means  # noqa: PLC0415 - on request

        click.echo(f"Python {sys.version.split()[0]} on {sys.platform}")
        for what, is_kept in means().items():
            click.echo(f"--confined: {what}: {'bounded' if is_kept else 'NOT bounded here'}")
    context.exit()


@click.group(
    cls=_Commands,
    context_settings=_CONTEXT,
    epilog=_READS,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_version,
    help="Show the version and exit; with --verbose, also what --confined means here.",
)
@click.option("--verbose", is_flag=True, expose_value=False, callback=_print_version, hidden=True)
def cli() -> None:
    """Turn any trace into a history of states, query it and draw it."""


def main(arguments: Sequence[str] | None = None, *, interrupt: SignalHandler = None) -> None:
    """Run the command line and leave the process with its exit status.

    Args:
        arguments: Those of the command; None is those of the process.
        interrupt: What handles SIGINT while the command runs; None is what does so already.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if "--session" in words:
        from meantime.session import answer  # noqa: PLC0415 - on request

        sys.exit(answer(list(words)))
    sys.exit(status_of(words, interrupt))


def status_of(arguments: Sequence[str], interrupt: SignalHandler = None) -> int:
    """Run a command, print its error if it has one, and return the exit status."""
    _prepare_streams()
    try:
        with _interrupts(interrupt), _one_line_warnings():
            status = cli.main(
                list(arguments) or ["--help"],
                prog_name="meantime",
                standalone_mode=False,
            )
        # here, where an error can still be reported, rather than by the interpreter at exit
        sys.stdout.flush()
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "meantime"
        _complain(command, f"{_sentence(error).rstrip('.')}; see {command} --help")
        status = 2
    except click.ClickException as error:
        _complain("meantime", error.format_message())
        status = 1
    except MeantimeError as error:
        _complain("meantime", str(error))
        status = error.exit_status
    except MemoryError:
        _complain("meantime", "there is not enough memory: a smaller range or file needs less")
        status = 1
    except (click.Abort, KeyboardInterrupt):
        status = _interrupted()
    except (RuntimeError, SystemError) as error:
        if not _is_interrupt(error):
            raise
        status = _interrupted()
    except BrokenPipeError:
        _abandon_output()
        status = 1
    except OSError as error:
        # errors of inputs are MeantimeErrors already, so this one comes from an output
        path = error.filename or "standard output"
        _complain("meantime", f"{path}: cannot be written: {error.strerror or 'it is closed'}")
        _abandon_output()
        status = 1
    return status if isinstance(status, int) else 0


def _interrupted() -> int:
    _complain("meantime", "interrupted")
    # as of a program that SIGINT ended, so that a shell's loop over files ends too
    return 128 + signal.SIGINT


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether an interrupt caused this: one while a class is made is another error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _prepare_streams() -> None:
    if sys.stdout is None:  # closed by the parent process
        # opened for reading, so that writing fails: the exit status must not report a success
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    # a name that the locale's encoding lacks is printed as an escape
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _interrupts(handler: SignalHandler) -> Iterator[None]:
    """Handle SIGINT, and repeat an interrupt that Python ignores.

    It cannot raise from `__del__` or from callbacks of weak references, as imports have: it reports
    what was raised there, and the command would go on.
    """
    report = sys.unraisablehook
    main = _thread.get_ident()

    def repeat(ignored: sys.UnraisableHookArgs) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            # from another thread, since in this place it would be ignored again
            _thread.start_new_thread(_interrupt_soon, (main,))
        else:
            report(ignored)

    sys.unraisablehook = repeat
    before = None if handler is None else signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        sys.unraisablehook = report


def _interrupt_soon(main: int) -> None:
    time.sleep(_LEFT_S)
    if hasattr(signal, "pthread_kill"):
        # as a real one, it also ends what the main thread waits for
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


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
        return f"Unrecognized option: '{error.option_name.lstrip('-')}'{_meant(error)}"
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        return f"Argument to option '{error.option_name.lstrip('-')}' missing"
    return error.format_message()


def _meant(error: click.NoSuchOption) -> str:
    """Return which option of the command was probably meant."""
    if error.ctx is None:
        return ""
    from meantime.cli.spelling import hint  # noqa: PLC0415 - only for a mistake

    names = [name for each in error.ctx.command.get_params(error.ctx) for name in each.opts]
    return hint(error.option_name, [name for name in names if name.startswith("--")])
