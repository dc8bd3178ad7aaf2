"""Suggestions for commands and options that do not exist."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["hint"]

# Words that other programs use for options which are spelled otherwise here.
_OTHER_WORDS = {
    "--start": "--from",
    "--since": "--from",
    "--until": "--to",
    "--stop": "--to",
    "--thread": "--filter",
    "--grep": "--filter",
    "--match": "--filter",
    "--out": "--output",
    "--overwrite": "--force",
}
_LEAST_SIMILARITY = 0.75


def hint(name: str, names: Sequence[str]) -> str:
    """Return a question that names the most similar of the names; empty if none is similar.

    >>> hint("stat", ["stats", "statemap"]), hint("--title", ["--strict"])
    ('; did you mean stats?', '')
    """
    if (meant := _OTHER_WORDS.get(name)) in names:
        return f"; did you mean {meant}?"
    found = get_close_matches(name, names, 1, _LEAST_SIMILARITY)
    return f"; did you mean {found[0]}?" if found else ""
