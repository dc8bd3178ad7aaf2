"""The packets of TCP that one host sent and another received, as their kernels saw them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.query.aligning import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history.history import History

__all__ = ["packets_between"]

# What sends and what receives, by the place where both see the same packets: the sockets, and the
# devices, where a packet may be a part of what the socket has sent.
_PLACES = {
    "inet_sock_local_out": ("socket", True),
    "inet_sock_local_in": ("socket", False),
    "net_dev_queue": ("device", True),
    "netif_receive_skb": ("device", False),
}


class _Packet(NamedTuple):
    """What a packet is known by on both sides."""

    place: str
    seq: int
    ack_seq: int
    flags: int


def packets_between(histories: Sequence[History]) -> list[Message]:
    """Return the packets between histories: each was sent before it was received.

    A packet that is sent, or received, more than once is left out: which of them arrived, nobody
    knows.
    """
    sent: dict[_Packet, tuple[int, int] | None] = {}
    received: dict[_Packet, tuple[int, int] | None] = {}
    for index, history in enumerate(histories):
        for time_ns, packet, is_sent in _packets(history):
            known = sent if is_sent else received
            known[packet] = None if packet in known else (index, time_ns)
    found = []
    for packet, sender in sent.items():
        receiver = received.get(packet)
        if sender is not None and receiver is not None and sender[0] != receiver[0]:
            found.append(Message(*sender, *receiver))
    return found


def _packets(history: History) -> Iterator[tuple[int, _Packet, bool]]:
    """Yield the time of each packet, what it is, and whether it was sent."""
    points = history.points()
    places = {code: _PLACES[name] for code, name in enumerate(points.name.names) if name in _PLACES}
    if not places:
        return
    rows = np.flatnonzero(np.isin(points.name.codes, [*places]) & (points.arguments_length > 0))
    length = points.arguments_length[rows]
    begins, parts = joined_texts(points.text, points.arguments_offset[rows], length)
    text = b"".join(part.tobytes() for part in parts)
    ends = begins + length
    times = points.time_ns[rows].tolist()
    codes = points.name.codes[rows].tolist()
    for code, time_ns, begin, end in zip(codes, times, begins.tolist(), ends.tolist(), strict=True):
        fields = json.loads(text[begin:end])
        place, is_sent = places[code]
        yield time_ns, _Packet(place, fields["seq"], fields["ack_seq"], fields["flags"]), is_sent
