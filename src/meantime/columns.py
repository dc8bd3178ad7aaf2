"""Columns that belong together: the values of attributes, coded, and typed array aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Coded", "Int32s", "Int64s", "Value"]

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Value: TypeAlias = "int | float | str | None"


class Coded:
    """A column of strings: a code per row and the strings the codes stand for; -1 is None.

    >>> column = Coded.of(["on", None, "off", "on"])
    >>> column.codes.tolist(), column.names
    ([0, -1, 1, 0], ['on', 'off'])
    >>> column[2], len(column)
    ('off', 4)
    """

    __slots__ = ("codes", "names")

    def __init__(self, codes: Int32s, names: Sequence[str]) -> None:
        self.codes = codes
        self.names = names

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Coded:
        """Return the column that holds these values, coded in order of first appearance."""
        table: dict[str, int] = {}
        codes = [-1 if value is None else table.setdefault(value, len(table)) for value in values]
        return cls(np.array(codes, np.int32), list(table))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else self.names[code]

    def to_list(self) -> list[str | None]:
        """Return the values as Python objects."""
        return [self[row] for row in range(len(self))]

    def __repr__(self) -> str:
        return f"Coded({len(self.codes):,} rows of {len(self.names):,} strings)"
