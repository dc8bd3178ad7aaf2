"""Decodes the strings of a JSON text, which the scanner returns undecoded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import Interner

if TYPE_CHECKING:
    from meantime.model.columns import Int32s

__all__ = ["Strings", "decode"]


class Strings:
    """A table of distinct decoded strings, and the index of each raw string in it; both grow.

    Attributes:
        texts: The strings.
        size: How many raw strings were added.
        undecodable: How many of them are not UTF-8.
        empty: The index of the empty string; -1 if it is not in the table.
    """

    def __init__(self, texts: list[str]) -> None:
        """Make a table of a list, to which the strings are appended."""
        self.texts: list[str] = texts
        self.size: int = 0
        self.undecodable: int = 0
        self.empty: int = -1
        # None while raw strings have the indices of their texts
        self._codes: Int32s | None = None
        self._interner: Interner[str] | None = None

    def add(self, raw: list[bytes] | list[str]) -> None:
        """Add the next raw strings."""
        if not raw:
            return
        first = self.size
        self.size += len(raw)
        texts, are_plain = _decode_all(raw)
        if are_plain and self._interner is None:
            self.texts += texts
        else:
            # different raw strings can be equal: `\u0061` and `a`
            self.undecodable += sum("\ufffd" in text for text in texts)
            codes = self._known().codes(texts)
            if self._codes is None and not np.array_equal(codes, np.arange(first, self.size)):
                self._codes = np.arange(first, dtype=np.int32)
            if self._codes is not None:
                self._codes = np.append(self._codes, codes)
        if self.empty < 0 and "" in texts:
            self.empty = self.texts.index("")

    def _known(self) -> Interner[str]:
        if self._interner is None:
            self._interner = Interner(self.texts)
        return self._interner

    def map(self, raw: Int32s) -> Int32s:
        """Convert a column of raw codes to indices into `texts`; -1 stays -1."""
        if self._codes is None:
            return raw
        return np.where(raw < 0, np.int32(-1), self._codes[raw])

    def map_or_empty(self, raw: Int32s) -> Int32s:
        """Convert a column of raw codes; missing strings become the empty string."""
        mapped = self.map(raw)
        if not len(mapped) or mapped.min() >= 0:
            return mapped
        if self.empty < 0:
            self.empty = self._known().code("")
        return np.where(mapped < 0, np.int32(self.empty), mapped)


def decode(raw: bytes) -> str:
    r"""Decode the text between two quotes of a JSON string, even if it is malformed.

    Invalid escapes are kept; invalid UTF-8 and lone surrogates become U+FFFD.

    >>> decode(b'a\\u00e9\\n'), decode(b'C:\\dir')
    ('aé\n', 'C:\\dir')
    """
    text = raw.decode("utf-8", "replace")
    if "\\" in text:
        try:
            text = json.loads(f'"{text}"', strict=False)
        except ValueError:
            return text
        # escapes can form lone surrogates, which no UTF-8 output can contain
        if not text.isascii():
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _decode_all(raw: list[bytes] | list[str]) -> tuple[list[str], bool]:
    """Return the decoded strings of a scanner's table, and whether none needed to be decoded."""
    if isinstance(raw[0], str):
        return raw, True
    return [decode(text) for text in raw], False
