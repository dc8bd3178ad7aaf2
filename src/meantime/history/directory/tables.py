"""The event tables of a history as one file: columns side by side, described in the manifest."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.columns import Coded
from meantime.errors import InputError
from meantime.history.directory.container import (
    ALIGNMENT,
    ContainerFile,
    Section,
    aligned,
    offsets_of,
    pack_arrays,
)
from meantime.history.numbers import AFTER_ALL, fits
from meantime.history.results import Flows, Points
from meantime.history.samples import SampleTable
from meantime.history.spans import SpanTable
from meantime.history.tables import Tables
from meantime.kernels import validate
from meantime.stacks import StackTable
from meantime.trace import ArgumentText

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue

__all__ = ["pack", "unpack"]

Description = list[list[Any]]


def pack(tables: Tables) -> tuple[Description, bytes]:
    """Return a description per column (name, type, rows, offset, checksum), and all columns."""
    columns = {name: column for name, column in _columns(tables).items() if len(column)}
    offsets = offsets_of(
        Section(name, column.dtype, len(column)) for name, column in columns.items()
    )
    described: Description = [
        [name, column.dtype.str, len(column), offsets[name], zlib.crc32(column.tobytes())]
        for name, column in columns.items()
    ]
    return described, b"".join(pack_arrays(columns.values()))


def _columns(tables: Tables) -> dict[str, npt.NDArray[Any]]:
    points, flows, spans, samples = tables
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
    """Return where the arguments of each row begin in the joined text, and that text."""
    length = table.arguments_length
    ranges = zip(table.arguments_offset.tolist(), length.tolist(), strict=True)
    text = b"".join([table.text.read(*bounds) for bounds in ranges])
    return np.cumsum(length, dtype=np.int64) - length, text


_INT32, _INT64 = (np.dtype(np.int32),), (np.dtype(np.int64),)
_BYTES = (np.dtype(np.uint8),)
# Lanes are stored in as few bytes as the highest needs.
_LANE = tuple(np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.int32))
_TYPES: dict[str, tuple[np.dtype[Any], ...]] = {
    "points.time_ns": _INT64,
    "points.quark": _INT32,
    "points.name": _INT32,
    "points.arguments_offset": _INT64,
    "points.arguments_length": _INT32,
    "points.text": _BYTES,
    "flows.from_ns": _INT64,
    "flows.from_quark": _INT32,
    "flows.to_ns": _INT64,
    "flows.to_quark": _INT32,
    "flows.name": _INT32,
    "spans.threads": _INT32,
    "spans.offsets": _INT64,
    "spans.start_ns": _INT64,
    "spans.end_ns": _INT64,
    "spans.name": _INT32,
    "spans.category": _INT32,
    "spans.depth": _INT32,
    "spans.lane": _LANE,
    "spans.parent": _INT32,
    "spans.flags": _BYTES,
    "spans.arguments_offset": _INT64,
    "spans.arguments_length": _INT32,
    "spans.text": _BYTES,
    "samples.time_ns": _INT64,
    "samples.thread": _INT32,
    "samples.stack": _INT32,
    "samples.weight": _INT64,
    "samples.event": _INT32,
    "samples.name": _INT32,
    "samples.cpu": _INT32,
    "stacks.parent": _INT32,
    "stacks.frame": _INT32,
    "stacks.frames": _BYTES,
}
# The columns of each table that have as many rows as its first.
_ROWS = {
    table: [
        name
        for name in _TYPES
        if name.startswith(f"{table}.") and name.partition(".")[2] not in others
    ]
    for table, others in {
        "points": {"text"},
        "flows": set(),
        "spans": {"threads", "offsets", "text"},
        "samples": set(),
        "stacks": {"frames"},
    }.items()
}


def unpack(path: Path, described: Description, catalogue: Catalogue) -> Tables:
    """Return the tables in a file, of a history with these names.

    Raises:
        InputError: If the file is missing, cut or damaged, or invalid.
    """
    columns = _Columns(path, described)
    columns.check(catalogue)
    strings = catalogue.strings.names
    return Tables(
        points=Points(
            columns.get("points.time_ns"),
            columns.get("points.quark"),
            Coded(columns.get("points.name"), strings),
            columns.get("points.arguments_offset"),
            columns.get("points.arguments_length"),
            ArgumentText(columns.get("points.text").tobytes()),
        ),
        flows=Flows(
            columns.get("flows.from_ns"),
            columns.get("flows.from_quark"),
            columns.get("flows.to_ns"),
            columns.get("flows.to_quark"),
            Coded(columns.get("flows.name"), strings),
        ),
        spans=SpanTable.of_arrays(
            threads=columns.get("spans.threads"),
            offsets=columns.get("spans.offsets"),
            start_ns=columns.get("spans.start_ns"),
            end_ns=columns.get("spans.end_ns"),
            name=Coded(columns.get("spans.name"), strings),
            category=Coded(columns.get("spans.category"), strings),
            depth=columns.get("spans.depth"),
            lane=columns.get("spans.lane"),
            parent=columns.get("spans.parent"),
            flags=columns.get("spans.flags"),
            arguments_offset=columns.get("spans.arguments_offset"),
            arguments_length=columns.get("spans.arguments_length"),
            text=ArgumentText(columns.get("spans.text").tobytes()),
        ),
        samples=SampleTable(
            time_ns=columns.get("samples.time_ns"),
            thread=columns.get("samples.thread"),
            stack=columns.get("samples.stack"),
            weight=columns.get("samples.weight"),
            event=Coded(columns.get("samples.event"), strings),
            name=Coded(columns.get("samples.name"), strings),
            cpu=columns.get("samples.cpu"),
            stacks=StackTable(
                columns.get("stacks.parent"), columns.get("stacks.frame"), columns.frames
            ),
        ),
    )


class _Columns:
    """The columns of a file by name, checked; one that is not there is empty.

    Attributes:
        frames: The functions' names of stacks.
    """

    def __init__(self, path: Path, described: Description) -> None:
        self._path = path
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self.frames: list[str] = []
        if not described:
            return
        for name, kind, *_ in described:
            if kind not in {dtype.str for dtype in _TYPES.get(name, ())}:
                raise InputError(str(path), f"the column {name} is of the type {kind}")
        file = ContainerFile(path)
        name, kind, rows, offset, _ = described[-1]
        whole = offset + aligned(Section(name, np.dtype(kind), rows).size_bytes)
        if file.size_bytes != whole:
            wrong = f"is {file.size_bytes} bytes long and should be {whole}"
            raise file.error(wrong, min(file.size_bytes, whole))
        data = file.read(0, whole)
        for name, kind, rows, offset, checksum in described:
            size_bytes = Section(name, np.dtype(kind), rows).size_bytes
            column = data[offset : offset + size_bytes]
            if (
                offset % ALIGNMENT
                or len(column) != size_bytes
                or zlib.crc32(column.data) != checksum
            ):
                raise InputError(str(path), f"the column {name} is cut or damaged", offset=offset)
            self._arrays[name] = column.view(kind)

    def get(self, name: str) -> npt.NDArray[Any]:
        """Return a column; zeros where it is missing: later versions have more of them."""
        column = self._arrays.get(name)
        if column is not None:
            return column
        if name == "spans.offsets":
            return np.zeros(1, np.int64)
        later = name in {"points.arguments_offset", "points.arguments_length"}
        return np.zeros(len(self.get("points.time_ns")) if later else 0, _TYPES[name][0])

    def check(self, catalogue: Catalogue) -> None:
        """Raise `InputError` unless the columns satisfy what other code relies on."""
        for table, names in _ROWS.items():
            if len({len(self.get(name)) for name in names}) != 1:
                raise self._wrong(f"{table}: columns of one table differ in length")
        self._check_frames()
        self._check_codes(len(catalogue.attributes), len(catalogue.strings.names))
        for name in ("points.time_ns", "flows.from_ns", "flows.to_ns", "samples.time_ns"):
            times_ns = self.get(name)
            ordered = name == "flows.to_ns" or bool((times_ns[1:] >= times_ns[:-1]).all())
            if not ordered or not fits(times_ns):
                raise self._wrong(f"{name}: times are not in order, or do not fit")
        parent = self.get("stacks.parent")
        if len(parent) and (int(parent.min()) < -1 or (parent >= np.arange(len(parent))).any()):
            raise self._wrong("stacks.parent: a stack comes before its caller")
        for table in ("points", "spans"):
            self._check_arguments(table)
        self._check_spans()

    def _check_frames(self) -> None:
        try:
            frames = json.loads(self.get("stacks.frames").tobytes() or b"[]")
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"stacks.frames: {error}") from None
        if not isinstance(frames, list) or not all(type(frame) is str for frame in frames):
            raise self._wrong("stacks.frames: is not a list of names")
        self.frames = frames

    def _check_codes(self, quarks: int, strings: int) -> None:
        for name, least, count in (
            ("points.quark", 0, quarks),
            ("points.name", -1, strings),
            ("flows.from_quark", 0, quarks),
            ("flows.to_quark", 0, quarks),
            ("flows.name", -1, strings),
            ("spans.threads", 0, quarks),
            ("spans.name", -1, strings),
            ("spans.category", -1, strings),
            ("samples.thread", 0, quarks),
            ("samples.stack", -1, len(self.get("stacks.parent"))),
            ("samples.event", -1, strings),
            ("samples.name", -1, strings),
            ("samples.cpu", -1, 2**31),
            ("stacks.frame", 0, len(self.frames)),
        ):
            column = self.get(name)
            if len(column) and not least <= int(column.min()) <= int(column.max()) < count:
                raise self._wrong(f"{name}: a number is not one of {count:,}")

    def _check_arguments(self, table: str) -> None:
        offset, length = (
            self.get(f"{table}.arguments_offset"),
            self.get(f"{table}.arguments_length"),
        )
        size = len(self.get(f"{table}.text"))
        if len(offset) and (
            not 0 <= int(offset.min()) <= int(offset.max()) <= size
            or int(length.min()) < 0
            or int((offset + length).max()) > size
        ):
            raise self._wrong(f"{table}.arguments_offset: arguments are not in the text")

    def _check_spans(self) -> None:
        threads, offsets = self.get("spans.threads"), self.get("spans.offsets")
        start_ns, end_ns = self.get("spans.start_ns"), self.get("spans.end_ns")
        if (
            len(offsets) != len(threads) + 1
            or offsets[0] != 0
            or offsets[-1] != len(start_ns)
            or not (offsets[1:] > offsets[:-1]).all()
            or len(np.unique(threads)) != len(threads)
        ):
            raise self._wrong("spans.offsets: do not part the spans by thread")
        if not (fits(start_ns) and fits(end_ns)):
            raise self._wrong("spans.start_ns: times do not fit")
        if len(start_ns) and int(end_ns.max()) - int(start_ns.min()) >= AFTER_ALL:
            raise self._wrong("spans.end_ns: durations do not fit into 64 bits")
        row = validate.nested(
            offsets,
            start_ns,
            end_ns,
            self.get("spans.depth"),
            self.get("spans.lane").astype(np.int32),
            self.get("spans.parent"),
        )
        if row >= 0:
            raise self._wrong(f"spans.parent: span {row} is not where the others leave room")

    def _wrong(self, what: str) -> InputError:
        return InputError(str(self._path), f"is invalid: {what}")
