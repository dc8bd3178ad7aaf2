"""A declaration's values, each with its line, so that errors can name it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NoReturn

from meantime.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.providers.declared.positions import NodePath

__all__ = ["Node"]


class Node:
    """A value of a declaration, and its location."""

    __slots__ = ("_lines", "_path", "_source", "value")

    def __init__(
        self, value: Any, source: str, lines: dict[NodePath, int], path: NodePath = ()
    ) -> None:
        self.value: Any = value
        self._source = source
        self._lines = lines
        self._path = path

    @property
    def where(self) -> str:
        """The file and the line."""
        path = self._path
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self._source}:{self._lines.get(path, 1)}"

    def fail(self, message: str) -> NoReturn:
        """Raise an error that names the location."""
        raise ProviderError(f"{self.where}: {message}")

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def __getitem__(self, key: str | int) -> Node:
        return Node(self.value[key], self._source, self._lines, (*self._path, key))

    def get(self, key: str) -> Node | None:
        """Return the value of a key in a table, or None."""
        return self[key] if key in self.value else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def table(self, *known: str) -> Node:
        """Return itself, after checking that it is a table with known keys only."""
        if not isinstance(self.value, dict):
            self.fail(f"{self.value!r} must be a table of {_listed(known)}")
        for key in self.value:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {_listed(known)}"
                self[key].fail(f"{key!r} is not known here: {hint}")
        return self

    def needed(self, key: str, what: str) -> Node:
        """Return the value of a required key in a table."""
        if key not in self.value:
            self.fail(f"{key!r} is missing: {what}")
        return self[key]

    def without(self, *keys: str) -> Node:
        """Return a table without some of its keys."""
        left = {key: value for key, value in self.value.items() if key not in keys}
        return Node(left, self._source, self._lines, self._path)

    def one_of(self, keys: Iterable[str], what: str) -> str:
        """Return the only one of these keys that a table has."""
        found = [key for key in keys if key in self.value]
        if len(found) != 1:
            has = f"has {_listed(found)}" if found else "has none"
            self.fail(f"{what} has one of {_listed(keys)}; this {has}")
        return found[0]

    def items(self) -> Iterator[Node]:
        """Return the elements of an array."""
        if not isinstance(self.value, list):
            self.fail(f"{self.value!r} must be an array: write [ ] around it")
        return (self[index] for index in range(len(self.value)))

    def text(self) -> str:
        """Return it as a string that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            self.fail(f"{self.value!r} must be a string that is not empty")
        return self.value

    def choice(self, *choices: str) -> str:
        """Return it as one of some strings."""
        if self.value not in choices:
            self.fail(f"{self.value!r} must be one of {_listed(choices)}")
        return str(self.value)

    def true(self) -> None:
        """Fail if it is anything but true."""
        if self.value is not True:
            self.fail("can only be true: leave it out otherwise")


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
