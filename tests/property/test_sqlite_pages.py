"""Tables read from the pages of a database, compared with what SQLite says is in them."""

from __future__ import annotations

import gzip
import itertools
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meantime.errors import InputError
from meantime.model.column_mapping import ColumnMapping
from meantime.model.columns import Coded
from meantime.model.trace import Trace
from meantime.readers.contract import ReadOptions
from meantime.readers.source import open_source
from meantime.readers.sqlite_pages import As, PageRows
from meantime.readers.table.choosing import Chooser
from meantime.readers.table.databases import sqlite_parts

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("start", "end", "node", "state")
MAPPING = ColumnMapping(
    {"start": ("start",), "end": ("end",), "entity": ("node",), "state": ("state",)}
)

values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-200, 70_000),
    st.sampled_from(
        [0, 1, 2.5, 1e300, -0.0, "2024-01-02T03:04:05.678Z", "2024-01-02 03:04", "", b"\xff"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.integers(1, 3000).map("x".__mul__),
)
types = st.sampled_from(["", "TEXT", "INTEGER", "REAL", "NUMERIC", "BLOB", "FLOATING POINT"])
forms = st.sampled_from(
    [
        "({}, {}, {}, {})",
        "({}, big BLOB, {}, {}, {})",
        "({} PRIMARY KEY, {}, {}, {})",
        "({} PRIMARY KEY DESC, {}, {}, {})",
        "({}, {}, {}, {}, PRIMARY KEY (node, state, start)) WITHOUT ROWID",
        "({}, {}, {}, {}, sum AS (start + 1))",
        "({}, {}, {}, {}, rowid)",
    ]
)


def read(path: Path) -> tuple[dict[str, list[Any]], str]:
    """Return the columns of a table, or an error."""
    trace = Trace(str(path), "table", iter(()))
    source = open_source(path)
    found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    try:
        for part in sqlite_parts(source, ReadOptions(), Chooser(trace, MAPPING), trace.anomalies):
            for name, column in part.items():
                if isinstance(column, Coded):
                    found[name] += column.to_list()
                else:
                    rows = np.column_stack([column.values, column.kinds.astype(np.int64)])
                    found[name] += map(tuple, rows.tolist())
    except InputError:
        return {}, "an error"
    return found, ""


@given(
    form=forms,
    kinds=st.tuples(types, types, types, types),
    page=st.sampled_from([512, 1024, 65536]),
    rows=st.lists(st.tuples(values, values, values, values), max_size=40),
    repeated=st.sampled_from([1, 1, 60]),
    is_altered=st.booleans(),
    deleted=st.integers(0, 7),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_pages_have_what_sqlite_reads(
    tmp_path: Path,
    *,
    form: str,
    kinds: tuple[str, str, str, str],
    page: int,
    rows: list[tuple[Any, Any, Any, Any]],
    repeated: int,
    deleted: int,
    is_altered: bool,
) -> None:
    path, packed = tmp_path / "runs.db", tmp_path / "runs.db.gz"
    path.unlink(missing_ok=True)
    declared = [f"{name} {kind}" for name, kind in zip(COLUMNS, kinds, strict=True)]
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA page_size = {page}")
        if is_altered:
            declared, last = declared[:3], declared[3]
            form = form.replace(", {}", "", 1) if "state" not in form else "({}, {}, {})"
        database.execute(f"CREATE TABLE runs {form.format(*declared)}")
        if is_altered:
            database.execute("INSERT OR IGNORE INTO runs (start, end, node) VALUES (1, 2, 'old')")
            database.execute(f"ALTER TABLE runs ADD COLUMN {last} DEFAULT 'new'")
        for row in rows * repeated:
            # an integer primary key refuses other types, even with OR IGNORE
            with suppress(sqlite3.IntegrityError):
                database.execute(
                    "INSERT OR IGNORE INTO runs (start, end, node, state) VALUES (?, ?, ?, ?)", row
                )
        if deleted:
            database.create_function("row_number", 0, itertools.count().__next__)
            database.execute("DELETE FROM runs WHERE row_number() % ? = 0", (deleted,))
        database.commit()
    # what is compressed is read by SQLite alone
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))

    assert read(path) == read(packed)


def test_a_plain_table_is_read_from_its_pages_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, start, text)")
        rows = [(row, f"{row}" * (row % 5000)) for row in range(5000)]
        database.executemany("INSERT INTO runs (start, text) VALUES (?, ?)", rows)
        database.commit()
        wanted = {"text": As.ONLY_TEXTS, "id": As.INTEGERS, "start": As.INTEGERS}
        pages = PageRows(database, str(path), "runs", wanted)
        parts = list(pages.parts(1000))

    assert pages.rest is None
    assert [count for count, _ in parts] == [1000] * 5
    found = [
        (texts[code].decode(), number, start)
        for _, ((codes, texts, _), (ids,), (starts,)) in parts
        for code, number, start in zip(codes.tolist(), ids.tolist(), starts.tolist(), strict=True)
    ]
    assert found == [(text, row + 1, row) for row, text in rows]
