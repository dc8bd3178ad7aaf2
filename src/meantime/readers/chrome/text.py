"""The strings of a JSON text, which the scanner leaves as they stand, decoded once each."""

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
    """Distinct strings, and which of them each raw one became.

    Attributes:
        texts: The strings.
        codes: Raw code to index into `texts`; None if they are the same.
        undecodable: How many were not UTF-8.
    """

    texts: list[str]
    codes: Int32s | None
    undecodable: int

    def map(self, raw: Int32s) -> Int32s:
        """Return a column of raw codes as one of indices into `texts`; -1 stays -1."""
        if self.codes is None:
            return raw
        return np.where(raw < 0, np.int32(-1), self.codes[raw])


def decode(raw: bytes) -> str:
    r"""Return the string that stands between two quotes of a JSON text, whatever it holds.

    Escapes that JSON does not have stay as they are; what is not UTF-8, and half of a surrogate
    pair, becomes U+FFFD.

    >>> decode(b'a\\u00e9\\n'), decode(b'C:\\dir')
    ('aé\n', 'C:\\dir')
    """
    text = raw.decode("utf-8", "replace")
    if "\\" in text:
        try:
            text = json.loads(f'"{text}"', strict=False)
        except ValueError:
            return text
        if not text.isascii():
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def decode_all(raw: Sequence[bytes]) -> Strings:
    """Return the strings of a scanner's table, equal ones once."""
    texts = [decode(text) for text in raw]
    undecodable = sum("\ufffd" in text for text in texts)
    distinct: list[str] = []
    codes = Interner(distinct).codes(texts)
    return Strings(distinct, None if len(distinct) == len(texts) else codes, undecodable)
