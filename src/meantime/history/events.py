"""The tables of points and flows of a history that is being built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.columns import Coded
from meantime.history.results import Flows, Points
from meantime.trace import Arguments, ArgumentText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Int64s

__all__ = ["EventTables"]


class EventTables:
    """Collects points and flows; names are codes of the history's strings."""

    def __init__(self) -> None:
        self.text = ArgumentText()
        self._points: list[tuple[Int64s, Int32s, Int32s, Arguments]] = []
        self._flows: list[tuple[Int64s, Int32s, Int64s, Int32s, Int32s]] = []

    def add_points(
        self, time_ns: Int64s, quark: Int32s, name: Int32s, arguments: Arguments | None = None
    ) -> None:
        """Add instants on attributes; their arguments are ranges of `text`."""
        if arguments is None:
            rows = len(time_ns)
            arguments = Arguments(np.zeros(rows, np.int64), np.zeros(rows, np.int32))
        self._points.append((time_ns, quark, name, arguments))

    def add_flows(
        self, from_ns: Int64s, from_quark: Int32s, to_ns: Int64s, to_quark: Int32s, name: Int32s
    ) -> None:
        """Add arrows between attributes."""
        self._flows.append((from_ns, from_quark, to_ns, to_quark, name))

    def tables(self, names: Sequence[str]) -> tuple[Points, Flows]:
        """Return both tables in order of time, those of one time in order of arrival."""
        time_ns = _int64s([part[0] for part in self._points])
        order = np.argsort(time_ns, kind="stable")
        points = Points(
            time_ns[order],
            _int32s([part[1] for part in self._points])[order],
            Coded(_int32s([part[2] for part in self._points])[order], names),
            _int64s([part[3].offset for part in self._points])[order],
            _int32s([part[3].length for part in self._points])[order],
            self.text,
        )
        from_ns = _int64s([part[0] for part in self._flows])
        order = np.argsort(from_ns, kind="stable")
        flows = Flows(
            from_ns[order],
            _int32s([part[1] for part in self._flows])[order],
            _int64s([part[2] for part in self._flows])[order],
            _int32s([part[3] for part in self._flows])[order],
            Coded(_int32s([part[4] for part in self._flows])[order], names),
        )
        return points, flows


def _int64s(parts: list[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _int32s(parts: list[Int32s]) -> Int32s:
    return np.concatenate([np.empty(0, np.int32), *parts])
