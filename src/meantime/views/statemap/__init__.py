"""The statemap: entities on the Y axis, time on the X axis, states in colour.

Each submodule is imported when a name of it is first used: the order of rows needs nothing that
draws.

The SVG is complete without its script: strokes per row and colour, axis, legend, labels. A panel
in which a column of pixels shows more than two rectangles is one image instead, and so is one with
very many strokes, since a browser takes seconds to read an element for each. Neither strokes nor
images are smoothed at edges, so that every pixel has a colour of the legend.

Colours are never mixed: a mixture is the colour of nothing in the legend, or of a state that does
not occur. High rows stack the shares of a column. In rows that are too low for that a pixel shows
one state: the shares of its column divide [0, 1) in the order of the stack, and a threshold
selects one. Thresholds are a matrix of 64 x 64, `static/thresholds.bin`, of which a cell is two
pixels wide and high, as colours of single pixels would mix in the eye.

The matrix is blue noise, so cells with similar thresholds are far from each other, with the
constraint that each of its rows has one of every 64 thresholds: so a single row of a map has the
right proportions, too. It was found by simulated annealing that exchanges thresholds within rows;
the energy of two cells at a distance d whose thresholds differ by s, as parts of the whole, is
exp(-d^2/2.1^2 - sqrt(s)). `kernels/dithered_rows` and `dithered-row.ts` have the same rule and the
same matrix, and a test compares their pixels.

Rare states are visible all the same. A rectangle that covers no whole pixel and stands next to one
of four pixels, or to a gap, has at least half a column, and each state of a row has half a column
where its share is largest. So a rare event can be seen, and a crowd does not look like more than
it is. In high rows, a line shows the least share of a state that is not quiet.

Tasks share rows: each is in the first row of its site that is free when it begins. A history
declares which entities are short-lived; the rows are chosen when a map is drawn, from the
lifetimes in its window. A gap in such a row is one more state until rectangles have been merged,
so it merges like any other, and is removed then: a rectangle's times may sum to less than its
length. Which entity is where is separate from the rectangles, so that merging loses none of them.
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
