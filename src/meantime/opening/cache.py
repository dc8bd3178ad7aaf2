"""The cache of histories: the path of each, and when it is stale."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import InputError, OutputError
from meantime.files import mode_of, only_for, private_folder, write_whole
from meantime.history.directory import is_history
from meantime.history.directory.check import check
from meantime.history.directory.manifest import read_lines
from meantime.history.directory.open import open_history
from meantime.opening.directory_build import build_directory, ignore
from meantime.opening.provenance import can_be_read_again, provenance_of, staleness_reason
from meantime.stores import blocks_of, is_url

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.opening.directory_build import Notify, ProgressCallback
    from meantime.providers import StateProvider

__all__ = ["READING_RULES", "cache_directory", "cached_history", "fetched_history"]

_SEGMENT = re.compile(r"[0-9]{6,}(-late)?\.seg")
_LEFTOVER_S = 24 * 3600
_OWN, _OTHERS = 0o600, 0o077
# Increase when readers or histories change so that the same input gives different figures: cached
# histories are rebuilt then. It is not meantime's version, which stays the same between releases
# and changes with releases that read everything as before.
READING_RULES = 18


def cache_directory() -> Path:
    """Return where histories are cached: `$XDG_CACHE_HOME/meantime`, or `~/.cache/meantime`."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification requires that a path that is not absolute is ignored.
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return base / "meantime"


def cached_history(
    trace: str | os.PathLike[str],
    provider: StateProvider | None,
    *,
    lenient: bool = False,
    notify: Notify | None = None,
    progress: ProgressCallback | None = None,
) -> History | None:
    """Return the cached history of a trace; it is built first if there is none, or a stale one.

    It is stale unless the version of the format, `READING_RULES`, the contents of the trace, and
    the provider with its version are the same; `notify` is called with a sentence that gives the
    reason. If the cache cannot be written, None is returned, and `notify` is called too. None is
    also returned for what can be read only once: a pipe, or standard input, or an object of a store
    that has no versions.

    Raises:
        InputError: If the trace cannot be read.
        OutputError: If the finished history cannot be moved into the cache.
        ProviderError: If the provider fails.
    """
    notify = notify or ignore
    if not can_be_read_again(trace):
        return None
    provenance = provenance_of(trace, provider, lenient=lenient)
    if is_url(trace) and "fingerprint" not in provenance:
        return None  # the store does not say whether it has changed
    path = _path_of(trace, provenance)
    _keep_private(path, mode_of([trace]))
    history, reason = _open(path, provenance)
    if history is not None:
        return history
    try:
        private_folder(path.parent)
        folder = Path(tempfile.mkdtemp(prefix=".building-", dir=path.parent))
    except OSError as error:
        notify(f"{trace}: not cached: {path.parent}: {error.strerror}")
        return None
    _remove_leftovers(path.parent)
    if reason:
        notify(f"{trace}: rebuilding: {reason}")
    try:
        build_directory(
            trace,
            provider,
            folder / "new.mth",
            provenance={**provenance, "reading_rules": str(READING_RULES)},
            lenient=lenient,
            progress=progress,
        )
        _move_into_cache(folder, path)
        return open_history(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fetched_history(url: str, *, progress: ProgressCallback | None = None) -> Path:
    """Return the directory of the cache that has the finished history at a URL.

    It is found again by the checksum of its manifest. Otherwise its files are copied one by one;
    those that are there since another attempt was interrupted are kept.

    Raises:
        InputError: If the store cannot be read, the history is not finished, or what the store
            answers does not have the checksums of the history.
        MissingExtraError: If what reads the URL is not installed.
        OutputError: If the cache cannot be written.
    """
    manifest = b"".join(blocks_of(f"{url.rstrip('/')}/manifest"))
    key = hashlib.blake2b(manifest, digest_size=16).hexdigest()
    path = cache_directory() / "stores" / f"{key}.mth"
    if is_history(path):
        return path
    folder = path.with_suffix(".part")
    try:
        private_folder(cache_directory())
        for each in (folder.parent, folder, folder / "segments", folder / "pyramid"):
            private_folder(each)
        write_whole(folder / "manifest", [manifest], _OWN)
        names = _files_of(url, folder / "manifest")
        for number, name in enumerate(names):
            if progress is not None:
                progress(number, len(names))
            if not (folder / name).exists():
                write_whole(folder / name, blocks_of(f"{url.rstrip('/')}/{name}"), _OWN)
        try:
            check(folder)
        except InputError as error:
            shutil.rmtree(folder, ignore_errors=True)
            inside = error.source.removeprefix(f"{folder}/")
            raise InputError(
                url, f"the store answers other bytes than were written: {inside}: {error.reason}"
            ) from None
        with suppress(OSError):  # another process may have moved the same history there
            folder.rename(path)
    except OSError as error:
        if is_history(path):  # as above
            return path
        raise OutputError(f"{url}: cannot be copied to {folder}: {error.strerror}") from None
    return path


def _files_of(url: str, manifest: Path) -> list[str]:
    """Return the files that the manifest of a history names, those that it may lack left out.

    Raises:
        InputError: If it is damaged, or the history is not finished.
    """
    names = []
    closed = None
    try:
        records = read_lines(manifest).records
    except InputError as error:
        raise InputError(url, error.reason) from None
    for record in records:
        segment = record.get("segment")
        if isinstance(segment, str) and _SEGMENT.fullmatch(segment):
            names.append(f"segments/{segment}")
        closed = record.get("closed", closed)
    if not isinstance(closed, dict):
        raise InputError(url, "this history is not finished; only finished ones are read by URL")
    return [*names, *(["tables"] if closed.get("tables") else [])]


def _keep_private(path: Path, mode: int) -> None:
    """Take from others what older versions gave them, or what the trace no longer does."""
    cache = path.parent
    for folder, looked_at, allowed in ((cache, cache, _OWN), (path, path / "manifest", mode)):
        with suppress(OSError):
            if looked_at.stat().st_mode & _OTHERS & ~allowed:
                only_for(folder, allowed)


def _remove_leftovers(cache: Path) -> None:
    """Remove the folders of builds that were killed, once they are a day old."""
    for folder in cache.glob(".building-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFTOVER_S:
                shutil.rmtree(folder)


def _path_of(trace: str | os.PathLike[str], provenance: dict[str, str]) -> Path:
    """Return the path for a trace and a provider, the same for all their versions."""
    # without the trace's content: a new version of a trace replaces the history of the old one
    where = trace if is_url(trace) else Path(trace).resolve()
    identity = f"{where}\0{provenance.get('provider', '')}"
    key = hashlib.blake2b(identity.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return cache_directory() / f"{provenance['source'].split('.')[0]}-{key}.mth"


def _open(path: Path, provenance: dict[str, str]) -> tuple[History | None, str | None]:
    """Return the cached history, or why it is stale, or neither if there is none."""
    if not is_history(path):
        return None, None
    try:
        history = open_history(path)
    except InputError as error:
        return None, str(error)
    kept = history.provenance
    reason = staleness_reason(kept, provenance)
    # Only the cache checks this: a history that a user built stays what the user made it.
    if reason is None and (before := kept.get("reading_rules", "0")) != str(READING_RULES):
        reason = f"meantime's reading rules changed from {before} to {READING_RULES}"
    return (history, None) if reason is None else (None, reason)


def _move_into_cache(folder: Path, path: Path) -> None:
    """Move a finished history to its path, in place of the stale one.

    Raises:
        OutputError: If that fails.
    """
    try:
        # a directory cannot be replaced by a rename, so the stale one is moved away first
        if path.exists():
            path.rename(folder / "old.mth")
        (folder / "new.mth").rename(path)
    except OSError as error:
        # Another process may have built the same history and moved it there first.
        if not is_history(path):
            raise OutputError(f"{path}: {error.strerror}") from None
