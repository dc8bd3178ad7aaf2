"""Attributes in arguments: quarks, paths, patterns, or several of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from meantime.errors import AttributeNotFound, UsageError
from meantime.model.attributes import ANY_DEPTH, ROOT, Wildcard, format_pattern, parse_pattern

if TYPE_CHECKING:
    from meantime.history.snapshot import Snapshot
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s

__all__ = ["Many", "One", "chosen", "many", "one"]

_SEARCHED_FOR_NEAREST = 1_000
_NEAREST = 3

# An attribute: its quark, its path as text or as a tuple of names, or a pattern that matches one.
One: TypeAlias = "SupportsIndex | str | tuple[str, ...]"
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
        AttributeNotFound: If the path does not exist, or a pattern has a name that none has. Only
            wildcards may match none.
        UsageError: If a text is neither a path nor a pattern.
    """
    if isinstance(given, str):
        return _of_text(attributes, given)
    if not isinstance(given, Sequence):
        return [given] if hasattr(given, "__index__") and not getattr(given, "ndim", 0) else given
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


def chosen(now: Snapshot, given: Many) -> Any:
    """Return the quarks of attributes that a question of their states is about; see `many`.

    Raises:
        AttributeNotFound: As `many`.
        UsageError: If a pattern matches only attributes that never have a value, above others that
            do.
    """
    quarks = many(now.attributes, given)
    if isinstance(given, str | tuple) and len(quarks) and not (now.kinds[quarks] > 0).any():
        elements = parse_pattern(given) if isinstance(given, str) else given
        if any(isinstance(each, Wildcard) for each in elements):
            _check_values(now, quarks, elements)
    return quarks


def _check_values(now: Snapshot, quarks: Any, elements: Sequence[str | Wildcard]) -> None:
    below = now.attributes.quarks((*elements, ANY_DEPTH))
    valued = below[now.kinds[below] > 0]
    if len(valued):
        raise UsageError(
            f"none of the {len(quarks):,} attributes that match {format_pattern(elements)!r} ever"
            f" has a value; those below have, such as {now.attributes.text(int(valued[0]))!r}"
        )


def one(attributes: Attributes, given: One) -> int:
    """Return the quark of the selected attribute; see `many`.

    Raises:
        AttributeNotFound: If the path does not exist.
        UsageError: If a pattern matches none or several.
    """
    if not isinstance(given, str | tuple):
        return given  # type: ignore[return-value] # queries check that it is an integer
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
    found = attributes.quarks(elements)
    if names and not len(found):
        _check_names(attributes, elements)
    return found


def _check_names(attributes: Attributes, elements: Sequence[str | Wildcard]) -> None:
    """Raise the error about the name of a pattern that no attribute has, if there is one."""
    above: Any = [ROOT]
    depth = 0
    while len(found := attributes.quarks(elements[: depth + 1])):
        above, depth = found, depth + 1
    name = elements[depth]
    if not isinstance(name, str):
        return
    import difflib  # noqa: PLC0415 - 5 ms, and only for errors

    names: dict[str, None] = {}
    for quark in above[:_SEARCHED_FOR_NEAREST]:
        children = attributes.children(int(quark))[:_SEARCHED_FOR_NEAREST]
        names |= dict.fromkeys(attributes.names(children.tolist()))
        if len(names) >= _SEARCHED_FOR_NEAREST:
            break
    nearest = difflib.get_close_matches(name, names, n=_NEAREST, cutoff=0)
    listed = ", ".join(map(repr, nearest))
    raise AttributeNotFound(
        f"no attribute matches {format_pattern(elements)!r}: "
        + (f"instead of {name!r} the nearest names are {listed}" if nearest else "there is none")
    )
