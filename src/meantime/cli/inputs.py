"""Opening the inputs of a command: any trace that a reader recognises."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from meantime.cli.options import reject
from meantime.cli.progress import count_bar, progress_bar
from meantime.errors import UsageError
from meantime.model.units import parse_duration, parse_size
from meantime.stores import is_url, matching_urls, store_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history import History
    from meantime.model.units import Instant, Time
    from meantime.query.sql import Database

__all__ = [
    "Opened",
    "database_of",
    "expanded",
    "import_numpy",
    "load",
    "load_hosts",
    "load_joined",
    "mapped",
    "names_of",
    "notify",
    "of_session",
    "offsets_of",
    "opened",
]


class Opened(NamedTuple):
    """A history that a session has open, what its file was then, and its database for SQL."""

    history: History
    state: tuple[object, ...]
    database: Database | None = None

    @classmethod
    def of(cls, path: str, history: History) -> Opened:
        """Return the history of a file as it is now."""
        return cls(history, _state(path))


# In a session, by the real path of their files; a command opens no others then.
opened: dict[str, Opened] = {}
_WRITES = ("output", "arrow", "parquet", "junit")
_READS = ("lenient", "strict", "provider")
_DESCRIBES = ("format", "include", "columns", "pair", "pair_by", "line_pattern", "memory")


def _state(path: str) -> tuple[object, ...]:
    """Return what changes if a file or a directory is written; nothing if it is gone."""
    try:
        within = sorted(Path(path).iterdir()) if Path(path).is_dir() else []
        found = [each.stat() for each in (Path(path), *within)]
    except OSError:
        return ()
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)


def _of_session(path: str) -> History:
    """Return a history that the session has open, and say if its file has changed.

    Raises:
        UsageError: If it is not open, or an option does not apply to a session.
    """
    context = click.get_current_context()
    reject(_READS, "a session, which has read the file")
    for name in _DESCRIBES:
        if context.meta.get(f"meantime.{name}"):
            raise UsageError(f"--{name.replace('_', '-')} does not apply to a session")
    for name in _WRITES:
        if context.params.get(name):
            raise UsageError("a session writes no file: leave out --session")
    found = opened.get(os.path.realpath(path))
    if found is None:
        listed = ", ".join(os.path.basename(each) for each in opened)  # noqa: PTH119 - as above
        raise UsageError(f"{path}: is not open in this session, which has {listed}")
    state = _state(path)
    if state != found.state:
        what = "has changed since the session opened it" if state else "no longer exists"
        notify(f"{path}: {what}; this answers about what it was then: start the session again")
    return found.history


def of_session(paths: Sequence[str]) -> list[Any]:
    """Return what a command that takes paths or histories reads: in a session, the histories.

    Raises:
        UsageError: If one is not open in the session, or an option does not apply to one.
    """
    return [_of_session(path) if opened else mapped(path) for path in paths]


def database_of(paths: Sequence[str]) -> Database | None:
    """Return the database that a session has of a file; None if there is none."""
    found = opened.get(os.path.realpath(paths[0])) if len(paths) == 1 else None
    return None if found is None else found.database


def load(
    path: str,
    *,
    lenient: bool,
    strict: bool = False,
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
    if opened:
        return _of_session(path)
    import_numpy()
    from meantime.history.directory import is_history, is_joined  # noqa: PLC0415 - not for --help: NumPy
    from meantime.opening.history_from_path import open_history  # noqa: PLC0415 - as above

    with progress_bar(f"reading {path}") as progress:
        return open_history(
            mapped(path),
            provider=provider,
            cache=provider is not None,
            # what is damaged of a history is reported
            lenient=lenient or (not strict and (is_history(path) or is_joined(path))),
            strict=strict,
            start=start,
            end=end,
            notify=notify,
            progress=progress,
        )


def load_joined(
    files: Sequence[str],
    *,
    lenient: bool,
    strict: bool = False,
    start: Time | Instant | None = None,
    end: Time | Instant | None = None,
    provider: str | None = None,
) -> History:
    """Return the history of a file, or that which joins several.

    Raises:
        InputError: If one cannot be read, or `strict` and it has an anomaly.
    """
    paths = expanded(files)
    if len(paths) == 1:
        return load(
            paths[0], lenient=lenient, strict=strict, start=start, end=end, provider=provider
        )
    histories = [load(path, lenient=lenient, strict=strict, provider=provider) for path in paths]
    from meantime.view_functions.joining import join  # noqa: PLC0415 - as in `load`

    history = join(histories)
    if strict:
        history.anomalies.refuse(", ".join(paths))
    return history


def load_hosts(files: Sequence[str], client: str | None, **options: Any) -> History:
    """Return the history that joins the files, which are read in parallel or by a cluster.

    Those that cannot be read are reported on standard error, unless the options are strict.

    Args:
        files: The files, one for each host.
        client: The address of the cluster's scheduler; None for processes of this machine.
        **options: Those of `Fleet`.

    Raises:
        InputError: If none can be read.
    """
    import_numpy()
    from meantime.fleet import Fleet  # noqa: PLC0415 - not for --help: NumPy

    with count_bar("reading hosts") as done:
        fleet = Fleet([mapped(file) for file in files], client, done=done, **options)
        history, anomalies = fleet.join()
    for host, reason in anomalies:
        notify(f"{host}: {reason}")
    return history


def expanded(files: Sequence[str]) -> list[str]:
    """Return the files that patterns match, in order of their names; others are paths.

    Raises:
        UsageError: If a pattern matches none.
    """
    paths: list[str] = []
    for file in files:
        if not any(mark in file for mark in "*?[") or Path(file).exists():
            paths.append(file)
            continue
        if is_url(file):
            found = matching_urls(file)
        else:
            from glob import glob  # noqa: PLC0415 - shells expand most patterns

            # `Path.glob` takes no pattern that begins with a directory
            found = sorted(glob(file, recursive=True))  # noqa: PTH207 - as above
        if not found:
            raise UsageError(f"no file matches {file!r}")
        paths += found
    return paths


def offsets_of(texts: Sequence[str], files: Sequence[str]) -> dict[int, int]:
    """Return the times of --offset FILE=TIME by index of the file.

    Raises:
        UsageError: If one is of no file, or is given twice.
    """
    offsets_ns: dict[int, int] = {}
    for index, offset in _by_file("offset", "TIME", texts, files):
        if index in offsets_ns:
            raise UsageError(f"--offset for {files[index]!r} given more than once")
        offsets_ns[index] = parse_duration(offset)
    return offsets_ns


def names_of(texts: Sequence[str], files: Sequence[str]) -> dict[int, str]:
    """Return the names of --name FILE=NAME by index of the file.

    Raises:
        UsageError: If one is of no file.
    """
    return dict(_by_file("name", "NAME", texts, files))


def _by_file(
    option: str, what: str, texts: Sequence[str], files: Sequence[str]
) -> Iterator[tuple[int, str]]:
    for text in texts:
        file, _, value = text.rpartition("=")
        matching = [index for index, each in enumerate(files) if each == store_url(file)]
        if not matching:
            raise UsageError(f"--{option} {text!r}: write FILE={what} with one of the files")
        yield from ((index, value) for index in matching)


def mapped(file: str) -> str | os.PathLike[str]:
    """Return a file, with what the options say about how it is read; see `cli.options`.

    Raises:
        UsageError: If they cannot be understood.
    """
    meta = click.get_current_context().meta
    format_, include, columns, pairs, by, pattern = (
        meta.get(f"meantime.{name}")
        for name in ("format", "include", "columns", "pair", "pair_by", "line_pattern")
    )
    repair_clocks = bool(meta.get("meantime.repair_clocks"))
    allow = [kind for kind in ("paths", "urls") if meta.get(f"meantime.allow_{kind}")]
    memory = meta.get("meantime.memory")
    described = columns or pairs or by or pattern
    if not (format_ or include or described or repair_clocks or allow or memory):
        return file
    from meantime.model.column_mapping import mapping_of  # noqa: PLC0415 - few files need it
    from meantime.model.input_path import input_path  # noqa: PLC0415 - as above

    mapping = mapping_of(columns, pairs or (), by or (), pattern or "")
    return input_path(
        file,
        mapping,
        format_,
        include or (),
        repair_clocks=repair_clocks,
        allow=allow,
        memory=None if memory is None else parse_size(memory),
    )


def notify(sentence: str) -> None:
    """Print a sentence on standard error."""
    click.echo(sentence, err=True)


def notify_of_nothing(history: History, from_: str | None, to: str | None) -> None:
    """Print on standard error that a range is outside of a history, if it is.

    Raises:
        TimeRangeError: If the range is empty.
    """
    from meantime.query.parts import nothing_in  # noqa: PLC0415 - NumPy is not for --help

    if (sentence := nothing_in(history, from_, to)) is not None:
        notify(sentence)


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
