"""Tables and facts as text: they fit a terminal without cutting a number, and a pipe gets all.

A table that is wider than its terminal loses whole columns, which a line below it names, and its
names are shortened in the middle. A column of numbers is printed whole or not at all.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import combining, east_asian_width

from meantime.cli.terminal import is_styled, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "Column",
    "more",
    "print_facts",
    "print_table",
    "sentence_lines",
    "table_lines",
    "visible",
]

_INDENT, _GAP = "  ", "  "
# Texts are not shortened below these widths.
_LEAST_NAME, _LEAST_PROSE = 16, 32
_BOLD, _FAINT, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        heading: The text at its top.
        numeric: It contains numbers: aligned right, and never shortened.
        prose: It contains sentences: wrapped where a name is shortened in the middle.
    """

    heading: str
    numeric: bool = False
    prose: bool = False


def print_table(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    drop: Sequence[str] = (),
    total: int = 0,
) -> None:
    """Print a table on standard output, with as many rows as `--limit` allows; see `table_lines`.

    Args:
        title: What is printed above it.
        columns: The columns.
        rows: The cells.
        drop: As `table_lines` takes it.
        total: How many rows there are in all, if more than are given.
    """
    from meantime.cli.answers import table_rows  # noqa: PLC0415 - pictures print no rows

    width, styled = width_of(sys.stdout), is_styled(sys.stdout)
    total, rows = max(total, len(rows)), rows[: table_rows()]
    bold, plain = (_BOLD, _PLAIN) if styled else ("", "")
    sys.stdout.write(f"{bold}{visible(title)}{plain}\n\n")
    lines = table_lines(columns, rows, width=width, drop=drop, styled=styled)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(f"  {more(total, len(rows))}\n\n" if total > len(rows) else "\n")


def table_lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    drop: Sequence[str] = (),
    styled: bool = False,
) -> Iterator[str]:
    """Yield the lines of a table.

    The first column, which names the row, always remains, as do names of 16 characters.

    Args:
        columns: The columns; the first names the row.
        rows: The cells.
        width: The number of columns of the terminal; None for no limit.
        drop: Headings of the columns to leave out, in this order, if the table is too wide. The
            others follow from the right.
        styled: Whether to print the headings in bold.
    """
    texts = [[*map(visible, row)] for row in rows]
    natural = [_cells(column.heading) for column in columns]
    for at, cells in enumerate(zip(*texts, strict=True)):
        natural[at] = max(natural[at], *map(_cells, cells))
    shown = _that_fit(columns, natural, width, drop)
    widths = _shared(columns, natural, shown, width)
    bold, plain = (_BOLD, _PLAIN) if styled else ("", "")
    heading = _line([_aligned(columns[at].heading, widths[at], columns[at]) for at in shown])
    yield f"{bold}{heading}{plain}"
    yield _INDENT + "-" * (sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1))
    for row in texts:
        if widths == natural:
            yield _line([_aligned(row[at], widths[at], columns[at]) for at in shown])
        else:
            yield from _row(columns, row, widths, shown)
    if len(shown) < len(columns):
        hidden = ", ".join(each.heading for at, each in enumerate(columns) if at not in shown)
        assert width is not None
        for line in _wrapped(f"too narrow to show: {hidden}", max(_LEAST_NAME, width - 2)):
            yield f"{_FAINT}{_INDENT}{line}{plain}" if styled else f"{_INDENT}{line}"


def _that_fit(
    columns: Sequence[Column], natural: Sequence[int], width: int | None, drop: Sequence[str]
) -> list[int]:
    """Return the indices of the columns that fit, if each is as narrow as it may be."""
    shown = list(range(len(columns)))
    if width is None:
        return shown
    headings = [column.heading for column in columns]
    order = [headings.index(heading) for heading in drop if heading in headings]
    order += [at for at in reversed(shown[1:]) if at not in order]
    for at in order:
        least = sum(_least(columns[each], natural[each]) for each in shown)
        if least + len(_INDENT) + len(_GAP) * (len(shown) - 1) <= width:
            break
        shown.remove(at)
    return shown


def _least(column: Column, natural: int) -> int:
    if column.numeric:
        return natural
    return min(natural, _LEAST_PROSE if column.prose else _LEAST_NAME)


def _shared(
    columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], width: int | None
) -> list[int]:
    """Return the widths of the columns; what is too much is taken from the widest texts."""
    widths = list(natural)
    if width is None:
        return widths
    excess = sum(natural[at] for at in shown) + len(_INDENT) + len(_GAP) * (len(shown) - 1) - width
    while excess > 0:
        wider = [at for at in shown if widths[at] > _least(columns[at], natural[at])]
        if not wider:
            break
        widest = max(wider, key=lambda at: widths[at])
        others = [widths[at] for at in wider if widths[at] < widths[widest]]
        floor = max([_least(columns[widest], natural[widest]), *others])
        cut = max(1, min(excess, widths[widest] - floor))
        widths[widest] -= cut
        excess -= cut
    return widths


def _row(
    columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], shown: Sequence[int]
) -> Iterator[str]:
    """Yield the lines of a row: several if one of its sentences is wrapped."""
    parts = [
        _wrapped(row[at], widths[at])
        if columns[at].prose
        else [row[at] if columns[at].numeric else _shortened(row[at], widths[at])]
        for at in shown
    ]
    for line in range(max(map(len, parts))):
        yield _line(
            [
                _aligned(part[line] if line < len(part) else "", widths[at], columns[at])
                for at, part in zip(shown, parts, strict=True)
            ]
        )


def _line(cells: Sequence[str]) -> str:
    return (_INDENT + _GAP.join(cells)).rstrip()


def _aligned(text: str, width: int, column: Column) -> str:
    padding = " " * (width - _cells(text))
    return padding + text if column.numeric else text + padding


def more(total: int, shown: int) -> str:
    """Return the sentence about the rows that are not shown."""
    return f"{total - shown:,} more: --limit 0"


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one per line, aligned; long values are wrapped on a terminal."""
    width, styled = width_of(sys.stdout), is_styled(sys.stdout)
    names = max((len(name) for name, _ in facts), default=0)
    for name, fact in facts:
        label = f"{_BOLD}{name}{_PLAIN}" if styled and name else name
        text = visible(fact)
        room = _cells(text) if width is None else max(_LEAST_NAME, width - names - 2)
        for number, line in enumerate(_wrapped(text, room)):
            before = " " * names if number else label + " " * (names - len(name))
            sys.stdout.write(f"{before}  {line}".rstrip() + "\n")


def sentence_lines(text: str, width: int | None) -> Iterator[str]:
    """Yield the lines of a sentence, all but the first indented.

    Args:
        text: The sentence.
        width: The number of columns of the terminal; None for a file or pipe, which has no limit.

    >>> list(sentence_lines("longest block: 60ms by handle (app.py:12)", 26))
    ['longest block: 60ms by', '  handle (app.py:12)']
    """
    text = visible(text)
    if width is None:
        yield text
        return
    room = max(_LEAST_NAME, width - len(_INDENT))
    for number, line in enumerate(_wrapped(text, room)):
        yield f"{_INDENT}{line}" if number else line


def visible(text: str) -> str:
    r"""Return the text with control characters as escapes: a name may contain any.

    >>> visible("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    # printed as it is, an escape sequence in a name would control the terminal
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def _cell(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _head(text: str, cells: int) -> str:
    """Return the longest beginning of a text that takes at most this many columns."""
    if text.isascii():
        return text[:cells]
    used = 0
    for index, character in enumerate(text):
        used += _cell(character)
        if used > cells:
            return text[:index]
    return text


def _shortened(text: str, cells: int) -> str:
    """Return a text that takes at most this many columns, without its middle if it is longer.

    >>> _shortened("RequestResponseCycle.run_asgi", 16)
    'RequestR…un_asgi'
    """
    if _cells(text) <= cells:
        return text
    begin = _head(text, cells // 2)
    end = _head(text[::-1], cells - 1 - _cells(begin))[::-1]
    return f"{begin}…{end}"


def _wrapped(text: str, cells: int) -> list[str]:
    """Return the lines of a text, broken between words where possible.

    >>> _wrapped("nothing happened for 4s", 10)
    ['nothing', 'happened', 'for 4s']
    """
    lines = []
    while _cells(text) > cells:
        begin = _head(text, cells)
        # a space right behind the line is a break too
        space = text.rfind(" ", 1, len(begin) + 1)
        end = space if space > 0 else max(1, len(begin))
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]
