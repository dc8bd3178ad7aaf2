"""Counter events: a numeric attribute of the process per series."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import COUNTER_PATTERN, counter_path
from meantime.model.trace import Counters, LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch
    from meantime.readers.chrome.records import Records

__all__ = ["read_counters"]

_LIMIT = 2**63


def read_counters(records: Records) -> Iterator[Batch]:
    """Yield the counters' values: those of integer series, then those of others."""
    series: dict[int, tuple[list[int], list[int | float]]] = {}
    for row in records.rows("C").tolist():
        arguments = records.arguments_of(row)
        if not isinstance(arguments, dict) or not arguments:
            records.trace.anomalies.add("bad_counter")
            continue
        name = records.name_of(row)
        if records.id[row] >= 0:
            # the format defines one counter per id
            name = f"{name}[{records.entities.ids[records.id[row]]}]"
        process = records.entities.process_id(records.thread[row])
        for key, raw in arguments.items():
            if (value := _number(raw)) is None:
                records.trace.anomalies.add("bad_counter")
                continue
            entity = records.entities.code(counter_path(process, name, key))
            times, values = series.setdefault(entity, ([], []))
            times.append(int(records.time_ns[row]))
            values.append(value)
    if not series:
        return
    records.trace.lanes.append(LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters"))
    # a batch has one type: integers stay exact unless their series has a fraction
    for dtype, wanted in ((np.int64, True), (np.float64, False)):
        chosen = {
            entity: pair
            for entity, pair in series.items()
            if all(isinstance(value, int) for value in pair[1]) is wanted
        }
        if not chosen:
            continue
        time_ns = np.concatenate([np.array(times, np.int64) for times, _ in chosen.values()])
        numbers = np.concatenate([np.array(values, dtype) for _, values in chosen.values()])
        counts = [len(times) for times, _ in chosen.values()]
        entity_codes = np.repeat(np.fromiter(chosen, np.int32), counts)
        in_time = np.argsort(time_ns, kind="stable")
        yield Counters(time_ns[in_time], entity_codes[in_time], numbers[in_time])


def _number(value: object) -> int | float | None:
    # some tracers write numbers as text; int() keeps integers above 2**53 exact
    if isinstance(value, str):
        try:
            value = float(value) if not value.lstrip("+-").isdecimal() else int(value)
        except ValueError:
            return None
    # JSON's true is a Python int, but not a number of the trace
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and -_LIMIT <= value < _LIMIT:
        return value
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
