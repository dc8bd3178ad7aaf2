"""The statemap: entities on the Y axis, time on the X axis, states in colour.

Each submodule is imported when a name of it is first used: the order of rows needs nothing that
draws.
"""

from typing import TYPE_CHECKING

from meantime.lazy_names import imported_on_use

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
    __getattr__ = imported_on_use(__name__, _HOMES)
