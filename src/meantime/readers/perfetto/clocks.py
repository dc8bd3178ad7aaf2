"""How the clocks of a trace are related, from the snapshots in which several were read together.

A time is converted by the last snapshot before it, from clock to clock until the one that the trace
counts. A clock of a sequence of packets may count from the packet before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from meantime.model.clocks import Clock
from meantime.model.units import MAX_NS
from meantime.readers.perfetto.messages import BYTES, VARINT, fields

if TYPE_CHECKING:
    from meantime.kernels.perfetto import PerfettoScanner
    from meantime.model.clocks import Kind

__all__ = ["Clocks"]

_REALTIME = 1
_BOOTTIME = 6
_KINDS: dict[int, Kind] = {_REALTIME: "realtime", 3: "monotonic", _BOOTTIME: "boottime"}


class Clocks:
    """The clocks of a trace, for its scanner."""

    def __init__(self, scanner: PerfettoScanner) -> None:
        self._scanner = scanner
        self._root = _BOOTTIME
        self._attached = {scanner.root_clock}
        self._parent: dict[int, int] = {}
        # by clock that is not attached yet, the snapshots that it is in
        self._waiting: dict[int, list[dict[int, int]]] = {}
        self._has_snapshot = False
        self._utc_at_origin_ns: int | None = None

    def clock(self) -> Clock:
        """Return the clock that the trace counts."""
        utc = 0 if self._root == _REALTIME else self._utc_at_origin_ns
        return Clock(_KINDS.get(self._root, "unknown"), utc_at_origin_ns=utc)

    def add(self, message: memoryview, sequence: int) -> None:
        """Take a snapshot.

        Raises:
            ValueError: If it is malformed.
        """
        read: list[tuple[int, int, bool, int]] = []
        root = 0
        for number, wire, value, content in fields(message):
            if number == 1 and wire == BYTES:
                read.append(_clock_of(content))
            elif number == 2 and wire == VARINT:
                root = value
        scanner = self._scanner
        if root and not self._has_snapshot and root != self._root:
            self._root = root
            scanner.root_clock = scanner.clock(0, root)
            self._attached = {scanner.root_clock}
        self._has_snapshot = True
        times: dict[int, int] = {}
        for id_, time, is_incremental, unit_ns in read:
            time_ns = time * unit_ns
            if not (id_ and time_ns <= MAX_NS and unit_ns <= MAX_NS):
                continue
            code = scanner.clock(sequence, id_)
            scanner.set_clock(code, unit_ns, is_incremental, time_ns)
            times[code] = time_ns
        if self._utc_at_origin_ns is None and (now_ns := times.get(scanner.root_clock)) is not None:
            utc_ns = times.get(scanner.clock(0, _REALTIME))
            self._utc_at_origin_ns = None if utc_ns is None else utc_ns - now_ns
        self._relate(times)

    def _relate(self, times: dict[int, int]) -> None:
        """Relate the clocks of a snapshot, and those of earlier ones that they lead to."""
        open_ = deque([times])
        while open_:
            times = open_.popleft()
            via = self._scanner.root_clock
            if via not in times:
                via = next((code for code in times if code in self._attached), -1)
            if via < 0:
                for code in times:
                    self._waiting.setdefault(code, []).append(times)
                continue
            for code, time_ns in times.items():
                parent = self._parent.get(code)
                if parent is None and code not in self._attached:
                    parent = self._parent[code] = via
                    self._attached.add(code)
                    # each is in the list of all its clocks
                    earlier = [each for each in self._waiting.pop(code, []) if each]
                    open_ += [each.copy() for each in earlier if each is not times]
                    for each in earlier:
                        each.clear()
                if parent is not None and parent in times:
                    self._scanner.add_segment(code, parent, time_ns, times[parent] - time_ns)


def _clock_of(message: bytes | memoryview) -> tuple[int, int, bool, int]:
    id_, time, is_incremental, unit_ns = 0, 0, False, 1
    for number, wire, value, _ in fields(message):
        if wire != VARINT:
            continue
        if number == 1:
            id_ = value
        elif number == 2:
            time = value
        elif number == 3:
            is_incremental = bool(value)
        elif number == 4:
            unit_ns = value or 1
    return id_, time, is_incremental, unit_ns
