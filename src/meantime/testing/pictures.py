"""Timelines drawn as text: a line per attribute, a character per nanosecond, a dot for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import UsageError
from meantime.history.builder import HistoryBuilder
from meantime.model.attributes import format_path, parse_pattern

if TYPE_CHECKING:
    from meantime.history.history import History

__all__ = ["history_from_picture", "picture"]


def history_from_picture(text: str, *, start_ns: int = 0) -> History:
    """Return the history that a picture shows.

    Each line is a path in text form, blanks, and a timeline: one character per nanosecond, which is
    the name of the state, and `.` for none. The history ends with the longest timeline; the last
    state of a shorter one continues to there. Empty lines are ignored.

    >>> history = history_from_picture('''
    ...     disk0       aab.
    ...     disk0/queue ..xx
    ... ''')
    >>> history.state(history.quark("disk0", "queue"), 3).value
    'x'

    Raises:
        UsageError: If a line is not two words, or its path has a wildcard.
    """
    builder = HistoryBuilder(start_ns=start_ns)
    longest = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.rsplit(maxsplit=1)
        if len(words) != 2:
            raise UsageError(f"the line {line!r} of the picture is not a path and a timeline")
        path = parse_pattern(words[0])
        names = [element for element in path if isinstance(element, str)]
        if len(names) != len(path):
            raise UsageError(f"the path {words[0]!r} of the picture has a wildcard")
        quark = builder.quark(*names)
        timeline = words[1]
        longest = max(longest, len(timeline))
        for time_ns, state in enumerate(timeline, start_ns):
            builder.modify(time_ns, quark, None if state == "." else state)
    return builder.close(start_ns + longest)


def picture(history: History) -> str:
    """Return the picture of a history, with the first character of each state's name.

    >>> print(picture(history_from_picture("disk0  aab.")))
    disk0 aab.
    """
    names = [format_path(history.attributes.path(quark)) for quark in history.attributes]
    width = max(map(len, names), default=0)
    lines = []
    for quark, name in enumerate(names):
        timeline = "".join(
            ("." if interval.value is None else str(interval.value)[:1])
            * (interval.end_ns - interval.start_ns)
            for interval in history.intervals([quark], history.start_ns, history.end_ns)
        )
        lines.append(f"{name:{width}} {timeline}")
    return "\n".join(lines)
