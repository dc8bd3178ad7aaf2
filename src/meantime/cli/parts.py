"""The option --against: the other side of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.cli.inputs import load
from meantime.options import file_or_range

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.query.parts import Part

__all__ = ["Against", "against"]


class Against(NamedTuple):
    """The other side of a comparison: another trace, or another range of the same one."""

    file: str | None
    from_: str | None
    to: str | None

    def part(
        self,
        history: History,
        pattern: str | None,
        *,
        lenient: bool,
        strict: bool,
        provider: str | None,
    ) -> Part:
        """Return the part; another trace is opened."""
        from meantime.query.parts import part_of  # noqa: PLC0415 - NumPy is not for --help

        if self.file is not None:
            history = load(self.file, lenient=lenient, strict=strict, provider=provider)
        return part_of(history, self.from_, self.to, pattern)


def against(text: str) -> Against:
    """Parse the value of --against: an existing file, or two times.

    Raises:
        UsageError: If it is neither.
    """
    found = file_or_range("--against")(text)
    if isinstance(found, str):
        return Against(found, None, None)
    return Against(None, *found)
