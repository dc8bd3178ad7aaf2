"""meantime: what everything was doing, in the meantime.

`import meantime` loads nothing else: names come in when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meantime.building import build as build
    from meantime.collect.session import record as record
    from meantime.collect.session import start as start
    from meantime.collect.session import stop as stop
    from meantime.errors import MeantimeError as MeantimeError
    from meantime.history import History as History
    from meantime.history import HistoryBuilder as HistoryBuilder
    from meantime.opening import open_history as open  # noqa: A004 - meantime.open(path)
    from meantime.providers import StateProvider as StateProvider
    from meantime.views.statemap import statemap as statemap

__version__ = "0.1.0"
__all__ = [
    "History",
    "HistoryBuilder",
    "MeantimeError",
    "StateProvider",
    "build",
    "open",
    "record",
    "start",
    "statemap",
    "stop",
]

_HOMES = {
    "load_ipython_extension": ("meantime.plugins.jupyter", "load_ipython_extension"),
    "unload_ipython_extension": ("meantime.plugins.jupyter", "unload_ipython_extension"),
    "History": ("meantime.history", "History"),
    "HistoryBuilder": ("meantime.history", "HistoryBuilder"),
    "MeantimeError": ("meantime.errors", "MeantimeError"),
    "StateProvider": ("meantime.providers", "StateProvider"),
    "build": ("meantime.building", "build"),
    "open": ("meantime.opening", "open_history"),
    "record": ("meantime.collect.session", "record"),
    "start": ("meantime.collect.session", "start"),
    "statemap": ("meantime.views.statemap", "statemap"),
    "stop": ("meantime.collect.session", "stop"),
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'meantime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
