"""The statemap: entities on the Y axis, time on the X axis, states in colour."""

from meantime.views.statemap.assembly import build, count
from meantime.views.statemap.options import DEFAULT_COALESCE, StatemapOptions
from meantime.views.statemap.view import StatemapView, statemap

__all__ = [
    "DEFAULT_COALESCE",
    "StatemapOptions",
    "StatemapView",
    "build",
    "count",
    "statemap",
]
