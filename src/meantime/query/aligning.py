"""How the times of several inputs are brought onto one axis, and what that rests on.

The axis has the times of the first input. What is known best decides: an offset that was given,
UTC that both know, one clock of one machine, or messages between the two, which cannot arrive
before they were sent. Messages that contradict UTC or a clock decide instead. If no offset is
right for all of them, the clocks drift, and the offset changes with time. Where nothing is known
the beginnings are drawn at one place, and the input is not aligned, which everything that shows it
has to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from meantime.model.clocks import ClockShift, drift_text
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meantime.model.clocks import Clock
    from meantime.query.clock_lines import Bound

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
        contradicted_ns: By how much messages contradict what the clocks say; 0 if they do not.
        drift_ppt: What to add besides for each 10^12 ns since `drift_at_ns`, as the clocks drift.
        drift_at_ns: A time of the input.
    """

    offset_ns: int
    how: How
    error_ns: int | None = None
    contradicted_ns: int = 0
    drift_ppt: int = 0
    drift_at_ns: int = 0

    @property
    def shift(self) -> ClockShift:
        """How to convert the times of the input."""
        return ClockShift(self.offset_ns, self.drift_ppt, self.drift_at_ns)

    @property
    def aligned(self) -> bool:
        """Whether times of the input can be compared with others."""
        return self.how != "start"

    @property
    def note(self) -> str:
        """What was found from messages, for people; empty if it does not rest on any.

        >>> Alignment(5, "messages", 40, drift_ppt=10**6).note
        'by messages between hosts, within 40ns; its clock loses 1.00 us each second'
        >>> Alignment(5, "given", 0, 80_000).note
        'messages contradict its clock by 80us'
        """
        if self.how != "messages" and not self.contradicted_ns:
            return ""
        within = "error unknown" if self.error_ns is None else f"within {format_ns(self.error_ns)}"
        notes = [f"by messages between hosts, {within}"] if self.how == "messages" else []
        if self.drift_ppt:
            notes.append(f"its clock {drift_text(self.drift_ppt)}")
        if self.contradicted_ns:
            notes.append(f"messages contradict its clock by {format_ns(self.contradicted_ns)}")
        return "; ".join(notes)


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

    >>> from meantime.model.clocks import Clock
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

    >>> from meantime.model.clocks import Clock
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

    >>> from meantime.model.clocks import Clock
    >>> unknown = Clocked(Clock(), 0), Clocked(Clock(), 5)
    >>> align_all(unknown)[1][:4]
    (-5, 'start', None, 0)
    >>> align_all(unknown, {1: 7})[1][:4]
    (7, 'given', 0, 0)

    A message from one to the other was under way for some time, and so was the answer:

    >>> align_all(unknown, messages=[Message(0, 10, 1, 32), Message(1, 34, 0, 20)])[1][:4]
    (-18, 'messages', 4, 0)

    No message arrives before it was sent, whatever clocks say:

    >>> utc = Clocked(Clock(utc_at_origin_ns=0), 0), Clocked(Clock(utc_at_origin_ns=0), 0)
    >>> align_all(utc, messages=[Message(0, 100, 1, 20), Message(1, 20, 0, 102)])[1][:4]
    (81, 'messages', 1, 80)

    Half a second later the other clock has lost 50 us:

    >>> sent = [Message(0, 100, 1, 20), Message(1, 20, 0, 102)]
    >>> sent += [Message(0, 500_050_100, 1, 500_000_020), Message(1, 500_000_020, 0, 500_050_102)]
    >>> align_all(utc, messages=sent)[1].drift_ppt // 10**6
    100

    Args:
        inputs: The inputs.
        given_ns: By index of an input, what to add to its times, regardless of its clock.
        messages: What inputs sent to each other. They decide where nothing else is known of an
            input, if its offset has two bounds, and where they contradict UTC or a clock by more
            than its error. What was given stays, and says by how much they contradict it.
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
    known = [*messages]
    found, is_open = _bounded(found, _limits(known))
    return _drifting(found, is_open, known) if is_open else found


def _limits(messages: Iterable[Message]) -> dict[tuple[int, int], int]:
    """Return the most that `offset[sender] - offset[receiver]` can be, by both of them."""
    limits: dict[tuple[int, int], int] = {}
    for message in messages:
        key = message.sender, message.receiver
        limit_ns = message.received_ns - message.sent_ns
        if message.sender != message.receiver:
            limits[key] = min(limit_ns, limits.get(key, limit_ns))
    return limits


def _contradicted(
    found: list[Alignment], limits: Mapping[tuple[int, int], int]
) -> dict[int, tuple[int, bool]]:
    """Return the inputs whose alignment messages contradict, by how much, and whether it is late.

    Late is an input whose messages arrive before they were sent, as its offset is too large. Of two
    inputs other than the first, either may be wrong: it is the one that more limits contradict.
    """
    amounts: dict[int, tuple[int, bool]] = {}
    times: dict[int, int] = {}
    beyond = {}
    for (sender, receiver), limit_ns in limits.items():
        pair = found[sender], found[receiver]
        error_ns = sum(each.error_ns or 0 for each in pair)
        amount_ns = pair[0].offset_ns - pair[1].offset_ns - limit_ns
        if all(each.aligned for each in pair) and amount_ns > error_ns:
            beyond[sender, receiver] = amount_ns
            for index in (sender, receiver):
                times[index] = times.get(index, 0) + 1
    for (sender, receiver), amount_ns in beyond.items():
        movable = [index for index in (sender, receiver) if index]
        index = max(movable, key=lambda each: (times[each], each))
        if amount_ns > amounts.get(index, (0, False))[0]:
            amounts[index] = amount_ns, index == sender
    return amounts


def _bounded(
    found: list[Alignment], limits: Mapping[tuple[int, int], int]
) -> tuple[list[Alignment], set[int]]:
    """Replace what rests on nothing, or is contradicted, by what follows from messages.

    A message says `offset[sender] - offset[receiver] <= received - sent`. The least sum of such
    limits over any chain of inputs from one that is aligned, and to one, are the two bounds.

    Returns:
        The alignments, and the inputs for which no offset is right for all messages.
    """
    contradicted = _contradicted(found, limits)
    if not contradicted and all(each.aligned for each in found):
        return found, set()
    fixed = {
        index: each.offset_ns
        for index, each in enumerate(found)
        if each.aligned and (index not in contradicted or each.how == "given")
    }
    # of each input the most that its offset can be, and the least with the opposite sign
    high = _shortest(fixed, limits, len(found))
    low = _shortest(
        {index: -offset_ns for index, offset_ns in fixed.items()},
        {(receiver, sender): limit_ns for (sender, receiver), limit_ns in limits.items()},
        len(found),
    )
    result = list(found)
    drifting = {
        index
        for index in range(len(found))
        if index not in fixed and index in high and index in low and -low[index] > high[index]
    }
    for index, each in enumerate(found):
        amount_ns, is_late = contradicted.get(index, (0, False))
        if index in fixed:
            result[index] = each._replace(contradicted_ns=amount_ns)
        elif index in high and index in low and (amount_ns or index not in drifting):
            # where bounds exclude each other no offset is right everywhere, and none of a clock
            # that is unknown says anything
            middle = (high[index] - low[index]) // 2
            error_ns = abs(high[index] - middle)
            result[index] = Alignment(middle, "messages", error_ns, amount_ns)
        elif amount_ns:
            # the least that has to be added so that no message arrives before it was sent
            offset_ns = each.offset_ns + (-amount_ns if is_late else amount_ns)
            result[index] = Alignment(offset_ns, "messages", None, amount_ns)
    return result, drifting


def _drifting(
    found: list[Alignment], inputs: set[int], messages: Sequence[Message]
) -> list[Alignment]:
    """Return the alignments with a drift of these inputs, where one explains all messages.

    Each follows from the inputs that it exchanged messages with, as far as theirs are known.
    """
    from meantime.query.clock_lines import clock_line  # noqa: PLC0415 - for clocks that drift

    result, left = list(found), set(inputs)
    own: dict[int, list[Message]] = {index: [] for index in left}
    for message in messages:
        if message.sender != message.receiver:
            for index in left & {message.sender, message.receiver}:
                own[index].append(message)
    while left:
        done: set[int] = set()
        for index in sorted(left):
            others = [
                each.aligned and other not in left - done for other, each in enumerate(result)
            ]
            line = clock_line(*_bounds_of(index, own[index], result, others))
            if line is not None:
                result[index] = Alignment(
                    line.shift.offset_ns,
                    "messages",
                    line.error_ns,
                    found[index].contradicted_ns,
                    line.shift.drift_ppt,
                    line.shift.at_ns,
                )
                done.add(index)
        if not done:
            break
        left -= done
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


def _bounds_of(
    index: int, messages: Iterable[Message], found: Sequence[Alignment], is_known: Sequence[bool]
) -> tuple[list[Bound], list[Bound]]:
    """Return what messages with inputs that are known say of an offset: the most and the least."""
    most: list[Bound] = []
    least: list[Bound] = []
    for sender, sent_ns, receiver, received_ns in messages:
        if index == sender and is_known[receiver]:
            most.append((sent_ns, found[receiver].shift.of(received_ns) - sent_ns))
        elif index == receiver and is_known[sender]:
            least.append((received_ns, found[sender].shift.of(sent_ns) - received_ns))
    return most, least
