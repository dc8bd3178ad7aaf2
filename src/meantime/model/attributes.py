r"""The attribute tree. A path is a tuple of names; its text form escapes `/`, `*` and `\`.

An attribute is identified by its quark, a small integer assigned in order of creation. The tree is
columns (`kernels/attribute_tree`), so that a million attributes need no Python objects.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from meantime.errors import AttributeNotFound, HistoryClosedError, QuarkError, UsageError
from meantime.kernels.attribute_tree import AttributeTree, PathCodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s, TextTable

    UInt64s: TypeAlias = npt.NDArray[np.uint64]

__all__ = [
    "ANY",
    "ANY_DEPTH",
    "ROOT",
    "UP",
    "Attributes",
    "Path",
    "PathTable",
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
_SURROGATE = "[\ud800-\udfff]"
_ELEMENT = re.compile(r"(?:[^/\\]|\\.)*", re.DOTALL)
_NEAREST = 3
_SEARCHED_FOR_NEAREST = 2_000


def format_path(path: Iterable[str]) -> str:
    r"""Return the text form of a path: its names joined by `/`, with `/`, `*` and `\` escaped.

    A name `..` is escaped, too, as it is the parent in a pattern.

    >>> format_path(("CPUs", "3", "a/b*"))
    'CPUs/3/a\\/b\\*'
    """
    names = tuple(path)
    text = "/".join(names)
    is_plain = "*" not in text and "\\" not in text and ".." not in names
    if is_plain and text.count("/") == max(0, len(names) - 1):
        return text
    return "/".join(map(_escaped, names))


def _escaped(name: str) -> str:
    return r"\.." if name == ".." else _SPECIAL.sub(lambda match: "\\" + match[0], name)


def unicode_of(text: str) -> str:
    r"""Return a text that can be encoded as UTF-8: surrogates are replaced by U+FFFD.

    >>> unicode_of("a\ud800")
    'a\ufffd'
    """
    return text if text.isascii() else re.sub(_SURROGATE, "\ufffd", text)


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
        UsageError: If a name is empty, which text cannot express.
    """
    elements = []
    for element in pattern:
        if element == "":
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
        self._tree = AttributeTree()
        self._frozen = False
        # How many of the tree are of these attributes; None for all.
        self._count: int | None = None

    def __len__(self) -> int:
        return len(self._tree) if self._count is None else self._count

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
        other._tree = self._tree.copy(len(self))
        return other

    def so_far(self) -> Attributes:
        """Return the attributes that there are now; those that are added later are not in it."""
        other = Attributes()
        other._tree, other._count, other._frozen = self._tree, len(self), True
        return other

    def add(self, path: Iterable[str], parent: int | None = None) -> int:
        """Return the quark of a path below `parent`; missing attributes are created.

        Raises:
            HistoryClosedError: If an attribute is missing, and the history was closed.
            QuarkError: If the path is empty, or there is no such parent.
        """
        # Providers call this for each event; whatever is wrong is found out below.
        if type(path) is tuple and path and not self._frozen:
            try:
                found = self._tree.add_path(ROOT if parent is None else parent, path)
            except (TypeError, OverflowError, UnicodeEncodeError):
                found = ROOT
            if found != ROOT:
                return found
        quark = start = self._start(parent)
        for name in path:
            quark = self._child_or_new(quark, name)
        # A child is never its parent, so only the empty path leads nowhere.
        if quark == start:
            raise QuarkError("an attribute's path needs at least one name")
        return quark

    def add_many(self, names: Iterable[str], parent: int = ROOT) -> Int32s:
        """Return the quarks of the children of one attribute, creating those missing."""
        if parent != ROOT:
            self._checked(parent)
        found = array("i", [self._child_or_new(parent, name) for name in names])
        return np.array(found, np.int32)

    def add_paths(self, paths: Sequence[Path]) -> Int32s:
        """Return the quarks of many paths, creating those missing; see `add`."""
        if not self._frozen and all(paths):
            try:
                return self._tree.add_paths(paths)
            except (TypeError, UnicodeEncodeError):
                pass  # of a name that `add` replaces or rejects; what was added stays
        return np.array([self.add(path) for path in paths], np.int32)

    def add_columns(self, texts: TextTable, levels: tuple[str | Int32s, ...]) -> Int32s:
        """Return the quark of each row's path, whose names are in columns, creating those missing.

        Args:
            texts: Names by code.
            levels: From the top down, a name that all rows have, or a column of codes.
        """
        return self._tree.add_columns(*texts.columns(), levels)

    def add_tree(self, other: Attributes, known: Int32s) -> Int32s:
        """Return the quark here of each attribute of another tree, creating those missing.

        Args:
            other: The other tree, which may have grown since the last call.
            known: What the last call returned; empty at first.
        """
        return np.append(known, self._tree.add_tree(other._tree, known))

    def add_numbered(
        self, parents: Int32s, counts: Int64s, *, name: str, below: npt.NDArray[np.bool_]
    ) -> Int32s:
        """Return the quarks of the children `0`, `1`, ... of many attributes, creating them.

        Args:
            parents: The attributes.
            counts: How many children each has.
            name: The name of a child of the parent.
            below: Whether the numbered children are below that child.
        """
        return self._tree.add_numbered(parents, below.view(np.uint8), name, counts)

    def add_lanes(
        self,
        above: Int32s,
        lanes: Int64s,
        below: npt.NDArray[np.bool_],
        owners: Int64s,
        depths: Int64s,
        *,
        name: str,
    ) -> Int32s:
        """Return the quarks of the depths of lanes, creating them.

        Args:
            above: The attribute that each lane is in, as `Lane/<number>`.
            lanes: The number of each lane.
            below: Whether the depths of the lane are below its child `name`.
            owners: Of each depth the index of its lane.
            depths: The number that is the name of each depth.
            name: The name of a child of the lane.
        """
        return self._tree.add_lanes(above, lanes, below.view(np.uint8), name, owners, depths)

    def ranks(self, quarks: Int32s, sort_keys: Int64s, *, first: str) -> Int32s | None:
        """Return ranks by a key, then by the numbers that names are, then by name.

        Of equal keys, attributes named `first` come first. Equal names get equal ranks. None if a
        name is a number of more than 18 digits, or has digits that are not ASCII.
        """
        return self._tree.ranks(quarks, sort_keys, first)

    def parents(self, quarks: Int32s) -> Int32s:
        """Return the parent of each attribute; `ROOT` at the top, and of `ROOT`."""
        return self._tree.parents_of(quarks)

    def columns(self, first: int = 0) -> tuple[UInt64s, UInt64s, UInt64s, bytes]:
        """Return the attributes from this quark on, for `extend`.

        Returns:
            Of each its parent: 0 for the attribute before it, otherwise the quark plus 2; of each
            its name: 0 for the next one, otherwise the index of an earlier one plus 1; how many
            bytes each name has; the names as UTF-8.
        """
        return self._tree.columns(first, len(self))

    def extend(self, parents: UInt64s, codes: UInt64s, sizes: UInt64s, names: bytes) -> None:
        """Add what `columns` of another tree returned, checked.

        Raises:
            ValueError: If it is malformed.
        """
        names.decode()
        self._tree.extend(parents, codes, sizes, np.frombuffer(names, np.uint8))

    def check_unique(self) -> None:
        """Raise `ValueError` if two attributes have the same path, which a damaged file can say."""
        quark = self._tree.first_twice()
        if quark >= 0:
            raise ValueError(f"the attribute {self.text(quark)!r} is there twice")

    def _child_or_new(self, parent: int, name: str) -> int:
        try:
            if not self._frozen:
                return self._tree.add(parent, name)
            quark = self._child(parent, name)
        except TypeError:
            raise QuarkError(
                f"{name!r} is not a name: the elements of a path are strings"
            ) from None
        except UnicodeEncodeError:
            return self._child_or_new(parent, unicode_of(name))
        if quark < 0:
            path = (*(self.path(parent) if parent != ROOT else ()), name)
            raise HistoryClosedError(
                f"this history was closed: {format_path(path)!r} cannot be added"
            )
        return quark

    def find(self, *path: str, parent: int | None = None) -> int | None:
        """Return the quark of a path below `parent`, or None where there is none."""
        quark = self._start(parent)
        for name in path:
            quark = self._child(quark, name)
            if quark < 0:
                return None
        return quark

    def _child(self, parent: int, name: object) -> int:
        if not isinstance(name, str):
            return ROOT
        try:
            quark = self._tree.child(parent, name)
        except UnicodeEncodeError:
            quark = self._tree.child(parent, unicode_of(name))
        return quark if quark < len(self) else ROOT

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
        import difflib  # noqa: PLC0415 - 5 ms, and only for errors

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
        return self._tree.name(self._checked(quark))

    def names(self, quarks: Iterable[int]) -> list[str]:
        """Return the last element of each attribute's path."""
        listed = [*map(int, quarks)]
        if listed:
            self._checked(min(listed))
            self._checked(max(listed))
        return [*map(self._tree.name, listed)]

    def parent(self, quark: int) -> int:
        """Return the quark of an attribute's parent; `ROOT` (-1) at the top, and of `ROOT`."""
        return ROOT if quark == ROOT else self._tree.parent(self._checked(quark))

    def path(self, quark: int) -> Path:
        """Return the names from the top down to an attribute."""
        return self._tree.path(self._checked(quark))

    def text(self, quark: int) -> str:
        """Return the text form of an attribute's path."""
        return format_path(self.path(quark))

    def texts(self, quarks: Int32s) -> tuple[bytes, Int32s]:
        r"""Return the text forms of many paths: joined as UTF-8, and where each begins and ends.

        >>> attributes = Attributes()
        >>> quark = attributes.add(("disks", "a/b"))
        >>> text, offsets = attributes.texts(np.array([0, quark], np.int32))
        >>> text, offsets.tolist()
        (b'disksdisks/a\\/b', [0, 5, 15])

        Raises:
            OverflowError: If they have 2 GiB or more.
        """
        return self._tree.texts(self._all_checked(quarks), whole=True)

    def name_texts(self, quarks: Int32s) -> tuple[bytes, Int32s]:
        """Return the last elements of many paths, as `texts` does."""
        return self._tree.texts(self._all_checked(quarks), whole=False)

    def _all_checked(self, quarks: Int32s) -> Int32s:
        if len(quarks):
            self._checked(int(quarks.min()))
            self._checked(int(quarks.max()))
        return quarks

    def children(self, quark: int = ROOT, *, recursive: bool = False) -> Int32s:
        """Return the quarks below an attribute, in order of creation; or all below, in pre-order.

        Raises:
            QuarkError: If there is no such attribute.
        """
        if quark != ROOT:
            self._checked(quark)
        start = np.array([quark], np.int32)
        below = self._tree.below(start, itself=False) if recursive else self._tree.children(start)
        return self._known(below)

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
        found = np.array([self._start(parent)], np.int32)
        for element in parse_pattern(pattern) if isinstance(pattern, str) else pattern:
            found = self._known(self._step(found, element))
        # The root is not an attribute: it has no states, and queries reject it.
        attributes: Int32s = found[found != ROOT]
        return attributes

    def _known(self, quarks: Int32s) -> Int32s:
        """Return those that are of these attributes; a child comes after its parent."""
        return quarks if self._count is None else quarks[quarks < self._count]

    def _step(self, quarks: Int32s, element: str | Wildcard) -> Int32s:
        if element is ANY:
            return self._tree.children(quarks)
        if element is ANY_DEPTH:
            return self._tree.below(quarks, itself=True)
        if element is UP:
            parents = self._tree.parents_of(quarks)
            _, first = np.unique(parents, return_index=True)
            return parents[np.sort(first)]
        if not isinstance(element, str):
            return quarks[:0]
        try:
            return self._tree.children_named(quarks, element)
        except UnicodeEncodeError:
            return self._tree.children_named(quarks, unicode_of(element))

    def _start(self, parent: int | None) -> int:
        """Return the attribute that a path begins below, checked; `ROOT` at the top."""
        return ROOT if parent is None or parent == ROOT else self._checked(parent)

    def _checked(self, quark: int) -> int:
        if not 0 <= quark < len(self):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has {len(self):,}"
            )
        return quark


class PathTable(Sequence[Path]):
    """Paths by code, in columns, so that a million paths need no Python objects.

    A path that is asked for gets the next code if it has none; a path that is appended always gets
    the next one.

    Attributes:
        attributes: The paths and all that they are below.

    >>> paths = PathTable([("CPUs", "0")])
    >>> paths.code(("CPUs", "1")), paths.code(("CPUs", "0")), [*paths]
    (1, 0, [('CPUs', '0'), ('CPUs', '1')])
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self.attributes: Attributes = Attributes()
        self._codes = PathCodes()
        self.extend(paths)

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        codes = range(len(self))[index]
        return self._path(codes) if isinstance(codes, int) else [*map(self._path, codes)]

    def __iter__(self) -> Iterator[Path]:
        return map(self._path, range(len(self)))

    def __iadd__(self, paths: Iterable[Path]) -> Self:
        self.extend(paths)
        return self

    def __repr__(self) -> str:
        return f"PathTable({len(self):,} paths)"

    def _path(self, code: int) -> Path:
        return self.attributes.path(self._codes.attribute(code))

    def code(self, path: Path) -> int:
        """Return the code of a path.

        Raises:
            QuarkError: If it is empty, or a name is not a string.
        """
        return self._codes.code(self.attributes.add(path))

    def codes(self, paths: Iterable[Path]) -> Int32s:
        """Return the codes of many paths, faster than one by one; see `code`."""
        return self._codes.codes_of(self.attributes.add_paths([*paths]))

    def codes_in_columns(self, texts: TextTable, levels: tuple[str | Int32s, ...]) -> Int32s:
        """Return the codes of paths in columns; see `Attributes.add_columns`."""
        return self._codes.codes_of(self.attributes.add_columns(texts, levels))

    def append(self, path: Path) -> None:
        """Give a path the next code."""
        self.extend([path])

    def extend(self, paths: Iterable[Path]) -> None:
        """Give paths the next codes."""
        self._codes.append(self.attributes.add_paths([*paths]))

    def attributes_from(self, code: int) -> Int32s:
        """Return the quarks in `attributes` of the paths from a code on."""
        return self._codes.attributes_from(code)
