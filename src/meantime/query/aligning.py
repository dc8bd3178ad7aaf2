"""How the times of several inputs are brought onto one axis, and what that rests on.

The axis has the times of the first input. What is known best decides: an offset that was given,
UTC that both know, one clock of one machine, or messages between the two, which cannot arrive
before they were sent. Where nothing is known the beginnings are drawn at one place, and the input
is not aligned, which everything that shows it has to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.clocks import Clock

__all__ = [
    "Alignment",
    "Clocked",
    "How",
    "Message",
    "align",
    "align_all",
    "clock_error_ns",
]

How: TypeAlias = Literal["first", "given", "utc", "clock", "messages", "start"]


class Alignment(NamedTuple):
    """How to convert the times of an input to those of the axis: add `offset_ns`.

    Attributes:
        offset_ns: What to add.
        how: What it rests on: `first` (the axis has the times of this input), `given`, `utc`,
            `clock` (one clock of one machine), `messages`, or `start` (unrelated: not aligned).
        error_ns: How far off it is at most, as far as the inputs say; None if they do not.
    """

    offset_ns: int
    how: How
    error_ns: int | None = None

    @property
    def aligned(self) -> bool:
        """Whether times of the input can be compared with others."""
        return self.how != "start"


class Clocked(NamedTuple):
    """An input to be aligned: its clock, and where it begins."""

    clock: Clock
    start_ns: int


class Message(NamedTuple):
    """Something was sent by an input at one of its times, and received by another at one of its.

    Attributes:
        sender: The index of the input that sent it.
        sent_ns: When, in the times of that input.
        receiver: The index of the input that received it.
        received_ns: When, in the times of that one.
    """

    sender: int
    sent_ns: int
    receiver: int
    received_ns: int


def align(
    reference: Clock, other: Clock, *, reference_start_ns: int = 0, other_start_ns: int = 0
) -> Alignment:
    """Return how to convert times of `other` to times of `reference`.

    Both are converted by UTC if it is known of both. The offset is 0 if they are the same clock of
    the same machine and boot. Otherwise the two starts are aligned, which a view has to point out.

    >>> from meantime.clocks import Clock
    >>> align(Clock(utc_at_origin_ns=1_000), Clock(utc_at_origin_ns=5_000)).offset_ns
    4000
    """
    if reference.utc_at_origin_ns is not None and other.utc_at_origin_ns is not None:
        errors = clock_error_ns(reference), clock_error_ns(other)
        error_ns = None if None in errors else sum(filter(None, errors))
        return Alignment(other.utc_at_origin_ns - reference.utc_at_origin_ns, "utc", error_ns)
    same = (
        reference.kind == other.kind != "unknown"
        and reference.host is not None
        and (reference.host, reference.boot_id) == (other.host, other.boot_id)
    )
    if same:
        return Alignment(0, "clock", 0)
    return Alignment(reference_start_ns - other_start_ns, "start")


def clock_error_ns(clock: Clock) -> int | None:
    """Return how far UTC and a clock moved apart while it was recorded; None if that is unknown.

    A step of either counts, and so does a drift.

    >>> from meantime.clocks import Clock
    >>> clock_error_ns(Clock(utc_at_origin_ns=100, anchors=((0, 100), (50, 153))))
    3
    """
    if clock.utc_at_origin_ns is None or not clock.anchors:
        return None
    origin_ns = clock.utc_at_origin_ns
    return max(abs(utc_ns - time_ns - origin_ns) for time_ns, utc_ns in clock.anchors)


def align_all(
    inputs: Sequence[Clocked],
    given_ns: Mapping[int, int] | None = None,
    messages: Iterable[Message] = (),
) -> list[Alignment]:
    """Return the alignment of each input; the axis has the times of the first one.

    >>> from meantime.clocks import Clock
    >>> unknown = Clocked(Clock(), 0), Clocked(Clock(), 5)
    >>> align_all(unknown)[1]
    Alignment(offset_ns=-5, how='start', error_ns=None)
    >>> align_all(unknown, {1: 7})[1]
    Alignment(offset_ns=7, how='given', error_ns=0)

    A message from one to the other was under way for some time, and so was the answer:

    >>> align_all(unknown, messages=[Message(0, 10, 1, 32), Message(1, 34, 0, 20)])[1]
    Alignment(offset_ns=-18, how='messages', error_ns=4)

    Args:
        inputs: The inputs.
        given_ns: By index of an input, what to add to its times, regardless of its clock.
        messages: What inputs sent to each other. They decide only where nothing else is known of
            an input, and only if the offset has two bounds.
    """
    given = given_ns or {}
    first = inputs[0]
    found = [
        Alignment(given[index], "given", 0)
        if index in given
        else align(
            first.clock,
            each.clock,
            reference_start_ns=first.start_ns + given.get(0, 0),
            other_start_ns=each.start_ns,
        )
        if index
        else Alignment(0, "first", 0)
        for index, each in enumerate(inputs)
    ]
    if all(each.aligned for each in found):
        return found
    return _bounded(found, messages)


def _bounded(found: list[Alignment], messages: Iterable[Message]) -> list[Alignment]:
    """Replace what rests on nothing by what follows from messages.

    A message says `offset[sender] - offset[receiver] <= received - sent`. The least sum of such
    limits over any chain of inputs from one that is aligned, and to one, are the two bounds.
    """
    limits: dict[tuple[int, int], int] = {}
    for message in messages:
        key = message.sender, message.receiver
        limit_ns = message.received_ns - message.sent_ns
        if message.sender != message.receiver:
            limits[key] = min(limit_ns, limits.get(key, limit_ns))
    fixed = {index: each.offset_ns for index, each in enumerate(found) if each.aligned}
    # of each input the most that its offset can be, and the least with the opposite sign
    high = _shortest(fixed, limits, len(found))
    low = _shortest(
        {index: -offset_ns for index, offset_ns in fixed.items()},
        {(receiver, sender): limit_ns for (sender, receiver), limit_ns in limits.items()},
        len(found),
    )
    result = list(found)
    for index, each in enumerate(found):
        # limits that contradict each other say nothing
        if not each.aligned and index in high and index in low and -low[index] <= high[index]:
            middle = (high[index] - low[index]) // 2
            result[index] = Alignment(middle, "messages", high[index] - middle)
    return result


def _shortest(
    fixed: Mapping[int, int], limits: Mapping[tuple[int, int], int], rounds: int
) -> dict[int, int]:
    """Return the least bound of each input: `bound[one] <= bound[other] + limits[one, other]`."""
    bound = dict(fixed)
    for _ in range(rounds):
        before = dict(bound)
        for (one, other), limit_ns in limits.items():
            if other in bound and one not in fixed:
                most = bound[other] + limit_ns
                bound[one] = min(most, bound.get(one, most))
        if bound == before:
            break
    return bound
