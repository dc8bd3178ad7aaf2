"""Processes, threads and other entities of events, as paths of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attribute_paths import process_path, thread_path
from meantime.columns import Interner
from meantime.kernels import gather

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.attributes import Path
    from meantime.columns import Int32s
    from meantime.readers.chrome.text import Strings
    from meantime.trace import Trace

__all__ = ["Entities"]


class Entities:
    """Codes of paths in the trace, assigned at their first use.

    Attributes:
        ids: The texts of pid, tid, id and scope by the scanner's codes.
        pid: Per thread of the scanner, the text of its pid.
        tid: Per thread of the scanner, the text of its tid.
    """

    def __init__(self, trace: Trace, ids: Strings, threads: dict[str, Any]) -> None:
        texts, codes = ids.texts, ids.codes
        self.ids = texts if codes is None else [texts[code] for code in codes]
        self.pid = [self.ids[code] for code in threads["pid"].tolist()]
        self.tid = [self.ids[code] for code in threads["tid"].tolist()]
        self._paths = Interner(trace.paths)

    def code(self, path: Path) -> int:
        """Return the code of a path, assigning a new one if necessary."""
        return self._paths.code(path)

    def codes(self, paths: Iterable[Path]) -> Int32s:
        """Return the codes of many paths, assigning new ones where necessary."""
        return self._paths.codes(paths)

    def thread(self, thread: int) -> int:
        """Return the code of one of the scanner's threads."""
        return self.code(thread_path(self.tid[thread], self.pid[thread]))

    def process(self, thread: int) -> int:
        """Return the code of the process of one of the scanner's threads."""
        return self.code(process_path(self.pid[thread]))

    def threads(self, column: Int32s) -> Int32s:
        """Convert a column of the scanner's threads to entity codes."""
        codes = np.full(len(self.pid), -1, np.int32)
        found = gather.seen(column)
        codes[found] = self.codes(
            [thread_path(self.tid[thread], self.pid[thread]) for thread in found.tolist()]
        )
        return gather.looked_up(codes, column)
