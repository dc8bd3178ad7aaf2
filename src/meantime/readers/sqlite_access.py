"""SQLite databases of which nothing is trusted: reading one never writes, and always ends.

Pages of a damaged database may refer to each other, so that a few of them have rows without end.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import sqlite3

    from meantime.model.anomalies import Anomalies

__all__ = ["TOO_MANY_ROWS", "guard", "most_rows", "quoted", "read_only_uri", "reason"]

TOO_MANY_ROWS = "it has more rows than fit into it"
# The fewest bytes of a row.
_ROW_BYTES = 3
# How often the steps of SQLite's machine are counted, and how many a byte may take: a scan of a
# table takes less than one, sorting it and looking up its texts some ten.
_STEPS = 1 << 20
_STEPS_FREELY, _STEPS_PER_BYTE = 1 << 24, 64


def read_only_uri(path: str) -> str:
    """Return the URI that opens a database without locks and without files beside it."""
    return f"file:{quote(str(Path(path).resolve()))}?mode=ro&immutable=1"


def guard(connection: sqlite3.Connection, size: int, anomalies: Anomalies) -> None:
    """Distrust the schema of a database of this many bytes, and limit what reading it takes.

    Beyond the limit, statements raise `sqlite3.OperationalError`. What its pages lack of these
    bytes, or they have in more, is counted.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    anomalies.add("truncated", int(size < pages * page_bytes))
    anomalies.add("trailing_bytes", max(0, size - pages * page_bytes))
    # a view or a trigger of the file may do anything
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    most = (_STEPS_FREELY + _STEPS_PER_BYTE * size) // _STEPS
    calls = count()
    connection.set_progress_handler(lambda: next(calls) > most, _STEPS)


def most_rows(size: int) -> int:
    """Return how many rows a database of this many bytes may have.

    >>> most_rows(4096)
    1366
    """
    return size // _ROW_BYTES + 1


def reason(error: Exception) -> str:
    """Return what an error of SQLite says, or what it means that a statement was stopped.

    SQLite runs out of memory, too, where a damaged page asks for more than there is.
    """
    text = str(error)
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    return TOO_MANY_ROWS if text == "interrupted" else text


def quoted(name: str) -> str:
    """Return a name as SQL quotes it.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + str(name).replace('"', '""') + '"'
