"""Damage that shows in the order of lines: parts that are exchanged, there twice, or late."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from meantime.model.columns import Interner
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.events import Events
    from meantime.model.trace import Trace

__all__ = ["Steps", "ThreadOrder", "count_order", "count_order_of"]

# Lines have an order if so many steps in its direction come with each one against it.
_LEAST = 2
# A part that is exchanged, late or there twice makes at most so many steps back.
_OF_ONE_PART = 2
# Threads have orders of their own if so many of four lines follow another one of their thread.
_LEAST_OF_FOUR = 3
# Where logs have whoever wrote a line, the narrowest first.
_WRITERS: Final = (
    *("tid", "thread", "thread_id", "threadId", "thread_name", "threadName", "thread.id"),
    *("thread.name", "process.thread.id", "process.thread.name", "context", "goroutine", "worker"),
    *("pid", "process", "process.pid", "program", "host", "hostname"),
    # in the message
    "",
)
# Words of a message, of which one may be who wrote it; each writes so many lines on average.
_WORDS = 4
_LINES_OF_ONE = 4
_LEAST_FEWER = 8
_AROUND_WORDS = "[](){}<>:,;|"
_IN_BRACKETS: Final = re.compile(r"[^\[]{0,40}\[([^\]]{1,80})\]")


class Steps(NamedTuple):
    """Steps from one line to the next.

    Attributes:
        back: How often times go back.
        forward: How often they go forward.
        most_ns: The longest way back.
        lines: How many lines have one before them.
    """

    back: int
    forward: int
    most_ns: int
    lines: int = 0

    def of_threads_in(self, all_lines: Steps) -> bool:
        """Return whether lines are ordered by thread, and not as all lines of a file are."""
        return (
            all_lines.back > max(_OF_ONE_PART, self.back)
            and 4 * self.lines >= _LEAST_OF_FOUR * all_lines.lines
            and self.back * _LEAST <= self.forward
        )


def count_order(trace: Trace, steps: Steps, of_threads: Steps | None = None) -> None:
    """Count where times go against the order of lines, if they have one.

    Logs may have their newest lines first. Lines that are sorted by something else have no order
    in which damage could be seen. Where each thread writes its lines in order, but later than
    others theirs, only steps back within a thread are damage.

    Args:
        trace: What the lines are read into.
        steps: The steps of all lines.
        of_threads: The steps from each line to the next of its thread, if threads are known.
    """
    if steps.back and steps.back * _LEAST <= steps.forward:
        if of_threads is not None and of_threads.of_threads_in(steps):
            trace.facts["order of lines"] = (
                f"by thread; lines of others came up to {format_ns(steps.most_ns)} earlier"
            )
            steps = of_threads
        if steps.back:
            trace.anomalies.add("line_went_back", steps.back)
            trace.facts["lines went back"] = f"by up to {format_ns(steps.most_ns)}"
    elif steps.forward and steps.forward * _LEAST <= steps.back:
        trace.anomalies.add("line_went_back", steps.forward)


def count_order_of(
    trace: Trace,
    times: Sequence[Int64s],
    group: npt.NDArray[np.int32],
    groups: int,
    *,
    are_threads: bool,
) -> None:
    """Count where times of rows go against their order, by that of their times which has most.

    Rows that are grouped are in order of time within a group.

    Args:
        trace: What the rows are read into.
        times: Times of the rows, such as their starts, and their ends.
        group: The group of each row, such as its entity.
        groups: How many groups there are.
        are_threads: Whether each group may write its rows by itself.
    """
    if any(_is_ordered(each) for each in times):
        return
    same = group[1:] == group[:-1]
    if np.count_nonzero(~same) >= 2 * groups:
        same[:] = True
    found = [_steps(each, same) for each in times]
    if not found:
        return
    steps = min(found, key=lambda each: min(each.back, each.forward))
    of_threads = None
    if are_threads and steps.back > _OF_ONE_PART and steps.back * _LEAST <= steps.forward:
        # numbers of 16 bits are sorted by digits
        order = np.argsort(group.astype(np.uint16) if groups <= 1 << 16 else group, kind="stable")
        same = group[order[1:]] == group[order[:-1]]
        of_threads = min(_steps(each[order], same) for each in times)
    count_order(trace, steps, of_threads)


def _steps(times: Int64s, same: npt.NDArray[np.bool_]) -> Steps:
    before, after = times[:-1], times[1:]
    if not same.all():
        before, after = before[same], after[same]
    is_back = after < before
    back, forward = int(np.count_nonzero(is_back)), int(np.count_nonzero(after > before))
    # differences of times may need 64 bits without a sign
    ways = before[is_back].view(np.uint64) - after[is_back].view(np.uint64)
    return Steps(back, forward, int(ways.max(initial=0)), len(before))


class ThreadOrder:
    """The steps from lines to the next of their thread, of batches of events in order of time.

    Attributes:
        steps: The steps so far; None if it is not known who wrote the lines.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._codes = Interner(self._names)
        # by writer, the number and the time of its last line
        self._last: list[tuple[int, int]] = []
        self._field: str | int | None = None
        self._is_known = True
        self.steps: Steps | None = None

    def add(self, events: Events, lines: Int64s) -> None:
        """Add a batch; `lines` are the numbers of its lines."""
        writers = self._writers(events, lines) if self._is_known and len(events) else None
        if writers is None:
            self._is_known, self.steps = False, None
            return
        code = self._codes.codes(writers)
        order = np.lexsort((lines, code))
        code, lines, times = code[order], lines[order], events.time_ns[order]
        same = code[1:] == code[:-1]
        found = _steps(times, same)
        back, forward, most_ns, count = self.steps or Steps(0, 0, 0)
        back, forward, count = back + found.back, forward + found.forward, count + found.lines
        most_ns = max(most_ns, found.most_ns)
        self._last += [(0, 0)] * (len(self._names) - len(self._last))
        for first in np.flatnonzero(np.append(True, ~same)).tolist():
            line, time_ns = self._last[code[first]]
            if line:
                count += 1
                # what is later in time was in an earlier batch only if it is further back
                is_back = lines[first] < line
                back, forward = back + is_back, forward + (not is_back)
                most_ns = max(most_ns, int(times[first]) - time_ns if is_back else 0)
        for last in np.flatnonzero(np.append(~same, True)).tolist():
            self._last[code[last]] = int(lines[last]), int(times[last])
        self.steps = Steps(back, forward, most_ns, count)

    def _writers(self, events: Events, lines: Int64s) -> list[str] | None:
        """Return who wrote each line; None if most do not say so."""
        for field in _WRITERS if self._field is None else (self._field,):
            if isinstance(field, int):
                return _words(events, field)
            texts = events.texts_of(field, {}, str) if field else _bracketed(events)
            if sum(text is not None for text in texts) * 4 >= _LEAST_OF_FOUR * len(texts):
                self._field = field
                return ["" if text is None else text for text in texts]
        self._field = _ordering_word(events, lines)
        return None if self._field is None else _words(events, self._field)


def _words(events: Events, place: int) -> list[str]:
    """Return the word at a place of each message, without what surrounds it."""
    found = []
    for name in events.names:
        words = name.split(None, place + 1)
        found.append(words[place].strip(_AROUND_WORDS) if place < len(words) else "")
    return [found[code] for code in events.name.tolist()]


def _ordering_word(events: Events, lines: Int64s) -> int | None:
    """Return which word of the messages names whose lines are in order; None if none does."""
    most = int(np.count_nonzero(lines[1:] < lines[:-1]))
    least, chosen = 0, None
    for place in range(_WORDS) if most > _OF_ONE_PART else ():
        code = Interner[str]([]).codes(_words(events, place))
        if not 1 < int(code.max()) + 1 <= len(code) // _LINES_OF_ONE:
            continue
        order = np.lexsort((lines, code))
        same = code[order[1:]] == code[order[:-1]]
        back = _steps(events.time_ns[order], same).back
        # what merely divides lines leaves many steps back
        if back * _LEAST_FEWER <= most and (chosen is None or back < least):
            least, chosen = back, place
    return chosen


def _bracketed(events: Events) -> list[str | None]:
    """Return what is in brackets at the beginning of each message, where loggers put the thread."""
    found = [_IN_BRACKETS.match(name) for name in events.names]
    writers = [None if match is None else match[1] for match in found]
    return [writers[code] for code in events.name.tolist()]


def _is_ordered(times: Int64s) -> bool:
    return not (times[1:] < times[:-1]).any()
