"""The sources of a view: histories, or paths of files that are opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from meantime.anomalies import check_strictness
from meantime.errors import UsageError
from meantime.stores import store_url
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from meantime.directory_build import Notify
    from meantime.history.history import History
    from meantime.providers.loading import ProviderLike
    from meantime.units import Time

    Source: TypeAlias = History | str | os.PathLike[str]
    # Called with a path; yields a function that is called with the bytes read and the total.
    Progress: TypeAlias = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]

__all__ = ["Reading", "history_of", "label_of", "listed", "silent", "texts", "title_of"]


def silent(path: str) -> AbstractContextManager[None]:
    """Report no progress."""
    del path
    return nullcontext()


@struct
class Reading:
    """How the paths among sources are read.

    Attributes:
        provider: Derives states from the events of a trace; such a history is cached.
        lenient: Skip and count records that cannot be read.
        strict: Fail if there is any anomaly.
        notify: Called with a sentence when a cached history is rebuilt.
        progress: Returns for a path a context manager that yields a progress callback.
    """

    provider: ProviderLike = None
    lenient: bool = False
    strict: bool = False
    notify: Notify | None = None
    progress: Progress = silent

    def __post_init__(self) -> None:
        check_strictness(lenient=self.lenient, strict=self.strict)


def listed(sources: Source | Sequence[Source]) -> list[Source]:
    """Return one source, or several, as a list."""
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [store_url(source) for source in sources]
    return [store_url(sources)]


def history_of(
    source: Source, reading: Reading, start: Time | None = None, end: Time | None = None
) -> History:
    """Return the history that a source is, or that is read from its path.

    Of the latter, states outside of the range from `start` to `end` may be left out.

    Raises:
        InputError: If the file cannot be read, or has an anomaly and is read strictly.
        UsageError: If a provider is given for a history.
    """
    if not isinstance(source, str | os.PathLike):
        if reading.provider is not None:
            raise UsageError("provider applies to the path of a trace; this is a history")
        if reading.strict:
            source.anomalies.refuse(label_of(source))
        return source
    from meantime.history_from_path import (  # noqa: PLC0415 - perf text is mapped without it
        open_history,
    )

    with reading.progress(os.fspath(source)) as report:
        return open_history(
            source,
            provider=reading.provider,
            cache=reading.provider is not None,
            lenient=reading.lenient,
            strict=reading.strict,
            start=start,
            end=end,
            notify=reading.notify,
            progress=report,
        )


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
