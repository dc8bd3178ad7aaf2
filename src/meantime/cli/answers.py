"""Answers of commands: how many rows of a table are printed, and JSON that says what to ask next.

How much that is, `cli.options.limit_option` declares.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.errors import UsageError
from meantime.model.bounded import Limit, bounded_by, row_limit

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["exported_rows", "json_limit", "most_rows", "print_answer", "table_rows"]


def _limit() -> tuple[Limit | None, int | None]:
    """Return the limit that the command line has, and the rows of a table without one."""
    context = click.get_current_context(silent=True)
    found: tuple[Limit | None, int | None] = (None, None)
    return found if context is None else context.meta.get("meantime.limit", found)


def table_rows() -> int | None:
    """Return the most rows of a table; None is any number.

    Raises:
        UsageError: If the command line has a size, which is of JSON.
    """
    given, usual = _limit()
    if given is None:
        return usual
    if given.bytes is not None:
        raise UsageError("--limit with a size applies to --json; write a number of rows")
    return given.rows


def exported_rows() -> int | None:
    """Return the most rows of CSV, which is all rows unless the command line says how many."""
    return None if _limit()[0] is None else table_rows()


def json_limit() -> Limit:
    """Return the most rows and bytes of JSON."""
    given, usual = _limit()
    if given is not None:
        return given
    return Limit(None, None) if usual is None else Limit()


def most_rows(*, as_json: bool) -> int | None:
    """Return how many rows an answer can have, so that no others are made; None is any number."""
    return row_limit(json_limit()) if as_json else table_rows()


def print_answer(
    document: dict[str, Any], following: Iterable[tuple[str, str]] = (), *, total: int = 0
) -> None:
    """Print a document as one JSON object that is not larger than `--limit`.

    Args:
        document: The answer.
        following: Command lines to go on with, each with what it is for.
        total: How many `rows` there are in all, if the document has only the first.
    """
    steps = [{"command": command, "purpose": purpose} for command, purpose in following]
    after = {"next": steps} if steps else {}
    most = json_limit()
    if most.bytes is not None:
        most = most._replace(bytes=max(1, most.bytes - len(json.dumps(after))))
    click.echo(json.dumps(bounded_by(document, most, total) | after))
