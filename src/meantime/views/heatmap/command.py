"""The command that shows what is in a selection: what the page needs to write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.structs import struct

if TYPE_CHECKING:
    from meantime.query.offsets.map import Kind
    from meantime.query.ranges import Range

__all__ = ["FlameCommand"]

# How `meantime flame` groups samples unless --by is given.
_DEFAULT_BY = "name"


@struct
class FlameCommand:
    """The parts of `meantime flame` or `meantime stats` that do not depend on the selection.

    Attributes:
        kind: What is mapped: `flame` draws samples and spans, `stats` prints states.
        file: The file.
        event: The event of the samples, if one was chosen.
        by: What the samples are grouped by.
        bounds: The range that the map was made of, in the times of the map.
        offset_ns: What was added to the file's times.
        states: The patterns of the states that are mapped; all states without any.
        filter: The filter of threads, if any.
        provider: The path of the provider, if any.
        drawn: Options that decide how the map is drawn, and that its page does not change.
    """

    kind: Kind
    file: str
    event: str | None
    by: str
    bounds: Range
    offset_ns: int
    states: tuple[str, ...] = ()
    filter: str | None = None
    provider: str | None = None
    drawn: tuple[str, ...] = ()

    def head(self) -> dict[str, Any]:
        """Return it as JSON values; times are texts, as JavaScript numbers are not exact."""
        return {
            "kind": self.kind,
            "file": self.file,
            "event": self.event,
            "by": None if self.by == _DEFAULT_BY else self.by,
            "bounds": [str(time_ns) for time_ns in self.bounds],
            "offset_ns": str(self.offset_ns),
            "states": list(self.states),
            "filter": self.filter,
            "provider": self.provider,
            "drawn": list(self.drawn),
        }
