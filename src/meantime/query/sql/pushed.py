"""Tables that DuckDB reads through Arrow's dataset protocol: only some columns, and fewer rows.

DuckDB asks such a table for columns and hands it the filters of the statement as an Arrow
expression. From that follow limits for single columns, with which the table is read, and then the
expression is applied exactly. The process of statements of others uses this as well, so it knows
nothing of histories; what goes to the other process are limits, which are checked there.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.dataset as ds  # type: ignore[import-untyped]  # as above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Limits", "LimitsOf", "PushedTable", "json_of", "limits_from", "schema_of"]


class Limits(NamedTuple):
    """What a column must be like in every row that a filter selects.

    Attributes:
        low: The least integer; None if there is no limit.
        high: The greatest integer; None if there is no limit.
        among: The only values; None if there are others.
    """

    low: int | None = None
    high: int | None = None
    among: frozenset[int | str] | None = None

    def both(self, other: Limits) -> Limits:
        """Return the limits of rows within these and others."""
        among = self.among
        if other.among is not None:
            among = other.among if among is None else among & other.among
        return Limits(
            max((each for each in (self.low, other.low) if each is not None), default=None),
            min((each for each in (self.high, other.high) if each is not None), default=None),
            among,
        )

    def either(self, other: Limits) -> Limits:
        """Return the limits of rows within these or within others."""
        return Limits(
            None if self.low is None or other.low is None else min(self.low, other.low),
            None if self.high is None or other.high is None else max(self.high, other.high),
            None if self.among is None or other.among is None else self.among | other.among,
        )


LimitsOf: TypeAlias = "Mapping[str, Limits]"
Read: TypeAlias = "Callable[[Sequence[str], LimitsOf], Any]"
# A call with its arguments, the name of a column, or a value.
_Call = tuple[str, list[Any], Any]

_NO_LIMITS = Limits()
# The same comparison with its sides exchanged.
_MIRRORED = {
    "equal": "equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "less": "greater",
    "less_equal": "greater_equal",
}
_TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.dictionary(pa.int32(), pa.string()),
    "string": pa.string(),
}


class PushedTable(ds.Dataset):  # type: ignore[misc]  # it has no types
    """A table that is read when a statement needs it, and no more of it than that.

    Args:
        schema: The columns.
        read: Returns a `RecordBatchReader` of at least the given columns, and at least the rows
            within the given limits.
    """

    def __init__(self, schema: Any, read: Read) -> None:
        self._schema = schema
        self._read = read

    @property
    def schema(self) -> Any:
        """The columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 - the name that DuckDB uses
        **_: object,
    ) -> _Scan:
        """Return what reads these columns of the rows that pass a filter."""
        return _Scan(self, [*self._schema.names] if columns is None else [*columns], filter)

    def scanned(self, columns: Sequence[str], condition: Any) -> Any:
        """Return a `RecordBatchReader` of these columns of the rows that pass a filter."""
        used: dict[str, None] = dict.fromkeys(columns)
        limits: LimitsOf = {}
        if condition is not None:
            tree = _parsed(condition)
            used |= dict.fromkeys(_fields(tree))
            limits = _limits(tree)
        # a statement that only counts needs a column all the same
        wanted = [*used] or self._schema.names[:1]
        reader = self._read(wanted, limits)
        schema = pa.schema([self._schema.field(name) for name in columns or wanted])
        return pa.RecordBatchReader.from_batches(schema, _passing(reader, schema, condition))


class _Scan:
    """A reading of a table that DuckDB has planned."""

    def __init__(self, table: PushedTable, columns: Sequence[str], condition: Any) -> None:
        self._table, self._columns, self._condition = table, columns, condition

    def to_reader(self) -> Any:
        """Return the batches."""
        return self._table.scanned(self._columns, self._condition)


def schema_of(columns: Mapping[str, str]) -> Any:
    """Return the Arrow schema of columns, given their types."""
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in columns.items()])


def json_of(limits: LimitsOf) -> dict[str, Any]:
    """Return limits as values that JSON can represent; `limits_from` reads them."""
    return {
        name: [each.low, each.high, None if each.among is None else [*each.among]]
        for name, each in limits.items()
    }


def limits_from(document: Any) -> LimitsOf:
    """Return limits that another process has written.

    Raises:
        ValueError: If they are malformed.
    """
    found = {}
    for name, (low, high, among) in document.items():
        numbers = [each for each in (low, high) if each is not None]
        values = [] if among is None else [*among]
        if not all(map(_is_integer, numbers)) or not all(
            isinstance(each, str) or _is_integer(each) for each in values
        ):
            raise ValueError("limits are integers of 64 bits, and lists of these and texts")
        found[str(name)] = Limits(low, high, None if among is None else frozenset(values))
    return found


def _is_integer(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _passing(reader: Any, schema: Any, condition: Any) -> Iterator[Any]:
    for batch in reader:
        if condition is None:
            yield batch.select(schema.names)
            continue
        rows = pa.Table.from_batches([batch]).filter(condition)
        yield from rows.select(schema.names).to_batches()


def _parsed(condition: Any) -> Any:
    """Return an Arrow expression as a tree of calls.

    Arrow writes it as metadata, in order: `call NAME`, its arguments, maybe `options INDEX`, `end
    NAME`; `field_ref NAME`; `literal INDEX`, of which the value is in that column.
    """
    [data] = condition.__reduce__()[1]
    with pa.ipc.open_file(data) as file:
        values = file.get_batch(0)
    stack: list[_Call] = [("", [], None)]
    for key, value in _metadata(values.schema):
        if key == "call":
            stack.append((value, [], None))
        elif key == "options":
            name, arguments, _ = stack[-1]
            stack[-1] = name, arguments, values.column(int(value))[0].as_py()
        elif key == "end":
            call = stack.pop()
            stack[-1][1].append(call)
        elif key == "literal":
            stack[-1][1].append([values.column(int(value))[0].as_py()])
        else:
            stack[-1][1].append(value)
    return stack[0][1][0]


class _CSchema(ctypes.Structure):
    """The beginning of the ArrowSchema of Arrow's C data interface."""

    _fields_ = (
        ("format", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield keys and values of a schema: pyarrow has only one value of each key."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = schema.__arrow_c_schema__()
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata

    def number() -> int:
        nonlocal address
        address += 4
        return int(struct.unpack("=i", ctypes.string_at(address - 4, 4))[0])

    def text() -> str:
        nonlocal address
        size = number()
        address += size
        return ctypes.string_at(address - size, size).decode()

    for _ in range(number()):
        yield text(), text()


def _fields(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, tuple):
        for argument in tree[1]:
            yield from _fields(argument)


def _limits(tree: Any) -> dict[str, Limits]:
    """Return limits that all rows are within for which an expression is true."""
    if not isinstance(tree, tuple):
        return {}
    name, arguments, options = tree
    if name in {"and_kleene", "or_kleene"}:
        return _combined(*map(_limits, arguments), is_and=name == "and_kleene")
    if name == "if_else" and arguments[2] == [None]:
        return _limits(arguments[1])
    if name == "is_in" and isinstance(arguments[0], str):
        values = options["value_set"]
        is_plain = all(type(value) in {int, str} for value in values)
        return {arguments[0]: Limits(among=frozenset(values))} if is_plain else {}
    return _compared(name, arguments) if name in _MIRRORED else {}


def _combined(
    first: dict[str, Limits], second: dict[str, Limits], *, is_and: bool
) -> dict[str, Limits]:
    if is_and:
        columns = first.keys() | second.keys()
        return {
            name: first.get(name, _NO_LIMITS).both(second.get(name, _NO_LIMITS)) for name in columns
        }
    return {name: first[name].either(second[name]) for name in first.keys() & second.keys()}


def _compared(comparison: str, arguments: Sequence[Any]) -> dict[str, Limits]:
    left, right = arguments
    if isinstance(left, list):
        comparison, left, right = _MIRRORED[comparison], right, left
    if not isinstance(left, str) or not isinstance(right, list):
        return {}
    column, [value] = left, right
    if comparison == "equal":
        if type(value) in {int, str}:
            return {column: Limits(among=frozenset([value]))}
    elif type(value) is int:
        if comparison in {"greater", "greater_equal"}:
            return {column: Limits(low=value + (comparison == "greater"))}
        return {column: Limits(high=value - (comparison == "less"))}
    return {}
