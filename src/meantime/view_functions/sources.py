"""The sources of a view: histories, or paths of files that are opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from meantime.errors import UsageError
from meantime.model.anomalies import check_strictness
from meantime.options import LENIENT, PROVIDER, STRICT, Options, option
from meantime.stores import store_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from meantime.history.history import History
    from meantime.model.units import Instant, Time
    from meantime.opening.directory_build import Notify
    from meantime.providers.loading import ProviderLike

    Source: TypeAlias = History | str | os.PathLike[str]
    # Called with a path; yields a function that is called with the bytes read and the total.
    Progress: TypeAlias = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]

__all__ = ["Reading", "history_of", "label_of", "listed", "texts", "title_of"]


class Reading(Options):
    """How the paths among sources are read.

    Raises:
        UsageError: If they are to be read both `lenient` and `strict`.
    """

    provider: ProviderLike = PROVIDER
    lenient: bool = LENIENT
    strict: bool = STRICT
    intact: bool = option(
        default=False,
        help="Answer from what is intact of a damaged history, as commands do, unless `strict`.",
    )
    notify: Notify | None = option(
        help="Called with a sentence that gives the reason when a cached history is rebuilt."
    )
    progress: Progress | None = option(
        help="Returns for a path a context manager that yields a progress callback."
    )

    def _check(self) -> None:
        check_strictness(lenient=self.lenient, strict=self.strict)

    def reported(self, path: str) -> AbstractContextManager[Callable[[int, int], None] | None]:
        """Return a context manager that yields what is called while a path is read, if anything."""
        return nullcontext() if self.progress is None else self.progress(path)


def listed(sources: Source | Sequence[Source]) -> list[Source]:
    """Return one source, or several, as a list."""
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [store_url(source) for source in sources]
    return [store_url(sources)]


def history_of(
    source: Source,
    reading: Reading,
    start: Time | Instant | None = None,
    end: Time | Instant | None = None,
    *,
    until_ns: int | None = None,
) -> History:
    """Return the history that a source is, or that is read from its path.

    Of the latter, states outside of the range from `start` to `end` may be left out, and what is
    later than `until_ns` is not read in formats that allow it.

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
    from meantime.history.directory import is_history, is_joined  # noqa: PLC0415 - as below
    from meantime.opening.history_from_path import open_history  # noqa: PLC0415 - perf text is mapped without it

    kept = reading.intact and not reading.strict and (is_history(source) or is_joined(source))
    with reading.reported(os.fspath(source)) as report:
        return open_history(
            source,
            provider=reading.provider,
            cache=reading.provider is not None,
            lenient=reading.lenient or kept,
            strict=reading.strict,
            until_ns=until_ns,
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
