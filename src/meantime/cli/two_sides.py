"""Commands whose files are on two sides: `BEFORE... -- AFTER...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, of_session
from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MaySides", "TwoSides", "has_sides", "two_sides"]

# What stands between the files of the two sides: no file is called by a separator of records.
_BETWEEN = "\x1e"


class MaySides(click.Command):
    """A command whose arguments may be divided by `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; options may also follow the files after `--`."""
        return super().parse_args(ctx, [_BETWEEN if word == "--" else word for word in args])


class TwoSides(MaySides):
    """A command whose arguments are divided by `--`."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return how the command is used."""
        return ["[OPTIONS]", "BEFORE...", "--", "AFTER..."]


def has_sides(files: Sequence[str]) -> bool:
    """Return whether files are divided by `--`."""
    return _BETWEEN in files


def two_sides(files: Sequence[str], otherwise: str = "") -> tuple[list[Any], list[Any]]:
    """Return the files of both sides: of two without `--`, one each.

    Args:
        files: The files as they were given.
        otherwise: What else may be written, for the message.

    Raises:
        UsageError: If it is not clear which is which.
    """
    sides: tuple[Sequence[str], Sequence[str]]
    if has_sides(files):
        at = files.index(_BETWEEN)
        sides = files[:at], files[at + 1 :]
    elif len(files) == 2:
        sides = files[:1], files[1:]
    else:
        raise UsageError(
            "write -- between the runs before and after, as in"
            f" meantime diff before/*.json -- after/*.json{otherwise}"
        )
    for name, side in zip(("before", "after"), sides, strict=True):
        if not side:
            raise UsageError(
                f"there is no run {name} the --"
                if name == "before"
                else "there is no run after the --"
            )
        if _BETWEEN in side:
            raise UsageError("-- stands once between the runs before and after")
    return of_session(expanded(sides[0])), of_session(expanded(sides[1]))
