"""Hypothesis strategies for what goes into a history; needs the `test` extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

if TYPE_CHECKING:
    from meantime.model.columns import Value

__all__ = ["Change", "changes", "values"]


class Change(NamedTuple):
    """An attribute changes to a value and a tag at a time."""

    time_ns: int
    quark: int
    value: Value
    tag: int | None


def values(kind: str) -> st.SearchStrategy[Value]:
    """Return a strategy for values of a type: `str`, `int`, `float`, or `wide` (any 64-bit int)."""
    present: dict[str, st.SearchStrategy[Value]] = {
        "str": st.sampled_from(["a", "b", "c", ""]),
        "int": st.integers(-3, 3),
        "wide": st.integers(-(2**63), 2**63 - 1),
        "float": st.one_of(st.sampled_from([0.0, -0.0, 1.0, -2.0]), st.floats()),
    }
    return st.one_of(st.none(), present[kind])


@st.composite
def changes(
    draw: st.DrawFn, *, quarks: int = 5, tags: int = 3, longest_ns: int = 40
) -> list[Change]:
    """Return a strategy for changes that are in order of time per attribute, not across them."""
    start_ns = draw(st.sampled_from([0, 0, -7, 2**40, -(2**62)]))
    step_ns = draw(st.sampled_from([1, 1, 3, 2**33, 2**56]))
    lists = []
    for quark in range(quarks):
        kind = draw(st.sampled_from(["str", "str", "int", "wide", "float"]))
        times = draw(st.lists(st.integers(0, longest_ns), max_size=12).map(sorted))
        tag = st.one_of(st.none(), st.integers(0, tags - 1)) if tags else st.none()
        lists.append(
            [
                Change(start_ns + step_ns * time, quark, draw(values(kind)), draw(tag))
                for time in times
            ]
        )
    order = draw(st.permutations([row.quark for rows in lists for row in rows]))
    if draw(st.booleans()):
        return sorted((row for rows in lists for row in rows), key=lambda row: row.time_ns)
    waiting = [iter(rows) for rows in lists]
    return [next(waiting[quark]) for quark in order]
