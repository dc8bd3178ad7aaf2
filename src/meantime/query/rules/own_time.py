"""How long what is on the lanes of a recording took by itself.

On a machine that is busy with other programs, whatever a program does takes longer. The time in
which the thread of an event loop waited for a processor is that of others, and a rule does not
count it unless it asks for wall time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.model.attribute_paths import CALLBACKS, REQUESTS, TASKS
from meantime.query.findings.threads import Threads, is_on

if TYPE_CHECKING:
    from meantime.query.ranges import Range
    from meantime.query.scope import Scope

__all__ = ["OwnTime"]

_ON_LOOPS = (TASKS, CALLBACKS, REQUESTS)


class OwnTime:
    """The own time on lanes.

    Args:
        scope: The history.
    """

    def __init__(self, scope: Scope) -> None:
        loops = scope.kind("Loop")
        self._scope = scope
        self._loops = [] if loops is None else loops.quarks.tolist()
        self._threads = Threads(scope)

    def of(self, quark: int, range_ns: Range, *, is_step: bool) -> int:
        """Return how long a range of a lane is without what its thread could not go on, in ns.

        What may be on several loops could go on if one of them could.

        Args:
            quark: The lane.
            range_ns: The range.
            is_step: Whether it is a step of a loop.
        """
        own = [quark] if is_step else [loop for loop in self._loops if self._is_on(quark, loop)]
        late_ns = max((self._threads.late_ns(loop, range_ns) for loop in own), default=0)
        return max(0, range_ns[1] - range_ns[0] - late_ns)

    def _is_on(self, quark: int, loop: int) -> bool:
        path = self._scope.history.attributes.path(quark)
        return path[0] in _ON_LOOPS and is_on(self._scope, quark, loop)
