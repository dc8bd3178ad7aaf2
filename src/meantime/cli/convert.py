"""`meantime convert`: a trace in another format."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from meantime.cli.build import keep_history
from meantime.cli.inputs import load
from meantime.cli.options import once
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from meantime.history.history import History

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
    help="The format: chrome, spall, spall1, speedscope, folded, statemap, history, or one that "
    "an installed package adds.",
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
    from meantime.views.export import TARGETS, export  # noqa: PLC0415 - as above

    target = _target(output, to, only)
    if target == _HISTORY:
        keep_history(source, output, provider=None, lenient=lenient)
        return
    history = load(source, lenient=lenient)
    if target in _RECORDED:
        if not len(history.quarks("Tasks/*/*")) + len(history.quarks("Loops/*")):
            raise InputError(source, "there are no tasks and no event loops: it is no recording")
    elif target in TARGETS and (reason := _nothing_for(history, target)):
        raise InputError(source, reason)
    lost: Counter[str] = Counter()
    write(output, export(history, target, lost))
    report(lost)


def _target(output: str, to: str | None, only: str | None) -> str:
    from meantime.views.export import TARGETS, added  # noqa: PLC0415 - as above

    if only is not None and to is None and output.endswith(TARGETS[only].suffix):
        return only
    if only is not None:
        raise UsageError("--only applies to an output that ends in .statemap, without --to")
    suffixes = {
        name: target.suffix for name, target in TARGETS.items() if name not in _RECORDED
    } | {_HISTORY: ".mth"}
    target = _chosen(output, to, suffixes)
    if target is None:
        more = {name: writer.SUFFIX for name, writer in added().items() if name != _HISTORY}
        target = _chosen(output, to, more)
        suffixes |= more
    if target is not None:
        return target
    names = ", ".join(suffixes)
    if to is not None:
        raise UsageError(f"{to!r} is not a format that can be written: it is one of {names}")
    raise UsageError(f"{output!r} does not end like a format: say --to with one of {names}")


def _chosen(output: str, to: str | None, suffixes: dict[str, str]) -> str | None:
    """Return which of these formats is asked for; None if it is another."""
    if to is not None:
        return to if to in suffixes else None
    return next((name for name, suffix in suffixes.items() if output.endswith(suffix)), None)


def _nothing_for(history: History, target: str) -> str | None:
    """Return why a format would hold nothing of a history; None if it holds something."""
    from meantime.query.statistics import state_quarks  # noqa: PLC0415 - as above
    from meantime.query.threads import thread_quarks  # noqa: PLC0415 - as above

    has_states = history.has_values(state_quarks(history)).any()
    if target == "statemap":
        if not has_states and not len(history.spans()):
            return "there are no states and no spans, and statemap data hold only those"
    elif target == "folded" and not (
        has_states or len(thread_quarks(history)) or len(history.samples())
    ):
        return "there are no spans of threads, samples or states, and folded holds only those"
    elif target != "chrome" and not (has_states or len(history.spans()) or len(history.samples())):
        return f"there are no spans, samples or states, and {target} holds only those"
    return None


def report(lost: Counter[str]) -> None:
    """Say on standard error what was lost, a line each."""
    for what, count in lost.items():
        if count:
            click.echo(f"not in the result: {count:,} {what}", err=True)
