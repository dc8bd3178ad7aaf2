"""Opening what a command was given: any trace that a reader recognises."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

import click

from meantime.cli.progress import progress_bar
from meantime.errors import InputError
from meantime.units import since_origin

if TYPE_CHECKING:
    from meantime.anomalies import Anomalies
    from meantime.clocks import Clock
    from meantime.history import History

__all__ = ["import_numpy", "load", "refuse_anomalies", "resolve", "tell"]


def load(
    path: str,
    *,
    lenient: bool,
    until_ns: int | None = None,
    provider: str | None = None,
) -> History:
    """Return the history of a file, with progress on a terminal.

    The history that a provider makes is kept and used again.

    Raises:
        InputError: If the trace cannot be read.
    """
    import_numpy()
    from meantime.history_from_path import open_history  # noqa: PLC0415 - not for --help: NumPy

    with progress_bar(f"reading {path}") as progress:
        return open_history(
            path,
            provider=provider,
            cache=provider is not None,
            lenient=lenient,
            until_ns=until_ns,
            tell=tell,
            progress=progress,
        )


def tell(sentence: str) -> None:
    """Say something about how a history was come by."""
    click.echo(sentence, err=True)


def import_numpy() -> None:
    """Import NumPy without the threads that its linear algebra starts, which nothing here uses.

    Starting them is nearly half of what the import costs.
    """
    variable = "OPENBLAS_NUM_THREADS"
    if variable in os.environ:
        return
    os.environ[variable] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[variable]


def refuse_anomalies(path: str, anomalies: Anomalies) -> None:
    """Fail if anything was odd: what `--strict` asks for.

    Raises:
        InputError: With every oddity in its message.
    """
    if anomalies:
        raise InputError(path, "with --strict: " + "; ".join(anomalies.lines()))


def resolve(text: str | None, clock: Clock) -> int | None:
    """Return the time that an option's text means, from the history's origin; None if not given.

    Raises:
        UsageError: If it is not a time, or is absolute and the trace's wall clock is not known.
    """
    return None if text is None else since_origin(text, clock)
