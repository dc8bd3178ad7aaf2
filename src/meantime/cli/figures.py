"""Tables of statistics: the figures of rows, as `meantime.model.durations` declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.cli.tables import Column, print_table
from meantime.model.durations import dropped
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.model.durations import Figure

__all__ = ["figure_text", "print_figures"]


def figure_text(figure: Figure, value: Any) -> str:
    """Return a value of a figure as text."""
    if figure.form == "time":
        return format_ns(round(value))
    return f"{value:,}" if figure.form == "count" else f"{value:.2%}"


def print_figures(
    title: str,
    names: Mapping[Column, Sequence[str]],
    figures: Sequence[Figure],
    rows: Sequence[Any] | Mapping[str, Sequence[Any]],
    *,
    more: Mapping[Column, Sequence[str]] | None = None,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print a table: the names of rows, their figures, and what else they have.

    Args:
        title: The title of the table.
        names: Texts by column, which are printed first.
        figures: Which figures, in the order of columns.
        rows: Rows with a field for each figure, or columns by the names of figures.
        more: Texts by column, which are printed last.
        titles: The headings of figures that have others than usual, by name.
    """
    more, titles = more or {}, titles or {}
    shown = [figure for figure in figures if figure.rank is not None]
    columns = [Column(titles.get(figure.key, figure.title), numeric=True) for figure in shown]
    texts = [
        [
            figure_text(figure, value)
            for value in (
                rows[figure.key]
                if isinstance(rows, dict)
                else [getattr(row, figure.key) for row in rows]
            )
        ]
        for figure in shown
    ]
    print_table(
        title,
        [*names, *columns, *more],
        [list(row) for row in zip(*names.values(), *texts, *more.values(), strict=True)],
        drop=[titles.get(each.key, each.title) for each in dropped(shown)],
    )
