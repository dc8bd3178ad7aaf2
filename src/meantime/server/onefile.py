"""The page with everything that it draws inside: one file that needs no server.

The format of the data is described in `docs/reference/tiles.md`.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import MeantimeError, OutputError
from meantime.kernels import gather
from meantime.kernels.tail import FLOAT, INT
from meantime.kernels.text import base64
from meantime.model.columns import Coded, Mixed, distinct, named
from meantime.model.state_classes import class_of, rank
from meantime.model.units import format_bytes, format_ns
from meantime.query.counting import what_counts
from meantime.query.idle_samples import are_idle
from meantime.server.answers import Asked, stands_out
from meantime.server.documents import document
from meantime.server.notes import Notes
from meantime.views.flame.arguments import ArgumentCollector
from meantime.views.svg import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.server.lane_blocks import Block, PackedBlock, SpanBlock
    from meantime.server.lanes import LaneTree
    from meantime.server.session import Session

__all__ = ["page"]

_MARK = "<!--meantime-data-->"
# Higher levels take several times as long for a few per cent less.
_LEVEL = 1
_SAMPLE_BYTES = 1 << 16
# Planes that hardly become smaller are stored, which takes no time here and in the browser.
_LEAST_GAIN = 0.97
# A last block without any bytes.
_END = zlib.compressobj(wbits=-zlib.MAX_WBITS).flush()
_MOST_FLOWS = 200_000
_AT_ONCE = 1 << 16
# Over the size, what is left is a guess: at most so many times a coarser one is made.
_ATTEMPTS = 6
# How much smaller than necessary it is made, as the bytes of a box vary.
_MARGIN = 0.8
_COARSER = 4
_LONGEST_NS = 1 << 60
_ABOVE = -2
_POLICY = (
    "default-src 'none'; {scripts}; worker-src blob:; style-src 'unsafe-inline';"
    " img-src data: blob:; connect-src blob:; base-uri 'none'; form-action 'none'"
)
_SCRIPT = re.compile(r'<script[^>]*\bsrc="(?P<name>[\w.-]+)"[^>]*></script>')
_STYLE = re.compile(r'<link[^>]*\bhref="(?P<name>[\w.-]+\.css)"[^>]*>')


class _Boxes(NamedTuple):
    """Boxes by lane, row and time.

    Attributes:
        lane: int32, the lane of each.
        row: int32, its row there.
        start_ns: int64.
        end_ns: int64.
        name: int32, a code of the names of the file.
        tag: int32, -1 without any.
        entity: int32, a code of the entities of the file; -1 in lanes without any.
        argument: int32, -1 without any.
        parent: int32, the box that each is inside, -1 outside of all; `_ABOVE` where that is the
            box of the row above that covers it.
        open: bool, whether it is a span without an end in the trace.
    """

    lane: Int32s
    row: Int32s
    start_ns: Int64s
    end_ns: Int64s
    name: Int32s
    tag: Int32s
    entity: Int32s
    argument: Int32s
    parent: Int32s
    open: npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Names:
    """Names by code, each once."""

    names: list[str] = field(default_factory=list)
    _code: dict[str, int] = field(default_factory=dict)

    def codes(self, column: Coded) -> Int32s:
        """Return the codes of a column's names; every row has one."""
        table = np.zeros(len(column.names), np.int32)
        for code in gather.seen(column.codes).tolist():
            table[code] = self.code(column.names[code])
        return column.codes if gather.is_counting(table) else _take(table, column.codes)

    def code(self, name: str) -> int:
        """Return the code of a name."""
        return self._code.setdefault(name, self._add(name))

    def _add(self, name: str) -> int:
        if name not in self._code:
            self.names.append(name)
        return len(self.names) - 1


class _Packed(NamedTuple):
    """A column as byte planes, deflated."""

    width: int
    rows: int
    data: bytes


def page(session: Session, *, most_bytes: int) -> Iterator[bytes]:
    """Return the page of a session whose files have been read, in parts.

    Args:
        session: The session.
        most_bytes: The size above which boxes that are too short are merged.

    Raises:
        MeantimeError: If a file could not be read.
        OutputError: If even the coarsest page would be larger than `most_bytes`.
    """
    # this also aligns the files
    head = {**session.document(), "notes": {"writable": True, "reason": None}}
    contents = []
    for file in session.files:
        # of a file that is damaged somewhere, what comes before was shown while it was read
        if file.shown is None or file.status == "failed":
            raise MeantimeError(file.error or f"{file.path}: it was not read")
        contents.append(_Content(file.shown.tree, file.name))
    html, fixed_bytes = _Shell.read()
    notes = Notes(session.files[0].path).read()[0]
    lanes = [
        _element(f"lanes-{index}", "application/json", json_text(each).encode())
        for index, each in enumerate(
            document({"layout": 1, **file.shown.tree.columns()})
            for file in session.files
            if file.shown
        )
    ]
    for each in head["files"]:
        each["layout"] = 1
        # a page is handed on: commands name the file, not where its author had it
        each["path"] = each["path"] and each["name"]
    if (compared := head.get("comparison")) and compared["inputs"]:
        *sides, words = compared["inputs"]
        named = [[[Path(path).name, *read] for path, *read in side] for side in sides]
        compared["inputs"] = [*named, words]
    fixed_bytes += sum(map(len, lanes)) + len(json_text(document(head))) + len(json_text(notes))
    for _ in range(_ATTEMPTS):
        size = fixed_bytes + sum(content.size() for content in contents)
        if size <= most_bytes:
            break
        free_bytes = most_bytes - fixed_bytes
        if free_bytes <= 0:
            raise _too_large(fixed_bytes)
        for content in contents:
            content.shrink(free_bytes / (size - fixed_bytes))
    else:
        raise _too_large(size)
    head["embedded"] = {"files": [content.directory() for content in contents]}
    text = document(head)
    # as they are: a page's own numbers are not times of this process
    text["embedded"]["notes"] = notes
    yield html.before
    yield _element("session", "application/json", json_text(text).encode())
    yield from lanes
    for index, content in enumerate(contents):
        yield from content.elements(index)
    yield html.after


def _too_large(size: int) -> OutputError:
    return OutputError(
        f"the page would have {format_bytes(size)} even without what is short; allow more with"
        " --max-size, or choose fewer files"
    )


def _element(name: str, kind: str, content: bytes) -> bytes:
    return b'<script type="%s" id="meantime-%s">%s</script>\n' % (
        kind.encode(),
        name.encode(),
        content,
    )


class _Shell(NamedTuple):
    """The page around its data, with its script and style inside."""

    before: bytes
    after: bytes

    @classmethod
    def read(cls) -> tuple[_Shell, int]:
        """Return the page, and its size.

        Raises:
            MeantimeError: If it was not built.
        """
        # not by importlib.resources, which imports zipfile and takes 8 ms
        folder = Path(__file__).parents[1] / "views" / "static" / "viewer"
        if not (folder / "viewer.html").is_file():
            raise MeantimeError("the page of the viewer was not built")
        text = (folder / "viewer.html").read_text("utf-8")
        hashes = []

        def inline_script(found: re.Match[str]) -> str:
            # within HTML, only this ends a script
            script = (folder / found["name"]).read_text("utf-8").replace("</script", "<\\/script")
            digest = base64(hashlib.sha256(script.encode()).digest()).decode()
            hashes.append(f"'sha256-{digest}'")
            return f"<script>{script}</script>"

        def inline_style(found: re.Match[str]) -> str:
            return f"<style>{(folder / found['name']).read_text('utf-8')}</style>"

        scripts = list(_SCRIPT.finditer(text))
        text = _STYLE.sub(inline_style, _SCRIPT.sub("", text))
        # an inline script runs where it stands, so it is after the data and the body
        bodies = "".join(map(inline_script, scripts))
        worker = (folder / "worker.js").read_text("utf-8").replace("</script", "<\\/script")
        worker = f'<script type="text/plain" id="meantime-worker">{worker}</script>\n'
        policy = _POLICY.format(scripts=f"script-src {' '.join(hashes)}")
        meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        text = text.replace("<head>", f"<head>{meta}", 1)
        before, _, after = text.partition(_MARK)
        end, closing, rest = after.rpartition("</body>")
        if not closing:
            end, rest = after, ""
        shell = cls(f"{before}{worker}".encode(), f"{end}{bodies}{closing}{rest}".encode())
        return shell, len(shell.before) + len(shell.after)


class _Content:
    """The data of one file.

    Args:
        tree: Its lanes.
        path: The path of the file, for commands.
    """

    def __init__(self, tree: LaneTree, path: str) -> None:
        self._tree = tree
        self._path = path
        self._names = _Names()
        self._entities = _Names()
        self._exact, self._texts, self._left_out = self._gathered()
        self._merged: _Merged | None = None
        self._least_ns = 0
        self._origin_ns = _origin_ns(tree.history, self._exact)
        self._rest = _rest_columns(tree, self._names, self._origin_ns)
        self._sort_names()
        self._boxes = self._exact
        self._packed: dict[str, _Packed] = {}

    def _sort_names(self) -> None:
        """Give frequent names small codes, of which most bytes are 0."""
        names, columns = self._names.names, self._rest.columns
        order = np.argsort(-_counts(self._exact.name, len(names)), kind="stable")
        code = np.empty(len(names), np.int32)
        code[order] = np.arange(len(names), dtype=np.int32)
        self._names = _Names([names[each] for each in order.tolist()])
        self._exact = self._exact._replace(name=_take(code, self._exact.name))
        for name in columns.keys() & {"point_name", "flow_name"}:
            columns[name] = code[columns[name]]

    def _gathered(self) -> tuple[_Boxes, Sequence[str], dict[str, int]]:
        """Return all boxes, their arguments, and how much is left out."""
        tree = self._tree
        collector = ArgumentCollector()
        parts = [
            _NO_BOXES,
            *(_state_boxes(tree, block, self._names) for block in tree.blocks.get("state", [])),
            *(
                _packed_boxes(tree, block, self._names, self._entities)
                for block in tree.blocks.get("packed", [])
            ),
        ]
        count = without = sum(len(part.lane) for part in parts)
        for kind in ("stack", "async"):
            for block in tree.blocks.get(kind, []):
                parts.append(_span_boxes(kind, block, count, self._names, collector))
                count += len(parts[-1].lane)
        if len(parts) > 2:
            parts = [_Boxes(*(np.concatenate(each) for each in zip(*parts, strict=True)))]
        boxes = parts[-1]
        arguments = collector.result()
        if arguments.code is not None:
            code = np.full(len(boxes.lane), -1, np.int32)
            code[without:] = arguments.code
            boxes = boxes._replace(argument=code)
        return boxes, arguments.texts, {"arguments": arguments.left_out}

    def size(self) -> int:
        """Return how many bytes the data take in the page."""
        if not self._packed:
            self._packed = dict(self._columns())
        names = sum(map(len, chain(self._names.names, self._entities.names)))
        return names + sum(-(-len(column.data) // 3) * 4 for column in self._packed.values())

    def shrink(self, factor: float) -> None:
        """Merge boxes that are short, so that about this part of the bytes is left."""
        boxes = self._exact
        if not len(boxes.lane):
            return
        length = boxes.end_ns - boxes.start_ns
        self._drop_texts(length, sum(map(len, self._texts)) * factor * _MARGIN)
        kept = int(len(self._boxes.lane) * factor * _MARGIN)
        shortest = int(np.sort(length)[max(0, len(length) - 1 - kept)])
        self._least_ns = max(shortest + 1, 2 * self._least_ns)
        self._boxes, self._merged = _merge(self._exact, self._least_ns)
        # boxes are merged only where they are near each other
        while len(self._boxes.lane) > kept and self._least_ns < _LONGEST_NS:
            self._least_ns *= _COARSER
            self._boxes, self._merged = _merge(self._exact, self._least_ns)
        self._packed = {}

    def _drop_texts(self, length: Int64s, most_bytes: float) -> None:
        """Keep arguments of the longest boxes, so many bytes of them."""
        code = self._exact.argument
        having = np.flatnonzero(code >= 0)
        if not len(having):
            return
        longest = having[np.argsort(-length[having], kind="stable")]
        used = code[longest][np.sort(np.unique(code[longest], return_index=True)[1])]
        sizes = np.array([len(self._texts[each]) for each in used.tolist()])
        kept = used[np.cumsum(sizes) <= most_bytes]
        new_code = np.full(len(self._texts) + 1, -1, np.int32)
        new_code[kept] = np.arange(len(kept), dtype=np.int32)
        self._texts = [self._texts[each] for each in kept.tolist()]
        self._exact = self._exact._replace(argument=new_code[code])
        dropped = len(having) - int(np.count_nonzero(self._exact.argument >= 0))
        self._left_out["arguments"] += dropped

    def _columns(self) -> Iterator[tuple[str, _Packed]]:
        boxes = self._boxes
        first = np.flatnonzero(_firsts(boxes))
        gap_ns = np.empty_like(boxes.start_ns)
        np.subtract(boxes.start_ns[1:], boxes.end_ns[:-1], out=gap_ns[1:])
        gap_ns[first] = boxes.start_ns[first] - self._origin_ns
        yield "gap", _packed(gap_ns)
        yield "length", _packed(boxes.end_ns - boxes.start_ns)
        yield "name", _packed(boxes.name)
        if (_different(boxes.tag) >= 0).any():
            yield "tag", _packed(boxes.tag + 1)
        if (_different(boxes.argument) >= 0).any():
            yield "argument", _packed(boxes.argument + 1)
            texts = np.frombuffer(json_text(list(self._texts)).encode(), np.uint8)
            yield "texts", _packed(texts)
        if (_different(boxes.entity) >= 0).any():
            yield "entity", _packed(boxes.entity[boxes.entity >= 0])
        if self._merged is not None:
            yield "merged", _packed(self._merged.boxes)
            yield "covered", _packed(self._merged.covered_ns)
        if (_different(boxes.parent) != _ABOVE).any():
            # one after the other, parents are near each other
            step = np.diff(boxes.parent.astype(np.int64) - _ABOVE, prepend=0)
            yield "parent", _packed((step << 1) ^ (step >> 63))
        if len(is_open := np.flatnonzero(boxes.open)):
            yield "open", _packed(np.diff(is_open, prepend=0))
        for name, column in self._rest.columns.items():
            yield name, _packed(column)

    def directory(self) -> dict[str, Any]:
        """Return what the columns are, and what they refer to."""
        boxes, history = self._boxes, self._tree.history
        first = np.flatnonzero(_firsts(boxes))
        missing = None
        if self._merged is not None:
            # three digits, rounded up
            step = 10 ** max(0, len(str(self._least_ns)) - 3)
            least = format_ns(-(-self._least_ns // step) * step).replace("us", "µs")
            missing = f"Detail under {least} is not in this file"
            missing = f"{missing}; `meantime view {self._path}` has it"
        return {
            "origin_ns": self._origin_ns,
            "boxes": len(boxes.lane),
            "rows": {
                "lane": boxes.lane[first].tolist(),
                "row": boxes.row[first].tolist(),
                "count": np.diff(np.append(first, len(boxes.lane))).tolist(),
            },
            "names": self._names.names,
            "states": self._states(),
            "entities": self._entities.names,
            "tags": list(history.tags) if "tag" in self._packed else [],
            **self._rest.members,
            "columns": {
                name: {"width": column.width, "count": column.rows}
                for name, column in self._packed.items()
            },
            **stands_out(self._tree, self._path, Asked(None, None, None)),
            "missing": missing,
            "left_out": {**self._left_out, **self._rest.left_out},
        }

    def _states(self) -> list[list[Any]]:
        """Return the name, the class and the rank of each state that boxes of states have."""
        if not {"state", "packed"} & self._tree.blocks.keys():
            return []
        kind = np.array([lane.kind in {"state", "packed"} for lane in self._tree.lanes], np.bool_)
        found = []
        is_state = _take(kind.view(np.uint8), self._boxes.lane).view(np.bool_)
        for code in gather.seen(self._boxes.name[is_state]).tolist():
            name = self._names.names[code]
            state = class_of(name)
            found.append([code, None if state is None else state.name, rank(name)])
        return found

    def elements(self, index: int) -> Iterator[bytes]:
        """Yield the columns as elements of the page."""
        for name, column in self._packed.items():
            if column.width:
                yield _element(f"{index}-{name}", "text/plain", base64(column.data))


def _packed(column: npt.NDArray[Any]) -> _Packed:
    """Return a column of numbers from 0 as byte planes, deflated."""
    most = int(column.max(initial=0))
    width = (most.bit_length() + 7) // 8
    planes = np.ascontiguousarray(column, column.dtype.newbyteorder("little"))
    planes = planes.view(np.uint8).reshape(len(column), column.dtype.itemsize)
    parts = [_deflated(planes[:, plane].tobytes()) for plane in range(width)]
    # blocks of several streams are one if each ends at a byte and only the last one is final
    return _Packed(width, len(column), b"".join([*parts, _END]))


def _deflated(plane: bytes) -> bytes:
    """Return a plane as deflated blocks, in whichever of three ways suits a part of it best."""
    middle = len(plane) // 2
    part = plane[middle : middle + _SAMPLE_BYTES]

    def deflate(data: bytes, strategy: int, level: int = _LEVEL) -> bytes:
        # 8 is the default for the memory
        stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 8, strategy)
        return stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)

    # runs are found in half the time of repetitions, and random bytes have neither
    runs, repetitions = (
        len(deflate(part, strategy)) for strategy in (zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY)
    )
    if min(runs, repetitions) > _LEAST_GAIN * len(part) > 0:
        return deflate(plane, zlib.Z_DEFAULT_STRATEGY, 0)
    return deflate(plane, zlib.Z_RLE if runs <= repetitions else zlib.Z_DEFAULT_STRATEGY)


def _different(column: Int32s) -> Int32s:
    """Return a column without the repetitions of one that is missing."""
    return column if column.strides[0] else column[:1]


def _firsts(boxes: _Boxes) -> npt.NDArray[np.bool_]:
    """Return which boxes are the first of their lane and row."""
    first = np.ones(len(boxes.lane), np.bool_)
    first[1:] = (boxes.lane[1:] != boxes.lane[:-1]) | (boxes.row[1:] != boxes.row[:-1])
    return first


class _Merged(NamedTuple):
    """What merged boxes stand for: how many, and how long these lasted."""

    boxes: Int64s
    covered_ns: Int64s


def _merge(boxes: _Boxes, least_ns: int) -> tuple[_Boxes, _Merged]:
    """Merge boxes that are shorter than this with short neighbours that are as near.

    A merged box has the name of the longest of its boxes.
    """
    length = boxes.end_ns - boxes.start_ns
    is_short = length < least_ns
    begins = _firsts(boxes)
    begins[1:] |= ~is_short[1:] | ~is_short[:-1]
    begins[1:] |= boxes.start_ns[1:] - boxes.end_ns[:-1] >= least_ns
    begins[1:] |= boxes.start_ns[1:] // least_ns != boxes.start_ns[:-1] // least_ns
    first = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    covered_ns = np.add.reduceat(length, first)
    longest = np.maximum.reduceat(length, first)
    is_longest = np.flatnonzero(length == longest[group])
    chosen = is_longest[np.unique(group[is_longest], return_index=True)[1]]
    last = np.append(first[1:], len(length)) - 1
    columns = {name: column[chosen] for name, column in boxes._asdict().items()}
    columns |= {"start_ns": boxes.start_ns[first], "end_ns": boxes.end_ns[last]}
    columns["parent"] = _merged_parents(boxes.parent, group, chosen)
    return _Boxes(**columns), _Merged(last - first + 1, covered_ns)


def _merged_parents(parent: Int32s, group: npt.NDArray[np.intp], chosen: Int64s) -> Int32s:
    """Return the group that each group is inside: that of the parent of the chosen box.

    Groups of spans that overlap could be inside each other. An ancestor therefore counts only if
    the chosen box of its group is less deep than that of the group inside.
    """
    found = parent[chosen]
    inside = np.flatnonzero(found >= 0)
    if not len(inside):
        return found
    depth = np.zeros(len(parent), np.int32)
    # each step of an ancestor doubles, and a box outside of all is its own
    above = np.where(parent >= 0, parent, np.arange(len(parent), dtype=np.int32))
    depth += parent >= 0
    while (depth[above] > 0).any():
        depth += depth[above]
        above = above[above]
    of_group = depth[chosen]
    ancestor = found[inside]
    while len(inside):
        is_below = of_group[group[ancestor]] >= of_group[inside]
        found[inside[~is_below]] = group[ancestor[~is_below]]
        inside, ancestor = inside[is_below], parent[ancestor[is_below]]
        found[inside[ancestor < 0]] = -1
        inside, ancestor = inside[ancestor >= 0], ancestor[ancestor >= 0]
    return found


def _boxes(columns: dict[str, npt.NDArray[Any]], start_ns: Int64s, end_ns: Int64s) -> _Boxes:
    """Return boxes of these columns; those that are missing are -1."""
    missing = np.broadcast_to(np.int32(-1), len(start_ns))
    found = {
        name: columns.get(name, missing).astype(np.int32, copy=False)
        for name in ("lane", "row", "name", "tag", "entity")
    }
    above = np.broadcast_to(np.int32(_ABOVE), len(start_ns))
    found["parent"] = columns.get("parent", above)
    is_open = columns.get("open", np.zeros(len(start_ns), np.bool_))
    return _Boxes(start_ns=start_ns, end_ns=end_ns, argument=missing, open=is_open, **found)


_NO_BOXES = _boxes({}, np.empty(0, np.int64), np.empty(0, np.int64))


def _intervals(history: History, quarks: Int32s) -> tuple[Int32s, Int64s, Int64s, Coded, Int32s]:
    """Return the attribute, times, state and tag of all intervals that have a state."""
    found = history.intervals(quarks, history.start_ns, history.end_ns)
    value = named(found.value)
    rows = np.flatnonzero(value.codes >= 0)
    return (
        found.quark[rows],
        found.start_ns[rows],
        found.end_ns[rows],
        Coded(value.codes[rows], value.names),
        found.tag[rows],
    )


def _state_boxes(tree: LaneTree, block: Block, names: _Names) -> _Boxes:
    quark, start_ns, end_ns, value, tag = _intervals(tree.history, block.quarks)
    lane_of = np.zeros(len(tree.history.attributes), np.int32)
    lane_of[block.quarks] = block.lanes
    row = np.zeros(len(quark), np.int32)
    columns = {"lane": lane_of[quark], "row": row, "name": names.codes(value), "tag": tag}
    return _boxes(columns, start_ns, end_ns)


def _packed_boxes(tree: LaneTree, block: PackedBlock, names: _Names, entities: _Names) -> _Boxes:
    quark, start_ns, end_ns, value, tag = _intervals(tree.history, block.quarks)
    index_of = np.zeros(len(tree.history.attributes), np.int32)
    index_of[block.quarks] = np.arange(len(block.quarks))
    # a number for each entity, also of those with one name
    base = len(entities.names)
    entities.names += block.names
    index = index_of[quark]
    lane, row = _places(block, block.row[index])
    columns = {
        "lane": lane,
        "row": row,
        "name": names.codes(value),
        "tag": tag,
        "entity": index + base,
    }
    return _boxes(columns, start_ns, end_ns)


def _span_boxes(
    kind: str, block: SpanBlock, before: int, names: _Names, arguments: ArgumentCollector
) -> _Boxes:
    """Return the boxes of a block, which come after so many others."""
    table = block.spans.table
    is_all = np.array_equal(block.threads, table.threads)
    spans = table.rows if is_all else table.select(block.threads).rows
    row = block.spans.row if is_all else _take(block.spans.row, spans)
    if kind == "stack":
        # a row is of one thread, whose spans are in order of time already
        order = gather.in_rows(row, block.row_offsets[-1])
    else:
        order = np.lexsort((table.start_ns[spans], row)).astype(np.int32)
    spans = order if is_all else _take(spans, order)
    start_ns, end_ns = _take(table.start_ns, spans), _take(table.end_ns, spans)
    # of many histories, no span has any, and then there are no texts
    if table.text.size_bytes and table.arguments_length.any():
        length = _take(table.arguments_length, spans).astype(np.int64)
        offset = _take(table.arguments_offset, spans)
        arguments.add(table.text, offset, length, end_ns - start_ns)
    else:
        arguments.skip(len(spans))
    lane, own = _places(block, np.arange(block.row_offsets[-1], dtype=np.int32))
    # they are in order of their rows
    counts = _counts(row, len(lane))
    lane, own = np.repeat(lane, counts), np.repeat(own, counts)
    name = names.codes(Coded(_take(table.name.codes, spans), table.name.names))
    columns: dict[str, npt.NDArray[Any]] = {"lane": lane, "row": own, "name": name}
    columns["open"] = table.unfinished[spans]
    if kind == "async" or (table.lane.any() and table.lane[spans].any()):
        columns["parent"] = _parents(kind, block, spans, before)
    return _boxes(columns, start_ns, end_ns)


def _parents(kind: str, block: SpanBlock, spans: Int32s, before: int) -> Int32s:
    """Return the box that each span of a block is inside, where the rows do not show it.

    They do for a thread with one lane: the spans of a depth are in one row, below their parents.
    """
    table = block.spans.table
    place = np.full(len(table.start_ns) + 1, -1, np.int32)
    place[spans] = np.arange(before, before + len(spans), dtype=np.int32)
    parent: Int32s = place[table.parent[spans]]
    if kind == "stack":
        lanes = np.concatenate(block.lane_threads)
        threads, counts = np.unique(lanes, return_counts=True)
        index = np.searchsorted(table.offsets, spans, side="right") - 1
        is_alone = np.isin(table.threads[index], threads[counts == 1])
        parent[is_alone] = _ABOVE
    return parent


def _take(column: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of a column, in less time than NumPy, which needs wider indices."""
    found = np.empty(len(rows), column.dtype)
    gather.take(column, rows.astype(np.int32, copy=False), found)
    return found


def _counts(codes: Int32s, size: int) -> Int64s:
    """Return how often each of so many codes occurs."""
    counts = np.zeros(size, np.int64)
    # NumPy makes 8-byte codes first, which in parts stay in the cache
    for first in range(0, len(codes), _AT_ONCE):
        counts += np.bincount(codes[first : first + _AT_ONCE], minlength=size)
    return counts


def _places(block: PackedBlock | SpanBlock, row: Int32s) -> tuple[Int32s, Int32s]:
    """Return the lane of each row of a block, and which of its rows it is."""
    offsets = np.array(block.row_offsets, np.int32)
    index = np.repeat(np.arange(len(block.lanes)), np.diff(offsets))
    lane_of, own_of = np.array(block.lanes, np.int32)[index], np.arange(offsets[-1])
    own_of -= offsets[index]
    return _take(lane_of, row), _take(own_of.astype(np.int32), row)


class _Rest(NamedTuple):
    """What is not a box: columns, what they refer to, and how much is left out."""

    columns: dict[str, npt.NDArray[Any]]
    members: dict[str, Any]
    left_out: dict[str, int]


def _origin_ns(history: History, boxes: _Boxes) -> int:
    """Return a time that nothing of a file is before, from which a page counts in doubles.

    It is near what the file has: where a history begins at 0 of a clock that counts from 1970, the
    doubles are exact to 256 ns only.
    """
    times = [boxes.start_ns, history.points().time_ns, history.samples().time_ns]
    times.append(history.flows().from_ns)
    return min([history.bounds[0], *(int(each.min()) for each in times if len(each))])


def _rest_columns(tree: LaneTree, names: _Names, origin_ns: int) -> _Rest:
    """Return counters, samples, instants and arrows."""
    columns: dict[str, npt.NDArray[Any]] = {}
    counters = _add_counters(tree, columns, origin_ns)
    samples, frames = _add_samples(tree, columns, origin_ns)
    points = _add_points(tree, columns, names, origin_ns)
    flows, left_out = _add_flows(tree, columns, names, origin_ns)
    members = {
        "counters": counters,
        "samples": samples,
        "frames": frames,
        "samples_first": what_counts(tree.history) == "samples",
        "points": points,
        "flows": flows,
    }
    return _Rest(columns, members, {"flows": left_out})


def _gaps(time_ns: Int64s, sizes: Sequence[int], origin_ns: int) -> Int64s:
    """Return the distance of each time from the one before it in its part."""
    first = np.cumsum([0, *sizes[:-1]]) if sizes else np.empty(0, np.int64)
    before_ns = np.empty_like(time_ns)
    before_ns[1:] = time_ns[:-1]
    before_ns[first[first < len(time_ns)]] = origin_ns
    return time_ns - before_ns


def _add_counters(
    tree: LaneTree, columns: dict[str, npt.NDArray[Any]], origin_ns: int
) -> dict[str, Any]:
    history = tree.history
    lanes: list[int] = []
    sizes: list[int] = []
    times: list[Int64s] = []
    values: list[npt.NDArray[np.float64]] = []
    for block in tree.blocks.get("counter", []):
        found = history.intervals(block.quarks, history.start_ns, history.end_ns)
        number = np.full(len(found), np.nan)
        if isinstance(found.value, Mixed):
            kinds, words = found.value.kinds, found.value.words
            number[kinds == INT] = words[kinds == INT]
            number[kinds == FLOAT] = words[kinds == FLOAT].view(np.float64)
        edges = np.searchsorted(
            _rank_of(block.quarks, found.quark), np.arange(len(block.lanes) + 1)
        )
        lanes += block.lanes
        sizes += np.diff(edges).tolist()
        times.append(np.maximum(found.start_ns, origin_ns))
        values.append(number)
    if lanes:
        columns["counter_gap"] = _gaps(np.concatenate(times), sizes, origin_ns)
        columns["counter_value"] = np.concatenate(values).view(np.uint64)
    return {"lane": lanes, "count": sizes}


def _rank_of(quarks: Int32s, column: Int32s) -> npt.NDArray[np.intp]:
    """Return the index of each value of a column among different quarks."""
    order = np.argsort(quarks)
    return order[np.searchsorted(quarks[order], column)]


def _add_samples(
    tree: LaneTree, columns: dict[str, npt.NDArray[Any]], origin_ns: int
) -> tuple[dict[str, Any], list[str]]:
    history = tree.history
    samples = history.samples()
    lanes = [lane for block in tree.blocks.get("density", []) for lane in block.lanes]
    if not lanes:
        return {"lane": [], "count": []}, []
    quarks = np.concatenate([block.quarks for block in tree.blocks["density"]])
    rank = _rank_of(quarks, samples.thread)
    order = np.argsort(rank, kind="stable")
    sizes = np.bincount(rank, minlength=len(lanes)).tolist()
    columns["sample_gap"] = _gaps(samples.time_ns[order], sizes, origin_ns)
    columns["sample_weight"] = np.maximum(samples.weight[order], 0)
    if tree.counted_event is not None:
        codes = samples.event.codes[order]
        is_counted = np.array([name == tree.counted_event for name in samples.event.names])
        columns["sample_counted"] = is_counted[codes].astype(np.uint8)
    idle = are_idle(history, samples)
    if idle.any():
        # 1 for samples of idle CPUs, 2 for other ones of the same threads
        of_task = np.isin(samples.thread, distinct(samples.thread[idle]))
        columns["sample_idle"] = np.where(idle, 1, 2 * of_task)[order].astype(np.uint8)
    columns["sample_stack"] = samples.stack[order] + 1
    columns["stack_parent"] = samples.stacks.parent + 1
    columns["stack_frame"] = samples.stacks.frame
    return {"lane": lanes, "count": sizes}, list(samples.stacks.frames)


def _add_points(
    tree: LaneTree, columns: dict[str, npt.NDArray[Any]], names: _Names, origin_ns: int
) -> int:
    points = tree.history.points()
    if not len(points):
        return 0
    quarks = np.concatenate([block.quarks for block in tree.blocks["points"]])
    lanes = np.array([lane for block in tree.blocks["points"] for lane in block.lanes], np.int32)
    columns["point_gap"] = _gaps(points.time_ns, [len(points)], origin_ns)
    columns["point_lane"] = lanes[_rank_of(quarks, points.quark)]
    columns["point_name"] = names.codes(points.name)
    return len(points)


def _add_flows(
    tree: LaneTree, columns: dict[str, npt.NDArray[Any]], names: _Names, origin_ns: int
) -> tuple[int, int]:
    """Add the first arrows; return how many, and how many more there are."""
    flows = tree.history.flows()
    if not len(flows):
        return 0, 0
    kept = min(len(flows), _MOST_FLOWS)
    place = tree.places(np.concatenate([flows.from_quark[:kept], flows.to_quark[:kept]]))
    columns["flow_gap"] = _gaps(flows.from_ns[:kept], [kept], origin_ns)
    length = flows.to_ns[:kept] - flows.from_ns[:kept]
    columns["flow_length"] = (length << 1) ^ (length >> 63)
    for end, quarks in (("from", flows.from_quark[:kept]), ("to", flows.to_quark[:kept])):
        found = [place.get(quark, (-1, 0)) for quark in quarks.tolist()]
        pairs = np.array(found, np.int32).reshape(kept, 2)
        columns[f"flow_{end}_lane"] = pairs[:, 0] + 1
        columns[f"flow_{end}_row"] = pairs[:, 1]
    columns["flow_name"] = names.codes(Coded(flows.name.codes[:kept], flows.name.names))
    return kept, len(flows) - kept
