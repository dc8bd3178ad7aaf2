r"""The attribute tree. A path is a tuple of names; its text form escapes `/`, `*` and `\`.

An attribute is identified by its quark, a small integer assigned in order of creation. The tree is
a few arrays and two dicts, so that a million attributes need no objects besides their names.
"""

from __future__ import annotations

import difflib
import re
from array import array
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.errors import AttributeNotFound, HistoryClosedError, QuarkError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from meantime.columns import Int32s

__all__ = [
    "ANY",
    "ANY_DEPTH",
    "ROOT",
    "UP",
    "Attributes",
    "Path",
    "Pattern",
    "entity_name",
    "format_path",
    "format_pattern",
    "parse_pattern",
    "unicode_of",
]

Path: TypeAlias = "tuple[str, ...]"

ROOT = -1


class Wildcard(Enum):
    """Elements of a pattern that are not names."""

    ANY = "*"
    ANY_DEPTH = "**"
    UP = ".."

    def __repr__(self) -> str:
        return self.name


ANY, ANY_DEPTH, UP = Wildcard

Pattern: TypeAlias = "str | Sequence[str | Wildcard]"

_SPECIAL = re.compile(r"[/*\\]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ELEMENT = re.compile(r"(?:[^/\\]|\\.)*", re.DOTALL)
_NEAREST = 3
# All attributes are sorted again once this many more than were sorted before exist.
_RESORT = 1000
_SEARCHED_FOR_NEAREST = 2_000


def format_path(path: Iterable[str]) -> str:
    r"""Return the text form of a path: its names joined by `/`, with `/`, `*` and `\` escaped.

    >>> format_path(("CPUs", "3", "a/b*"))
    'CPUs/3/a\\/b\\*'
    """
    return "/".join(_SPECIAL.sub(lambda match: "\\" + match[0], name) for name in path)


def unicode_of(text: str) -> str:
    r"""Return a text that can be encoded as UTF-8: surrogates are replaced by U+FFFD.

    >>> unicode_of("a\ud800")
    'a\ufffd'
    """
    return _SURROGATE.sub("\ufffd", text)


def entity_name(path: Path) -> str:
    """Return the label of an entity: its name if the path has only one, otherwise its text form.

    >>> entity_name(("/dev/vda",)), entity_name(("CPUs", "3"))
    ('/dev/vda', 'CPUs/3')
    """
    return path[0] if len(path) == 1 else format_path(path)


def format_pattern(pattern: Iterable[str | Wildcard]) -> str:
    r"""Return the text form of a pattern given as a sequence.

    >>> format_pattern(["CPUs", ANY, "a*"])
    'CPUs/*/a\\*'

    Raises:
        UsageError: If a name is empty or `..`, which text cannot express.
    """
    elements = []
    for element in pattern:
        if isinstance(element, str) and element in ("", ".."):
            raise UsageError(f"a pattern in text cannot hold the name {element!r}")
        elements.append(format_path((element,)) if isinstance(element, str) else element.value)
    return "/".join(elements)


def parse_pattern(text: str) -> tuple[str | Wildcard, ...]:
    r"""Return the elements of a text pattern.

    `*` is any name, `**` any number of names, `..` the parent; a backslash escapes the next
    character. The empty text is the empty pattern.

    >>> parse_pattern(r"CPUs/*/a\/b")
    ('CPUs', ANY, 'a/b')

    Raises:
        UsageError: If an element is empty, or a `*` is only a part of it.
    """
    if not text:
        return ()
    elements: list[str | Wildcard] = []
    position = 0
    while True:
        match = _ELEMENT.match(text, position)
        assert match is not None
        elements.append(_parse_element(match[0], text))
        position = match.end()
        if position == len(text):
            return tuple(elements)
        if text[position] != "/":
            raise UsageError(f"the pattern {text!r} ends in a single backslash; write two")
        position += 1


def _parse_element(element: str, text: str) -> str | Wildcard:
    if element in ("*", "**", ".."):
        return Wildcard(element)
    if not element:
        raise UsageError(f"the pattern {text!r} has an empty name; use a sequence of names instead")
    if "*" in re.sub(r"\\.", "", element, flags=re.DOTALL):
        raise UsageError(
            f"in the pattern {text!r} a * is only a part of {element!r}, but it matches whole"
            r" names only; write \* for the character"
        )
    return re.sub(r"\\(.)", r"\1", element, flags=re.DOTALL)


class Attributes:
    """All attributes of a history, by path and by quark.

    >>> attributes = Attributes()
    >>> attributes.add(("CPUs", "0", "Status"))
    2
    >>> attributes.find("CPUs", "0"), attributes.find("CPUs", "1")
    (1, None)
    >>> attributes.quarks("CPUs/*/Status").tolist()
    [2]
    >>> attributes.text(2)
    'CPUs/0/Status'
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._name_codes: dict[str, int] = {}
        self._parent = array("i")
        self._name = array("i")
        self._quarks: dict[int, int] = {}
        self._order = np.zeros(0, np.int32)
        self._first = np.zeros(0, np.int32)
        self._since: dict[int, list[int]] = {}
        self._linked = 0
        self._frozen = False

    def __len__(self) -> int:
        return len(self._parent)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __repr__(self) -> str:
        return f"Attributes({len(self):,} attributes, {len(self.children()):,} at the top)"

    def freeze(self) -> None:
        """Reject new attributes from now on."""
        self._frozen = True

    def copy(self) -> Attributes:
        """Return a tree of the same attributes, to which others can be added."""
        other = Attributes()
        other._names = self._names[:]
        other._name_codes = self._name_codes.copy()
        other._parent = self._parent[:]
        other._name = self._name[:]
        other._quarks = self._quarks.copy()
        return other

    def add(self, path: Iterable[str], parent: int | None = None) -> int:
        """Return the quark of a path below `parent`; missing attributes are created.

        Raises:
            HistoryClosedError: If an attribute is missing, and the history was closed.
            QuarkError: If the path is empty, or there is no such parent.
        """
        quark = self._start(parent)
        empty = True
        for name in path:
            empty = False
            quark = self._child_or_new(quark, name)
        if empty:
            raise QuarkError("an attribute's path needs at least one name")
        return quark

    def add_many(self, names: Iterable[str], parent: int = ROOT) -> Int32s:
        """Return the quarks of the children of one attribute, creating those missing."""
        if parent != ROOT:
            self._checked(parent)
        # `_child_or_new` without a call per name, which would take half a second for a million
        codes, quarks, top = self._name_codes, self._quarks, (parent + 1) << 32
        found = array("i")
        for name in names:
            code = codes.get(name)
            quark = None if code is None else quarks.get(top | code)
            found.append(self._child_or_new(parent, name) if quark is None else quark)
        return np.array(found, np.int32)

    def rows(self, first: int) -> tuple[list[int], list[str]]:
        """Return parent and name of each attribute from this quark on, for `add_rows`."""
        names = [self._names[code] for code in self._name[first:]]
        return self._parent[first:].tolist(), names

    def add_rows(self, parents: Iterable[int], names: Iterable[str]) -> None:
        """Add what `rows` of another tree returned."""
        for parent, name in zip(parents, names, strict=True):
            self._child_or_new(parent, name)

    def _child_or_new(self, parent: int, name: str) -> int:
        code = self._name_codes.get(name)
        if code is None:
            if not isinstance(name, str):
                raise QuarkError(f"{name!r} is not a name: the elements of a path are strings")
            text = unicode_of(name)
            code = self._name_codes.setdefault(text, len(self._names))
            self._name_codes[name] = code
            if code == len(self._names):
                self._names.append(text)
        key = (parent + 1) << 32 | code
        quark = self._quarks.get(key)
        if quark is None:
            if self._frozen:
                path = (*(self.path(parent) if parent != ROOT else ()), name)
                raise HistoryClosedError(
                    f"this history was closed: {format_path(path)!r} cannot be added"
                )
            quark = self._quarks[key] = len(self._parent)
            self._parent.append(parent)
            self._name.append(code)
        return quark

    def find(self, *path: str, parent: int | None = None) -> int | None:
        """Return the quark of a path below `parent`, or None where there is none."""
        quark = self._start(parent)
        for name in path:
            code = self._name_codes.get(name)
            child = None if code is None else self._quarks.get((quark + 1) << 32 | code)
            if child is None:
                return None
            quark = child
        return quark

    def quark(self, *path: str, parent: int | None = None) -> int:
        """Return the quark of a path below `parent`.

        Raises:
            AttributeNotFound: If there is none; the message lists the nearest names.
        """
        quark = self._start(parent)
        for depth, name in enumerate(path):
            child = self.find(name, parent=quark)
            if child is None:
                raise AttributeNotFound(self._not_found(path, depth, quark))
            quark = child
        return quark

    def _not_found(self, path: Path, depth: int, parent: int) -> str:
        children = self.children(parent)[:_SEARCHED_FOR_NEAREST]
        names = [self.name(int(child)) for child in children]
        nearest = difflib.get_close_matches(path[depth], names, n=_NEAREST, cutoff=0)
        whole = f"{format_path(self.path(parent))!r}" if parent != ROOT else "the history"
        if not nearest:
            return f"no attribute {format_path(path)!r}: {whole} has no children"
        listed = ", ".join(repr(name) for name in nearest)
        return f"no attribute {format_path(path)!r}: in {whole} the nearest names are {listed}"

    def name(self, quark: int) -> str:
        """Return the last element of an attribute's path."""
        return self._names[self._name[self._checked(quark)]]

    def names(self, quarks: Iterable[int]) -> list[str]:
        """Return the last element of each attribute's path."""
        return [self.name(int(quark)) for quark in quarks]

    def parent(self, quark: int) -> int:
        """Return the quark of an attribute's parent; `ROOT` (-1) at the top, and of `ROOT`."""
        return ROOT if quark == ROOT else self._parent[self._checked(quark)]

    def path(self, quark: int) -> Path:
        """Return the names from the top down to an attribute."""
        names: list[str] = []
        quark = self._checked(quark)
        while quark != ROOT:
            names.append(self._names[self._name[quark]])
            quark = self._parent[quark]
        return tuple(reversed(names))

    def text(self, quark: int) -> str:
        """Return the text form of an attribute's path."""
        return format_path(self.path(quark))

    def children(self, quark: int = ROOT, *, recursive: bool = False) -> Int32s:
        """Return the quarks below an attribute, in order of creation; or all below, in pre-order.

        Raises:
            QuarkError: If there is no such attribute.
        """
        if quark != ROOT:
            self._checked(quark)
        if not recursive:
            return self._children(quark)
        found: list[int] = []
        waiting = self._children(quark).tolist()[::-1]
        while waiting:
            child = waiting.pop()
            found.append(child)
            waiting.extend(self._children(child).tolist()[::-1])
        return np.array(found, np.int32)

    def _children(self, quark: int) -> Int32s:
        """Return the children of an attribute: those that were sorted, and those added since.

        So a tree that grows between queries is not sorted for each of them.
        """
        count = len(self)
        if count > 2 * len(self._order) + _RESORT:
            parent = np.array(self._parent, np.int32)
            self._order = np.argsort(parent, kind="stable").astype(np.int32)
            # children of a quark are at [first[quark + 1], first[quark + 2]), since ROOT is -1
            bounds = np.arange(ROOT, count + 1, dtype=np.int32)
            self._first = np.searchsorted(parent[self._order], bounds).astype(np.int32)
            self._since = {}
            self._linked = count
        for new in range(self._linked, count):
            self._since.setdefault(self._parent[new], []).append(new)
        self._linked = count
        sorted_before = self._order[0:0]
        if quark + 2 < len(self._first):
            sorted_before = self._order[self._first[quark + 1] : self._first[quark + 2]]
        since = self._since.get(quark)
        return (
            sorted_before if since is None else np.append(sorted_before, np.array(since, np.int32))
        )

    def quarks(self, pattern: Pattern, parent: int | None = None) -> Int32s:
        r"""Return the attributes that match a pattern below `parent`, each once, in tree order.

        Text is parsed by `parse_pattern`; a sequence has names without escapes, and `ANY`,
        `ANY_DEPTH` or `UP`. Without a match the array is empty; so it is for the empty pattern,
        which matches the root.

        >>> attributes = Attributes()
        >>> quarks = [attributes.add(("Threads", tid, "Stack", "1")) for tid in "ab"]
        >>> [attributes.text(quark) for quark in attributes.quarks("Threads/*/**/1")]
        ['Threads/a/Stack/1', 'Threads/b/Stack/1']

        Raises:
            QuarkError: If there is no such parent.
            UsageError: If the text is not a pattern.
        """
        found: dict[int, None] = {self._start(parent): None}
        for element in parse_pattern(pattern) if isinstance(pattern, str) else pattern:
            found = dict.fromkeys(self._step(found, element))
        # The root is not an attribute: it has no states, and queries reject it.
        found.pop(ROOT, None)
        return np.fromiter(found, np.int32, len(found))

    def _step(self, quarks: Iterable[int], element: str | Wildcard) -> Iterator[int]:
        for quark in quarks:
            if element is ANY:
                yield from self._children(quark).tolist()
            elif element is ANY_DEPTH:
                yield quark
                yield from self.children(quark, recursive=True).tolist()
            elif element is UP:
                yield ROOT if quark == ROOT else self._parent[quark]
            elif (
                isinstance(element, str) and (child := self.find(element, parent=quark)) is not None
            ):
                yield child

    def _start(self, parent: int | None) -> int:
        """Return the attribute that a path begins below, checked; `ROOT` at the top."""
        return ROOT if parent is None or parent == ROOT else self._checked(parent)

    def _checked(self, quark: int) -> int:
        if not 0 <= quark < len(self._parent):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has {len(self):,}"
            )
        return quark
