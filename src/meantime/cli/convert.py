"""`meantime convert`: a trace in another format."""

from __future__ import annotations

from collections import Counter

import click

from meantime.cli.build import keep_history
from meantime.cli.inputs import load
from meantime.cli.options import once
from meantime.errors import InputError, UsageError

__all__ = ["command", "report"]

_HISTORY = "history"
_RECORDED = ("tasks", "workers")


@click.command("convert", epilog="Example:  meantime convert trace.json.gz trace.spall")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@once(
    "--to",
    "to",
    metavar="FORMAT",
    help="The format: chrome, spall, spall1, speedscope, folded, history.",
)
@once(
    "--only",
    type=click.Choice(["tasks", "workers"]),
    help="Of a recording, to statemap data: its tasks, or the event loops and pool threads.",
)
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(*, source: str, output: str, to: str | None, only: str | None, lenient: bool) -> None:
    """Write a trace in another format, and say what that cannot hold."""
    from meantime.cli.output import write  # noqa: PLC0415 - only once the command line is sound
    from meantime.views.export import export  # noqa: PLC0415 - as above

    target = _target(output, to, only)
    if target == _HISTORY:
        keep_history(source, output, provider=None, lenient=lenient)
        return
    _, history = load(source, lenient=lenient)
    if target in _RECORDED:
        if not len(history.quarks("Tasks/*/*")) + len(history.quarks("Loops/*")):
            raise InputError(source, "there are no tasks and no event loops: it is no recording")
    elif not len(history.spans()) and not len(history.samples()):
        raise InputError(
            source, f"there are no spans and no samples, and {target} holds only those"
        )
    lost: Counter[str] = Counter()
    write(output, export(history, target, lost))
    report(lost)


def _target(output: str, to: str | None, only: str | None) -> str:
    from meantime.views.export import TARGETS  # noqa: PLC0415 - as above

    if only is not None and to is None and output.endswith(TARGETS[only].suffix):
        return only
    if only is not None:
        raise UsageError("--only goes with a recording and an output that ends in .statemap")
    if output.endswith(TARGETS["tasks"].suffix) and to is None:
        raise UsageError(f"{output!r} is statemap data: say --only with tasks or workers")
    suffixes = {name: target.suffix for name, target in TARGETS.items()} | {_HISTORY: ".mth"}
    names = ", ".join(suffixes)
    if to is not None:
        if to not in suffixes:
            raise UsageError(f"{to!r} is not a format that can be written: it is one of {names}")
        return to
    for name, suffix in suffixes.items():
        if output.endswith(suffix):
            return name
    raise UsageError(f"{output!r} does not end like a format: say --to with one of {names}")


def report(lost: Counter[str]) -> None:
    """Say on standard error what was lost, a line each."""
    for what, count in lost.items():
        if count:
            click.echo(f"not in the result: {count:,} {what}", err=True)
