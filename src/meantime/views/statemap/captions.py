"""The title, subtitle and footer of a statemap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from meantime.model.units import NS_PER_S, format_ns
from meantime.views.axis import exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from meantime.model.zones import Zone
    from meantime.views.statemap.data import Statemap, StatemapPanel

__all__ = ["footer", "panel_title", "subtitle", "title", "utc"]

_MOST_HOSTS = 5


def title(statemap: Statemap) -> str:
    """Return the given title, the first if it mentions a statemap, or one made from all titles."""
    if statemap.given_title:
        return statemap.given_title
    first = statemap.panels[0].title
    if "tatemap" in first:
        return first
    titles = _distinct(panel.title for panel in statemap.panels)
    hosts = _distinct(panel.host or "" for panel in statemap.panels)
    text = f"Statemap of {_list(titles)} activity" if titles else "Statemap"
    if len(hosts) > _MOST_HOSTS:
        return f"{text} on {len(hosts)} hosts"
    return f"{text} on {_list(hosts)}" if hosts else text


def _distinct(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name]


def _list(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return " and ".join(names)
    return ", ".join(names[:-1]) + f", and {names[-1]}"


def subtitle(statemap: Statemap) -> str:
    """Return the number of rows, the length of the window and its beginning."""
    first = statemap.panels[0]
    rows = sum(len(panel.entities) for panel in statemap.panels)
    kinds = {panel.entity_kind for panel in statemap.panels}
    kind = first.entity_kind if len(kinds) == 1 else "row"
    parts = [_count(rows, kind), _length(first.end_ns - first.start_ns)]
    if first.origin_ns is not None:
        parts.append(f"from {utc(first.origin_ns + first.start_ns, statemap.zone)}")
    elif first.start_ns != first.begin_ns:
        since = _length(first.start_ns - first.begin_ns)
        parts.append(f"from {since} after the start of the trace")
    if statemap.sort_state is not None:
        states = {state.name for panel in statemap.panels for state in panel.states}
        is_state = statemap.sort_state in states
        parts.append(f"most {statemap.sort_state} first" if is_state else "like rows together")
    return "  ·  ".join(parts)


def _length(duration_ns: int) -> str:
    """Return a duration: exact below a minute."""
    return exact(duration_ns) if duration_ns < 60 * NS_PER_S else format_ns(duration_ns)


def utc(time_ns: int, zone: Zone | None = None) -> str:
    """Return nanoseconds since 1970 as a date and time of UTC or a zone, to the nanosecond.

    >>> utc(1_528_482_355_856_625_707)
    '2018-06-08 18:25:55.856625707 UTC'
    """
    if zone is not None:
        return f"{zone.text(time_ns)[:29].replace('T', ' ')} {zone.name}"
    seconds, rest = divmod(time_ns, NS_PER_S)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"Epoch + {exact(time_ns)}"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest:09} UTC"


def panel_title(statemap: Statemap, panel: StatemapPanel) -> str:
    """Return the heading of one of several panels, and how its times are aligned."""
    if panel.label and _is_of_one_trace(statemap):
        return panel.label
    text = panel.name or "untitled"
    if panel.host:
        text += f" on {panel.host}"
    if not panel.aligned:
        return f"{text}  ·  not aligned: without a common clock, it begins with the first"
    if panel.offset_ns:
        side = "after" if panel.offset_ns > 0 else "before"
        text += f"  ·  its trace starts {_length(abs(panel.offset_ns))} {side} the first"
    if panel.alignment:
        text += f"  ·  {panel.alignment}"
    return text


def _is_of_one_trace(statemap: Statemap) -> bool:
    return len({panel.history for panel in statemap.panels}) == 1


def footer(statemap: Statemap) -> list[str]:
    """Return the notes: counts of rectangles, left-out intervals and anomalies."""
    return [text for panel in statemap.panels for text in _notes(statemap, panel)]


def _notes(statemap: Statemap, panel: StatemapPanel) -> Iterator[str]:
    text = ""
    if len(statemap.panels) > 1:
        own = panel.label if _is_of_one_trace(statemap) else panel.name
        text = f"{own or 'untitled'}: "
    if panel.shared is not None:
        text += f"{_count(len(panel.shared), panel.entity_kind)}"
        text += f" in {_count(len(panel.entities), 'row')}; "
    text += f"{_count(len(panel.rectangles), 'rectangle')}"
    text += f" of {_count(panel.intervals, 'interval')}"
    if panel.coalesced:
        share = 100 * panel.coalesced / len(panel.rectangles)
        text += (
            f"; {panel.coalesced:,} ({share:.1f} %) are coalesced: each represents several"
            " intervals and keeps their exact time in each state"
        )
    if len(panel.events):
        text += f"; {_count(len(panel.events), 'event')}"
    yield text
    if panel.events_left_out:
        left_out = _count(panel.events_left_out, "event")
        yield f"Left out: {left_out}, more than can be shown; draw a shorter window to see them"
    clipped = panel.clipped
    if clipped.before or clipped.after:
        before = _count(clipped.before, "interval")
        yield f"Outside the window: {before} before, {clipped.after:,} after it"
        if (panel.history or panel.offset_ns) and not len(panel.rectangles):
            yield "None of it is in the window of the first map: align it with --offset FILE=TIME"
    if clipped.filtered:
        yield f"Filtered out: {_count(clipped.filtered, panel.entity_kind)}"
    yield from panel.anomalies.lines()


def _count(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or the plural.

    >>> _count(1, "CPU"), _count(1200, "Entity"), _count(0, "Process")
    ('1 CPU', '1,200 Entities', '0 Processes')
    """
    if number != 1 and noun[-1:].isalpha():
        if noun[-1] == "y" and noun[-2:-1] not in "aeiou":
            noun = noun[:-1] + "ie"
        elif noun.endswith(("s", "x", "ch", "sh")):
            noun += "e"
        noun += "s"
    return f"{number:,} {noun}"
