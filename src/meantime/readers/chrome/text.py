"""Decodes the strings of a JSON text, which the scanner returns undecoded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.columns import Interner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s

__all__ = ["Strings", "decode", "decode_all"]


class Strings(NamedTuple):
    """Distinct decoded strings, and the index of each raw string in them.

    Attributes:
        texts: The strings.
        codes: Index into `texts` by raw code; None if they are equal.
        undecodable: The number of strings that are not UTF-8.
    """

    texts: list[str]
    codes: Int32s | None
    undecodable: int

    def map(self, raw: Int32s) -> Int32s:
        """Convert a column of raw codes to indices into `texts`; -1 stays -1."""
        if self.codes is None:
            return raw
        return np.where(raw < 0, np.int32(-1), self.codes[raw])


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


def decode_all(raw: Sequence[bytes]) -> Strings:
    """Decode the strings of a scanner's table and merge equal ones."""
    plain = _decoded_plain(raw)
    if plain is not None:
        return Strings(plain, None, 0)
    # different raw strings can be equal: `\u0061` and `a`
    texts = [decode(text) for text in raw]
    undecodable = sum("\ufffd" in text for text in texts)
    distinct: list[str] = []
    codes = Interner(distinct).codes(texts)
    return Strings(distinct, None if len(distinct) == len(texts) else codes, undecodable)


def _decoded_plain(raw: Sequence[bytes]) -> list[str] | None:
    """Return different strings decoded at once; None unless all are plain UTF-8 in one line."""
    joined = b"\n".join(raw)
    if b"\\" in joined or joined.count(b"\n") != len(raw) - 1:
        return None
    try:
        text = joined.decode()
    except UnicodeDecodeError:
        return None
    return None if "\ufffd" in text else text.split("\n")
