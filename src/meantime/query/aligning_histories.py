"""How the times of several histories are brought onto one axis, also by what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.query.aligning import Clocked, align_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.history.history import History
    from meantime.query.aligning import Alignment, Message
    from meantime.query.packets import SeenPacket
    from meantime.query.services import CallSide

__all__ = ["Exchanged", "align_histories", "exchanged_by", "messages_of"]


class Exchanged(NamedTuple):
    """What a host says that it sent and received; the other sides are at other hosts.

    Attributes:
        calls: Its sides of calls between services.
        packets: The packets of TCP that its kernel sent or received.
    """

    calls: list[CallSide]
    packets: list[SeenPacket]


def exchanged_by(history: History) -> Exchanged:
    """Return what the host of a history says that it sent and received.

    Flows do not count: histories keep no id by which the two ends of one could be found in
    different histories.
    """
    # only for clocks of several machines, and so is the next
    from meantime.query.packets import packets_seen  # noqa: PLC0415
    from meantime.query.services import sides_of_calls  # noqa: PLC0415

    return Exchanged(sides_of_calls(history), packets_seen(history))


def messages_of(hosts: Sequence[Exchanged]) -> list[Message]:
    """Return the messages between hosts."""
    from meantime.query.packets import packets_between  # noqa: PLC0415 - as above
    from meantime.query.services import calls_between  # noqa: PLC0415 - as above

    calls = calls_between([each.calls for each in hosts])
    return calls + packets_between([each.packets for each in hosts])


def align_histories(
    histories: Sequence[History],
    given_ns: Mapping[int, int] | None = None,
    messages: Iterable[Message] = (),
) -> list[Alignment]:
    """Return the alignment of each history; the axis has the times of the first one.

    Calls between services, whose spans name each other, and packets of TCP that the kernels of two
    hosts traced, are searched for in all of them, unless all have one clock, or offsets that are
    given.

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
    known = [*messages]
    found = align_all(inputs, given_ns, known)
    if all(each.how in {"first", "given", "clock"} for each in found):
        return found
    # UTC of two machines is only as good as their clocks were set
    own = messages_of([exchanged_by(history) for history in histories])
    return align_all(inputs, given_ns, [*known, *own]) if own else found
