"""How the times of several histories are brought onto one axis, also by what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.aligning import Clocked, align_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.history.history import History
    from meantime.query.aligning import Alignment, Message

__all__ = ["align_histories"]


def align_histories(
    histories: Sequence[History],
    given_ns: Mapping[int, int] | None = None,
    messages: Sequence[Message] = (),
) -> list[Alignment]:
    """Return the alignment of each history; the axis has the times of the first one.

    If one is not related to the first by anything else, calls between services, whose spans name
    each other, are searched for in all of them. Flows do not count: histories keep no id by
    which the two ends of one could be found in different histories.

    >>> from meantime.testing import history_from_picture
    >>> unknown = history_from_picture("cpu0  aab."), history_from_picture("cpu0  .ba.")
    >>> [each.how for each in align_histories(unknown)]
    ['first', 'start']

    Args:
        histories: The histories.
        given_ns: By index of a history, what to add to its times, regardless of its clock.
        messages: Further messages, as `align_all` takes them.
    """
    inputs = [Clocked(history.clock, history.bounds[0]) for history in histories]
    found = align_all(inputs, given_ns, messages)
    if all(each.aligned for each in found):
        return found
    from meantime.query.services import (  # noqa: PLC0415 - only for unknown clocks
        messages_between,
    )

    # reads the arguments of all spans of services, which only an unknown clock is worth
    calls = messages_between(histories)
    return align_all(inputs, given_ns, [*messages, *calls]) if calls else found
