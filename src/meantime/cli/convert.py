"""`meantime convert`: write a trace in another format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.build import keep_history
from meantime.cli.inputs import load, notify
from meantime.cli.options import (
    file_argument,
    force_option,
    input_options,
    json_option,
    once,
    reading_options,
)
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from meantime.query.counting import Exported

__all__ = ["command"]

_HISTORY = "history"
_RECORDED = ("tasks", "workers")
_SAMPLES_IN_CHROME = (
    "samples in Chrome JSON are shown by chrome://tracing only: write .speedscope.json or"
    " .firefox.json for other viewers"
)


@click.command("convert", epilog="Example:  meantime convert trace.json.gz trace.spall")
@input_options
@file_argument("source", "IN")
@file_argument("output", "OUT")
@once(
    "--to-format",
    metavar="FORMAT",
    help="Output format: chrome, spall, spall1, speedscope, folded, pprof, perfetto, otlp,"
    " firefox, statemap, history, or one that an installed package adds.  [the suffix of OUT]",
)
@once(
    "--only",
    type=click.Choice(["tasks", "workers"]),
    help="Part of a recording to write as .statemap: tasks, or event loops and pool threads.",
)
@click.option("--samples", "of", flag_value="samples", help="Write only samples.")
@click.option("--spans", "of", flag_value="spans", help="Write only spans.")
@click.option("--states", "of", flag_value="states", help="Write only states, as spans.")
@reading_options
@force_option
@json_option
def command(
    *,
    source: str,
    output: str,
    to_format: str | None,
    only: str | None,
    of: Exported | None,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Convert a trace to another format, and report what that format cannot represent."""
    from meantime.cli.output import report_lost, write  # noqa: PLC0415 - only once the command line is sound
    from meantime.views.export import export, nothing_for  # noqa: PLC0415 - as above

    target = _target(output, to_format, only)
    if force and target != _HISTORY:
        raise UsageError("--force applies to a history; other files are replaced without it")
    if target != _HISTORY and _is_same_file(source, output):
        raise UsageError(f"{output}: IN and OUT are the same file; choose another name for OUT")
    lost: Counter[str] = Counter()
    if target == _HISTORY:
        if of is not None:
            raise UsageError(f"--{of} does not apply to a history, which has all of a trace")
        keep_history(source, output, **reading, force=force)
        report_lost(lost, as_json=as_json)
        return
    history = load(source, **reading)
    if reason := nothing_for(history, target, of):
        raise InputError(source, reason)
    write(output, export(history, target, lost, of), [source])
    report_lost(lost, as_json=as_json and output != "-")
    # NumPy is loaded by now
    from meantime.query.sample_units import events  # noqa: PLC0415 - as above

    if target == "chrome" and of in {None, "samples"} and events(history):
        notify(_SAMPLES_IN_CHROME)


def _is_same_file(source: str, output: str) -> bool:
    try:
        return "-" not in {source, output} and Path(source).samefile(output)
    except OSError:
        return False


def _target(output: str, to: str | None, only: str | None) -> str:
    from meantime.views.export import TARGETS, added  # noqa: PLC0415 - as above

    if only is not None and to is None and output.endswith(TARGETS[only].suffix):
        return only
    if only is not None:
        raise UsageError("--only applies to an output that ends in .statemap, without --to-format")
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
        raise UsageError(f"unknown format {to!r}; choose one of {names}")
    raise UsageError(
        f"cannot infer the format from {output!r}; use --to-format with one of {names}"
    )


def _chosen(output: str, to: str | None, suffixes: dict[str, str]) -> str | None:
    """Return the one of these formats that is chosen; None if it is another."""
    if to is not None:
        return to if to in suffixes else None
    return next((name for name, suffix in suffixes.items() if output.endswith(suffix)), None)
