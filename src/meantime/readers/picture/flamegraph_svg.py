"""SVGs of flamegraph.pl and of inferno: each box has its name and its weight in a title.

A box is below or above the one that calls it, and within its left and right edge. What was too
narrow to be drawn counts for its caller.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from meantime.readers.picture.stacks import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace

__all__ = ["batches"]

_BOX = re.compile(
    rb"<title>([^<]{1,100000})</title>\s{0,100}<rect ([^<>]{1,1000})>"
    # as the first versions of flamegraph.pl wrote it
    rb'|<rect ([^<>]{1,1000})\bonmouseover="s\(\'([^"<>]{1,100000})\'\)"'
)
_ATTRIBUTE = re.compile(rb'(?:^|\s)((?:fg:)?[a-z]{1,9})="(-?\d{1,15}(?:\.\d{1,9})?)[%px]{0,2}"')
_TITLE = re.compile(
    r"(.*) \(([\d,]{1,26}(?:\.\d{1,9})?) ([^\s,();]{1,40}), [\d.]{1,12}%.*\)[^)]{0,40}", re.DOTALL
)
_ROOT = "all"
# A coordinate has one decimal.
_TOLERANCE = 0.11


class _Box(NamedTuple):
    y: float
    x: float
    width: float
    name: str
    weight: int


def batches(data: bytes, trace: Trace, *, lenient: bool) -> Iterator[Batch]:
    """Yield the samples of a flame graph; `lenient` leaves out boxes without a weight.

    Raises:
        ValueError: If it is malformed.
    """
    unit, boxes = "samples", []
    for own_title, own_attributes, older, older_title in _BOX.findall(data):
        title = html.unescape((own_title or older_title).decode("utf-8", "replace"))
        found = _TITLE.fullmatch(title)
        numbers = {
            name: float(value) for name, value in _ATTRIBUTE.findall(own_attributes or older)
        }
        if found is None or not {b"x", b"y", b"width"} <= numbers.keys():
            if not lenient:
                raise ValueError(f"the box {title[:80]!r} has no weight in its title")
            trace.anomalies.add("bad_record")
            continue
        exact = Decimal(found[2].replace(",", "") or 0)
        weight = round(exact)
        trace.anomalies.add("weight_rounded", int(weight != exact))
        unit = found[3]
        x, width = numbers.get(b"fg:x", numbers[b"x"]), numbers.get(b"fg:w", numbers[b"width"])
        boxes.append(_Box(numbers[b"y"], x, width, found[1], weight))
    if not boxes:
        raise ValueError("it has no box with a title and a weight")
    # callers first: from the side where the whole is
    levels = sorted({box.y for box in boxes})
    widest = max(boxes, key=lambda box: (box.width, box.name == _ROOT))
    if widest.y != levels[0]:
        levels.reverse()
    rank = {y: number for number, y in enumerate(levels)}
    boxes.sort(key=lambda box: (rank[box.y], box.x))
    parents = _parents(boxes, rank)
    names, totals = [box.name for box in boxes], [box.weight for box in boxes]
    trace.facts["resolution"] = "boxes too narrow to be drawn count for their callers"
    if names[0] == _ROOT and totals[0] == sum(
        total for total, parent in zip(totals, parents, strict=True) if parent == 0
    ):
        # the whole is not a function, unless it stands for boxes that were left out
        parents = [parent - 1 if parent > 0 else -1 for parent in parents[1:]]
        names, totals = names[1:], totals[1:]
    yield from samples(trace, parents, names, totals, unit)


def _parents(boxes: list[_Box], rank: dict[float, int]) -> list[int]:
    """Return for each box the one of the level before that it is within, or -1."""
    of_level: dict[int, tuple[list[float], list[int]]] = {}
    parents = []
    for index, box in enumerate(boxes):
        level = rank[box.y]
        starts, rows = of_level.setdefault(level, ([], []))
        starts.append(box.x)
        rows.append(index)
        above = of_level.get(level - 1)
        parent = -1
        if above is not None:
            at = bisect_right(above[0], box.x + _TOLERANCE) - 1
            if at >= 0:
                caller = boxes[above[1][at]]
                if box.x < caller.x + caller.width + _TOLERANCE:
                    parent = above[1][at]
        parents.append(parent)
    return parents
