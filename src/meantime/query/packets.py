"""The packets of TCP that one host sent and another received, as their kernels saw them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.query.aligning import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History

__all__ = ["Packet", "SeenPacket", "is_of_packets", "packets_between", "packets_seen"]

# What sends and what receives, by the place where both see the same packets: the sockets, and the
# devices, where a packet may be a part of what the socket has sent.
_PLACES = {
    "inet_sock_local_out": ("socket", True),
    "inet_sock_local_in": ("socket", False),
    "net_dev_queue": ("device", True),
    "netif_receive_skb": ("device", False),
}


class Packet(NamedTuple):
    """What a packet is known by on both sides."""

    place: str
    seq: int
    ack_seq: int
    flags: int


class SeenPacket(NamedTuple):
    """A packet that a kernel sent or received.

    Attributes:
        packet: The packet.
        is_sent: Whether it was sent there.
        time_ns: When.
    """

    packet: Packet
    is_sent: bool
    time_ns: int


def packets_between(hosts: Sequence[Sequence[SeenPacket]]) -> list[Message]:
    """Return the packets between hosts: each was sent before it was received.

    A packet that is sent, or received, more than once is left out: which of them arrived, nobody
    knows.

    Args:
        hosts: What each host saw.
    """
    sent: dict[Packet, tuple[int, int] | None] = {}
    received: dict[Packet, tuple[int, int] | None] = {}
    for index, own in enumerate(hosts):
        for packet, is_sent, time_ns in own:
            known = sent if is_sent else received
            known[packet] = None if packet in known else (index, time_ns)
    found = []
    for packet, sender in sent.items():
        receiver = received.get(packet)
        if sender is not None and receiver is not None and sender[0] != receiver[0]:
            found.append(Message(*sender, *receiver))
    return found


def is_of_packets(event: str) -> bool:
    """Return whether an event of this name is a packet that was sent or received.

    >>> is_of_packets("net_dev_queue"), is_of_packets("net:net_dev_queue"), is_of_packets("x")
    (True, True, False)
    """
    return event.rpartition(":")[2] in _PLACES


def packets_seen(history: History) -> list[SeenPacket]:
    """Return the packets that were sent or received where a history was recorded."""
    found: list[SeenPacket] = []
    points = history.points()
    places = {code: _PLACES[name] for code, name in enumerate(points.name.names) if name in _PLACES}
    if not places:
        return found
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
        packet = Packet(place, fields["seq"], fields["ack_seq"], fields["flags"])
        found.append(SeenPacket(packet, is_sent, time_ns))
    return found
