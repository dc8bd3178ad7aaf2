"""Readers: one module per format, each turning an input into a `Trace`.

A format is a module that is a `contract.Reader`, and a line here. It is imported when an input has
to be recognised. Installed packages add readers by entry points of the group `meantime.readers`,
which are asked when no module here recognises the input.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from meantime.additions import READERS, additions, warn_about
from meantime.errors import InputError
from meantime.readers.contract import ReadOptions
from meantime.readers.source import open_source

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from meantime.readers.contract import Reader
    from meantime.readers.source import Source
    from meantime.trace import Trace

__all__ = ["open_trace", "open_without_stacks", "readers", "recognise"]

# Asked in this order; the first that recognises the beginning reads the input.
_MODULES = (
    "meantime.readers.packed",
    "meantime.readers.statemap",
    "meantime.readers.spall",
    "meantime.readers.speedscope",
    "meantime.readers.cpuprofile",
    "meantime.readers.table",
    "meantime.readers.perf",
    "meantime.readers.folded",
    "meantime.readers.jsonl",
    # any other JSON may be one, whose events stand far behind its beginning
    "meantime.readers.chrome",
)


# How JSON in 2 or 4 bytes a character may begin, without a byte order mark.
_WIDE = {
    bracket.encode(encoding) + rest.encode(encoding)
    for bracket in "[{"
    for encoding, rests in (
        ("utf-16-le", '{\r\n "]'),
        ("utf-16-be", '{\r\n "]'),
        ("utf-32-le", [""]),
        ("utf-32-be", [""]),
    )
    for rest in rests
}


def readers() -> Iterator[Reader]:
    """Yield meantime's own readers, in the order in which they are asked."""
    for name in _MODULES:
        yield cast("Reader", import_module(name))


def _is_reader(value: Any) -> bool:
    return isinstance(getattr(value, "FORMAT", None), str) and all(
        callable(getattr(value, name, None)) for name in ("recognises", "read")
    )


def recognise(source: Source) -> Reader:
    """Return what reads an input, by its beginning: a module here, or what a package adds.

    Raises:
        InputError: If the input is empty, or of no format that is known.
    """
    head = source.head()
    formats = []
    for reader in readers():
        if reader.recognises(head, source.name):
            return reader
        formats.append(reader.FORMAT)
    if not head:
        raise InputError(source.name, "the input is empty")
    for addition in additions(READERS, _is_reader):
        try:
            recognised = addition.value.recognises(head, source.name)
        except Exception as error:  # noqa: BLE001 - one bad package must not stop the others
            warn_about(addition, READERS, f"fails to recognise inputs ({error!r})")
            continue
        if recognised:
            return cast("Reader", addition.value)
        formats.append(addition.value.FORMAT)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[:4] in _WIDE:
        raise InputError(source.name, "the text is in UTF-16 or UTF-32: save it in UTF-8")
    raise InputError(source.name, f"the format is not known; meantime reads: {', '.join(formats)}")


def open_trace(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    until_ns: int | None = None,
    keep: Callable[[str], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
    position: Any = None,
    events: bool = False,
) -> Trace:
    """Return the trace in a file, of any format that is known; `-` is standard input.

    It is read while its batches are consumed, and closed when they are exhausted.

    Args:
        path: Where it lies; a recording is a directory, or the file it was packed into. Compressed
            files (gzip, Zstandard, xz) are recognised by their bytes.
        lenient: Count bad records as anomalies and go on, instead of stopping at the first.
        until_ns: Leave out what is later than this, where the format allows that.
        keep: Asked for each entity's name; those it says no to are left out.
        progress: Called with the bytes read and the bytes in all (0 if unknown).
        position: Go on after the batch of `Events` that has this `position`.
        events: Tell as `Events`, with their fields, what is else told as samples: perf's
            tracepoints.

    Raises:
        InputError: If the file cannot be read, or is of no format that is known.
    """
    if Path(path).is_dir():
        # a recording is a directory: it has no beginning to be recognised by
        reading = import_module("meantime.readers.recording")
        return cast("Trace", reading.read(path))
    source = open_source(path)
    try:
        reader = recognise(source)
        options = ReadOptions(lenient, until_ns, keep, progress, position, events)
        trace = reader.read(source, options)
    except BaseException:
        source.close()
        raise
    trace.input = source
    return trace


@contextmanager
def open_without_stacks(
    path: str,
    *,
    lenient: bool = False,
    switches: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Trace, bool]]:
    """Yield the trace in a file whose stacks are not needed, closed at the block's end.

    With it, whether every batch is `Samples` that carry a name and a CPU, so that they can be
    counted while they are read. perf text is: its stacks are most of it, and are skipped.

    Args:
        path: A file, or `-`; not a directory.
        lenient: As `open_trace` takes it.
        switches: Whether states that the samples imply are needed too.
        progress: As `open_trace` takes it.

    Raises:
        InputError: If the file cannot be read, or its format is not known.
    """
    with open_source(path) as source:
        reader = recognise(source)
        options = ReadOptions(lenient=lenient, progress=progress)
        if reader.FORMAT != "perf":
            yield reader.read(source, options), False
            return
        perf = import_module("meantime.readers.perf")
        yield perf.read(source, options, stacks=False, switches=switches), not switches
