"""The layout of a heat map's picture, in pixels, for PNG and SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import format_ns, format_utc
from meantime.query.offsets.axis import Axis, Mark
from meantime.query.offsets.wording import Wording
from meantime.structs import struct
from meantime.views.axis import Tick, dated, ticks, wall_ticks
from meantime.views.heatmap.grid import Grid, paint
from meantime.views.heatmap.legend import LISTED, entries, keys
from meantime.views.heatmap.palette import palette
from meantime.views.heatmap.selection import hidden_sum, layers, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.query.offsets import OffsetMap
    from meantime.views.heatmap.color import Colors
    from meantime.views.heatmap.legend import Entry, Key
    from meantime.views.heatmap.look import Look, Scales
    from meantime.views.heatmap.palette import Palette
    from meantime.views.heatmap.selection import Layer, Selection

__all__ = ["Figure", "draw", "facts", "row_marks"]

LEFT_PX, TOP_PX, RIGHT_PX = 78, 72, 24
_PLOT_PX = (1080, 450)
_COLUMN_PX = 16
_MOST_ROWS_PX = 2000
# The approximate width of a letter of an axis label, including space between labels.
_LETTER_PX = 7
# How far apart the names of rows are.
_NAME_PX = 16


@struct
class Figure:
    """The content and the layout of a picture.

    Attributes:
        title: What was recorded.
        subtitle: What the cells are.
        plot_px: The width and height of the cells.
        grid: The columns that are drawn.
        layers: The maps drawn.
        scales: The scales of their values.
        palette: Their colours.
        unrecorded: Which cells were not recorded at all, columns x rows.
        lost: Which cells overlap ranges in which events were lost.
        repeated: Which cells overlap local times that occur twice.
        times: Ticks below, as (x, label).
        offsets: Ticks of the rows at the left, as (y, label).
        entries: The legend.
        key: Some values, ascending, with their colours in the map selected first.
        notes: Further lines below the legend.
    """

    title: str
    subtitle: str
    plot_px: tuple[int, int]
    grid: Grid
    layers: Sequence[Layer]
    scales: Scales
    palette: Palette
    unrecorded: npt.NDArray[np.bool_]
    lost: npt.NDArray[np.bool_]
    repeated: npt.NDArray[np.bool_]
    times: Sequence[tuple[float, str]]
    offsets: Sequence[tuple[float, str]]
    entries: Sequence[Entry]
    key: Sequence[Key]
    notes: Sequence[str]

    @property
    def key_px(self) -> float:
        """Where the key ends: at the plot's right edge, or as far as the subtitle moves it."""
        width = sum(8 * len(key.amount) + 28 for key in self.key)
        return max(LEFT_PX + self.plot_px[0], 24 + 6.6 * len(self.subtitle) + 24 + width)

    def colors(self, *, dark: bool = False) -> Colors:
        """Return the colours of the cells: an image, rows from the top x columns x 3."""
        image = paint(self.grid, self.layers, self.scales, self.palette, dark=dark)
        return np.ascontiguousarray(image.transpose(1, 0, 2)[::-1])


def draw(found: OffsetMap, selection: Selection, look: Look, *, title: str) -> Figure:
    """Return the figure of a map.

    Raises:
        UsageError: If a name that is selected is not in the map, or the palette is unknown.
    """
    drawn = layers(found, selection)
    grid = Grid.of(found, _PLOT_PX[0])
    column_px = max(1, min(_COLUMN_PX, _PLOT_PX[0] // grid.width))
    row_px = max(1, _PLOT_PX[1] // found.fold.rows)
    width = min(_PLOT_PX[0], max(grid.width * column_px, 240))
    height = min(_MOST_ROWS_PX, found.fold.rows * row_px)
    scales = look.scales(
        drawn,
        [grid.busy(layer.cells)[1] for layer in drawn],
        grid.busy(found.total)[1] if look.lock else None,
    )
    colors = palette(look.palette, scales.rest, maps=len(drawn), hues=look.hues)
    drawn = numbered(drawn, colors)
    return Figure(
        title=title,
        subtitle=_subtitle(found, look),
        plot_px=(width, height),
        grid=grid,
        layers=drawn,
        scales=scales,
        palette=colors,
        unrecorded=~grid.within(found.cells_of(found.recorded)),
        lost=grid.within(found.cells_of(found.lost)),
        repeated=grid.within(found.cells_of(found.repeated)),
        times=_times(grid, width, found),
        offsets=[
            # values increase upwards, as in Brendan Gregg's subsecond offset heat maps
            (height - mark.row * height / found.fold.rows, mark.label)
            for mark in row_marks(found, _most_marks(found, height))
        ],
        entries=entries(found, drawn, colors),
        key=keys(found, scales, colors, drawn),
        notes=_notes(found, selection, drawn, grid, colors),
    )


def row_marks(found: OffsetMap, most: int) -> list[Mark]:
    """Return at most `most` + 1 ticks of the rows.

    Offsets are times of the day or the week, if columns are days or weeks.
    """
    fold = found.fold
    if fold.axis is not None:
        return fold.axis.marks(most)
    wording = Wording(found)
    return [
        Mark(
            tick.time_ns * fold.rows / fold.period_ns,
            wording.offset(tick.time_ns) or tick.label,
        )
        for tick in ticks(0, fold.period_ns, most)[1]
    ]


def _most_marks(found: OffsetMap, height_px: int) -> int:
    named = found.fold.axis is not None and found.fold.axis.unit == "name"
    return max(1, height_px // _NAME_PX) if named else 6


def _subtitle(found: OffsetMap, look: Look) -> str:
    colored = "by rank" if look.method == "rank" and look.largest is None else "in proportion"
    what = {"ns": "time", "weight": "weight", "starts": "starts", "ends": "ends"}
    noun = "number of entities" if found.fold.y.kind == "utilisation" else "count"
    return (
        f"{_rows(found)}; colour is the {what.get(found.value, noun)}, {colored}"
        f"{'' if found.utc_at_zero_ns is None else f'; times in {_clock(found)}'}"
    )


def _rows(found: OffsetMap) -> str:
    fold = found.fold
    column = f"each column {format_ns(fold.period_ns)}"
    match fold.axis:
        case None:
            exactly = "" if fold.period_ns % fold.rows == 0 else "about "
            each = format_ns(fold.period_ns // fold.rows)
            return f"{column}, each of its {fold.rows} rows {exactly}{each}"
        case Axis(kind="duration", spacing=spacing):
            return f"{column}, rows are durations ({spacing})"
        case Axis(kind="utilisation"):
            return f"{column}, rows are shares of its time"
        case Axis(kind="weekday"):
            return "hours of the day and days of the week, all weeks added up"
        case axis:
            return f"{column}, each of the {axis.rows:,} rows an entity"


def _clock(found: OffsetMap) -> str:
    return "UTC" if found.fold.calendar is None else found.fold.calendar.zone.name


def _times(grid: Grid, width_px: int, found: OffsetMap) -> list[tuple[float, str]]:
    labels: list[tuple[float, str]] = []
    step_px = width_px / grid.width
    if found.fold.y.kind == "weekday":
        return [(hour * step_px, f"{hour:02}:00") for hour in range(0, 25, 3)]
    right_px = -float(LEFT_PX)
    for (first, count), run_start in zip(grid.runs, grid.run_starts, strict=False):
        start_ns = grid.fold.edge_ns(first)
        length_ns = count * grid.fold.period_ns
        run_px = count / grid.group * step_px
        for tick in _labelled(start_ns, start_ns + length_ns, run_px, found):
            x = run_start * step_px + (tick.time_ns - start_ns) / length_ns * run_px
            half_px = _LETTER_PX * len(tick.label) / 2
            if x - half_px <= right_px:
                # Later labels continue earlier ones of the run: only the first has a date.
                break
            labels.append((x, tick.label))
            right_px = x + half_px
    return labels


def _labelled(start_ns: int, end_ns: int, width_px: float, found: OffsetMap) -> list[Tick]:
    most = max(1, int(width_px // 110))
    utc_ns, begin_ns = found.utc_at_zero_ns, found.begin_ns
    if utc_ns is not None:
        # The first label also has a date, and fractions of seconds are long.
        most = max(1, int(width_px // 150))
        marks = dated(*wall_ticks(start_ns + utc_ns, end_ns + utc_ns, most))
        return [Tick(mark.time_ns - utc_ns, mark.label) for mark in marks]
    base, marks = ticks(start_ns - begin_ns, end_ns - begin_ns, most)
    marks = [Tick(mark.time_ns + begin_ns, mark.label) for mark in marks]
    if base and marks:
        marks[0] = Tick(marks[0].time_ns, f"{base} {marks[0].label}")
    return marks


def _notes(
    found: OffsetMap,
    selection: Selection,
    drawn: Sequence[Layer],
    grid: Grid,
    colors: Palette,
) -> list[str]:
    notes = []
    if grid.group > 1:
        notes.append(f"Each column drawn is {grid.group} columns added up.")
    if found.fold.rows > _MOST_ROWS_PX:
        notes.append(f"Only {_MOST_ROWS_PX:,} of the {found.fold.rows:,} rows are drawn.")
    if len(grid.runs) > 1:
        notes.append(f"{len(grid.runs) - 1} empty stretches are left out.")
    if hidden := hidden_sum(found, selection):
        notes.append(f"{hidden:,} of idle CPUs hidden (show with --idle).")
    named = sum(layer.name is not None for layer in drawn)
    if colors.hues is not None and named > colors.hues:
        notes.append(f"The {named:,} names share {colors.hues} colours.")
    more = len(drawn) - LISTED
    if more > 0:
        notes.append(f"{more:,} more names are drawn but not listed.")
    return notes + facts(found) + found.anomalies.lines()


def facts(found: OffsetMap) -> list[str]:
    """Return lines about changes of the clock, the sampling, and the number of several sources."""
    lines = _changes(found) if found.fold.axis is None else _about_rows(found)
    if uncompared := sorted({name for source in found.sources for name in source.uncompared}):
        lines.append(f"Not compared, as there are too many values: {', '.join(uncompared)}.")
    intervals = {source.interval_ns for source in found.sources}
    interval_ns = intervals.pop() if len(intervals) == 1 else None
    if interval_ns and found.value == "count":
        most = found.fold.period_ns / found.fold.rows / interval_ns
        lines.append(
            f"Sampled every {format_ns(interval_ns)}: a thread that runs all the time has about "
            f"{most:.1f} samples in a cell."
        )
    if len(found.sources) > 1:
        counts = [count for *_, count in found.reporting_runs()]
        lines.append(
            f"{len(found.sources)} sources added up; between {min(counts)} and {max(counts)} "
            "were recording in each column."
        )
    return lines


def _about_rows(found: OffsetMap) -> list[str]:
    """Return a line about what the rows of a map that is not of offsets do not say."""
    axis = found.fold.axis
    unbounded = sum(source.unbounded for source in found.sources)
    if unbounded:
        text = "began before the recording, or were going on when it ended: they may be longer"
        return [f"{unbounded:,} of the durations {text}."]
    if axis is not None and axis.kind == "weekday" and found.recorded:
        days = (found.recorded[-1][1] - found.recorded[0][0]) / (86_400 * 10**9)
        return [f"The sum of {days:.1f} days; hatched hours were never recorded."]
    return []


def _changes(found: OffsetMap) -> list[str]:
    """Return a line for each range of local time that does not occur, or does so twice."""
    calendar = found.fold.calendar
    if calendar is None or not found.recorded:
        return []
    first_ns, last_ns = found.recorded[0][0], found.recorded[-1][1]
    skipped = [
        each
        for each in calendar.offsets(first_ns, last_ns).skipped
        if first_ns < each[0] and each[1] < last_ns
    ]
    return [
        f"{_local_range(each, found)} {what}"
        for ranges, what in (
            (skipped, "does not occur, as clocks were set forward: it is hatched."),
            (found.repeated, "occurs twice, as clocks were set back: framed cells have both."),
        )
        for each in ranges
    ]


def _local_range(local_ns: tuple[int, int], found: OffsetMap) -> str:
    begin, end = (format_utc(each + (found.utc_at_zero_ns or 0)) for each in local_ns)
    return f"{begin[:10]} {begin[11:16]} to {end[11:16]}"
