"""Processes, threads and other entities of events, as paths of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels import gather
from meantime.model.attribute_paths import PROCESSES, THREADS, process_path, thread_path
from meantime.model.columns import TextTable
from meantime.readers.chrome.text import decode

if TYPE_CHECKING:
    from meantime.kernels.chrome import ChromeScanner
    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s
    from meantime.model.trace import Trace

__all__ = ["Entities"]


class Entities:
    """Codes of paths in the trace, assigned at their first use.

    Attributes:
        ids: The texts of pid, tid, id and scope by the scanner's codes.
        pid: Per thread of the scanner, the code of its pid.
        tid: Per thread of the scanner, the code of its tid.
        undecodable: How many of the texts are not UTF-8.
    """

    def __init__(self, trace: Trace) -> None:
        self.ids: TextTable = TextTable()
        self.pid: Int32s = np.empty(0, np.int32)
        self.tid: Int32s = np.empty(0, np.int32)
        self.undecodable: int = 0
        self._paths = trace.paths
        # by the scanner's threads; -1 where none was assigned
        self._codes: Int32s = np.empty(0, np.int32)

    def update(self, scanner: ChromeScanner, threads: dict[str, Any]) -> None:
        """Add the ids and threads that are new."""
        text, ends = scanner.ids(len(self.ids))
        if text.isascii() and b"\\" not in text:
            self.ids.add(text, ends)
        else:
            begins = [0, *ends[:-1].tolist()]
            texts = [decode(text[a:b]) for a, b in zip(begins, ends.tolist(), strict=True)]
            self.undecodable += sum("\ufffd" in each for each in texts)
            self.ids.extend(texts)
        self.pid, self.tid = threads["pid"], threads["tid"]
        new = np.full(len(self.pid) - len(self._codes), -1, np.int32)
        self._codes = np.concatenate([self._codes, new])

    def process_id(self, thread: int) -> str:
        """Return the pid of one of the scanner's threads."""
        return self.ids[int(self.pid[thread])]

    def code(self, path: Path) -> int:
        """Return the code of a path, assigning a new one if necessary."""
        return self._paths.code(path)

    def thread(self, thread: int) -> int:
        """Return the code of one of the scanner's threads."""
        if self._codes[thread] < 0:
            path = thread_path(self.ids[int(self.tid[thread])], self.process_id(thread))
            self._codes[thread] = self.code(path)
        return int(self._codes[thread])

    def process(self, thread: int) -> int:
        """Return the code of the process of one of the scanner's threads."""
        return self.code(process_path(self.process_id(thread)))

    def threads(self, column: Int32s) -> Int32s:
        """Convert a column of the scanner's threads to entity codes."""
        found = gather.seen(column)
        found = found[self._codes[found] < 0]
        if len(found):
            levels = (PROCESSES, self.pid[found], THREADS, self.tid[found])
            self._codes[found] = self._paths.codes_in_columns(self.ids, levels)
        return gather.looked_up(self._codes, column)
