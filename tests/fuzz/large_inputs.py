"""Inputs of any size, in which one thing is repeated."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from corpus import jfr_chunk

__all__ = ["flight_recording", "nsight", "varint"]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def flight_event(kind: int, content: bytes) -> bytes:
    body = varint(kind) + content
    size = len(body) + 4  # the size counts its own bytes, always four here
    return (
        bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21]) + body
    )


def flight_recording(samples: int, threads: int) -> bytes:
    """Return a chunk with more samples, and as many more constants of threads."""
    constants = b"".join(
        varint(each + 10) + varint(each + 10) + b"\x03\x01t" for each in range(threads)
    )
    checkpoint = b"\0\0\0\0\1" + varint(20) + varint(threads) + constants if threads else b""
    events = [flight_event(1, checkpoint)] if threads else []
    events += [
        flight_event(
            40, varint(1000 + each) + varint(each % threads + 10 if threads else 1) + b"\1\1"
        )
        for each in range(samples)
    ]
    return jfr_chunk(is_finished=False) + b"".join(events)


def nsight(rows: int) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        database.execute(
            "CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid, textId)"
        )
        numbers = range(1, rows + 1)
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(n, f"s{n}") for n in numbers])
        database.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, ?, ?)",
            ((n, n + 5, 1 << 24 | n % 99, n) for n in numbers),
        )
        database.commit()
        return bytes(database.serialize())
