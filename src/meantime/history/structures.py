"""Stacks, queues and pools in attributes: a depth or count, and numbered children."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

import numpy as np

from meantime.errors import HistoryError, QuarkError, StateTypeError
from meantime.history.values import Strings, word_of
from meantime.model.attributes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.model.attributes import Attributes
    from meantime.model.columns import Value

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
    """The operations of a `HistoryBuilder` that these structures call."""

    @property
    def attributes(self) -> Attributes:
        """The attribute tree."""

    def quark(self, *path: str, parent: int | None = None) -> int:
        """Return the quark of a path, creating what is missing of it."""

    def modify(self, time_ns: int, quark: int, value: Value) -> None:
        """Set an attribute's value from a time on."""

    def ongoing(self, quark: int) -> Value:
        """Return the current value of an attribute."""

    def check_change(self, time_ns: int, quark: int, value: Value) -> None:
        """Raise what `modify` would raise now, and change nothing."""


def stack_depth(builder: Building, quark: int) -> int:
    """Return the current depth of an attribute's stack.

    Raises:
        StateTypeError: If the attribute's value is not a depth.
    """
    depth = builder.ongoing(quark)
    if depth is not None and (not isinstance(depth, int) or depth < 0):
        name = builder.attributes.text(quark)
        raise StateTypeError(f"{name} is {depth!r}: the attribute of a stack is its depth, an int")
    return depth or 0


def modify(builder: Building, time_ns: int, quark: int, value: Value) -> None:
    """Set the value of an attribute."""
    builder.modify(time_ns, quark, value)


def push(builder: Building, time_ns: int, quark: int, value: Value) -> None:
    """Push a value on the stack of an attribute; the child named by the new depth gets it."""
    depth = stack_depth(builder, quark) + 1
    if depth > _DEEPEST:
        name = builder.attributes.text(quark)
        raise HistoryError(
            f"{name}: the stack is {_DEEPEST:,} deep, which is the limit; is a pop missing?"
        )
    builder.check_change(time_ns, quark, depth)
    child = builder.quark(str(depth), parent=quark)
    # before the depth is changed, so that a push is done whole or not at all
    builder.check_change(time_ns, child, value)
    builder.modify(time_ns, quark, depth)
    builder.modify(time_ns, child, value)


def pop(builder: Building, time_ns: int, quark: int, value: Value = None) -> Value:
    """Pop the top value off the stack of an attribute and return it; `value` if it is empty.

    Raises:
        StateTypeError: If the attribute's value is not the depth of its stack.
    """
    depth = stack_depth(builder, quark)
    if depth <= 0:
        return value
    top = builder.attributes.find(str(depth), parent=quark)
    if top is None:
        name = builder.attributes.text(quark)
        raise StateTypeError(
            f"{name} is {depth}, but nothing was pushed there: it has no child {depth}"
        )
    value = builder.ongoing(top)
    # all or nothing, as in all that follows
    builder.check_change(time_ns, quark, depth - 1 or None)
    remove(builder, time_ns, top)
    builder.modify(time_ns, quark, depth - 1 or None)
    return value


def increment(builder: Building, time_ns: int, quark: int, amount: Value) -> None:
    """Add to an attribute's number; no state counts as 0."""
    before, more = check_amount(builder, quark, amount)
    if before is None and isinstance(more, int):
        try:
            builder.check_change(time_ns, quark, more)
        except StateTypeError:
            more = float(more)  # 0 is a float where numbers are
    builder.modify(time_ns, quark, more if before is None else before + more)


def check_amount(
    builder: Building, quark: int, amount: Value
) -> tuple[int | float | None, int | float]:
    """Return an attribute's number and the amount to add to it.

    Raises:
        StateTypeError: If it has strings, or the amount is not a number.
    """
    before = builder.ongoing(quark)
    if isinstance(amount, np.number):
        amount = amount.item()
    if isinstance(before, str) or isinstance(amount, bool) or not isinstance(amount, int | float):
        name = builder.attributes.text(quark)
        raise StateTypeError(f"{name} is {before!r}: {amount!r} cannot be added to it")
    return before, amount


def remove(builder: Building, time_ns: int, quark: int, value: Value = None) -> None:
    """Set an attribute and all below it to a value, by default no state; children first."""
    if quark == ROOT:
        raise QuarkError(f"{quark} is not the quark of an attribute: it is the root of all")
    below = builder.attributes.children(quark, recursive=True)[::-1].tolist()
    for each in (*below, quark):
        builder.check_change(time_ns, each, value)
    for each in (*below, quark):
        builder.modify(time_ns, each, value)


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
        """Append a value."""
        push(self._builder, time_ns, self._quark, value)

    def peek(self) -> Value:
        """Return the oldest value; None if the queue is empty."""
        first = self._builder.attributes.find("1", parent=self._quark)
        return None if first is None else self._builder.ongoing(first)

    def poll(self, time_ns: int) -> Value:
        """Remove the oldest value and return it; None if the queue is empty."""
        oldest = self.peek()
        builder = self._builder
        children = [
            builder.attributes.quark(str(index), parent=self._quark)
            for index in range(1, len(self) + 1)
        ]
        values = [builder.ongoing(child) for child in children]
        for each in (self._quark, *children):
            builder.check_change(time_ns, each, None)
        for child, value in zip(children, values[1:], strict=False):
            builder.modify(time_ns, child, value)
        pop(builder, time_ns, self._quark)
        return oldest


class AttributePool:
    """Numbered children of an attribute that are reserved, released, and reserved again.

    Args:
        builder: Where the attributes are.
        quark: Their parent; -1 is the root.
        lowest_first: Reserve the free child of the lowest quark, not the one free for longest.

    Raises:
        QuarkError: If the parent does not exist.
    """

    def __init__(self, builder: Building, quark: int, *, lowest_first: bool = False) -> None:
        if quark != ROOT:
            builder.attributes.name(quark)
        self._builder = builder
        self._quark = quark
        self._lowest_first = lowest_first
        self._free: deque[int] = deque()
        self._lowest: list[int] = []
        self._taken: set[int] = set()
        self._made = 0

    def available(self) -> int:
        """Reserve and return a free child; a new one if none is free."""
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
        """Return how many children were made, the free ones, and the reserved ones."""
        return self._made, [*self._lowest, *self._free], sorted(self._taken)

    def restore(self, saved: tuple[int, list[int], list[int]]) -> None:
        """Continue from what `save` returned."""
        self._made, free, taken = saved
        self._lowest, self._free = (
            (list(free), deque()) if self._lowest_first else ([], deque(free))
        )
        self._taken = set(taken)

    def recycle(self, time_ns: int, quark: int) -> None:
        """Release a child; it and all below it have no state from `time_ns` on.

        Raises:
            ValueError: If it was not reserved from this pool.
        """
        if quark not in self._taken:
            raise ValueError(
                f"the attribute {quark} is not in use: it was not reserved from the pool"
            )
        remove(self._builder, time_ns, quark)
        self._taken.remove(quark)
        if self._lowest_first:
            heappush(self._lowest, quark)
        else:
            self._free.append(quark)
