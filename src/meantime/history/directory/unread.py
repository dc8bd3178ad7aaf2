"""What a long manifest has for each attribute, read when it is first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from meantime.history.directory.delta import add_attributes, integers_in
from meantime.history.directory.loaded import WRONG
from meantime.history.directory.packed import count_in
from meantime.model.attributes import Attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meantime.errors import InputError
    from meantime.kernels.attribute_tree import AttributeTree
    from meantime.model.columns import Int32s, Int64s

__all__ = ["UnreadAttributes", "UnreadIntegers"]


class UnreadAttributes(Attributes):
    """Attributes of which only the number is known until one is needed."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[tuple[dict[str, Any], Callable[[Exception], InputError]]] = []
        self._count = 0
        self._reading = threading.Lock()
        del self._tree  # `__getattr__` is called for what is not there

    def defer(self, columns: Any, wrong: Callable[[Exception], InputError]) -> None:
        """Add the columns of the next attributes.

        Args:
            columns: As they are in a manifest.
            wrong: Returns the error to be raised if they are malformed.

        Raises:
            ValueError: If their number cannot be right.
        """
        count = count_in(columns)
        # each takes a character at least: damage cannot ask for more memory than its file justifies
        if count > len(columns["parents"]):
            raise ValueError(f"count is {count}")
        self._columns.append((columns, wrong))
        self._count = len(self) + count

    def __getattr__(self, name: str) -> AttributeTree:
        if name != "_tree":
            raise AttributeError(name)
        with self._reading:
            if "_tree" not in self.__dict__:
                read = Attributes()
                for columns, wrong in self._columns:
                    try:
                        add_attributes(read, columns)
                    except WRONG as error:
                        raise wrong(error) from None
                self._tree = read._tree  # noqa: SLF001 - of this class
                self._columns.clear()
        return self._tree


class UnreadIntegers:
    """The least and the greatest integers of attributes, as `Extremes` takes them.

    Args:
        record: They, as they are in a manifest.
        quarks: How many attributes there are.
        wrong: Returns the error to be raised if they are malformed.
    """

    def __init__(self, record: Any, quarks: int, wrong: Callable[[Exception], InputError]) -> None:
        self._record = record
        self._quarks = quarks
        self._wrong = wrong

    def integers(self, _: npt.NDArray[Any], /) -> tuple[Int32s, Int64s, Int64s]:
        """Return the attributes that have integers, and the least and the greatest of each.

        Raises:
            InputError: If they are malformed.
        """
        try:
            return integers_in(self._record, self._quarks)
        except WRONG as error:
            raise self._wrong(error) from None
