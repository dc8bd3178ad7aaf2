"""The statemap: entities on the Y axis, time on the X axis, states in colour."""

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
