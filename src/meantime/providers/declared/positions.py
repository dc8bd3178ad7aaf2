"""The lines of the values of a TOML text, which was parsed successfully before.

`tomllib` does not report locations, and error messages need them.
"""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

__all__ = ["NodePath", "lines_of"]

NodePath: TypeAlias = tuple["str | int", ...]

_BLANK = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\])*"|' + r"'[^']*'", re.DOTALL
)
_BARE = re.compile(r"[^,\]}\n#]*")
_KEY = re.compile(r"""[ \t]*("(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*([.=\]])""")


def lines_of(text: str) -> dict[NodePath, int]:
    r"""Return the line, from 1, of every key and array element.

    >>> lines = lines_of('a = 1\n[[b]]\nc = [2,\n  {d = 3}]')
    >>> lines["b", 0], lines["b", 0, "c", 1, "d"]
    (2, 4)
    """
    scan = _Scan(text)
    scan.document()
    return scan.lines


class _Scan:
    def __init__(self, text: str) -> None:
        self.lines: dict[NodePath, int] = {}
        self._text = text
        self._at = 0
        self._elements: dict[NodePath, int] = {}

    def document(self) -> None:
        table: NodePath = ()
        while self._next():
            if self._text.startswith("[[", self._at):
                self._at += 2
                table = self._header(is_element=True)
            elif self._text[self._at] == "[":
                self._at += 1
                table = self._header(is_element=False)
            else:
                self._pair(table)

    def _next(self) -> str:
        """Skip blanks and comments, and return the next character; "" at the end."""
        match = _BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _keys(self) -> list[str]:
        keys = []
        while True:
            match = _KEY.match(self._text, self._at)
            assert match is not None
            key = match[1]
            keys.append(tomllib.loads(f"k = {key}")["k"] if key[0] in "\"'" else key)
            self._at = match.end()
            if match[2] != ".":
                return keys

    def _header(self, *, is_element: bool) -> NodePath:
        begin = self._at
        keys = self._keys()
        self._at = (
            self._text.index("\n", self._at) if "\n" in self._text[self._at :] else len(self._text)
        )
        path: NodePath = ()
        for key in keys[:-1]:
            path = (*path, key)
            if path in self._elements:
                path = (*path, self._elements[path] - 1)
        path = (*path, keys[-1])
        if is_element:
            self._elements[path] = self._elements.get(path, 0) + 1
            path = (*path, self._elements[path] - 1)
        self._mark(path, begin)
        return path

    def _pair(self, table: NodePath) -> None:
        begin = self._at
        path = (*table, *self._keys())
        self._mark(path, begin)
        self._value(path)

    def _value(self, path: NodePath) -> None:
        first = self._next()
        if first == "[":
            self._at += 1
            index = 0
            while self._next() != "]":
                self._mark((*path, index), self._at)
                self._value((*path, index))
                index += 1
            self._at += 1
        elif first == "{":
            self._at += 1
            while self._next() != "}":
                self._pair(path)
            self._at += 1
        else:
            match = _STRING.match(self._text, self._at) or _BARE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()

    def _mark(self, path: NodePath, at: int) -> None:
        self.lines.setdefault(path, 1 + self._text.count("\n", 0, at))
