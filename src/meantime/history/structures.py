"""Stacks, queues and pools kept in attributes: a depth or count, and numbered children."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

import numpy as np

from meantime.attributes import ROOT
from meantime.errors import HistoryError, QuarkError, StateTypeError
from meantime.history.values import Strings, word_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.attributes import Attributes
    from meantime.columns import Value

__all__ = [
    "ACTIONS",
    "AttributePool",
    "AttributeQueue",
    "check_action",
    "pop",
    "push",
    "remove",
    "stack_depth",
]

_DEEPEST = 100_000


class Building(Protocol):
    """The operations of a `HistoryBuilder` that these structures are made of."""

    @property
    def attributes(self) -> Attributes:
        """The attribute tree."""

    def quark(self, *path: str, parent: int | None = None) -> int:
        """Return the quark of a path, creating what is missing of it."""

    def modify(self, time_ns: int, quark: int, value: Value) -> None:
        """Set an attribute's value from a time on."""

    def ongoing(self, quark: int) -> Value:
        """Return the value that an attribute has now."""

    def check_change(self, time_ns: int, quark: int, value: Value) -> None:
        """Raise what `modify` would raise now, and change nothing."""


def stack_depth(builder: Building, quark: int) -> int:
    """Return how many values the stack of an attribute holds now.

    Raises:
        StateTypeError: If the attribute holds something else than a depth.
    """
    depth = builder.ongoing(quark)
    if depth is not None and not isinstance(depth, int):
        name = builder.attributes.text(quark)
        raise StateTypeError(f"{name} holds {depth!r}: a stack's attribute holds its depth, an int")
    return depth or 0


def modify(builder: Building, time_ns: int, quark: int, value: Value) -> None:
    """Give an attribute a value."""
    builder.modify(time_ns, quark, value)


def push(builder: Building, time_ns: int, quark: int, value: Value) -> None:
    """Put a value on the stack of an attribute; it goes into the child named by the new depth."""
    depth = stack_depth(builder, quark) + 1
    if depth > _DEEPEST:
        name = builder.attributes.text(quark)
        raise HistoryError(f"{name}: a stack {_DEEPEST:,} deep takes no more; is a pop missing?")
    builder.check_change(time_ns, quark, depth)
    child = builder.quark(str(depth), parent=quark)
    # before the depth says that it is there
    builder.check_change(time_ns, child, value)
    builder.modify(time_ns, quark, depth)
    builder.modify(time_ns, child, value)


def pop(builder: Building, time_ns: int, quark: int, value: Value = None) -> Value:
    """Take the top value off the stack of an attribute and return it; `value` if it is empty."""
    depth = stack_depth(builder, quark)
    if depth <= 0:
        return value
    top = builder.attributes.quark(str(depth), parent=quark)
    value = builder.ongoing(top)
    builder.modify(time_ns, quark, depth - 1 or None)
    remove(builder, time_ns, top)
    return value


def increment(builder: Building, time_ns: int, quark: int, amount: Value) -> None:
    """Add to an attribute's number; no state counts as 0."""
    before, more = check_amount(builder, quark, amount)
    builder.modify(time_ns, quark, more if before is None else before + more)


def check_amount(
    builder: Building, quark: int, amount: Value
) -> tuple[int | float | None, int | float]:
    """Return an attribute's number and what is to be added to it.

    Raises:
        StateTypeError: If it holds a string, or what is to be added is no number.
    """
    before = builder.ongoing(quark)
    if isinstance(amount, np.number):
        amount = amount.item()
    if isinstance(before, str) or isinstance(amount, bool) or not isinstance(amount, int | float):
        name = builder.attributes.text(quark)
        raise StateTypeError(f"{name} holds {before!r}: {amount!r} cannot be added to it")
    return before, amount


def remove(builder: Building, time_ns: int, quark: int, value: Value = None) -> None:
    """Give an attribute and all below it this value, none as a rule; children go first."""
    if quark == ROOT:
        raise QuarkError(f"{quark} is not the quark of an attribute: it is the root of all")
    below = builder.attributes.children(quark, recursive=True)
    for child in below[::-1].tolist():
        builder.modify(time_ns, child, value)
    builder.modify(time_ns, quark, value)


ACTIONS: dict[str, Callable[[Building, int, int, Value], Value | None]] = {
    "modify": modify,
    "push": push,
    "pop": pop,
    "increment": increment,
    "remove": remove,
}


def check_action(builder: Building, action: str, time_ns: int, quark: int, value: Value) -> None:
    """Raise what an action would raise now, as far as that is known, and change nothing."""
    if action in {"modify", "remove"}:
        builder.check_change(time_ns, quark, value)
    elif action == "increment":
        check_amount(builder, quark, value)
        builder.check_change(time_ns, quark, value)
    elif action == "push":
        # the attribute that the value goes to depends on the depth at that time
        word_of(value, Strings())
        builder.check_change(time_ns, quark, 1)


class AttributeQueue:
    """A first-in, first-out queue laid out as a stack whose oldest value is child `1`.

    >>> from meantime import HistoryBuilder
    >>> builder = HistoryBuilder()
    >>> queue = AttributeQueue(builder, builder.quark("waiting"))
    >>> queue.offer(1, "a")
    >>> queue.offer(2, "b")
    >>> queue.peek(), queue.poll(3), queue.peek()
    ('a', 'a', 'b')
    """

    def __init__(self, builder: Building, quark: int) -> None:
        self._builder = builder
        self._quark = quark

    def __len__(self) -> int:
        return stack_depth(self._builder, self._quark)

    def offer(self, time_ns: int, value: Value) -> None:
        """Put a value at the end."""
        push(self._builder, time_ns, self._quark, value)

    def peek(self) -> Value:
        """Return the oldest value; None if the queue is empty."""
        first = self._builder.attributes.find("1", parent=self._quark)
        return None if first is None else self._builder.ongoing(first)

    def poll(self, time_ns: int) -> Value:
        """Take the oldest value out and return it; None if the queue is empty."""
        oldest = self.peek()
        builder = self._builder
        places = [
            builder.attributes.quark(str(place), parent=self._quark)
            for place in range(1, len(self) + 1)
        ]
        values = [builder.ongoing(place) for place in places]
        for place, value in zip(places, values[1:], strict=False):
            builder.modify(time_ns, place, value)
        pop(builder, time_ns, self._quark)
        return oldest


class AttributePool:
    """Numbered children of an attribute that are taken, given back, and taken again.

    Args:
        builder: Where the attributes are.
        quark: Their parent.
        lowest_first: Take the free child of the lowest quark, not the one free for longest.

    Raises:
        QuarkError: If there is no such parent.
    """

    def __init__(self, builder: Building, quark: int, *, lowest_first: bool = False) -> None:
        builder.attributes.name(quark)
        self._builder = builder
        self._quark = quark
        self._lowest_first = lowest_first
        self._free: deque[int] = deque()
        self._lowest: list[int] = []
        self._taken: set[int] = set()
        self._made = 0

    def available(self) -> int:
        """Return a child that is free, which it no longer is; a new one if none is."""
        if self._lowest_first and self._lowest:
            child = heappop(self._lowest)
        elif self._free:
            child = self._free.popleft()
        else:
            child = self._builder.quark(str(self._made), parent=self._quark)
            self._made += 1
        self._taken.add(child)
        return child

    def save(self) -> tuple[int, list[int], list[int]]:
        """Return how many children were made, the free ones, and those that are taken."""
        return self._made, [*self._lowest, *self._free], sorted(self._taken)

    def restore(self, saved: tuple[int, list[int], list[int]]) -> None:
        """Know what `save` returned."""
        self._made, free, taken = saved
        self._lowest, self._free = (
            (list(free), deque()) if self._lowest_first else ([], deque(free))
        )
        self._taken = set(taken)

    def recycle(self, time_ns: int, quark: int) -> None:
        """Give a child back; it and all below it have no state from `time_ns` on.

        Raises:
            ValueError: If it was not taken from this pool.
        """
        if quark not in self._taken:
            raise ValueError(f"the attribute {quark} is not in use: it was not taken from the pool")
        self._taken.remove(quark)
        if self._lowest_first:
            heappush(self._lowest, quark)
        else:
            self._free.append(quark)
        remove(self._builder, time_ns, quark)
