"""Calls whose names say that they wait: they take as long as there is nothing to do."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["is_waiting_call"]

_WAITING = re.compile(
    r"(?i)(?:^|[^a-z])(?:e?poll(?:_p?wait2?)?|p?select|kevent|kqueue|(?:nano|u)?sleep|accept4?|park|idle"
    r"|get_nowait|wait_for_work|futex_wait|nativePollOnce)(?=$|[^a-z])"
    # monitors and threads of Java
    r"|java[./]lang[./](?:Object[.:#]+wait|Thread[.:#]+join)(?=$|[^A-Za-z0-9_])"
)


@lru_cache(maxsize=4096)
def is_waiting_call(name: str) -> bool:
    """Return whether a call of this name waits for work, or sleeps.

    >>> [is_waiting_call(name) for name in ("select.epoll.poll", "time.sleep", "pollute")]
    [True, True, False]
    >>> [is_waiting_call(f"java.lang.{name}") for name in ("Object.wait", "Object.waiting")]
    [True, False]
    """
    return _WAITING.search(name.partition(" (")[0]) is not None
