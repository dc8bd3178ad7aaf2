"""Scans one input with two threads, with the same result as one.

A block is split near its middle at a line that begins with an object. While the scanner reads the
first part, a helper reads the second one speculatively, since that line may be inside a payload. If
the first part ends exactly there, the helper's columns are absorbed, otherwise they are discarded.
Oddities are never absorbed, so all errors come from the one scanner.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from meantime.kernels.scan_statemap import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.kernels.scan_statemap import Scanner
    from meantime.readers.window import Window

__all__ = ["Pair"]

MIN_BYTES = 1 << 16  # less than this is scanned sooner than a thread is woken


class Pair:
    """A scanner and its helper."""

    def __init__(self, scanner: Scanner, new_helper: Callable[[], Scanner]) -> None:
        self._scanner = scanner
        self._new_helper = new_helper
        self._helper = new_helper()
        self._pool = ThreadPoolExecutor(1)
        # Where the part of the helper begins that is not absorbed yet; 0 if there is none.
        self._middle = 0

    def close(self) -> None:
        """End the helper's thread."""
        self._pool.shutdown()

    def scan(self, window: Window) -> int:
        """Scan the window, advance its start, and return a `Stop`."""
        if self._middle:
            stop = self._scan_to(window, self._middle)
        else:
            middle = (window.start + window.end) // 2
            if window.end - window.start > MIN_BYTES:
                self._middle = window.block.find(b"\n{", middle, window.end) + 1
            if not self._middle:
                return self._scan_to(window, window.end)
            helping = self._pool.submit(self._helper.scan, window.block, self._middle, window.end)
            try:
                stop = self._scan_to(window, self._middle)
            finally:
                # also after an error: the helper must not read a block that is being replaced
                helping.result()
        if stop not in (Stop.DRAINED, Stop.CUT):
            return stop
        taken = self._scanner.absorb(self._helper) if stop == Stop.DRAINED else stop
        if taken == Stop.FULL:
            # `_middle` stays set: the next call absorbs the rest once the batch is taken
            return taken
        if taken == Stop.DRAINED:
            window.start = self._helper.start
        else:
            self._helper = self._new_helper()
        self._middle = 0
        return self._scan_to(window, window.end)

    def _scan_to(self, window: Window, end: int) -> int:
        stop = self._scanner.scan(window.block, window.start, end)
        window.start = self._scanner.start
        return stop
