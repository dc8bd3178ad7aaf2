"""Opening the inputs of a command: any trace that a reader recognises."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meantime.cli.progress import progress_bar

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.units import Instant, Time

__all__ = ["import_numpy", "is_statemap", "load", "mapped", "notify"]


def load(
    path: str,
    *,
    lenient: bool,
    strict: bool = False,
    until_ns: int | None = None,
    start: Time | Instant | None = None,
    end: Time | Instant | None = None,
    provider: str | None = None,
) -> History:
    """Return the history of a file, with progress on a terminal.

    A history built with a provider is cached. States outside of the range from `start` to `end` may
    be left out.

    Raises:
        InputError: If the trace cannot be read, or `strict` and it has an anomaly.
    """
    import_numpy()
    from meantime.history.directory import is_history  # noqa: PLC0415 - not for --help: NumPy
    from meantime.history_from_path import open_history  # noqa: PLC0415 - as above

    with progress_bar(f"reading {path}") as progress:
        return open_history(
            mapped(path),
            provider=provider,
            cache=provider is not None,
            # what is damaged of a history is reported
            lenient=lenient or (not strict and is_history(path)),
            strict=strict,
            until_ns=until_ns,
            start=start,
            end=end,
            notify=notify,
            progress=progress,
        )


def mapped(file: str) -> str | os.PathLike[str]:
    """Return a file, with what `--format`, `--include`, `--columns` and `--pair` say about it.

    Raises:
        UsageError: If they cannot be understood.
    """
    meta = click.get_current_context().meta
    format_, include, columns, pairs, by = (
        meta.get(f"meantime.{name}") for name in ("format", "include", "columns", "pair", "pair_by")
    )
    if not (format_ or include or columns or pairs or by):
        return file
    from meantime.column_mapping import mapping_of  # noqa: PLC0415 - few files need it
    from meantime.input_path import input_path  # noqa: PLC0415 - as above

    return input_path(file, mapping_of(columns, pairs or (), by or ()), format_, include or ())


def is_statemap(file: str) -> bool:
    """Return whether a file, which can be read again, is a statemap."""
    from meantime.readers import statemap  # noqa: PLC0415 - not for --help
    from meantime.readers.source import open_source  # noqa: PLC0415 - as above

    if not Path(file).is_file():
        return False
    if (format_ := click.get_current_context().meta.get("meantime.format")) is not None:
        return bool(format_ == statemap.FORMAT)
    with open_source(file) as source:
        return statemap.recognises(source.head(), source.name)


def notify(sentence: str) -> None:
    """Print a sentence on standard error."""
    click.echo(sentence, err=True)


def import_numpy() -> None:
    """Import NumPy without the threads of its linear algebra, which nothing here uses.

    Starting them is nearly half of the cost of the import.
    """
    variable = "OPENBLAS_NUM_THREADS"
    if variable in os.environ:
        return
    os.environ[variable] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[variable]
