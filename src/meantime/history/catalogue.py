"""What a history knows beside its intervals, while it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.anomalies import Anomalies
from meantime.attributes import Attributes
from meantime.history.values import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meantime.clocks import Clock
    from meantime.trace import LaneDeclaration

__all__ = ["Catalogue"]


class Catalogue:
    """Names, tags and facts; what `History` says of the same names.

    Attributes:
        attributes: The attribute tree.
        strings: The strings that values, names and categories are codes of.
        tags: By tag, its fields.
        tag_log: Every definition of a tag in order: the tag, its fields, and the key it goes by.
        start_ns: Where the history begins, if no change is earlier.
        position: Where in the input whoever builds is; any JSON, kept with the changes before it.
        anomalies: What was odd so far.
        found: What else was odd, as is known when the whole input was read.
        provenance: What it is made of, and by whom, as strings: a history of the same is the same.
    """

    def __init__(self, start_ns: int, clock: Clock) -> None:
        self.attributes = Attributes()
        self.strings = Strings()
        self.tags: list[dict[str, Any]] = []
        self.tag_log: list[tuple[int, dict[str, Any], Any]] = []
        self._tag_keys: dict[object, int] = {}
        self.start_ns = start_ns
        self.clock = clock
        self.title: str | None = None
        self.bounds: tuple[int, int] | None = None
        self.declarations: list[LaneDeclaration] = []
        self.descriptions: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.sort_keys: dict[int, int] = {}
        self.facts: dict[str, str] = {}
        self.lost: list[tuple[int, int]] = []
        self.anomalies = Anomalies()
        self.found: dict[str, int] = {}
        self.position: Any = None
        self.provenance: dict[str, str] = {}

    def share_names(self, other: Catalogue) -> None:
        """Have the attributes, strings and tags of another catalogue in common with it."""
        self.attributes, self.strings = other.attributes, other.strings
        self.tags, self.tag_log, self._tag_keys = other.tags, other.tag_log, other._tag_keys

    def tag(self, fields: Mapping[str, Any], key: Any = None) -> int:
        """Return the tag of a key, or of these very fields; a new one if need be."""
        place = _tag_place(fields, key)
        tag = self._tag_keys.setdefault(place, len(self.tags))
        if tag == len(self.tags):
            self.define_tag(tag, fields, key)
        return tag

    def define_tag(self, tag: int, fields: Mapping[str, Any], key: Any = None) -> None:
        """Say what a tag stands for, from now on and in all its uses."""
        if tag < len(self.tags) and repr(self.tags[tag]) == repr(dict(fields)):
            return  # as whoever goes on with a history says it again
        while tag >= len(self.tags):
            self.tags.append({})
        self.tags[tag] = dict(fields)
        self.tag_log.append((tag, self.tags[tag], key))

    def recall_tag(self, tag: int, fields: dict[str, Any], key: Any) -> None:
        """Take a definition from another catalogue's log."""
        self.define_tag(tag, fields, key)
        self._tag_keys.setdefault(_tag_place(fields, key), tag)


def _tag_place(fields: Mapping[str, Any], key: Any) -> object:
    return ("fields", repr(sorted(fields.items()))) if key is None else ("key", key)
