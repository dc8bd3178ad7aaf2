"""A path together with how what is there is to be read: its format, its columns, what to copy."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from meantime.errors import InputError, UsageError
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Collection

    from meantime.model.column_mapping import ColumnMapping

__all__ = [
    "ALLOWED",
    "EVENTS_NOT_FOUND",
    "GUESSED",
    "NO_PROVIDER",
    "PRIVATE_PARTS",
    "Allow",
    "Include",
    "InputPath",
    "allowed_for",
    "format_for",
    "input_path",
    "is_clock_repair_wanted",
    "is_private_wanted",
    "is_scheduling_wanted",
    "mapping_for",
    "memory_for",
    "reject_choices",
    "without_scheduling",
]

# As `meantime.open` takes it.
Include: TypeAlias = "str | Collection[str]"

# As `meantime.open` takes it.
Allow: TypeAlias = "str | Collection[str]"

# What is private in inputs, and copied only if it is asked for.
PRIVATE_PARTS = ("env",)
# What the file of a joined history refers to only if that is allowed, as others may have written
# it: files outside of its folder, and what is in other stores than itself.
ALLOWED = ("paths", "urls")

# The fact of a trace that says which columns were guessed.
GUESSED = "columns"
# The fact about a provider none of whose events occurs: these, with the nearest names.
EVENTS_NOT_FOUND = "events not found"
# What the name of a file has after that of the input whose columns it describes.
_BESIDE = ".columns.toml"

# What stands for a provider to leave out the states that follow from the events of a scheduler.
NO_PROVIDER = "none"


@struct
class InputPath:
    """A path, and what is given about reading it.

    Attributes:
        path: The path.
        mapping: Which columns of a table, or fields of a log, have which role.
        format: The name of the format, which is then not recognised by the content.
        private: Whether command lines, environments and headers of requests are copied.
        scheduling: Whether states of CPUs and threads are derived from the events of a scheduler.
        repair_clocks: Whether services whose clocks differ from those of their callers are shifted.
        allow: Which of `ALLOWED` a joined history may refer to.
        memory: How many bytes objects of an input may take; None is what the machine has.
    """

    path: str
    mapping: ColumnMapping | None = None
    format: str | None = None
    private: bool = False
    scheduling: bool = True
    repair_clocks: bool = False
    allow: frozenset[str] = frozenset()
    memory: int | None = None

    @property
    def options(self) -> list[str]:
        """What is given, as the options of a command that reads the path, a word each."""
        return [
            *(self.mapping.options if self.mapping is not None else []),
            *(["--format", self.format] if self.format is not None else []),
            *(["--include", *PRIVATE_PARTS] if self.private else []),
            *([] if self.scheduling else ["--provider", NO_PROVIDER]),
            *(["--repair-clocks"] if self.repair_clocks else []),
            *(f"--allow-{kind}" for kind in sorted(self.allow)),
            *(["--memory", str(self.memory)] if self.memory is not None else []),
        ]

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


def input_path(
    path: str | os.PathLike[str],
    mapping: ColumnMapping | None = None,
    format_: str | None = None,
    include: Include = (),
    *,
    repair_clocks: bool = False,
    allow: Allow = (),
    memory: int | None = None,
) -> str | os.PathLike[str]:
    """Return a path with what is given about it; the path itself if that is nothing.

    Raises:
        UsageError: If something is to be included that is not private, or allowed that is not
            forbidden.
    """
    allowed = frozenset((allow,) if isinstance(allow, str) else allow)
    for kind in sorted(allowed - {*ALLOWED}):
        raise UsageError(f"allow: unknown kind {kind!r}; choose {', '.join(ALLOWED)}")
    parts = (include,) if isinstance(include, str) else tuple(include)
    for part in parts:
        if part not in PRIVATE_PARTS:
            raise UsageError(f"include: unknown part {part!r}; choose {', '.join(PRIVATE_PARTS)}")
    if not (mapping or format_ or parts or repair_clocks or allowed or memory is not None):
        return path
    return InputPath(
        os.fspath(path),
        mapping,
        format_,
        bool(parts),
        repair_clocks=repair_clocks,
        allow=allowed,
        memory=memory,
    )


def without_scheduling(path: str | os.PathLike[str]) -> InputPath:
    """Return a path whose trace is read without states from the events of a scheduler."""
    given = path if isinstance(path, InputPath) else InputPath(os.fspath(path))
    return replace(given, scheduling=False)


def mapping_for(path: str | os.PathLike[str]) -> ColumnMapping | None:
    """Return the mapping that is given with a path, or the one in the file beside it.

    Raises:
        InputError: If that file cannot be read.
    """
    if isinstance(path, InputPath) and path.mapping is not None:
        return path.mapping
    beside = Path(f"{Path(path)}{_BESIDE}")
    if os.fspath(path) == "-" or not beside.is_file():
        return None
    from meantime.model.column_mapping import mapping_in  # noqa: PLC0415 - few files have one

    return mapping_in(beside)


def format_for(path: str | os.PathLike[str]) -> str | None:
    """Return the format that is given with a path; None if it is recognised by the content."""
    return path.format if isinstance(path, InputPath) else None


def allowed_for(path: str | os.PathLike[str]) -> frozenset[str]:
    """Return which of `ALLOWED` a joined history at a path may refer to."""
    return path.allow if isinstance(path, InputPath) else frozenset()


def memory_for(path: str | os.PathLike[str]) -> int | None:
    """Return how many bytes objects of the input at a path may take; None if nothing is given."""
    return path.memory if isinstance(path, InputPath) else None


def is_private_wanted(path: str | os.PathLike[str]) -> bool:
    """Return whether what is private is copied from the input at a path."""
    return isinstance(path, InputPath) and path.private


def is_clock_repair_wanted(path: str | os.PathLike[str]) -> bool:
    """Return whether services at a path are shifted if their clocks differ."""
    return isinstance(path, InputPath) and path.repair_clocks


def is_scheduling_wanted(path: str | os.PathLike[str]) -> bool:
    """Return whether states are derived from the events of a scheduler at a path."""
    return not isinstance(path, InputPath) or path.scheduling


def reject_choices(path: str | os.PathLike[str]) -> None:
    """Fail if anything is given about how a finished history is read.

    Raises:
        InputError: If so.
    """
    if not isinstance(path, InputPath):
        return
    if path.format is not None:
        raise InputError(path.path, "this is a finished history; --format applies to traces")
    if path.mapping is not None:
        raise InputError(path.path, "this is a finished history; columns apply to tables and logs")
    if path.private:
        raise InputError(path.path, "this is a finished history; --include applies to traces")
    if path.repair_clocks:
        raise InputError(
            path.path, "this is a finished history; --repair-clocks applies to traces of services"
        )
    if path.allow or path.memory is not None:
        return
    raise InputError(
        path.path, "this is a finished history; a provider, or none, applies to the original trace"
    )
