"""What `meantime attach` and an enabled process say to each other: one datagram each."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MAX_BYTES", "ROOM", "address", "decoded", "encoded", "sender_of"]

MAX_BYTES = 16384
# for the sender's process, user and group, which the kernel adds
ROOM = 64
_SCM_CREDENTIALS = 2
_FIRST = "meantime 1"


def address(pid: int) -> bytes:
    """Return the name of a process's socket: it is not a file."""
    return b"\0meantime/%d" % pid


def encoded(fields: Mapping[str, object]) -> bytes:
    """Return the datagram with these fields."""
    lines = [f"{name}={_escaped(str(value))}" for name, value in fields.items()]
    return "\n".join([_FIRST, *lines]).encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> dict[str, str]:
    """Return the fields of a datagram.

    Raises:
        ValueError: If it is none of this protocol.
    """
    first, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    if first != _FIRST:
        raise ValueError("this is another version of meantime")
    pairs = [line.partition("=") for line in lines]
    return {name: value.replace("%n", "\n").replace("%p", "%") for name, _, value in pairs}


def sender_of(ancillary: Iterable[tuple[int, int, bytes]]) -> tuple[int, int]:
    """Return the process and the user that sent a datagram, as the kernel says.

    Raises:
        ValueError: If the kernel said nothing.
    """
    for _, kind, data in ancillary:
        if kind == _SCM_CREDENTIALS and len(data) >= 12:
            pid, uid = (int.from_bytes(data[at : at + 4], sys.byteorder) for at in (0, 4))
            return pid, uid
    raise ValueError("the sender is not known")


def _escaped(text: str) -> str:
    return text.replace("%", "%p").replace("\n", "%n")
