"""A tour through a session: what the page shows and says, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.server.lanes import LaneTree

__all__ = ["Tour"]


class Tour(NamedTuple):
    """Sentences about places of a session, in an order.

    Attributes:
        title: What the tour is about.
        steps: Each has `title`, `text`, the `tab` to show, the index of its `file`, the `range_ns`
            to show in the time of that file, and a `handle`: `PATH@abs:NS` is what to select, PATH
            a lane whose part of the range is to be selected, and null is neither.
    """

    title: str
    steps: Sequence[dict[str, Any]]

    def document(self, trees: Sequence[LaneTree | None]) -> dict[str, Any]:
        """Return the tour as JSON values.

        Args:
            trees: The lanes of the files, as far as these have been read.
        """
        return {
            "title": self.title,
            "steps": [_step(each, trees[each["file"]]) for each in self.steps],
        }


def _step(step: dict[str, Any], tree: LaneTree | None) -> dict[str, Any]:
    start_ns, end_ns = step["range_ns"]
    path, _, time = (step["handle"] or "").partition("@abs:")
    lane: int | None = None
    row = 0
    if tree is not None and path:
        lane, row = _place(tree, path)
    return {
        **{name: step[name] for name in ("title", "text", "tab", "file")},
        "start_ns": start_ns,
        "end_ns": end_ns,
        "lane": lane,
        "row": row,
        "time_ns": int(time) if time else None,
    }


def _place(tree: LaneTree, path: str) -> tuple[int | None, int]:
    quark = tree.history.find(path)
    if quark is None:
        return None, 0
    return tree.places(np.array([quark], np.int32)).get(quark, (None, 0))
