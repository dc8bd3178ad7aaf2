"""The sources of a view: histories, or paths of files that are opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from meantime.history.history import History

    Source: TypeAlias = History | str | os.PathLike[str]
    # Called with a path; yields a function that is called with the bytes read and the total.
    Progress: TypeAlias = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]

__all__ = ["history_of", "label_of", "listed", "silent", "texts", "title_of"]


def silent(path: str) -> AbstractContextManager[None]:
    """Report no progress."""
    del path
    return nullcontext()


def listed(sources: Source | Sequence[Source]) -> list[Source]:
    """Return one source, or several, as a list."""
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return list(sources)
    return [sources]


def history_of(source: Source, progress: Progress, *, lenient: bool) -> History:
    """Return the history that a source is, or that is read from its path.

    Raises:
        InputError: If the file cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        return source
    from meantime.history_from_path import (  # noqa: PLC0415 - perf text is mapped without it
        open_history,
    )

    with progress(os.fspath(source)) as report:
        return open_history(source, lenient=lenient, progress=report)


def label_of(source: Source) -> str:
    """Return the name of a source in error messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return source.title or "history"


def title_of(source: Source) -> str:
    """Return the default title of a view of a source."""
    label = label_of(source)
    if isinstance(source, str | os.PathLike):
        return "standard input" if label == "-" else Path(label).name
    return label


def texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text, or several without duplicates, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
