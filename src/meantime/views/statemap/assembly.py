"""Build the content of a statemap, as columns, from histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.model.anomalies import Anomalies
from meantime.model.columns import exact_sum
from meantime.query.aligning_histories import align_histories
from meantime.views.palette import at_night, choose, pale_at_night, parse
from meantime.views.statemap.data import Counted, SharedRows, Statemap, StatemapPanel, StateRow
from meantime.views.statemap.events import events, without_row
from meantime.views.statemap.options import StatemapOptions
from meantime.views.statemap.panel import draw
from meantime.views.statemap.panel_source import StateTable, panel_sources
from meantime.views.statemap.row_order import LIKENESS, in_order, ragged
from meantime.views.statemap.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from meantime.history import History
    from meantime.model.columns import Int64s
    from meantime.model.trace import State
    from meantime.views.palette import RGB
    from meantime.views.statemap.panel import Drawing
    from meantime.views.statemap.panel_source import PanelSource

__all__ = ["HistoryProblem", "build", "check_states", "count"]


class HistoryProblem(MeantimeError):  # noqa: N818 - it is about a history, not one of its errors
    """A history cannot be drawn.

    Attributes:
        history: The index of the history.
    """

    def __init__(self, history: int, reason: str) -> None:
        super().__init__(reason)
        self.history = history


class _Alignment(NamedTuple):
    """A history, its window, and the offset from its times to the first history's."""

    history: History
    window: Window
    offset_ns: int
    aligned: bool
    note: str = ""


class _Map(NamedTuple):
    """One map, without its colors; `history` is the index of its history."""

    history: int
    source: PanelSource
    alignment: _Alignment
    drawing: Drawing


def build(histories: Sequence[History], options: StatemapOptions | None = None) -> Statemap:
    """Return the statemap of these histories: a map for each of their lanes of states.

    The window is the first history's; the other histories' clocks convert it to their own times.

    Raises:
        MeantimeError: If a history has no states, or a state to sort by or a color does not exist.
        UsageError: If the window ends before it begins, or the filter is not a regular expression.
    """
    options = options or StatemapOptions()
    alignments = list(_alignments(histories, options))
    made = _made(alignments, options)
    tables = [[source.table for source in of_one] for of_one in made]
    given = _given_colors(tables)
    # The states of a lane that declares none are known only once it is drawn.
    declared = all(table.states for of_one in tables for table in of_one)
    if declared:
        _check_order(tables, options)
    maps = _draw(alignments, made, options)
    sort_state = _check_order(tables, options)
    if options.stack_sort_by is not None:
        maps = _stacked(maps, options.stack_sort_by)
    names = {state.name for of_one in tables for table in of_one for state in table.states}
    chosen = choose(names - given.keys(), given.values())
    panels = tuple(_panel(one, given | chosen, sort_state, options, len(maps)) for one in maps)
    for of_one in made:
        # anomalies of a history are reported once, on its first map
        first = next(index for index, one in enumerate(maps) if one.source is of_one[0])
        panels[first].anomalies.update(_anomalies(of_one))
    return Statemap(panels, sort_state, options.state_height_px)


def count(histories: Sequence[History], options: StatemapOptions | None = None) -> list[Counted]:
    """Return the number of rectangles and the anomalies of each history, without colors or order.

    Raises:
        MeantimeError: If a history has no states.
        UsageError: If the window ends before it begins, or the filter is not a regular expression.
    """
    options = options or StatemapOptions()
    alignments = list(_alignments(histories, options))
    made = _made(alignments, options)
    counts = [0] * len(histories)
    for one in _draw(alignments, made, options):
        counts[one.history] += len(one.drawing.columns.row)
    return [Counted(*each) for each in zip(counts, map(_anomalies, made), strict=True)]


def check_states(states: Sequence[Sequence[State]], options: StatemapOptions) -> None:
    """Check colors and the states to sort by against what inputs define, before they are read.

    Raises:
        MeantimeError: As `build` does.
    """
    tables = [StateTable(each) for each in states]
    _given_colors([[table] for table in tables])
    _check_order([[table] for table in tables], options)


def _made(alignments: list[_Alignment], options: StatemapOptions) -> list[list[PanelSource]]:
    made = []
    for number, (history, window, *_) in enumerate(alignments):
        try:
            made.append(
                panel_sources(history, window, pattern=options.filter, packed=options.packed)
            )
        except UsageError:
            raise
        except MeantimeError as error:
            raise HistoryProblem(number, str(error)) from None
    return made


def _anomalies(of_one: list[PanelSource]) -> Anomalies:
    """Return the anomalies of a history and of drawing it."""
    found = Anomalies()
    found.update(of_one[0].history.anomalies)
    events, targets = without_row(of_one)
    found.add("event_without_row", events)
    found.add("target_without_row", targets)
    return found


def _draw(
    alignments: list[_Alignment], made: list[list[PanelSource]], options: StatemapOptions
) -> list[_Map]:
    budget = options.budget(sum(map(len, made)))
    return [
        _Map(
            number,
            source,
            alignment,
            draw(source, alignment.window, budget=budget, ignore_tags=options.ignore_tags),
        )
        for number, alignment in enumerate(alignments)
        for source in made[number]
    ]


def _stacked(maps: list[_Map], state: str) -> list[_Map]:
    """Return the maps with most time in a state first, and offsets relative to the topmost."""
    maps = sorted(maps, key=lambda one: -exact_sum(one.drawing.total_ns(one.source, state)))
    first_ns = maps[0].alignment.offset_ns
    return [
        one._replace(alignment=one.alignment._replace(offset_ns=one.alignment.offset_ns - first_ns))
        for one in maps
    ]


def _given_colors(tables: Sequence[Sequence[StateTable]]) -> dict[str, RGB]:
    """Return the colors that traces define for states, by name; the first definition wins."""
    given: dict[str, RGB] = {}
    for number, of_one in enumerate(tables):
        for state in (state for table in of_one for state in table.states):
            if state.color is None:
                continue
            color = parse(state.color)
            if color is None:
                raise HistoryProblem(
                    number,
                    f'illegal color "{state.color}" for state "{state.name}":'
                    " it must be #rgb, #rrggbb or a CSS color name",
                )
            given.setdefault(state.name, color)
    return given


def _check_order(tables: Sequence[Sequence[StateTable]], options: StatemapOptions) -> str | None:
    """Return the state to sort rows by, None for names, after checking the options.

    Raises:
        MeantimeError: If a history has no such state, or maps to be sorted have other states.
    """
    _check_stack([table for of_one in tables for table in of_one], options.stack_sort_by)
    name = options.sort_by
    if name is None:
        return None
    # of the lanes of one history, such as a recording's tasks and loops, one with the state will do
    without = [of_one for of_one in tables if not any(name in table for table in of_one)]
    if not without:
        return name
    if name == "entity":
        return None
    if name == LIKENESS:
        return name
    found = _there_are(without[0])
    raise MeantimeError(f'cannot sort by state "{name}": no such state; {found}')


def _check_stack(everything: Sequence[StateTable], name: str | None) -> None:
    if name is None:
        return
    tables = [[(state.name, state.value) for state in table.states] for table in everything]
    if any(table != tables[0] for table in tables):
        raise MeantimeError("can only stack sort like statemaps: their states differ")
    if name not in everything[0]:
        raise MeantimeError(f'unknown stack sorting state "{name}"; {_there_are(everything[:1])}')


def _there_are(tables: Sequence[StateTable]) -> str:
    names = dict.fromkeys(state.name for table in tables for state in table.states)
    return "there are " + ", ".join(f'"{name}"' for name in names)


def _alignments(histories: Sequence[History], options: StatemapOptions) -> Iterator[_Alignment]:
    window = Window.of(histories[0], options.begin_ns, options.end_ns)
    yield _Alignment(histories[0], window, 0, aligned=True)
    if len(histories) == 1:
        return
    from meantime.history.joined import placed  # noqa: PLC0415 - of several histories

    found = align_histories(histories, options.offsets_ns or {})
    clock = histories[0].clock
    for own, each in zip(histories[1:], found[1:], strict=True):
        history, offset_ns = placed(own, each.shift, clock)
        below = window.below(history, offset_ns)
        yield _Alignment(history, below, offset_ns, each.aligned, each.note)


def _panel(
    one: _Map,
    colors: Mapping[str, RGB],
    sort_state: str | None,
    options: StatemapOptions,
    maps: int,
) -> StatemapPanel:
    number, source, (_, window, offset_ns, aligned, note), drawing = one
    history = source.history
    states = [_state_row(state, colors) for state in source.table.states]
    order = drawing.order(source, sort_state, window)
    new_row = np.argsort(order).astype(np.int32)
    row_of_quark = new_row[source.row_of_quark] if len(order) else source.row_of_quark
    row_of_quark[source.row_of_quark < 0] = -1
    row_of_event = np.full(len(row_of_quark), -1, np.int32)
    row_of_event[source.owners] = row_of_quark[source.quarks]
    most = options.budget(maps).lossless
    happened, left_out = events(history, row_of_event, window, most)
    return StatemapPanel(
        title=source.title,
        label=source.label,
        host=history.clock.host,
        entity_kind=source.entity_kind,
        origin_ns=history.clock.utc_at_origin_ns,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        offset_ns=offset_ns,
        aligned=aligned,
        states=tuple(states),
        tags=() if options.ignore_tags else history.tags,
        entities=[source.names[row] for row in order.tolist()],
        descriptions={
            int(row_of_quark[quark]): text
            for quark, text in history.descriptions.items()
            if source.shared is None and row_of_quark[quark] >= 0
        },
        rectangles=in_order(drawing.columns, order),
        events=happened,
        events_left_out=left_out,
        intervals=drawing.intervals,
        coalesced=drawing.coalesced,
        clipped=drawing.clipped,
        anomalies=Anomalies(),
        history=number,
        begin_ns=history.bounds[0],
        shared=None if source.shared is None else _shared_in(source.shared, order),
        existence=source.existence,
        existed={int(new_row[row]): when for row, when in drawing.existed.items()},
        alignment=note,
    )


def _shared_in(shared: SharedRows, order: Int64s) -> SharedRows:
    """Return the entities of rows in another order of rows."""
    offsets, source = ragged(shared.row_offsets, order)
    names = shared.names
    if not np.array_equal(order, np.arange(len(order))):
        names = [names[index] for index in source.tolist()]
    return SharedRows(shared.sites, shared.site[order], offsets, shared.start_ns[source], names)


def _state_row(state: State, colors: Mapping[str, RGB]) -> StateRow:
    own = None if state.color is None else parse(state.color)
    color = own or colors[state.name]
    dark = pale_at_night(own) if own else at_night(state.name, color)
    return StateRow(state.name, state.value, str(color), dark and str(dark))
