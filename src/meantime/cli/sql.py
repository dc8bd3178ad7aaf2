"""`meantime sql`: SQL queries of a history."""

from __future__ import annotations

from typing import Any

import click

from meantime.cli.inputs import database_of, expanded, load_joined
from meantime.cli.options import (
    file_argument,
    input_options,
    once,
    reading_options,
    session_option,
)
from meantime.cli.rows import Form, form_options, show

__all__ = ["command"]


@click.command(
    "sql",
    epilog="Example:  meantime sql disks.mth"
    " 'select value, sum(end_ns - start_ns) ns from intervals group by value'",
)
@input_options
@session_option
@file_argument("histories", "HISTORY...", nargs=-1, required=True)
@click.argument("statement", metavar="STATEMENT")
@once(
    "--handle",
    metavar="HANDLE",
    help="Table `handle` with what this names: path, quark, span, time_ns, start_ns, end_ns.",
)
@reading_options
@form_options
def command(
    *,
    histories: tuple[str, ...],
    statement: str,
    handle: str | None,
    as_json: bool,
    as_csv: bool,
    arrow: str | None,
    parquet: str | None,
    **reading: Any,
) -> None:
    """Query a history or a trace with SQL.

    The tables are those of states, spans, samples and metadata that the documentation lists:
    intervals, attributes, spans, threads and others. With --handle, a span or the time of a lane,
    as `findings --json` and the page of `view` print it, is a row of the table handle. This needs
    DuckDB, which the extra [sql] installs.
    """
    form = Form(as_json, as_csv, arrow, parquet).check()
    asked = load_joined(histories, **reading)
    from meantime.query.handles import resolve  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.sql import answer  # noqa: PLC0415 - as above

    named = None if handle is None else resolve(asked, handle)
    warm = None if handle is not None else database_of(expanded(histories))
    if click.get_current_context().meta.get("meantime.confined"):
        from meantime.query.confined import Confined  # noqa: PLC0415 - as above

        answered = Confined(statement).answer(asked, named)
    elif warm is not None:
        answered = warm.answer(statement)
    else:
        answered = answer(asked, statement, handle=named)
    with answered as rows:
        show("answer", rows, form, expanded(histories))
