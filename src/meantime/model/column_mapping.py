"""Which columns of a table, or fields of a log, are the times, entities and states.

A mapping is written as on the command line, `start=Start,end=End,entity=Node,state=Job`; as a
mapping in Python; or as TOML beside the data, in a file with its name and `.columns.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

__all__ = [
    "UNITS_NS",
    "ColumnMapping",
    "Columns",
    "Pair",
    "halves",
    "mapping_in",
    "mapping_of",
]

# As `meantime.open` takes it.
Columns: TypeAlias = "ColumnMapping | Mapping[str, str | Sequence[str]] | str"

UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_TIMES = ("time", "start", "end", "duration")
_TEXTS = ("entity", "path", "state", "name", "weight")
_ROLES = (*_TIMES, *_TEXTS)
# Roles that several columns may have.
_REPEATED = ("entity",)
_LARGEST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Pair:
    """Events that begin something, and the events that end it.

    Attributes:
        begin: The name of the event that begins it.
        ends: The names of those that end it.
        by: The fields that are equal in its begin and its end.
    """

    begin: str
    ends: tuple[str, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Which columns have which role.

    Attributes:
        columns: By role, its columns: `time`, `start`, `end` and `duration` are times, where
            `Date+Time` is a date in one column and a time in another; `entity` is what had the
            state, several columns one below the other; `path` is an entity written as a path;
            `state`, `name` and `weight` are of intervals and events.
        units: By role of a time, its unit (`ns`, `us`, `ms` or `s`) if it is given.
        zone: The time zone of dates that name none: `UTC`, `Europe/Oslo`; empty for UTC.
        table: Which table of a database it is about; empty if it has only one.
        pairs: The events of a log that become spans.
        pattern: An expression whose named groups are the fields of a line of text; empty if lines
            are not text.
        is_guess: Whether names of columns decided it.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""
    table: str = ""
    pairs: tuple[Pair, ...] = ()
    pattern: str = ""
    is_guess: bool = False

    def column(self, role: str) -> str | None:
        """Return the only column of a role; None if it has none."""
        names = self.columns.get(role)
        return names[0] if names else None

    @property
    def names(self) -> list[str]:
        """The columns of all roles, each once."""
        return list(dict.fromkeys(name for names in self.columns.values() for name in names))

    @property
    def text(self) -> str:
        """The mapping as on the command line."""
        parts = [
            f"{role}={_quoted(name)}" + (f":{self.units[role]}" if role in self.units else "")
            for role in _ROLES
            for name in self.columns.get(role, ())
        ]
        rest = {"zone": self.zone, "table": self.table}
        return ",".join(parts + [f"{key}={_quoted(name)}" for key, name in rest.items() if name])

    @property
    def options(self) -> list[str]:
        """The mapping as the options of a command, a word each."""
        words = ["--columns", self.text] if self.text else []
        words += ["--pattern", self.pattern] if self.pattern else []
        by = [",".join(map(_quoted, pair.by)) for pair in self.pairs]
        for pair in self.pairs:
            words += ["--pair", f"{pair.begin}:{','.join(map(_quoted, pair.ends))}"]
        for fields in dict.fromkeys(by) if len(set(by)) == 1 else by:
            words += ["--pair-by", fields] if fields else []
        return words

    @property
    def key(self) -> str:
        """All that decides what is read, as a text."""
        more = [str(each) for each in (self.pairs, self.pattern) if each]
        return " ".join([self.text, *more])


def halves(name: str, names: Container[str]) -> tuple[str, str] | None:
    """Return the columns of the date and of the time that a name joins; None if it is a column.

    >>> halves("Date+Time", ["Date", "Time"]), halves("a+b", ["a+b"]), halves("a+b", ["a"])
    (('Date', 'Time'), None, None)
    """
    if name in names:
        return None
    pairs = ((name[:at], name[at + 1 :]) for at, sign in enumerate(name) if sign == "+")
    return next((pair for pair in pairs if pair[0] in names and pair[1] in names), None)


def mapping_of(
    columns: Columns | None = None,
    pairs: Sequence[str] = (),
    by: Sequence[str] = (),
    pattern: str = "",
) -> ColumnMapping | None:
    """Return the mapping that an argument describes; None if there is none.

    Args:
        columns: The roles: text, or names by role, with `pair`, `by`, `zone` and `pattern`.
        pairs: Texts such as `job_started:job_finished,job_failed`.
        by: Fields that are equal in begin and end, separated by commas: one text for all pairs, or
            one for each.
        pattern: An expression whose named groups are the fields of lines of text.

    Raises:
        UsageError: If it cannot be understood.
    """
    if isinstance(columns, ColumnMapping):
        return columns
    if isinstance(columns, Mapping):
        rest = dict(columns)
        pairs = [*_listed("pair", rest.pop("pair", ())), *pairs]
        by = [*_listed("by", rest.pop("by", ())), *by]
        pattern = rest.pop("pattern", pattern)  # type: ignore[assignment] # checked below
        given = [(role, name) for role, names in rest.items() for name in _listed(role, names)]
    else:
        given = [_role(part) for part in _split(columns or "") if part.strip()]
        if columns is not None and not given:
            raise UsageError(f"columns {columns!r} name no column: write start=NAME,end=NAME")
    if not given and not pairs and not pattern:
        if by:
            raise UsageError("by applies to pairs of events: name them with pair")
        return None
    return replace(_mapping(given), pairs=_pairs(pairs, by), pattern=_pattern(pattern))


def mapping_in(path: Path) -> ColumnMapping | None:
    """Return the mapping in a TOML file; None if it describes none.

    Raises:
        InputError: If it cannot be read.
    """
    import tomllib  # noqa: PLC0415 - 5 ms, and few files have one

    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_BYTES + 1)
        if len(text) > _LARGEST_BYTES:
            raise InputError(str(path), f"has more than {_LARGEST_BYTES:,} bytes")
        described = tomllib.loads(text.decode())
        if "pattern" not in described:
            return mapping_of(described)
    except OSError as error:
        raise InputError(str(path), f"it cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"it is not TOML ({error})") from None
    except UsageError as error:
        raise InputError(str(path), str(error)) from None
    # who sent the data may have sent this file, and matching can take forever
    raise InputError(str(path), "a pattern is given as --pattern, not in a file beside the data")


def _pattern(text: Any) -> str:
    """Check an expression.

    Raises:
        UsageError: If it is none, or names no groups.
    """
    if not isinstance(text, str):
        raise UsageError(f"pattern is {text!r}: it must be text")
    try:
        named = re.compile(text.encode()).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"pattern {text!r} is not a regular expression: {error}") from None
    if text and not named:
        raise UsageError(
            f"pattern {text!r} names no fields: write (?P<NAME>...) around each, as in"
            r" '^(?P<time>\S+ \S+) (?P<name>.*)'"
        )
    return text


def _listed(role: str, names: Any) -> list[str]:
    found = [names] if isinstance(names, str) else names
    if not isinstance(found, Sequence) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"columns: {role} is {names!r}: it must be a name, or a list of names")
    return list(found)


def _split(text: str) -> list[str]:
    r"""Return the parts between commas; `\,` is a comma in a name."""
    parts, part, at = [], "", 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] == ",":
            part += ","
            at += 1
        elif text[at] == ",":
            parts.append(part)
            part = ""
        else:
            part += text[at]
        at += 1
    return [*parts, part]


def _quoted(name: str) -> str:
    return name.replace(",", "\\,")


def _role(part: str) -> tuple[str, str]:
    role, equals, name = part.partition("=")
    if not equals or not name:
        raise UsageError(f"columns: {part!r} is not ROLE=COLUMN; roles are {', '.join(_ROLES)}")
    return role.strip(), name


def _mapping(given: Sequence[tuple[str, str]]) -> ColumnMapping:
    columns: dict[str, tuple[str, ...]] = {}
    units: dict[str, str] = {}
    zone = table = ""
    for role, given_name in given:
        name = given_name
        if role == "zone":
            zone = _zone(name)
            continue
        if role == "table":
            table = name
            continue
        if role not in _ROLES:
            raise UsageError(
                f"columns: unknown role {role!r}; roles are {', '.join(_ROLES)}, zone, table"
            )
        if role in columns and role not in _REPEATED:
            raise UsageError(f"columns: {role} is given more than once")
        head, colon, unit = name.rpartition(":")
        if role in _TIMES and colon and head and unit in UNITS_NS:
            name, units[role] = head, unit
        columns[role] = (*columns.get(role, ()), name)
    if "entity" in columns and "path" in columns:
        raise UsageError("columns: entity and path are mutually exclusive")
    return ColumnMapping(columns, units, zone, table)


def _zone(name: str) -> str:
    from meantime.model.zones import Zone  # noqa: PLC0415 - few tables name a zone

    try:
        return Zone(name).name
    except UsageError as error:
        raise UsageError(f"columns: {error}") from None


def _pairs(texts: Sequence[str], by: Sequence[str]) -> tuple[Pair, ...]:
    if by and not texts:
        raise UsageError("by applies to pairs of events: name them with pair")
    if len(by) not in {0, 1, len(texts)}:
        raise UsageError(f"give by once, or once for each of the {len(texts)} pairs")
    keys = [tuple(name.strip() for name in _split(each) if name.strip()) for each in by] or [()]
    found = []
    for number, text in enumerate(texts):
        begin, colon, rest = text.partition(":")
        ends = tuple(end for end in _split(rest) if end)
        if not begin or not colon or not ends:
            raise UsageError(f"pair {text!r} is not BEGIN:END or BEGIN:END,END")
        found.append(Pair(begin, ends, keys[number if len(keys) > 1 else 0]))
    return tuple(found)
