"""What distinguishes some cells of a map from the rest: names, entities, tags, arguments.

What is in a cell has a value of each of several attributes, such as its state or the CPU in its
tag. A trait is an attribute and one of its values: a stack of two frames, so that traits are kept,
added up, packed and cut as the stacks of cells are. Values that are rare merge into their
attribute, which then has more than its values together.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.query.offsets.cells import CellsBuilder
from meantime.query.offsets.interval_stacks import IntervalStacks
from meantime.query.offsets.stack_cells import StackCells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable
    from meantime.query.offsets.fold import Fold

__all__ = ["Difference", "TraitCells", "TraitTable", "differences"]

# An attribute with more values than this, such as an id, names what is there instead of what it is.
_MOST_VALUES = 20_000
# Reading the arguments of more spans takes seconds.
_MOST_ARGUMENTS = 200_000
_LONGEST = 200
# More cells of traits than this take gigabytes.
_MOST_CELLS = 2**22
_KEY = 2**32
# Differences of less than one in a hundred are not listed.
_LEAST = 0.01


class Difference(NamedTuple):
    """How often a value of an attribute is in selected cells, and in the rest.

    Attributes:
        attribute: What it is a value of: `state`, `entity`, `tag cpu`, `argument size`.
        value: The value.
        inside: How much of the selected cells has it: things, or nanoseconds.
        outside: How much of the rest.
        inside_share: The first as a share of what is selected and has the attribute.
        outside_share: The second as a share of the rest that has it.
    """

    attribute: str
    value: str
    inside: int
    outside: int
    inside_share: float
    outside_share: float


class TraitTable:
    """Gives the traits of rows numbers, in one table for all batches.

    Attributes:
        left_out: Attributes that have too many values to be compared.
    """

    def __init__(self) -> None:
        self._builder = StackTableBuilder()
        self._values: dict[str, int] = {}
        self.left_out: set[str] = set()

    def build(self) -> StackTable:
        """Return the table of all traits."""
        return self._builder.build()

    def column(
        self, attribute: str, codes: npt.NDArray[np.integer], text_of: Callable[[int], object]
    ) -> Int32s | None:
        """Return the trait of each row, -1 where the value is None; None if there are too many.

        Args:
            attribute: The attribute.
            codes: A number for each row; equal ones have equal values.
            text_of: Returns the value of a number.
        """
        if attribute in self.left_out:
            return None
        present, at = np.unique(codes, return_inverse=True)
        self._values[attribute] = self._values.get(attribute, 0) + len(present)
        if len(present) > _MOST_VALUES or self._values[attribute] > 16 * _MOST_VALUES:
            self.left_out.add(attribute)
            return None
        values = [text_of(code) for code in present.tolist()]
        if all(value is None for value in values):
            return None
        return self._traits(attribute, values)[at]

    def _traits(self, attribute: str, values: Iterable[object]) -> Int32s:
        root = self._builder.push(NO_STACK, self._builder.frame(attribute))
        return np.array(
            [
                NO_STACK
                if value is None
                else self._builder.push(root, self._builder.frame(str(value)[:_LONGEST]))
                for value in values
            ],
            np.int32,
        )

    def of_tags(
        self, tags: Sequence[Mapping[str, object]], codes: npt.NDArray[np.integer]
    ) -> list[Int32s]:
        """Return the traits of the fields of each row's tag; codes below 0 have none."""
        present = np.unique(codes)
        if len(present) > _MOST_VALUES:
            self.left_out.add("tags")
            return []
        fields = dict.fromkeys(
            field for code in present.tolist() if code >= 0 for field in tags[code]
        )
        found = (
            self.column(
                f"tag {field}",
                codes,
                lambda code, field=field: tags[code].get(field) if code >= 0 else None,  # type: ignore[misc]
            )
            for field in fields
        )
        return [column for column in found if column is not None]

    def of_arguments(self, spans: SpanTable, rows: Int64s) -> list[Int32s]:
        """Return the traits of the arguments of spans; nested ones are texts of JSON."""
        lengths = spans.arguments_length[rows]
        with_some = np.flatnonzero(lengths)
        if not len(with_some):
            return []
        if len(with_some) > _MOST_ARGUMENTS:
            self.left_out.add("arguments")
            return []
        offsets = spans.arguments_offset[rows[with_some]].tolist()
        columns: dict[str, dict[int, object]] = {}
        for row, offset, length in zip(
            with_some.tolist(), offsets, lengths[with_some].tolist(), strict=True
        ):
            for name, value in _arguments(spans.text.read(offset, length)).items():
                columns.setdefault(name, {})[row] = value
        found = []
        for name, of_row in columns.items():
            attribute = f"argument {name}"[:_LONGEST]
            texts = [
                value if isinstance(value, str) else json.dumps(value) for value in of_row.values()
            ]
            codes: dict[str, int] = {}
            numbers = np.array([codes.setdefault(text, len(codes)) for text in texts])
            values = [*codes]
            column = self.column(attribute, numbers, values.__getitem__)
            if column is not None:
                whole = np.full(len(rows), NO_STACK, np.int32)
                whole[[*of_row]] = column
                found.append(whole)
        return found


def _arguments(text: bytes) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class TraitCells:
    """Adds up how much the cells of a fold have of each trait."""

    def __init__(self, fold: Fold) -> None:
        self._counts = CellsBuilder(fold)
        self._lengths = IntervalStacks(fold)
        self._is_cut = False

    def add(self, number: Int64s, key: Int64s, columns: Iterable[Int32s]) -> None:
        """Count things in their cells, once for each column of traits."""
        for column in columns:
            has = np.flatnonzero(column >= 0)
            if self._counts.taken > _MOST_CELLS:
                self._is_cut = True
                return
            both = key[has] * _KEY + column[has]
            self._counts.add_cells(number[has], both, np.ones(len(has), np.int64))

    def add_intervals(
        self, start_ns: Int64s, end_ns: Int64s, key: Int64s, columns: Iterable[Int32s]
    ) -> None:
        """Add the time of intervals to their cells, once for each column of traits."""
        for column in columns:
            has = np.flatnonzero(column >= 0)
            self._lengths.add(start_ns[has], end_ns[has], key[has], column[has])

    def cells(self, names: Sequence[str], table: StackTable) -> StackCells | None:
        """Return what was added, by the names of keys; None if it was too much."""
        found = self._lengths.cells(names, table)
        if self._is_cut or found is None:
            return None
        built = self._counts.build()
        if not built:
            return found
        parts = [
            (
                cells.number,
                np.full(len(cells.number), both // _KEY, np.int64),
                np.full(len(cells.number), both % _KEY, np.int32),
                cells.value,
            )
            for both, cells in built.items()
        ]
        return StackCells.summed(parts, names, table)


def differences(traits: StackCells, chosen: npt.NDArray[np.bool_]) -> list[Difference]:
    """Return what is in chosen rows of traits more, or less, often than in all others.

    The order is that of the difference of the shares. Values that were merged are in no line, and
    count in the shares of the others.

    Args:
        traits: The traits of all cells.
        chosen: Which of their rows are of the selected cells.
    """
    table = traits.stacks
    sums = []
    for which in (chosen, ~chosen):
        inside = np.zeros(len(table), np.int64)
        np.add.at(inside, traits.stack[which], traits.value[which])
        own = inside.copy()
        # each trait is below its attribute
        has_parent = table.parent >= 0
        np.add.at(inside, table.parent[has_parent], own[has_parent])
        sums.append(inside)
    found = []
    for trait, parent in enumerate(table.parent.tolist()):
        if parent < 0:
            continue
        here, there = (int(each[trait]) for each in sums)
        shares = [int(each[trait]) / int(each[parent]) if each[parent] else 0.0 for each in sums]
        if abs(shares[0] - shares[1]) < _LEAST:
            continue
        names = (table.frames[table.frame[parent]], table.frames[table.frame[trait]])
        found.append(Difference(*names, here, there, *shares))
    return sorted(
        found,
        key=lambda each: (
            -abs(each.inside_share - each.outside_share),
            each.attribute,
            each.value,
        ),
    )
