"""Names, tags and metadata of a history that is being built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meantime.errors import UsageError
from meantime.history.values import Strings
from meantime.model.anomalies import Anomalies
from meantime.model.attributes import Attributes
from meantime.model.metadata import TraceMetadata

if TYPE_CHECKING:
    from meantime.model.clocks import Clock

__all__ = ["Catalogue"]

# A tag may be defined before those below it, but not after so many that nobody defined.
_TAGS_AHEAD = 2**20


class Catalogue:
    """Names, tags and metadata; see the attributes of `History`.

    Attributes:
        attributes: The attribute tree.
        strings: The strings that values, names and categories are codes of.
        tags: By tag, its fields.
        tag_log: Every definition of a tag in order: the tag, its fields, and its key.
        start_ns: Where the history begins, if no change is earlier.
        begins_at_start: Whether that is also where its bounds begin, rather than the first change.
        metadata: The metadata so far; it is replaced as a whole.
        anomalies: Its anomalies, which a builder counts while it builds.
        found: Further anomalies, which are counted when the whole input was read.
    """

    def __init__(self, start_ns: int, clock: Clock) -> None:
        self.attributes: Attributes = Attributes()
        self.strings: Strings = Strings()
        self.tags: list[dict[str, Any]] = []
        self.tag_log: list[tuple[int, dict[str, Any], Any]] = []
        self._tag_keys: dict[object, int] = {}
        self.start_ns = start_ns
        self.begins_at_start = False
        self.metadata: TraceMetadata = TraceMetadata(clock=clock)
        self.anomalies: Anomalies = self.metadata.anomalies
        self.found: dict[str, int] = {}

    def set_metadata(self, name: str, value: Any) -> None:
        """Replace one field of the metadata."""
        # most fields of most histories are empty, and replacing is half of opening a small one
        if getattr(self.metadata, name) != value:
            self.metadata = replace(self.metadata, **{name: value})

    def final_metadata(self, replaced: int) -> TraceMetadata:
        """Return the metadata with all anomalies; `replaced` states had no length."""
        anomalies = Anomalies()
        anomalies.update(self.anomalies)
        for name, count in self.found.items():
            anomalies.add(name, count)
        anomalies.add("zero_length_state", replaced)
        return replace(self.metadata, anomalies=anomalies)

    def share_names(self, other: Catalogue) -> None:
        """Use the same attributes, strings and tags as another catalogue."""
        self.attributes, self.strings = other.attributes, other.strings
        self.tags, self.tag_log, self._tag_keys = other.tags, other.tag_log, other._tag_keys

    def tag(self, fields: Mapping[str, Any], key: Any = None) -> int:
        """Return the tag of a key, or of these very fields; a new one if there is none."""
        tag = self._tag_keys.setdefault(_tag_key(json_of(fields), key), len(self.tags))
        if tag == len(self.tags):
            self.define_tag(tag, fields, key)
        return tag

    def define_tag(self, tag: int, fields: Mapping[str, Any], key: Any = None) -> None:
        """Set the fields of a tag, for all its uses."""
        if not 0 <= tag <= len(self.tags) + _TAGS_AHEAD:
            raise UsageError(
                f"{tag} is not a tag: {len(self.tags):,} are defined, and at most"
                f" {_TAGS_AHEAD:,} can be skipped"
            )
        kept: dict[str, Any] = json_of(fields)
        if tag < len(self.tags) and repr(self.tags[tag]) == repr(kept):
            return  # a resumed build defines its tags again
        while tag >= len(self.tags):
            self.tags.append({})
        self.tags[tag] = kept
        self.tag_log.append((tag, self.tags[tag], key))

    def recall_tag(self, tag: int, fields: dict[str, Any], key: Any) -> None:
        """Add a definition from another catalogue's log."""
        self.define_tag(tag, fields, key)
        self._tag_keys.setdefault(_tag_key(fields, key), tag)


def _tag_key(fields: Mapping[str, Any], key: Any) -> object:
    if key is None:
        return ("fields", repr(sorted(fields.items())))
    return ("key", _frozen(json_of(key)))


def _frozen(value: Any) -> object:
    """Return JSON as something that can be a key."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((name, _frozen(each)) for name, each in sorted(value.items()))
    return value


# What most values are: to look whether one is a mapping takes ten times as long.
_SCALARS = frozenset({str, int, float, bool, type(None)})


def json_of(value: Any) -> Any:
    """Return a value as it is after a round trip through JSON; other types stay as they are."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        return {
            name if type(name) is str else _name_of(name): (
                each if type(each) in _SCALARS else json_of(each)
            )
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [json_of(each) for each in value]
    return value


def _name_of(name: Any) -> Any:
    if isinstance(name, int | float | None) and not isinstance(name, str):
        return json.dumps(name)
    return name
