"""Every error that meantime raises on purpose, as one tree.

A message names the input and the location, the problem, and what to do. The command line prints a
`MeantimeError` as one line on standard error::

    MeantimeError
    ├── UsageError               the command line, or an argument, is wrong (exit status 2)
    ├── InputError               an input is malformed or cannot be read
    ├── OutputError              a result could not be written
    ├── MissingExtraError        an optional dependency is not installed
    ├── CommandNotFoundError     a command to run is not there       (exit status 127)
    ├── CommandNotRunError       a command cannot be executed        (exit status 126)
    ├── ProviderError            a provider failed, or its declaration is wrong
    └── HistoryError
        ├── TimeRangeError       a time lies outside the history       (also a ValueError)
        ├── TimeOrderError       an attribute's changes went backwards (also a ValueError)
        ├── StateTypeError       a value is not of its attribute's type (also a TypeError)
        ├── QuarkError           no attribute has this quark           (also an IndexError)
        ├── AttributeNotFound    no attribute has this path            (also a KeyError)
        ├── NotKeptError         this history does not keep what is queried
        └── HistoryClosedError   the builder or history was closed
"""

from __future__ import annotations

# A recorded program imports this module, so it imports nothing itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AttributeNotFound",
    "CommandNotFoundError",
    "CommandNotRunError",
    "HistoryClosedError",
    "HistoryError",
    "InputError",
    "MeantimeError",
    "MissingExtraError",
    "NotKeptError",
    "OutputError",
    "ProviderError",
    "QuarkError",
    "StateTypeError",
    "TimeOrderError",
    "TimeRangeError",
    "UsageError",
]


class MeantimeError(Exception):
    """meantime cannot do what was requested; the message says why and what to do."""

    exit_status = 1


class UsageError(MeantimeError):
    """The command line or an argument is wrong, regardless of the contents of files."""

    exit_status = 2


class InputError(MeantimeError):
    """An input is malformed, or cannot be read.

    Attributes:
        source: The file's name as the user typed it.
        reason: What is wrong, without the location.
        line: The line where the offending text begins, from 1; None for formats without lines.
        offset: The byte where it begins, in the decompressed input; None if unknown.
    """

    def __init__(
        self, source: str, reason: str, *, line: int | None = None, offset: int | None = None
    ) -> None:
        location = source
        if line is not None:
            location = f"{source}:{line}"
        elif offset is not None:
            location = f"{source}: byte {offset}"
        super().__init__(f"{location}: {reason}")
        self.source = source
        self.reason = reason
        self.line = line
        self.offset = offset

    def __reduce__(self) -> tuple[Callable[..., InputError], tuple[object, ...]]:
        return _input_error, (self.source, self.reason, self.line, self.offset)


def _input_error(source: str, reason: str, line: int | None, offset: int | None) -> InputError:
    """Recreate an error that another process pickled."""
    return InputError(source, reason, line=line, offset=offset)


class OutputError(MeantimeError):
    """A result could not be written."""


class CommandNotFoundError(MeantimeError):
    """A command that was to be run is not there; the status is that of `env` and `nohup`."""

    exit_status = 127


class CommandNotRunError(MeantimeError):
    """A command that was to be run cannot be executed; the status is that of `env` and `nohup`."""

    exit_status = 126


class MissingExtraError(MeantimeError):
    """An optional dependency is not installed; the message names the extra to install."""


class ProviderError(MeantimeError):
    """A provider failed at an event, or its declaration is wrong."""


class HistoryError(MeantimeError):
    """A history or its builder cannot do what was requested."""


class TimeRangeError(HistoryError, ValueError):
    """A time lies outside the history, or a range is empty or reversed."""


class TimeOrderError(HistoryError, ValueError):
    """The changes of an attribute go backwards in time."""


class StateTypeError(HistoryError, TypeError):
    """A value's type differs from the type its attribute has."""


class QuarkError(HistoryError, IndexError):
    """No attribute of this history has this quark."""


class AttributeNotFound(HistoryError, KeyError):  # noqa: N818 - named as Trace Compass names it
    """No attribute of this history has this path."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotKeptError(HistoryError):
    """The history keeps only a part of its states, and the query is about another part."""


class HistoryClosedError(HistoryError):
    """The builder or the history was closed."""
