"""The content of a statemap, as columns: built by `build`, drawn by `svg`, written by `document`.

It does not depend on pixels, except that rectangles were already coalesced for a screen; code that
draws or writes it needs no history.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.anomalies import Anomalies
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.zones import Offsets, Zone

__all__ = [
    "Clipped",
    "Commands",
    "Counted",
    "Events",
    "Existence",
    "Rectangles",
    "SharedRows",
    "StateRow",
    "Statemap",
    "StatemapPanel",
    "UnmergedRectangles",
]

_HOUR_NS = 3600 * 10**9

# When the entities of a panel exist, which is the time that shares are of: while they have a state,
# from the first state of a row to the end of its last one, or always.
Existence: TypeAlias = Literal["state", "row", "always"]


class StateRow(NamedTuple):
    """One line of a legend: a state, and its colour on this page.

    Attributes:
        name: The state's name.
        value: Its number in the trace.
        color: Its colour on light ground, and everywhere if `dark` is None.
        dark: Its colour on dark ground.
    """

    name: str
    value: int
    color: str
    dark: str | None = None


@struct
class Rectangles:
    """The rectangles of a panel, row after row, in order of time; none is without a state.

    The content of a rectangle is in two ragged columns: rectangle i has
    `state_ns[state_offsets[i]:state_offsets[i + 1]]` of the states at the same indices of
    `state_index`, ascending; and so for tags. The states' times of a rectangle sum to its length,
    or to less if it was merged with gaps of a shared row; one that was not merged has one state.

    Attributes:
        row_offsets: int64, rows + 1: row r has [row_offsets[r], row_offsets[r + 1]).
        start_ns: From the panel's own origin.
        end_ns: From the panel's own origin; start_ns < end_ns.
        state_offsets: int64, rectangles + 1.
        state_index: Index into `StatemapPanel.states`.
        state_ns: Time in that state.
        tag_offsets: int64, rectangles + 1.
        tag_index: Index into `StatemapPanel.tags`.
        tag_ns: Time with that tag.
    """

    row_offsets: Int64s
    start_ns: Int64s
    end_ns: Int64s
    state_offsets: Int64s
    state_index: Int32s
    state_ns: Int64s
    tag_offsets: Int64s
    tag_index: Int32s
    tag_ns: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def tag_entries(self) -> int:
        """How many times of tags there are."""
        return len(self.tag_index)

    def with_times(self) -> Rectangles:
        """Return the rectangles with the times of each: these."""
        return self


@struct
class UnmergedRectangles:
    """Rectangles of which each is one interval, in half the memory that `Rectangles` takes.

    Attributes:
        row_offsets: int64, rows + 1: row r has [row_offsets[r], row_offsets[r + 1]).
        start_ns: From the panel's own origin.
        end_ns: From the panel's own origin; start_ns < end_ns.
        state_index: By rectangle, index into `StatemapPanel.states`.
        tag_index: By rectangle, index into `StatemapPanel.tags`, or -1; None if none has a tag.
    """

    row_offsets: Int64s
    start_ns: Int64s
    end_ns: Int64s
    state_index: Int32s
    tag_index: Int32s | None

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def tag_entries(self) -> int:
        """How many of the rectangles have a tag."""
        return 0 if self.tag_index is None else int(np.count_nonzero(self.tag_index >= 0))

    def with_times(self) -> Rectangles:
        """Return the rectangles with the times of each."""
        count = len(self)
        length_ns = self.end_ns - self.start_ns
        tag = np.full(count, -1, np.int32) if self.tag_index is None else self.tag_index
        tagged = tag >= 0
        tag_offsets = np.zeros(count + 1, np.int64)
        np.cumsum(tagged, out=tag_offsets[1:])
        return Rectangles(
            self.row_offsets,
            self.start_ns,
            self.end_ns,
            np.arange(count + 1),
            self.state_index,
            length_ns,
            tag_offsets,
            tag[tagged],
            length_ns[tagged],
        )


@struct
class Events:
    """Instants on rows, in order of time; with a target, an arrow to another row.

    Attributes:
        time_ns: From the panel's own origin.
        row: The row it happened on.
        name: Index into `names`.
        target: The row it was done to, or -1.
        names: What the events are called.
    """

    time_ns: Int64s
    row: Int32s
    name: Int32s
    target: Int32s
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.time_ns)


@struct
class SharedRows:
    """The entities of rows that several share, one after the other.

    Attributes:
        sites: The names of the sites.
        site: By row, the index of its site; rows of a site are together.
        row_offsets: int64, rows + 1: row r has the entities [row_offsets[r], row_offsets[r + 1]).
        start_ns: When each first has a state in the window, in order of time within a row.
        names: What each is called.
    """

    sites: Sequence[str]
    site: Int32s
    row_offsets: Int64s
    start_ns: Int64s
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.start_ns)


class Clipped(NamedTuple):
    """What the window and the filter left out: intervals before, intervals after, entities."""

    before: int
    after: int
    filtered: int


@struct
class StatemapPanel:
    """One of the stacked maps.

    Attributes:
        title: The title of the trace, or empty.
        label: What the panel is called among those of its trace, empty if it is the only one.
        host: The host on which it was recorded, if known.
        entity_kind: The kind of a row: `CPU`, `Thread`; `Entity` if the trace does not define it.
        origin_ns: UTC of the panel's time 0, if known.
        start_ns: Where the window begins, from the panel's own origin.
        end_ns: Where it ends (the width of the map is end_ns - start_ns).
        offset_ns: What to add to this panel's times to get the first panel's.
        aligned: Whether `offset_ns` is known, from clocks or messages, rather than assumed.
        states: The legend, in order of value.
        tags: The fields of each tag, by index.
        entities: Row names, top to bottom.
        descriptions: Row index to description.
        rectangles: What is drawn.
        events: Instants and arrows.
        intervals: The number of intervals in the window before merging.
        coalesced: How many of the rectangles represent more than one interval.
        clipped: What is not shown.
        anomalies: The anomalies of the input.
        history: The index of its history in the list that the statemap was drawn from.
        begin_ns: The time from which printed times count: where its trace begins.
        shared: The entities of the rows, if several share one.
        existence: When its entities exist.
        existed: By row, when it existed in the window, if its rectangles do not show that.
        events_left_out: How many events are not shown, because there are too many.
        alignment: What was found from messages, as `Alignment.note` has it.
    """

    title: str
    host: str | None
    entity_kind: str
    origin_ns: int | None
    start_ns: int
    end_ns: int
    offset_ns: int
    aligned: bool
    states: tuple[StateRow, ...]
    tags: Sequence[dict[str, Any]]
    entities: Sequence[str]
    descriptions: dict[int, str]
    rectangles: Rectangles | UnmergedRectangles
    events: Events
    intervals: int
    coalesced: int
    clipped: Clipped
    anomalies: Anomalies
    history: int = 0
    begin_ns: int = 0
    label: str = ""
    shared: SharedRows | None = None
    existence: Existence = "row"
    existed: dict[int, tuple[int, int]] = field(default_factory=dict)
    events_left_out: int = 0
    alignment: str = ""

    @property
    def name(self) -> str:
        """The title of the trace and the panel's label."""
        return ": ".join(filter(None, (self.title, self.label)))


class Counted(NamedTuple):
    """The number of rectangles that a statemap of one history has, and its anomalies."""

    rectangles: int
    anomalies: Anomalies


class Commands(NamedTuple):
    """Command lines for the page, which adds a window to them.

    Attributes:
        draw: Draws the same inputs with the same options.
        figures: Prints the same figures; None if no command does.
    """

    draw: str
    figures: str | None


@struct
class Statemap:
    """Panels from top to bottom, one above the other on one time axis, and how rows are sorted.

    Attributes:
        panels: At least one; each window is the first one's, in the panel's own time.
        sort_state: The state whose total time the rows are sorted by; None is by name.
        state_height_px: The height of a row, before the page makes more room for labels.
        commands: Commands to show in the page; None if the inputs are not files.
        given_title: The title of the whole; empty for one made from those of the panels.
        zone: The time zone of dates; None is UTC.
    """

    panels: tuple[StatemapPanel, ...]
    sort_state: str | None
    state_height_px: int
    commands: Commands | None = None
    given_title: str = ""
    zone: Zone | None = None

    @property
    def clock(self) -> tuple[int, Offsets | None] | None:
        """UTC at the first panel's time 0, and the offsets of the zone; None if there is no date.

        A recording of less than an hour has none either: its times count from the beginning.
        """
        first = self.panels[0]
        if first.origin_ns is None or first.end_ns - first.start_ns < _HOUR_NS:
            return None
        return first.origin_ns, self.offsets

    @property
    def offsets(self) -> Offsets | None:
        """What makes local times of UTC in the window, if there is a zone and a date."""
        first = self.panels[0]
        if first.origin_ns is None or self.zone is None:
            return None
        window = first.start_ns + first.origin_ns, first.end_ns + first.origin_ns
        return self.zone.offsets(*window)
