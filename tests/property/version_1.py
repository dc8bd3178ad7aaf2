"""A finished history as version 1 of the format would have it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.directory.container import pack_header, size_of, views
from meantime.history.directory.delta import add_attributes
from meantime.history.directory.manifest import checksummed_line
from meantime.history.directory.packed import ascending_in, bytes_in
from meantime.history.directory.segment_index import _sections_1
from meantime.history.directory.segments import _HEADER_1, _MAGIC_1, open_segment
from meantime.history.numbers import BEFORE_ALL
from meantime.kernels.checksum import crc32
from meantime.model.attributes import Attributes

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["as_version_1"]


def as_version_1(path: Path, to: Path) -> Path:
    """Write a finished history without events as version 1; return where."""
    (to / "segments").mkdir(parents=True)
    lines = (path / "manifest").read_bytes().splitlines()
    records = [json.loads(line[9:]) for line in lines]
    records[0]["version"] = 1
    known = Attributes()
    for record in records[1:]:
        if "attributes" in record:
            first = len(known)
            add_attributes(known, record["attributes"])
            quarks = range(first, len(known))
            record["attributes"] = [[*map(known.parent, quarks)], known.names(quarks)]
        if "kinds" in record:
            kinds = record["kinds"]
            changed = ascending_in(kinds, "quarks", len(known)).tolist()
            record["kinds"] = [changed, bytes_in(kinds, "kinds").tolist()]
        if "segment" in record:
            name = record["segment"]
            data = _segment(path / "segments" / name)
            (to / "segments" / name).write_bytes(data)
            record["checksum"] = int.from_bytes(data[124:128], "little")
        else:
            record["closed"] = {
                key: value
                for key, value in record["closed"].items()
                if key not in {"extremes", "overview"}
            }
    (to / "manifest").write_bytes(b"".join(map(checksummed_line, records)))
    return to


def _segment(path: Path) -> bytes:
    segment = open_segment(path)
    segment.load()
    head, sections = segment.head, segment.sections
    described = _sections_1(head)
    index = np.zeros(size_of(described), np.uint8)
    to = views(index, described)
    to["carry_start"][:] = BEFORE_ALL
    to["carry_meta"][:] = 1
    for name, column in to.items():
        if len(sections[name]):
            column[:] = sections[name]
    flags = head.wide | head.numeric << 1 | head.full << 2
    rows = segment.rows.tobytes()
    checksums = crc32(index.data), crc32(rows)
    header = pack_header(_HEADER_1, _MAGIC_1, *head[:8], flags, *checksums)
    return header + index.tobytes() + rows
