"""Scans one input with two threads, with the same result as one.

A block is split near its middle at a line that begins with an object. While the scanner reads the
first part, a helper reads the second one speculatively, since that line may be inside a payload. If
the first part ends exactly there, the helper's columns are absorbed, otherwise they are discarded.
Oddities are never absorbed, so all errors come from the one scanner.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from meantime.kernels.scan_statemap import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.kernels.scan_statemap import Scanner
    from meantime.readers.window import Window

__all__ = ["Pair"]

MIN_BYTES = 1 << 16  # less than this is scanned sooner than a thread is woken


class _Worker:
    """A thread that calls one function at a time.

    `concurrent.futures` would import logging, which takes longer than reading a million events.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._results: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - `wait` raises it
                self._results.put(error)
            else:
                self._results.put(None)

    def begin(self, call: Callable[[], object]) -> None:
        """Call a function in the thread."""
        self._calls.put(call)

    def wait(self) -> None:
        """Wait for the function, and raise its error."""
        if (error := self._results.get()) is not None:
            raise error

    def close(self) -> None:
        """End the thread."""
        self._calls.put(None)
        self._thread.join()


class Pair:
    """A scanner and its helper."""

    def __init__(self, scanner: Scanner, new_helper: Callable[[], Scanner]) -> None:
        self._scanner = scanner
        self._new_helper = new_helper
        self._helper = new_helper()
        self._worker = _Worker()
        # Where the part of the helper begins that is not absorbed yet; 0 if there is none.
        self._middle = 0

    def close(self) -> None:
        """End the helper's thread."""
        self._worker.close()

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
            helper, middle = self._helper, self._middle
            self._worker.begin(lambda: helper.scan(window.block, middle, window.end))
            try:
                stop = self._scan_to(window, self._middle)
            finally:
                # also after an error: the helper must not read a block that is being replaced
                self._worker.wait()
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
