"""Lines of JSON objects as rows of a table; the keys of the first ones are its columns."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from meantime.columns import Coded
from meantime.errors import InputError
from meantime.readers.table.times import times_of
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.readers.table.choosing import Chooser
    from meantime.readers.table.rows import Part
    from meantime.trace import Trace

__all__ = ["record_parts"]

_BATCH_ROWS = 1 << 16
_SNIFFED_ROWS = 100
_BOM = b"\xef\xbb\xbf"


def record_parts(
    source: Source, trace: Trace, options: ReadOptions, choose: Chooser
) -> Iterator[Part]:
    """Yield the rows in batches.

    Raises:
        InputError: If a line is not an object, unless `lenient`, or the columns cannot be chosen.
    """
    records = _records(source, trace, options)
    batch = list(islice(records, _BATCH_ROWS))
    names = list(dict.fromkeys(key for record in batch[:_SNIFFED_ROWS] for key in record))
    wanted = choose(names)
    while True:
        yield {
            name: times_of(map(_time, (record.get(name) for record in batch)))
            if is_time
            else Coded.of([_text(record.get(name)) for record in batch])
            for name, is_time in wanted.items()
        }
        if not (batch := list(islice(records, _BATCH_ROWS))):
            return


def _time(value: Any) -> Any:
    return value if value is None or type(value) in {int, float, str} else repr(value)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _records(source: Source, trace: Trace, options: ReadOptions) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines(source, options), 1):
        text = line.removeprefix(_BOM) if number == 1 else line
        if not text.strip():
            continue
        try:
            record = json.loads(text)
            if not isinstance(record, dict):
                raise ValueError("it is another value than an object")  # noqa: TRY301, TRY004 - as json's
        except (ValueError, RecursionError) as error:
            if not options.lenient:
                raise InputError(source.name, f"not a JSON object: {error}", line=number) from None
            trace.anomalies.add("bad_record")
            continue
        yield record
    trace.anomalies.add("truncated", int(source.truncated))
