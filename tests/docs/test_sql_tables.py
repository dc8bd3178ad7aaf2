"""The tables in docs/reference/sql.md are those that statements can read.

`python tests/docs/test_sql_tables.py` writes them again.
"""

from __future__ import annotations

from pathlib import Path

from meantime.query.sql_schema import TABLES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "sql.md"
BEGIN = "<!-- tables: python tests/docs/test_sql_tables.py writes them -->\n"
END = "<!-- end of tables -->"


def written(document: str) -> str:
    """Return the document with the tables of the schema."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = []
    for name, (sentence, columns) in TABLES.items():
        parts.append(f"\n### {name}\n\n{sentence}\n\n| column | type | |\n|---|---|---|\n")
        parts += [
            f"| `{column}` | {kind.replace('json', 'text')} | {text} |\n"
            for column, (kind, text) in columns.items()
        ]
    return f"{before}{BEGIN}{''.join(parts)}\n{END}{after}"


def test_the_tables_of_the_reference_are_those_of_the_schema() -> None:
    document = DOCUMENT.read_text()

    assert document == written(document), "run python tests/docs/test_sql_tables.py"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
