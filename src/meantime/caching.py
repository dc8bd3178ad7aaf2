"""Histories that are kept to be used again, until what they are made of is another."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.building import build, provenance_of, why_not
from meantime.errors import InputError, OutputError
from meantime.history.directory.open import is_history, open_history

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.building import Tell
    from meantime.history import History
    from meantime.providers import StateProvider

__all__ = ["cache_directory", "cached"]

_LEFT_S = 24 * 3600


def cache_directory() -> Path:
    """Return where histories are kept: `$XDG_CACHE_HOME/meantime`, or `~/.cache/meantime`."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    # the specification says to pass over a path that is not absolute
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return base / "meantime"


def cached(
    trace: str | os.PathLike[str],
    provider: StateProvider | None,
    *,
    lenient: bool = False,
    tell: Tell,
    progress: Callable[[int, int], None] | None = None,
) -> History:
    """Return the history of a trace: the one that is kept if it is of the same, else a new one.

    It is of the same if the version of the format, the contents of the trace, and the provider and
    its version are. Otherwise `tell` is called with a sentence that says what differs.

    Raises:
        InputError: If the trace cannot be read.
        ProviderError: If the provider fails.
    """
    made_of = provenance_of(trace, provider, lenient=lenient)
    place = _place(trace, made_of)
    history, reason = _kept(place, made_of)
    if history is not None:
        return history
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    except OSError as error:
        tell(f"{trace}: built, and not kept: {place.parent}: {error.strerror}")
        return build(trace, provider, lenient=lenient, progress=progress)
    _clear(place.parent)
    if reason:
        tell(f"{trace}: rebuilding: {reason}")
    try:
        build(trace, provider, folder / "new.mth", lenient=lenient, progress=progress)
        _replace(folder, place)
        return open_history(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clear(place: Path) -> None:
    """Remove what builds that were killed have left, once it is a day old."""
    for folder in place.glob(".building-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_S:
                shutil.rmtree(folder)


def _place(trace: str | os.PathLike[str], made_of: dict[str, str]) -> Path:
    """Return where the history of a trace and a provider lies, whichever versions of them."""
    whole = f"{Path(trace).resolve()}\0{made_of.get('provider', '')}"
    key = hashlib.blake2b(whole.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return cache_directory() / f"{made_of['source'].split('.')[0]}-{key}.mth"


def _kept(place: Path, made_of: dict[str, str]) -> tuple[History | None, str | None]:
    """Return the history that is kept, or why it cannot be used; neither if there is none."""
    if not is_history(place):
        return None, None
    try:
        history = open_history(place)
    except InputError as error:
        return None, str(error)
    reason = why_not(history.provenance, made_of)
    return (history, None) if reason is None else (None, reason)


def _replace(folder: Path, place: Path) -> None:
    """Give a finished history its place.

    Raises:
        OutputError: If that cannot be.
    """
    try:
        if place.exists():
            place.rename(folder / "old.mth")
        (folder / "new.mth").rename(place)
    except OSError as error:
        # another process may have been there first, with the same history
        if not is_history(place):
            raise OutputError(f"{place}: {error.strerror}") from None
