"""A heat map in a terminal: two rows in a line of half blocks, or shades without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import format_ns
from meantime.views.axis import dated, ticks, wall_ticks
from meantime.views.heatmap.figure import row_marks
from meantime.views.heatmap.grid import Grid, colored
from meantime.views.heatmap.palette import palette
from meantime.views.heatmap.selection import layers, numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.offsets import OffsetMap
    from meantime.views.heatmap.color import Colors
    from meantime.views.heatmap.look import Look
    from meantime.views.heatmap.selection import Selection

__all__ = ["terminal"]

_LABEL = 8
_LINES = 25
_UNRECORDED = (64, 68, 76)
_SHADES = " ░▒▓█"


def terminal(
    found: OffsetMap, selection: Selection, look: Look, *, width: int, color: bool
) -> Iterator[bytes]:
    """Return the lines of a heat map: for 24-bit colours, or plain text of four shades.

    Rows that do not fit are added up. What was not recorded is grey, or a dot.
    """
    grid = Grid.of(found, max(8, width - _LABEL))
    lines = min(_LINES, found.fold.rows)
    rows = min(found.fold.rows, lines * (2 if color else 1))
    drawn = layers(found, selection)
    totals, parts = [], []
    for layer in drawn:
        cells = _fewer(grid.values(layer.cells), rows).ravel()
        at = np.flatnonzero(cells)
        totals.append(int(cells.sum()))
        parts.append((at, cells[at]))
    scales = look.scales(drawn, [values for _, values in parts])
    recorded = _fewer(grid.within(found.cells_of(found.recorded)).astype(np.int64), rows) > 0
    labels = _labels(found, rows, 2 if color else 1)
    if color:
        colors = palette(look.palette, scales.rest, maps=len(drawn), hues=look.hues)
        mixed = colored(numbered(drawn, colors), parts, recorded.size, scales, colors, dark=True)
        mixed[~recorded.ravel() & (mixed == colors.empty(dark=True)).all(axis=1)] = _UNRECORDED
        yield from _blocks(mixed.reshape(*recorded.shape, 3), labels)
    else:
        strongest = np.zeros((grid.width, rows))
        for layer, (at, values) in zip(drawn, parts, strict=True):
            norm = scales.of(layer).norm(values)
            strongest.flat[at] = np.maximum(strongest.flat[at], norm)
        yield from _shades(strongest, recorded, labels)
    yield (" " * _LABEL + _times(grid, width - _LABEL, found) + "\n").encode()
    for layer, total in zip(drawn, totals, strict=True):
        amount = format_ns(total) if found.value == "ns" else f"{total:,}"
        yield f"{' ' * _LABEL}{layer.name or 'all'}: {amount}\n".encode()


def _fewer(grid: Int64s, rows: int) -> Int64s:
    """Return a grid with adjacent rows added up to this number of rows."""
    starts = -(-np.arange(rows) * grid.shape[1] // rows)
    fewer: Int64s = np.add.reduceat(grid, starts, axis=1)
    return fewer


def _labels(found: OffsetMap, rows: int, step: int) -> dict[int, str]:
    axis = found.fold.axis
    most = rows // step if axis is not None and axis.unit == "name" else 5
    return {
        min(rows - 1, int(mark.row * rows / found.fold.rows)) // step: mark.label
        for mark in row_marks(found, most)
    }


def _blocks(colors: Colors, labels: dict[int, str]) -> Iterator[bytes]:
    rows = colors.shape[1]
    for line in range((rows - 1) // 2, -1, -1):
        cells = []
        for column in colors:
            below = column[2 * line]
            above = column[2 * line + 1] if 2 * line + 1 < rows else below
            # ▀ shows two rows: the upper one is the foreground, the lower one the background
            cells.append(f"\x1b[38;2;{_rgb(above)}m\x1b[48;2;{_rgb(below)}m▀")
        yield f"{labels.get(line, ''):>{_LABEL - 1}} {''.join(cells)}\x1b[0m\n".encode()


def _rgb(color: Sequence[int]) -> str:
    return ";".join(str(int(channel)) for channel in color)


def _shades(
    norm: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    recorded: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    labels: dict[int, str],
) -> Iterator[bytes]:
    shade = np.ceil(norm * 4).astype(int)
    for line in range(norm.shape[1] - 1, -1, -1):
        cells = "".join(
            _SHADES[shade[column, line]] if recorded[column, line] or shade[column, line] else "·"
            for column in range(len(norm))
        )
        yield f"{labels.get(line, ''):>{_LABEL - 1}} {cells.rstrip()}\n".encode()


def _times(grid: Grid, width: int, found: OffsetMap) -> str:
    # dates if they are known, otherwise times since the beginning
    zero_ns = found.begin_ns if found.utc_at_zero_ns is None else -found.utc_at_zero_ns
    line = [" "] * max(width, grid.width)
    if found.fold.y.kind == "weekday":
        return " ".join(f"{hour:02}" for hour in range(0, 24, 3)) if grid.group == 1 else ""
    for (first, count), run_start in zip(grid.runs, grid.run_starts, strict=False):
        start_ns = grid.fold.edge_ns(first)
        length_ns = count * grid.fold.period_ns
        drawn = -(-count // grid.group)
        most = max(1, drawn // 16)
        begin_ns = start_ns - zero_ns
        if found.utc_at_zero_ns is None:
            _, marks = ticks(begin_ns, begin_ns + length_ns, most)
        else:
            marks = dated(*wall_ticks(begin_ns, begin_ns + length_ns, most))
        for mark in marks:
            at = run_start + (mark.time_ns - begin_ns) * drawn // length_ns
            if (
                at + len(mark.label) < len(line)
                and not "".join(line[max(0, at - 1) : at + len(mark.label) + 1]).strip()
            ):
                line[at : at + len(mark.label)] = mark.label
    return "".join(line).rstrip()
