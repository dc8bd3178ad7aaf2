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
    *,
    drifts: bool = False,
) -> list[Alignment]:
    """Return the alignment of each history; the axis has the times of the first one.

    Calls between services, whose spans name each other, and packets of TCP that the kernels of two
    hosts traced, are searched for in all of them, unless all have one clock, or offsets that are
    given. Flows do not count: histories keep no id by
    which the two ends of one could be found in different histories.

    >>> from meantime.testing import history_from_picture
    >>> unknown = history_from_picture("cpu0  aab."), history_from_picture("cpu0  .ba.")
    >>> [each.how for each in align_histories(unknown)]
    ['first', 'start']

    Args:
        histories: The histories.
        given_ns: By index of a history, what to add to its times, regardless of its clock.
        messages: Further messages, as `align_all` takes them.
        drifts: As `align_all` takes it.
    """
    inputs = [Clocked(history.clock, history.bounds[0]) for history in histories]
    found = align_all(inputs, given_ns, messages, drifts=drifts)
    if all(each.how in {"first", "given", "clock"} for each in found):
        return found
    # only for clocks of several machines, and so is the next
    from meantime.query.packets import packets_between  # noqa: PLC0415
    from meantime.query.services import messages_between  # noqa: PLC0415

    # UTC of two machines is only as good as their clocks were set
    own = [*messages_between(histories), *packets_between(histories)]
    return align_all(inputs, given_ns, [*messages, *own], drifts=drifts) if own else found
