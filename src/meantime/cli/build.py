"""`meantime build`: turn a trace into a history on disk."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import import_numpy, mapped, notify
from meantime.cli.options import (
    file_argument,
    force_option,
    input_options,
    json_option,
    once,
    output_option,
    reading_options,
)
from meantime.cli.output import is_to_be_replaced, replacing, written_locally
from meantime.cli.progress import progress_bar
from meantime.errors import InputError, OutputError
from meantime.model.anomalies import check_strictness
from meantime.model.units import format_bytes, parse_duration

if TYPE_CHECKING:
    from meantime.history import History

__all__ = ["command", "keep_history"]


@click.command("build", epilog="Example:  meantime build disks.statemap.gz -o disks.mth")
@input_options
@file_argument("trace", "TRACE")
@output_option(
    "NAME.mth",
    "Directory to create.",
    required=True,
    more="An unfinished history there is resumed; anything else is an error.",
)
@force_option
@json_option
@once(
    "--reorder",
    "reorder_ns",
    metavar="TIME",
    type=parse_duration,
    help="How late changes of the provider may come, such as 10ms.",
    more="For events that say what began before them. Such a build is not resumed.",
)
@reading_options
def command(
    *,
    trace: str,
    output: str,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Turn a trace into a history on disk, which every command can read."""
    with written_locally(output, "manifest", force=force) as local:
        history = keep_history(trace, local, **reading, force=force)
        for line in history.anomalies.lines():
            click.echo(f"{trace}: {line}", err=True)
        parts = Path(local).rglob("*")
        size_bytes = sum(part.stat().st_size for part in parts if part.is_file())
    if as_json:
        built = {"output": output, "attributes": len(history.attributes), "bytes": size_bytes}
        click.echo(json.dumps(built | {"anomalies": dict(history.anomalies)}))
        return
    click.echo(f"{output}: {len(history.attributes):,} attributes, {format_bytes(size_bytes)}")


def keep_history(
    trace: str,
    output: str,
    *,
    provider: str | None,
    lenient: bool,
    strict: bool,
    force: bool,
    reorder_ns: int | None = None,
) -> History:
    """Build the history of a trace in a directory; an interrupted build is resumed.

    Args:
        trace: The trace.
        output: The directory.
        provider: The file that defines how events become states.
        lenient: Skip and count what cannot be read.
        strict: Fail if the trace has any anomaly; the history is deleted then.
        reorder_ns: How late changes of the provider may come; None leaves that to the provider.
        force: Replace a history that is there, and begin an interrupted build again.

    Raises:
        InputError: If the trace cannot be read, or `strict` and it has an anomaly.
        OutputError: If the path exists and is not an interrupted build.
    """
    check_strictness(lenient=lenient, strict=strict)
    import_numpy()
    from meantime.opening.history_from_trace import build  # noqa: PLC0415 - not for --help

    path = Path(output)
    is_replaced = is_to_be_replaced(output, force=force)
    if is_replaced and Path(trace).resolve() == path.resolve():
        raise OutputError(f"{output}: cannot be replaced by what is built from it")
    with (
        replacing(path) if is_replaced else nullcontext(path) as target,
        progress_bar(f"reading {trace}") as progress,
    ):
        history = build(
            mapped(trace),
            provider,
            target,
            lenient=lenient,
            reorder_ns=reorder_ns,
            resume=True,
            notify=notify,
            progress=progress,
        )
        try:
            if strict:
                history.anomalies.refuse(trace)
        except InputError:
            from shutil import rmtree  # noqa: PLC0415 - imports archive formats, 4 ms

            rmtree(target)
            raise
    return history
