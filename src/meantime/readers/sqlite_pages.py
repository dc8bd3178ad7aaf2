"""Rows of a table of an SQLite database by column, from the pages of its file.

SQLite's module makes an object of each value, which takes most of the time of a large table. What
the pages have is the same; where they are unusual, the rest of the rows is left to SQLite.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

from meantime.kernels.sqlite_rows import As, Stop, TableRows
from meantime.readers.sqlite_access import quoted
from meantime.readers.table.times import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["As", "PageRows"]

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_LARGEST_PAGE, _SMALLEST_PAGE, _LEAST_USED = 65536, 512, 480
_UTF_8 = 1
_FORMATS = b"\1\2"
_ROW_IDS = ("rowid", "_rowid_", "oid")


class PageRows:
    """Some columns of a table.

    Args:
        connection: The database, opened by SQLite.
        path: Its file; None if it has none.
        table: The name of the table.
        wanted: By name of a column, how its values are returned.

    Attributes:
        rest: After `parts`, the condition of the rows that are not read; None if all are.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str | None,
        table: str,
        wanted: Mapping[str, As],
    ) -> None:
        self._connection = connection
        self._path = path
        self._table = table
        self._wanted = wanted
        self.rest: str | None = ""

    def parts(self, most: int) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Yield up to `most` rows at a time: how many they are, and what `TableRows.read` returns.

        If all rows are read, there is at least one part, which may be empty.

        Raises:
            sqlite3.DatabaseError: If the table is damaged.
        """
        if self._path is None:
            return
        columns = self._columns()
        row_id = next((each for each in _ROW_IDS if each not in self._lower_names), None)
        if columns is None or row_id is None:
            return
        with open(self._path, "rb", buffering=0) as file:  # noqa: PTH123 - only the descriptor is used
            rows = self._rows(file.fileno(), columns)
            stop, is_first = Stop.ODD if rows is None else Stop.FULL, True
            while rows is not None and stop == Stop.FULL:
                code, count, found = rows.read(most)
                stop = Stop(code)
                if count or (is_first and stop == Stop.FINISHED):
                    yield count, found
                    is_first = False
        if stop == Stop.DAMAGED:
            raise sqlite3.DatabaseError("database disk image is malformed")
        if stop == Stop.FINISHED:
            self.rest = None
        elif rows is not None and rows.last_row is not None:
            self.rest = f" WHERE {row_id} > {rows.last_row}"

    def _columns(self) -> list[tuple[int, int, bool, bool]] | None:
        """Return where the wanted columns are in a record; None if that is not known."""
        execute, table = self._connection.execute, quoted(self._table)
        described = execute(f"PRAGMA table_xinfo({table})").fetchall()
        self._lower_names = {str(name).lower() for _, name, *_ in described}
        # columns that are computed may not be stored
        if any(hidden for *_, hidden in described):
            return None
        keys = [index for index, *_, key, _ in described if key]
        # a key that has an index is not the row id
        has_index = any(
            origin == "pk" for _, _, _, origin, _ in execute(f"PRAGMA index_list({table})")
        )
        by_name = {name: (index, str(kind).upper()) for index, name, kind, *_ in described}
        found = []
        for name, way in self._wanted.items():
            index, kind = by_name[name]
            is_row_id = keys == [index] and kind == "INTEGER" and not has_index
            found.append((index, int(way), is_row_id, _is_real(kind)))
        return found

    def _rows(
        self, descriptor: int, columns: list[tuple[int, int, bool, bool]]
    ) -> TableRows | None:
        header = os.read(descriptor, _HEADER_BYTES)
        root = self._connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (self._table,)
        ).fetchone()
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC) or root is None:
            return None
        page_bytes = int.from_bytes(header[16:18], "big")
        page_bytes = _LARGEST_PAGE if page_bytes == 1 else page_bytes
        is_usual = (
            _SMALLEST_PAGE <= page_bytes <= _LARGEST_PAGE
            and page_bytes - header[20] >= _LEAST_USED
            and {*header[18:20]} <= {*_FORMATS}
            and int.from_bytes(header[56:60], "big") == _UTF_8
            and isinstance(root[0], int)
            and 0 < root[0] < 2**32
        )
        if not is_usual:
            return None
        pages = os.fstat(descriptor).st_size // page_bytes
        return TableRows(descriptor, page_bytes, header[20], pages, root[0], columns, MISSING)


def _is_real(kind: str) -> bool:
    """Return whether integers in a column of this type are floats."""
    if any(part in kind for part in ("INT", "CHAR", "CLOB", "TEXT", "BLOB")):
        return False
    return any(part in kind for part in ("REAL", "FLOA", "DOUB"))
