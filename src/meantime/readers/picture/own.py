"""Pages of meantime: their data are columns in blocks, and a description of these."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.attributes import format_path
from meantime.model.clocks import Clock
from meantime.model.columns import Interner
from meantime.model.metadata import LaneDeclaration
from meantime.model.trace import Arguments, Spans
from meantime.readers.picture import heat
from meantime.readers.picture.columns import inflated, varints
from meantime.readers.picture.stacks import samples, whole
from meantime.readers.picture.states import Rectangles, changes, state_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.trace import Batch, Trace

__all__ = ["batches"]

_BLOCK = re.compile(rb'<metadata data-block="([a-z-]{1,20}\d{0,9})">([^<]*)</metadata>')


def batches(data: bytes, trace: Trace, *, lenient: bool) -> Iterator[Batch]:  # noqa: ARG001 - as the others
    """Yield what is in a page.

    Raises:
        ValueError: If it is malformed, or holds no trace.
    """
    pieces: dict[bytes, list[bytes]] = {}
    for name, piece in _BLOCK.findall(data):
        pieces.setdefault(name, []).append(piece)
    head = json.loads(b"".join(pieces.pop(b"head")))
    blocks = {name.decode(): b64decode(b"".join(each)) for name, each in pieces.items()}
    trace.title = str(head.get("title") or "") or None
    if "rowHeight" in head:
        yield from _statemap(head, blocks, trace)
    elif "flowNames" in head:
        yield from _chart(head, blocks, trace)
    elif "compared" in head:
        if head["compared"]:
            raise _refused(trace, "compares two profiles, whose traces it does not have")
        names = [str(head["frames"][frame]) for frame in _numbers(blocks["frame"], "<i4").tolist()]
        parents = _numbers(blocks["parent"], "<i4").tolist()
        totals = whole(_numbers(blocks["total"], "<f8"))
        yield from samples(trace, parents, names, totals, str(head["unit"]))
    elif "period_ns" in head:
        yield from heat.batches(head, blocks, trace)
    else:
        raise _refused(trace, "is a picture without the data that it was drawn of")


def _refused(trace: Trace, what: str) -> InputError:
    return InputError(trace.source, f"this {what}: open what it was drawn from")


def _numbers(block: bytes, form: str) -> npt.NDArray[Any]:
    return np.frombuffer(block, form)


def _statemap(
    head: Mapping[str, Any], blocks: Mapping[str, bytes], trace: Trace
) -> Iterator[Batch]:
    panels = head["panels"]
    values = Interner(trace.values)
    first_ns, last_ns = [], []
    for number, panel in enumerate(panels):
        above = () if len(panels) == 1 else (f"{panel['label'] or 'map'} {number + 1}",)
        start_ns = int(panel["start"])
        first_ns.append(start_ns)
        last_ns.append(int(panel["end"]))
        if number == 0 and panel["origin"] is not None:
            trace.clock = Clock(utc_at_origin_ns=int(panel["origin"]))
        states = state_table(panel["states"])
        codes = np.array([values.code(state.name) for state in states], np.int32)
        tags = len(trace.tags)
        trace.tags += [each if isinstance(each, dict) else {"tag": each} for each in panel["tags"]]
        found = _rectangles(panel, blocks, number, trace)
        if len(found) and not -1 <= found[:, 4].max(initial=-1) < len(trace.tags) - tags:
            raise ValueError("a tag that is not defined")
        found[:, 1:3] += start_ns
        found[:, 4] = np.where(found[:, 4] < 0, -1, found[:, 4] + tags)
        names = [str(each) for each in panel["entities"]]
        of_row = [trace.paths.code((*above, name)) for name in names]
        if panel["shared"]:
            _tasks(found, blocks, number, panel, trace, above)
        else:
            found[:, 0] = np.array(of_row, np.int64)[found[:, 0]]
            trace.descriptions |= {
                of_row[int(row)]: str(text) for row, text in panel["descriptions"].items()
            }
        trace.lanes.append(
            LaneDeclaration(
                f"{format_path(above)}/*" if above else "*",
                entity_kind=str(panel["kind"] or "Entity"),
                states=states,
                short_lived=bool(panel["shared"]),
            )
        )
        trace.records += len(found)
        yield changes(found, codes)
    if first_ns:
        trace.bounds = min(first_ns), max(*first_ns, *last_ns)


def _rectangles(
    panel: Mapping[str, Any], blocks: Mapping[str, bytes], number: int, trace: Trace
) -> npt.NDArray[np.int64]:
    """Return the rectangles of a panel: row, start and end in the window, state, tag."""
    numbers = varints(blocks.get(f"p{number}", b""))
    if (numbers < 0).any():
        raise ValueError("a time that does not fit")
    at, found = 0, Rectangles(trace)
    items = numbers.data
    for row in range(len(panel["entities"])):
        count = items[at]
        at += 1
        has_all = 4 * count <= len(items) - at
        usual = numbers[at : at + 4 * count * has_all].reshape(-1, 4)
        # the first rectangle with several states or with tags is where it would be
        if has_all and not ((usual[:, 2] & 1) | usual[:, 3]).any():
            end = np.cumsum(usual[:, 0] + usual[:, 1])
            if (end < 0).any():
                raise ValueError("a time that does not fit")
            rows = np.full(count, row)
            states = usual[:, 2] >> 1
            none = np.full(count, -1)
            found.add_columns(np.stack([rows, end - usual[:, 1], end, states, none], axis=1))
            at += 4 * count
            continue
        at = _unusual(items, at, row, count, found)
    if at != len(items):
        raise ValueError("more rectangles than there should be")
    return found.columns()


def _unusual(items: memoryview[int], at: int, row: int, count: int, found: Rectangles) -> int:
    """Add the rectangles of a row, some of which have several states or tags."""
    end = 0
    for _ in range(count):
        start = end + items[at]
        end = start + items[at + 1]
        code = items[at + 2]
        at += 3
        states = []
        if code & 1:
            for _ in range(code >> 1):
                states.append((items[at], items[at + 1]))
                at += 2
        tags = items[at]
        at += 1
        tag = -1
        if tags == 1:
            tag = items[at]
            at += 1
        elif tags:
            at += 2 * (tags - 1)
        if states:
            found.add_merged(row, start, end, states)
        else:
            found.add(row, start, end, code >> 1, tag)
    return at


def _tasks(  # noqa: PLR0917 - a panel and its parts
    found: npt.NDArray[np.int64],
    blocks: Mapping[str, bytes],
    number: int,
    panel: Mapping[str, Any],
    trace: Trace,
    above: tuple[str, ...],
) -> None:
    """Replace the rows of rectangles by the entities that share them."""
    count, rows = int(panel["shared"]["count"]), len(panel["entities"])
    numbers = varints(inflated(blocks[f"s{number}"]))
    if len(numbers) != rows + count or (numbers < 0).any() or int(numbers[:rows].sum()) != count:
        raise ValueError("the entities of shared rows do not fit together")
    if f"i{number}" in blocks:
        steps = varints(inflated(blocks[f"i{number}"]))
        ids = np.cumsum(np.where(steps & 1, -(steps + 1) // 2, steps // 2))
        names = [str(each) for each in ids.tolist()]
    else:
        names = inflated(blocks[f"n{number}"]).decode("utf-8", "replace").split("\0")
    if len(names) != count:
        raise ValueError("the entities of shared rows do not fit together")
    codes = np.array([trace.paths.code((*above, name)) for name in names], np.int64)
    offsets = np.concatenate([[0], np.cumsum(numbers[:rows])]).tolist()
    edges = np.searchsorted(found[:, 0], np.arange(rows + 1)).tolist()
    for row in range(rows):
        begins = np.cumsum(numbers[rows + offsets[row] : rows + offsets[row + 1]])
        part = slice(edges[row], edges[row + 1])
        which = np.searchsorted(begins, found[part, 1], side="right") - 1
        if len(which) and which.min() < 0:
            raise ValueError("a rectangle before its entity")
        found[part, 0] = codes[offsets[row] : offsets[row + 1]][which]


def _chart(head: Mapping[str, Any], blocks: Mapping[str, bytes], trace: Trace) -> Iterator[Batch]:
    """Yield the spans of a flame chart; stacks of samples are spans there, too."""
    gap, length, name, parent = (
        varints(inflated(blocks[each])) for each in ("gap", "length", "name", "parent")
    )
    rows = np.array(head["rows"], np.int64)
    if len({len(gap), len(length), len(name), len(parent), int(rows.sum())}) != 1:
        raise ValueError("columns of different lengths")
    frames = [str(each) for each in head["frames"]]
    if (rows < 0).any() or (length < 0).any():
        raise ValueError("a length below 0")
    if len(name) and not 0 <= name.min() <= name.max() < len(frames):
        raise ValueError("a name that is not defined")
    thread, start = np.zeros(len(gap), np.int32), np.zeros(len(gap), np.int64)
    edges = np.concatenate([[0], np.cumsum(rows)]).tolist()
    row = 0
    for panel in head["panels"]:
        path = thread_path(str(panel["title"]), str(panel["process"] or ""))
        code = trace.paths.code(path)
        title = str(panel["title"])
        trace.names[code] = title.removeprefix(f"{panel['process']} / ")
        for _ in range(int(panel["rows"])):
            part = slice(edges[row], edges[row + 1])
            thread[part] = code
            start[part] = np.cumsum(gap[part] + length[part]) - length[part]
            row += 1
    if row != len(rows):
        raise ValueError("rows that belong to nothing")
    origin_ns = int(head["origin"])
    values = Interner(trace.values)
    codes = np.array([values.code(each) for each in frames], np.int32)
    trace.records = len(gap)
    trace.bounds = origin_ns, origin_ns + max(1, int(head["width"]))
    if not len(gap):
        return
    offsets, sizes = _arguments(blocks, len(gap), trace)
    order = np.argsort(start, kind="stable")
    yield Spans(
        start_ns=(start + origin_ns)[order],
        end_ns=(start + length + origin_ns)[order],
        thread=thread[order],
        name=codes[name][order],
        category=np.full(len(gap), -1, np.int32),
        level=np.zeros(len(gap), np.int32),
        flags=np.zeros(len(gap), np.uint8),
        arguments=Arguments(offsets[order], sizes[order]),
    )


def _arguments(
    blocks: Mapping[str, bytes], count: int, trace: Trace
) -> tuple[Int64s, npt.NDArray[np.int32]]:
    """Return where the arguments of each span are, and how long."""
    offsets, sizes = np.zeros(count, np.int64), np.zeros(count, np.int32)
    if "argument" not in blocks or "texts" not in blocks:
        return offsets, sizes
    codes = varints(inflated(blocks["argument"]))
    texts = [str(each).encode() for each in json.loads(inflated(blocks["texts"]))]
    if len(codes) != count or not 0 <= codes.min() <= codes.max() <= len(texts):
        raise ValueError("arguments that are not defined")
    places = np.array([0, *map(trace.text.add, texts)], np.int64)
    lengths = np.array([0, *map(len, texts)], np.int32)
    return places[codes], lengths[codes]
