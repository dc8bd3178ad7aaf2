"""SQL statements of a page: of a history's tables only, with few rows, little time and memory."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from meantime.errors import UsageError
from meantime.query.sql import answer
from meantime.tabular import need

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history import History
    from meantime.query.sql import Answer

__all__ = ["MOST_CHARACTERS", "Statement", "is_installed"]

MOST_CHARACTERS = 10_000
_MOST_ROWS = 1_000
_MOST_CELL = 2_000
_MOST_S = 20.0
_AGAIN_S = 0.1


def is_installed() -> bool:
    """Return whether statements can be answered: with the extra [sql]."""
    return find_spec("duckdb") is not None and find_spec("pyarrow") is not None


class Statement:
    """A statement, which can be stopped by another thread than the one that runs it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._connection: Any = None
        self._is_stopped = self._is_late = False
        self._lock = Lock()

    def run(self, history: History) -> dict[str, Any]:
        """Return the first rows as texts, and whether there are more.

        Raises:
            UsageError: If the statement is rejected, takes too long, or was stopped.
        """
        timer = _after(_MOST_S, self._expire)
        try:
            with answer(history, self._text, confined=True, opened=self._open) as rows:
                return _document(rows)
        except UsageError:
            if self._is_late:
                raise UsageError(f"the statement takes more than {_MOST_S:.0f} s") from None
            raise
        finally:
            timer.cancel()
            with self._lock:
                self._connection = None

    def stop(self) -> None:
        """End it soon."""
        with self._lock:
            self._is_stopped = True
        self._interrupt()

    def _interrupt(self) -> None:
        with self._lock:
            if self._connection is None:
                return
            # it may just have been closed
            with suppress(need("duckdb", "SQL", "sql").Error):
                self._connection.interrupt()
        # an interruption before its execution begins is forgotten
        _after(_AGAIN_S, self._interrupt)

    def _expire(self) -> None:
        self._is_late = True
        self.stop()

    def _open(self, connection: Any) -> None:
        with self._lock:
            if self._is_stopped:
                raise UsageError("the statement was stopped")
            self._connection = connection


def _after(delay_s: float, work: Callable[[], None]) -> Timer:
    timer = Timer(delay_s, work)
    timer.daemon = True
    timer.start()
    return timer


def _document(rows: Answer) -> dict[str, Any]:
    columns: list[list[str]] = []
    found: list[list[str | None]] = []
    for batch in rows:
        if not columns:
            columns = [[name, _kind(column.type)] for name, column in batch.items()]
        # one more than are shown
        cells = (
            column.slice(0, _MOST_ROWS + 1 - len(found)).to_pylist() for column in batch.values()
        )
        found += [[_text(cell) for cell in row] for row in zip(*cells, strict=True)]
        if len(found) > _MOST_ROWS:
            break
    return {
        "columns": columns,
        "rows": list(islice(found, _MOST_ROWS)),
        "more": len(found) > _MOST_ROWS,
    }


def _kind(kind: Any) -> str:
    text = str(kind)
    return "number" if text.startswith(("int", "uint", "float", "double", "decimal")) else "text"


def _text(cell: Any) -> str | None:
    """Return a value as text: JavaScript's numbers lose integers above 2^53."""
    if cell is None:
        return None
    text = str(cell)
    if isinstance(cell, bool):
        text = text.lower()
    return text if len(text) <= _MOST_CELL else f"{text[:_MOST_CELL]}…"
