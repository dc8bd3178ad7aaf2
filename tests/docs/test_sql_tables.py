"""The tables in docs/reference/sql.md are those that statements can read.

`python tests/docs/test_sql_tables.py` writes them again.
"""

from __future__ import annotations

from pathlib import Path

from meantime.query.sql.schema import FUNCTIONS, TABLES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "sql.md"
MARKS = "<!-- {}: python tests/docs/test_sql_tables.py writes them -->\n", "<!-- end of {} -->"


def between(document: str, what: str, text: str) -> str:
    """Return the document with a text between two marks."""
    begin, end = (mark.format(what) for mark in MARKS)
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{text}\n{end}{after}"


def written(document: str) -> str:
    """Return the document with the tables and functions of the schema."""
    parts = []
    for name, (sentence, columns) in TABLES.items():
        parts.append(f"\n### {name}\n\n{sentence}\n\n| column | type | |\n|---|---|---|\n")
        parts += [
            f"| `{column}` | {kind.replace('string', 'text')} | {text} |\n"
            for column, (kind, text) in columns.items()
        ]
    functions = ["\n| function | its rows |\n|---|---|\n"]
    functions += [
        f"| `{name}({each.parameters})` | {each.returns} |\n" for name, each in FUNCTIONS.items()
    ]
    return between(between(document, "tables", "".join(parts)), "functions", "".join(functions))


def test_the_tables_of_the_reference_are_those_of_the_schema() -> None:
    document = DOCUMENT.read_text()

    assert document == written(document), "run python tests/docs/test_sql_tables.py"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
