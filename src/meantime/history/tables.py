"""The event tables of a history as one file: columns side by side, described in the manifest."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.columns import Coded
from meantime.errors import InputError
from meantime.history.results import Flows, Points
from meantime.history.samples import SampleTable
from meantime.history.spans import SpanTable
from meantime.stacks import StackTable
from meantime.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.present import Facts

__all__ = ["Tables", "pack", "unpack"]

_ALIGNMENT = 64

Description = list[list[Any]]


class Tables(NamedTuple):
    """The event tables."""

    points: Points
    flows: Flows
    spans: SpanTable
    samples: SampleTable


def pack(facts: Facts) -> tuple[Description, bytes]:
    """Return a description per column (name, type, rows, offset, checksum), and all columns."""
    parts: list[bytes] = []
    described: Description = []
    position = 0
    for name, column in _columns(facts).items():
        if not len(column):
            continue
        data = np.ascontiguousarray(column).tobytes()
        described.append([name, column.dtype.str, len(column), position, zlib.crc32(data)])
        padding = -len(data) % _ALIGNMENT
        parts.append(data + bytes(padding))
        position += len(data) + padding
    return described, b"".join(parts)


def _columns(facts: Facts) -> dict[str, npt.NDArray[Any]]:
    points, flows, spans, samples = facts.points, facts.flows, facts.spans, facts.samples
    offset, text = _packed(spans)
    point_offset, point_text = _packed(points)
    frames = json.dumps(list(samples.stacks.frames)).encode() if len(samples) else b""
    return {
        "points.time_ns": points.time_ns,
        "points.quark": points.quark,
        "points.name": points.name.codes,
        "points.arguments_offset": point_offset,
        "points.arguments_length": points.arguments_length,
        "points.text": np.frombuffer(point_text, np.uint8),
        "flows.from_ns": flows.from_ns,
        "flows.from_quark": flows.from_quark,
        "flows.to_ns": flows.to_ns,
        "flows.to_quark": flows.to_quark,
        "flows.name": flows.name.codes,
        "spans.threads": spans.threads,
        "spans.offsets": spans.offsets if len(spans) else spans.offsets[:0],
        "spans.start_ns": spans.start_ns,
        "spans.end_ns": spans.end_ns,
        "spans.name": spans.name.codes,
        "spans.category": spans.category.codes,
        "spans.depth": spans.depth,
        "spans.lane": spans.lane,
        "spans.parent": spans.parent,
        "spans.flags": spans.flags,
        "spans.arguments_offset": offset,
        "spans.arguments_length": spans.arguments_length,
        "spans.text": np.frombuffer(text, np.uint8),
        "samples.time_ns": samples.time_ns,
        "samples.thread": samples.thread,
        "samples.stack": samples.stack,
        "samples.weight": samples.weight,
        "samples.event": samples.event.codes,
        "samples.name": samples.name.codes,
        "samples.cpu": samples.cpu,
        "stacks.parent": samples.stacks.parent,
        "stacks.frame": samples.stacks.frame,
        "stacks.frames": np.frombuffer(frames, np.uint8),
    }


def _packed(table: SpanTable | Points) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return the arguments of all rows one behind the other, and where each stands there."""
    length = table.arguments_length
    places = zip(table.arguments_offset.tolist(), length.tolist(), strict=True)
    text = b"".join([table.text.read(*place) for place in places])
    return np.cumsum(length, dtype=np.int64) - length, text


_MISSING: dict[str, npt.NDArray[Any]] = {"spans.offsets": np.zeros(1, np.int64)}


def unpack(path: Path, described: Description, strings: Sequence[str]) -> Tables:
    """Return the tables in a file, mapped into memory.

    Raises:
        InputError: If the file is missing, cut or damaged.
    """
    columns = _Columns(path, described)
    points = columns.get("points.time_ns", np.int64)
    return Tables(
        points=Points(
            points,
            columns.get("points.quark"),
            Coded(columns.get("points.name"), strings),
            columns.get("points.arguments_offset", np.int64, len(points)),
            columns.get("points.arguments_length", rows=len(points)),
            ArgumentText(columns.get("points.text", np.uint8).tobytes()),
        ),
        flows=Flows(
            columns.get("flows.from_ns", np.int64),
            columns.get("flows.from_quark"),
            columns.get("flows.to_ns", np.int64),
            columns.get("flows.to_quark"),
            Coded(columns.get("flows.name"), strings),
        ),
        spans=SpanTable(
            threads=columns.get("spans.threads"),
            offsets=columns.get("spans.offsets", np.int64),
            start_ns=columns.get("spans.start_ns", np.int64),
            end_ns=columns.get("spans.end_ns", np.int64),
            name=Coded(columns.get("spans.name"), strings),
            category=Coded(columns.get("spans.category"), strings),
            depth=columns.get("spans.depth"),
            lane=columns.get("spans.lane"),
            parent=columns.get("spans.parent"),
            flags=columns.get("spans.flags", np.uint8),
            arguments_offset=columns.get("spans.arguments_offset", np.int64),
            arguments_length=columns.get("spans.arguments_length"),
            text=ArgumentText(columns.get("spans.text", np.uint8).tobytes()),
        ),
        samples=SampleTable(
            time_ns=columns.get("samples.time_ns", np.int64),
            thread=columns.get("samples.thread"),
            stack=columns.get("samples.stack"),
            weight=columns.get("samples.weight", np.int64),
            event=Coded(columns.get("samples.event"), strings),
            name=Coded(columns.get("samples.name"), strings),
            cpu=columns.get("samples.cpu"),
            stacks=StackTable(
                columns.get("stacks.parent"),
                columns.get("stacks.frame"),
                json.loads(columns.get("stacks.frames", np.uint8).tobytes() or b"[]"),
            ),
        ),
    )


class _Columns:
    """The columns of a file by name, checked; one that is not there is empty."""

    def __init__(self, path: Path, described: Description) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        if not described:
            return
        try:
            data = np.memmap(path, np.uint8, "r").view(np.ndarray)
        except (OSError, ValueError) as error:
            raise InputError(str(path), f"cannot be read: {error}") from None
        name, kind, rows, offset, _ = described[-1]
        end = offset + rows * np.dtype(kind).itemsize
        whole = end + -end % _ALIGNMENT
        if len(data) != whole:
            wrong = f"is {len(data)} bytes long and should be {whole}"
            raise InputError(str(path), wrong, offset=min(len(data), whole))
        for name, kind, rows, offset, checksum in described:
            size_bytes = rows * np.dtype(kind).itemsize
            column = data[offset : offset + size_bytes]
            if len(column) != size_bytes or zlib.crc32(column.data) != checksum:
                raise InputError(str(path), f"the column {name} is cut or damaged", offset=offset)
            self._arrays[name] = column.view(kind)

    def get(self, name: str, kind: type[np.generic] = np.int32, rows: int = 0) -> npt.NDArray[Any]:
        """Return a column; where it is missing, so many zeros: later versions have more of them."""
        missing = _MISSING.get(name, np.zeros(rows, kind))
        return self._arrays.get(name, missing)
