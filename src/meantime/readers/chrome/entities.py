"""Processes, threads and other entities of events, as paths of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attribute_paths import process_path, thread_path, thread_paths
from meantime.columns import Interner
from meantime.kernels import gather
from meantime.readers.chrome.text import decode_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.attributes import Path
    from meantime.columns import Int32s
    from meantime.kernels.chrome import ChromeScanner
    from meantime.trace import Trace

__all__ = ["Entities"]


class Entities:
    """Codes of paths in the trace, assigned at their first use.

    Attributes:
        ids: The texts of pid, tid, id and scope by the scanner's codes.
        pid: Per thread of the scanner, the text of its pid.
        tid: Per thread of the scanner, the text of its tid.
        undecodable: How many of the texts are not UTF-8.
        are_plain: Whether none needed to be decoded, so that all of `ids` are different.
    """

    def __init__(self, trace: Trace) -> None:
        self.ids: list[str] = []
        self.pid: list[str] = []
        self.tid: list[str] = []
        self.undecodable = 0
        self.are_plain = True
        self._paths = Interner(trace.paths)
        # by the scanner's threads; -1 where none was assigned
        self._codes: Int32s = np.empty(0, np.int32)

    def update(self, scanner: ChromeScanner, threads: dict[str, Any]) -> None:
        """Add the ids and threads that are new."""
        if raw := scanner.ids(len(self.ids)):
            texts, are_plain = decode_all(raw)
            self.undecodable += 0 if are_plain else sum("\ufffd" in text for text in texts)
            self.are_plain &= are_plain
            self.ids += texts
        first = len(self.pid)
        text = self.ids.__getitem__
        self.pid += map(text, threads["pid"][first:].tolist())
        self.tid += map(text, threads["tid"][first:].tolist())
        new = np.full(len(self.pid) - first, -1, np.int32)
        self._codes = np.concatenate([self._codes, new])

    def code(self, path: Path) -> int:
        """Return the code of a path, assigning a new one if necessary."""
        return self._paths.code(path)

    def codes(self, paths: Iterable[Path]) -> Int32s:
        """Return the codes of many paths, assigning new ones where necessary."""
        return self._paths.codes(paths)

    def new_codes(self, paths: list[Path]) -> Int32s:
        """Return the codes of different paths that have none yet, faster than of any."""
        return self._paths.append(paths)

    def thread(self, thread: int) -> int:
        """Return the code of one of the scanner's threads."""
        if self._codes[thread] < 0:
            self._codes[thread] = self.code(thread_path(self.tid[thread], self.pid[thread]))
        return int(self._codes[thread])

    def process(self, thread: int) -> int:
        """Return the code of the process of one of the scanner's threads."""
        return self.code(process_path(self.pid[thread]))

    def threads(self, column: Int32s) -> Int32s:
        """Convert a column of the scanner's threads to entity codes."""
        found = gather.seen(column)
        found = found[self._codes[found] < 0]
        if len(found):
            threads = found.tolist()
            pids, tids = (map(ids.__getitem__, threads) for ids in (self.pid, self.tid))
            paths = thread_paths(pids, tids)
            # different ids are different texts then, and no thread was asked for otherwise
            self._codes[found] = self.new_codes(paths) if self.are_plain else self.codes(paths)
        return gather.looked_up(self._codes, column)
