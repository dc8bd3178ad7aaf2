"""SQL statements of a page: of a history's tables only, with few rows, little time and memory."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

from meantime.query.confined import Confined, prepare

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.query.sql import Answer

__all__ = ["MOST_CHARACTERS", "Statement", "is_installed"]

MOST_CHARACTERS = 10_000
_MOST_ROWS = 1_000
_MOST_CELL = 2_000
_MOST_S = 20.0


def is_installed() -> bool:
    """Return whether statements can be answered: with the extra [sql]."""
    return find_spec("duckdb") is not None and find_spec("pyarrow") is not None


class Statement:
    """A statement, which can be stopped by another thread than the one that runs it."""

    def __init__(self, text: str) -> None:
        self._confined = Confined(
            text,
            most_s=_MOST_S,
            # one more than are shown
            most_rows=_MOST_ROWS + 1,
            most_cell=_MOST_CELL,
        )

    def run(self, history: History) -> dict[str, Any]:
        """Return the first rows as texts, and whether there are more.

        Raises:
            UsageError: If the statement is rejected, takes too long, or was stopped.
        """
        try:
            with self._confined.answer(history) as rows:
                return _document(rows)
        finally:
            # where one was asked, others follow
            prepare()

    def stop(self) -> None:
        """End it at once."""
        self._confined.stop()


def _document(rows: Answer) -> dict[str, Any]:
    schema = rows.arrow_batches().schema
    columns: list[list[str]] = []
    found: list[list[str | None]] = []
    for batch in rows:
        if not columns:
            kinds = [field.metadata[b"type"].decode() for field in schema]
            columns = [[name, _kind(kind)] for name, kind in zip(batch, kinds, strict=True)]
        cells = (column.to_pylist() for column in batch.values())
        found += [[*row] for row in zip(*cells, strict=True)]
    return {
        "columns": columns,
        "rows": list(islice(found, _MOST_ROWS)),
        "more": len(found) > _MOST_ROWS,
    }


def _kind(kind: str) -> str:
    return "number" if kind.startswith(("int", "uint", "float", "double", "decimal")) else "text"
