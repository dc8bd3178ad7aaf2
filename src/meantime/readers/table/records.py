"""Lines of JSON objects as rows of a table; the keys of the first ones are its columns."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.model.columns import Coded
from meantime.readers.memory_limit import check_json
from meantime.readers.table.times import times_of
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.trace import Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.readers.table.choosing import Chooser
    from meantime.readers.table.rows import Part

__all__ = ["array_parts", "flattened", "nested", "record_parts"]

_BATCH_ROWS = 1 << 16
_SNIFFED_ROWS = 100


def flattened(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an object; nested fields have names with dots.

    >>> flattened({"a": {"b": 1, "c": {}}, "d": [2]})
    {'a.b': 1, 'a.c': {}, 'd': [2]}
    """
    if not any(isinstance(value, dict) for value in record.values()):
        return record
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and value:
            found |= {f"{name}.{key}": each for key, each in flattened(value).items()}
        else:
            found[name] = value
    return found


def nested(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field of an object, or of one in it; None if it has none.

    >>> nested({"a": {"b": 1}}, "a.b"), nested({"a.b": 2}, "a.b"), nested({"a": 3}, "a.b")
    (1, 2, None)
    """
    if name in record:
        return record[name]
    return flattened(record).get(name) if "." in name else None


def array_parts(
    data: memoryview, source: Source, options: ReadOptions, choose: Chooser
) -> Iterator[Part]:
    """Yield the objects of an array as rows.

    Raises:
        InputError: If it is not an array of objects, the memory there is cannot hold them, or the
            columns cannot be chosen.
    """
    text = str(data, "utf-8", "replace")
    check_json(source.name, text, source.most_memory)
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(source.name, f"not a JSON array: {error}") from None
    del text
    odd = next((row for row, each in enumerate(records) if not isinstance(each, dict)), None)
    if odd is not None:
        raise InputError(source.name, f"row {odd + 1} is another value than an object")
    del options
    yield from _parts(iter(records), choose)


def record_parts(
    source: Source, trace: Trace, options: ReadOptions, choose: Chooser, needs: str
) -> Iterator[Part]:
    """Yield the rows in batches; objects without the field that they need are counted.

    Raises:
        InputError: If a line is not an object, unless `lenient`, or the columns cannot be chosen.
    """
    records = _records(source, trace, options)
    yield from _parts(_with_field(records, needs, trace) if needs else records, choose)


def _with_field(
    records: Iterator[dict[str, Any]], needs: str, trace: Trace
) -> Iterator[dict[str, Any]]:
    for record in records:
        if nested(record, needs) is not None:
            yield record
        else:
            trace.anomalies.add("record_skipped")


def _parts(records: Iterator[dict[str, Any]], choose: Chooser) -> Iterator[Part]:
    batch = list(islice(records, _BATCH_ROWS))
    names = list(
        dict.fromkeys(key for record in batch[:_SNIFFED_ROWS] for key in flattened(record))
    )
    numbers = [name for name in names if _is_number(batch[:_SNIFFED_ROWS], name)]
    wanted = choose(names, (), numbers)
    while True:
        yield {
            name: times_of(map(_time, (nested(record, name) for record in batch)))
            if is_time
            else Coded.of([_text(nested(record, name)) for record in batch])
            for name, is_time in wanted.items()
        }
        if not (batch := list(islice(records, _BATCH_ROWS))):
            return


def _is_number(records: Sequence[dict[str, Any]], name: str) -> bool:
    """Return whether a field has only numbers, and any."""
    kinds = {type(nested(record, name)) for record in records} - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def _time(value: Any) -> Any:
    return value if value is None or type(value) in {int, float, str} else repr(value)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _records(source: Source, trace: Trace, options: ReadOptions) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines(source, options), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("it is another value than an object")  # noqa: TRY301, TRY004 - as json's
        except (ValueError, RecursionError) as error:
            if not options.lenient:
                raise InputError(source.name, f"not a JSON object: {error}", line=number) from None
            trace.anomalies.add("bad_record")
            continue
        yield record
    trace.anomalies.add("truncated", int(source.truncated))
