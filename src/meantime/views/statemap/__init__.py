"""The statemap: entities on the Y axis, time on the X axis, states in colour.

Each submodule is imported when a name of it is first used: the order of rows needs nothing that
draws.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meantime.views.statemap.assembly import HistoryProblem, build, check_states, count
    from meantime.views.statemap.data import Commands
    from meantime.views.statemap.options import StatemapOptions
    from meantime.views.statemap.view import StatemapView

__all__ = [
    "Commands",
    "HistoryProblem",
    "StatemapOptions",
    "StatemapView",
    "build",
    "check_states",
    "count",
]

_HOMES = {
    "Commands": "data",
    "HistoryProblem": "assembly",
    "StatemapOptions": "options",
    "StatemapView": "view",
    "build": "assembly",
    "check_states": "assembly",
    "count": "assembly",
}


if not TYPE_CHECKING:
    # Hidden from type checkers: they would accept any name as an attribute of this module.

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return getattr(import_module(f"meantime.views.statemap.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'meantime.views.statemap' has no attribute {name!r}")
