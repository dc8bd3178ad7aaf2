"""From histories to what a statemap shows, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.anomalies import Anomalies
from meantime.clocks import align
from meantime.columns import exact_sum
from meantime.errors import MeantimeError
from meantime.views.palette import choose, parse
from meantime.views.statemap.data import Statemap, StatemapPanel, StateRow
from meantime.views.statemap.events import events, without_row
from meantime.views.statemap.options import StatemapOptions
from meantime.views.statemap.paint import paint
from meantime.views.statemap.panel import draw
from meantime.views.statemap.subject import subjects
from meantime.views.statemap.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from meantime.history import History
    from meantime.trace import State
    from meantime.views.palette import RGB
    from meantime.views.statemap.panel import Drawing
    from meantime.views.statemap.subject import Subject

__all__ = ["build", "count"]


class _Place(NamedTuple):
    """Where a history lies: its window, and how its times become the first history's."""

    window: Window
    offset_ns: int
    aligned: bool


class _Map(NamedTuple):
    """One map, without its colors; `history` is the place of its history among those given."""

    history: int
    subject: Subject
    place: _Place
    drawing: Drawing


def build(histories: Sequence[History], options: StatemapOptions | None = None) -> Statemap:
    """Return what a statemap of these histories shows: a map for each of their lanes of states.

    The window is the first history's, and in each history's own time what its clock makes of that.

    Raises:
        MeantimeError: If a history has no states, or a state to sort by or a color does not exist.
        UsageError: If the window ends before it begins, or the filter is no regular expression.
    """
    options = options or StatemapOptions()
    made = [subjects(history, options.filter) for history in histories]
    everything = [subject for of_one in made for subject in of_one]
    given = _given_colors(everything)
    sort_state = _sort_state(everything, options.sort_by)
    _check_stack(everything, options.stack_sort_by)
    maps = _draw(histories, made, options)
    if options.stack_sort_by is not None:
        maps = _stacked(maps, options.stack_sort_by)
    names = {state.name for subject in everything for state in subject.table.states}
    chosen = choose(names - given.keys(), given.values())
    panels = tuple(_panel(one, given | chosen, sort_state, options) for one in maps)
    for of_one in made:
        # what was odd in a history is said once, on its first map
        first = next(place for place, one in enumerate(maps) if one.subject is of_one[0])
        panels[first].anomalies.update(of_one[0].history.anomalies)
        panels[first].anomalies.add("event_without_row", without_row(of_one))
    return Statemap(panels, sort_state, options.state_height_px)


def count(histories: Sequence[History], options: StatemapOptions | None = None) -> list[int]:
    """Return how many rectangles each history would have in a statemap, without colors or order.

    Raises:
        MeantimeError: If a history has no states.
        UsageError: If the window ends before it begins, or the filter is no regular expression.
    """
    options = options or StatemapOptions()
    made = [subjects(history, options.filter) for history in histories]
    counts = [0] * len(histories)
    for one in _draw(histories, made, options):
        counts[one.history] += len(one.drawing.columns.row)
    return counts


def _draw(
    histories: Sequence[History], made: list[list[Subject]], options: StatemapOptions
) -> list[_Map]:
    return [
        _Map(
            number,
            subject,
            place,
            draw(subject, place.window, coalesce=options.coalesce, ignore_tags=options.ignore_tags),
        )
        for number, place in enumerate(_places(histories, options))
        for subject in made[number]
    ]


def _stacked(maps: list[_Map], state: str) -> list[_Map]:
    """Return the maps with most time in a state first, and offsets from the one on top."""
    maps = sorted(maps, key=lambda one: -exact_sum(one.drawing.total_ns(one.subject, state)))
    first_ns = maps[0].place.offset_ns
    return [
        one._replace(place=one.place._replace(offset_ns=one.place.offset_ns - first_ns))
        for one in maps
    ]


def _given_colors(everything: list[Subject]) -> dict[str, RGB]:
    """Return the colors that states were given, by the state's name; the first that was given."""
    given: dict[str, RGB] = {}
    for subject in everything:
        for state in subject.table.states:
            if state.color is None:
                continue
            color = parse(state.color)
            if color is None:
                raise MeantimeError(
                    f'illegal color "{state.color}" for state "{state.name}":'
                    " it must be #rrggbb or a CSS color name in lower case"
                )
            given.setdefault(state.name, color)
    return given


def _sort_state(everything: list[Subject], name: str | None) -> str | None:
    """Return the state to sort rows by, None if that is by name."""
    if name is None:
        return None
    without = [subject for subject in everything if name not in subject.table]
    if not without:
        return name
    if name == "entity":
        return None
    raise MeantimeError(f'cannot sort by state "{name}": no such state; {_there_are(without[0])}')


def _check_stack(everything: list[Subject], name: str | None) -> None:
    if name is None:
        return
    tables = [
        [(state.name, state.value) for state in subject.table.states] for subject in everything
    ]
    if any(table != tables[0] for table in tables):
        raise MeantimeError("can only stack sort like statemaps: their states differ")
    if name not in everything[0].table:
        raise MeantimeError(f'unknown stack sorting state "{name}"; {_there_are(everything[0])}')


def _there_are(subject: Subject) -> str:
    return "there are " + ", ".join(f'"{state.name}"' for state in subject.table.states)


def _places(histories: Sequence[History], options: StatemapOptions) -> Iterator[_Place]:
    first = histories[0]
    window = Window.of(first, options.begin_ns, options.end_ns)
    yield _Place(window, 0, aligned=True)
    for number, history in enumerate(histories[1:], 1):
        offset_ns = options.offsets_ns.get(number)
        aligned = True
        if offset_ns is None:
            offset_ns, how = align(
                first.clock,
                history.clock,
                reference_start_ns=first.bounds[0],
                other_start_ns=history.bounds[0],
            )
            aligned = how != "start"
        yield _Place(window.below(history, offset_ns), offset_ns, aligned)


def _panel(
    one: _Map, colors: Mapping[str, RGB], sort_state: str | None, options: StatemapOptions
) -> StatemapPanel:
    number, subject, (window, offset_ns, aligned), drawing = one
    history = subject.history
    states = [
        StateRow(state.name, state.value, _color(state, colors)) for state in subject.table.states
    ]
    order = drawing.order(subject, sort_state)
    descriptions = map(history.descriptions.get, subject.quarks[order].tolist())
    return StatemapPanel(
        title=subject.title,
        host=history.clock.host,
        entity_kind=subject.entity_kind,
        origin_ns=history.clock.utc_at_origin_ns,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        offset_ns=offset_ns,
        aligned=aligned,
        states=tuple(states),
        tags=() if options.ignore_tags else history.tags,
        entities=[subject.names[row] for row in order.tolist()],
        descriptions={row: text for row, text in enumerate(descriptions) if text is not None},
        rectangles=paint(drawing.columns, order, [state.color for state in states]),
        events=events(history, subject.owners[order], window),
        intervals=drawing.intervals,
        coalesced=drawing.coalesced,
        clipped=drawing.clipped,
        anomalies=Anomalies(),
        history=number,
    )


def _color(state: State, colors: Mapping[str, RGB]) -> str:
    own = None if state.color is None else parse(state.color)
    return str(own or colors[state.name])
