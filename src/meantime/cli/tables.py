"""Tables and facts as text: aligned, coloured on a terminal, whole lines in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Column", "print_facts", "print_table", "visible"]

_SET_ROWS = 2000


class Column(NamedTuple):
    """A heading, and whether the column contains numbers (aligned right)."""

    heading: str
    numeric: bool = False


def print_table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a heading on standard output."""
    if len(rows) > _SET_ROWS:
        _print_long(title, columns, rows)
        return
    from rich import box  # noqa: PLC0415 - rich is loaded when something is printed
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(
            column.heading,
            justify="right" if column.numeric else "left",
            no_wrap=column.numeric,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*[Text(visible(cell)) for cell in row])
    _print(table)


def _print_long(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a long table without rich, which needs a third of a millisecond per row."""
    table = [[column.heading for column in columns], *([*map(visible, row)] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    sys.stdout.write(f"{title}\n\n")
    for row in table:
        cells = [
            cell.rjust(width) if column.numeric else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        sys.stdout.write("  " + "   ".join(cells).rstrip() + "\n")


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one per line, aligned."""
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    grid = Table.grid(padding=(0, 2))
    for name, fact in facts:
        grid.add_row(Text(name, style="bold"), Text(visible(fact)))
    _print(grid)


def visible(text: str) -> str:
    r"""Return the text with control characters as escapes: a name may contain any.

    >>> visible("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    # printed as it is, an escape sequence in a name would control the terminal
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def _print(renderable: object) -> None:
    from rich.console import Console  # noqa: PLC0415 - as above

    width = None if sys.stdout.isatty() else 10_000
    with Console(width=width, highlight=False, emoji=False) as console:
        console.print(renderable, soft_wrap=False)
