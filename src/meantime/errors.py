"""Every error meantime raises on purpose, as one tree.

A message says where, what, and what to do. The command line turns any `MeantimeError` into one line
on standard error; nothing else is caught there::

    MeantimeError
    ├── UsageError               the command line, or an argument, is wrong (exit status 2)
    ├── InputError               a file says something that cannot be
    ├── OutputError              a result could not be written
    ├── MissingExtraError        an optional dependency is not installed
    ├── ProviderError            a provider failed, or its declaration is wrong
    └── HistoryError
        ├── TimeRangeError       a time lies outside the history       (also a ValueError)
        ├── TimeOrderError       an attribute's changes went backwards (also a ValueError)
        ├── StateTypeError       a value is not of its attribute's type (also a TypeError)
        ├── QuarkError           no attribute has this quark           (also an IndexError)
        ├── AttributeNotFound    no attribute has this path            (also a KeyError)
        ├── NotKeptError         it was told, but this history does not keep it
        └── HistoryClosedError   the builder or history was closed
"""

from __future__ import annotations

# a recorded program imports this, so it imports nothing itself
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AttributeNotFound",
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
    """Something meantime could not do; the message says where, what and what to do."""

    exit_status = 1


class UsageError(MeantimeError):
    """The command line, or an argument, is wrong by itself, whatever the files hold."""

    exit_status = 2


class InputError(MeantimeError):
    """A file says something that cannot be.

    Attributes:
        source: The file's name as the user gave it.
        reason: What is wrong, without the place.
        line: The line where the offending text begins, from 1; None where lines mean nothing.
        offset: The byte where it begins, in the decompressed input; None if unknown.
    """

    def __init__(
        self, source: str, reason: str, *, line: int | None = None, offset: int | None = None
    ) -> None:
        place = source
        if line is not None:
            place = f"{source}:{line}"
        elif offset is not None:
            place = f"{source}: byte {offset}"
        super().__init__(f"{place}: {reason}")
        self.source = source
        self.reason = reason
        self.line = line
        self.offset = offset

    def __reduce__(self) -> tuple[Callable[..., InputError], tuple[object, ...]]:
        return _input_error, (self.source, self.reason, self.line, self.offset)


def _input_error(source: str, reason: str, line: int | None, offset: int | None) -> InputError:
    """Make an error again that another process met."""
    return InputError(source, reason, line=line, offset=offset)


class OutputError(MeantimeError):
    """A result could not be written."""


class MissingExtraError(MeantimeError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class ProviderError(MeantimeError):
    """A provider failed at an event, or what declares it is wrong."""


class HistoryError(MeantimeError):
    """A history, or its builder, was asked for something it cannot do."""


class TimeRangeError(HistoryError, ValueError):
    """A time lies outside the history, or a range is empty or reversed."""


class TimeOrderError(HistoryError, ValueError):
    """The changes of one attribute went backwards in time."""


class StateTypeError(HistoryError, TypeError):
    """A value's type differs from the type its attribute has."""


class QuarkError(HistoryError, IndexError):
    """No attribute of this history has this quark."""


class AttributeNotFound(HistoryError, KeyError):  # noqa: N818 - named as Trace Compass names it
    """No attribute of this history has this path."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotKeptError(HistoryError):
    """A history that keeps only a part was asked for another."""


class HistoryClosedError(HistoryError):
    """The builder or the history was closed."""
