"""meantime: what everything was doing, in the meantime.

`import meantime` loads nothing else: names come in when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meantime.errors import MeantimeError as MeantimeError
    from meantime.history import History as History
    from meantime.history import HistoryBuilder as HistoryBuilder

__version__ = "0.1.0"
__all__ = ["History", "HistoryBuilder", "MeantimeError"]

_HOMES = {
    "History": "meantime.history",
    "HistoryBuilder": "meantime.history",
    "MeantimeError": "meantime.errors",
}


def __getattr__(name: str) -> object:
    if home := _HOMES.get(name):
        return getattr(import_module(home), name)
    raise AttributeError(f"module 'meantime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
