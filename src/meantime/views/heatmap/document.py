"""A map as JSON: the exact integer value of every cell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.views.heatmap.selection import Selection, chosen, hidden_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.offsets import Cells, OffsetMap

__all__ = ["document", "text"]


def document(
    found: OffsetMap, value: str | None = None, *, selection: Selection | None = None
) -> dict[str, Any]:
    """Return a map as JSON values: its cells as [column, row, value], by column, then row.

    Args:
        found: The map.
        value: `concurrency` turns nanoseconds into ratios to the cell's width, `utilisation` into
            ratios to that of all entities of all sources.
        selection: If names are isolated, only these are included; excluded and hidden names are
            left out.
    """
    rows = found.fold.rows
    per = None
    if value in {"concurrency", "utilisation"}:
        entities = sum(source.entities for source in found.sources) or 1
        per = entities if value == "utilisation" else 1

    def listed(cells: Cells) -> list[list[int | float]]:
        column, row = np.divmod(cells.number, rows)
        values = cells.value.tolist()
        if per is not None:
            values = (cells.value / (found.durations_ns(cells.number) * per)).tolist()
        return [
            [*position, each]
            for *position, each in zip(column.tolist(), row.tolist(), values, strict=True)
        ]

    total, by = chosen(found, selection or Selection())
    content = {
        "origin_ns": found.fold.origin_ns,
        "period_ns": found.fold.period_ns,
        "rows": rows,
        "x": _columns(found),
        "y": found.fold.y.document(),
        "value": value or found.value,
        "columns": list(found.columns),
        "cells": listed(total),
        "by": {name: listed(cells) for name, cells in by.items()},
        "recorded": [list(run) for run in found.recorded_columns()],
        "anomalies": dict(found.anomalies),
    }
    hidden = hidden_sum(found, selection or Selection())
    if hidden:
        content["idle"] = hidden
    if found.fold.calendar is not None:
        content["zone"] = found.fold.calendar.zone.name
        content["repeated_ns"] = [list(span) for span in found.repeated]
    if found.lost:
        content["lost_ns"] = [list(span) for span in found.lost]
    if len(found.sources) > 1:
        content["sources"] = [
            {"name": source.name, "recorded_ns": [list(span) for span in source.recorded]}
            for source in found.sources
        ]
        if found.fold.y.kind != "weekday":
            content["reporting"] = [list(run) for run in found.reporting_runs()]
    return content


def _columns(found: OffsetMap) -> dict[str, Any]:
    fold = found.fold
    if fold.y.kind == "weekday":
        return {"kind": "hour", "unit": "name", "labels": [f"{hour:02}:00" for hour in range(24)]}
    return {"kind": "time", "unit": "ns", "begin": fold.origin_ns, "width": fold.period_ns}


def text(content: dict[str, Any]) -> Iterator[bytes]:
    """Return the document as JSON text, a line for each of its members."""
    yield b"{"
    for number, (key, value) in enumerate(content.items()):
        yield f"{',' if number else ''}\n{json.dumps(key)}: {json.dumps(value)}".encode()
    yield b"\n}\n"
