"""Opening the inputs of a command: any trace that a reader recognises."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meantime.cli.progress import progress_bar
from meantime.errors import UsageError

if TYPE_CHECKING:
    from meantime.history import History

__all__ = ["import_numpy", "is_statemap", "load", "notify", "range_in_statemap"]


def load(
    path: str,
    *,
    lenient: bool,
    strict: bool = False,
    until_ns: int | None = None,
    range_ns: tuple[int, int] | None = None,
    provider: str | None = None,
) -> History:
    """Return the history of a file, with progress on a terminal.

    A history built with a provider is cached.

    Raises:
        InputError: If the trace cannot be read, or `strict` and it has an anomaly.
    """
    import_numpy()
    from meantime.history_from_path import open_history  # noqa: PLC0415 - not for --help: NumPy

    with progress_bar(f"reading {path}") as progress:
        return open_history(
            path,
            provider=provider,
            cache=provider is not None,
            lenient=lenient,
            strict=strict,
            until_ns=until_ns,
            range_ns=range_ns,
            notify=notify,
            progress=progress,
        )


def is_statemap(file: str) -> bool:
    """Return whether a file, which can be read again, is a statemap."""
    from meantime.readers import statemap  # noqa: PLC0415 - not for --help
    from meantime.readers.source import open_source  # noqa: PLC0415 - as above

    if not Path(file).is_file():
        return False
    with open_source(file) as source:
        return statemap.recognises(source.head(), source.name)


def range_in_statemap(file: str, start: str | None, end: str | None) -> tuple[int, int] | None:
    """Return the range between two times of a statemap file, before it is read.

    It is None for other files, and for times that are not known yet or are wrong.
    """
    from meantime.units import MAX_NS, parse_instant  # noqa: PLC0415 - not for --help

    try:
        first, last = (text and parse_instant(text) for text in (start, end))
    except UsageError:
        return None
    if (not first and not last) or any(at and at.base == "utc" for at in (first, last)):
        return None
    # the times of statemaps count from 0, where the trace begins
    range_ns = first.ns if first else 0, last.ns if last else MAX_NS
    return range_ns if range_ns[0] < range_ns[1] and is_statemap(file) else None


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
