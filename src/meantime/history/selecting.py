"""Attributes in arguments: quarks, paths, patterns, or several of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.errors import UsageError
from meantime.model.attributes import Wildcard, parse_pattern

if TYPE_CHECKING:
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s

__all__ = ["Many", "One", "many", "one"]

# An attribute: its quark, its path as text or as a tuple of names, or a pattern that matches one.
One: TypeAlias = "int | str | tuple[str, ...]"
# Attributes: those that match a pattern, or several in a sequence.
Many: TypeAlias = "One | Sequence[One | Wildcard] | Int32s"


def many(attributes: Attributes, given: Many) -> Any:
    r"""Return the quarks of the selected attributes; quarks are returned as they are.

    A text is the name of an attribute at the top, a path whose names are joined by `/`, or a
    pattern; a tuple of texts is a path of unescaped names; other sequences contain any of these.

    >>> from meantime.testing import history_from_picture
    >>> attributes = history_from_picture("a  x\nb  y").attributes
    >>> many(attributes, "*").tolist(), many(attributes, ["b", 0]), many(attributes, ("b",))
    ([0, 1], [1, 0], [1])

    Raises:
        AttributeNotFound: If the path does not exist; a pattern may match none.
        UsageError: If a text is neither a path nor a pattern.
    """
    if isinstance(given, str):
        return _of_text(attributes, given)
    if not isinstance(given, Sequence):
        return [given] if hasattr(given, "__index__") and np.ndim(given) == 0 else given
    kinds = set(map(type, given))
    if kinds <= {int}:
        return given
    if Wildcard in kinds or (isinstance(given, tuple) and kinds == {str}):
        return _of_names(attributes, given)  # type: ignore[arg-type] # these are names
    if kinds & {str, tuple}:
        return [
            quark
            for each in given
            if not isinstance(each, Wildcard)
            for quark in np.asarray(many(attributes, each)).tolist()
        ]
    return given


def one(attributes: Attributes, given: One) -> int:
    """Return the quark of the selected attribute; see `many`.

    Raises:
        AttributeNotFound: If the path does not exist.
        UsageError: If a pattern matches none or several.
    """
    if not isinstance(given, str | tuple):
        return given
    found = many(attributes, given)
    if len(found) != 1:
        raise UsageError(
            f"{given!r} matches {len(found):,} attributes: this query needs one; give its path"
        )
    return int(found[0])


def _of_text(attributes: Attributes, text: str) -> Any:
    # a name may contain a slash, as that of /dev/vda does
    quark = attributes.find(text)
    if quark is not None and text not in {"*", "**", ".."}:
        return [quark]
    return _of_names(attributes, parse_pattern(text))


def _of_names(attributes: Attributes, elements: Sequence[str | Wildcard]) -> Any:
    """Return the attributes that match a pattern, or that of a path, which has to exist."""
    names = [each for each in elements if isinstance(each, str)]
    if names and len(names) == len(elements):
        return [attributes.quark(*names)]
    return attributes.quarks(elements)
