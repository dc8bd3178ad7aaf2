"""Statemap input: concatenated JSON payloads, as the original statemap program reads them.

<https://github.com/oxidecomputer/statemap> describes the format. In addition, this reader accepts
metadata anywhere, times as numbers, states by name, and a numeric `value` in a datum.

With `ReadOptions.start` and `end` the reader leaves out states that are not in a range; no other
reader does, since elsewhere the history of all takes a tenth of the reading. What is left keeps
every answer about the range the same: a state in it keeps its beginning and its end, and an entity
its last change. Outside of the range the latest change of an entity waits in the scanner, and
becomes a row only if no other follows there. It counts what it leaves out by entity
(`TraceMetadata.left_out`), and the view adds that to its own counts. Such a history has `range_ns`
in its metadata, and is never stored.

All of the file is read even so: times ascend by entity only, the end is the last datum, and what
follows the range decides which rows there are and whether the file is correct. The reader converts
the times of the range, since a date needs the trace's clock, which is known with the states.

One thread scans. A second one needs larger blocks, which leave the second-level cache, and its
rows have to be copied: that took a third more CPU time, and saved no time on two processors. A
drawing of a file builds a history as well, though only one view needs it. Adding and sealing
changes takes 11 ns of the 80 to 150 ns that the whole command takes for an event. A form for
drawings alone must also drop repeated states and pack the others by entity, which is most of that
work.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

from meantime.readers.statemap.metadata import METADATA_KEYS

if TYPE_CHECKING:
    from meantime.model.trace import State, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "defined_states", "read", "recognises"]

FORMAT = "statemap"
TEXT = True

_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]')
_KEYS = {*METADATA_KEYS, "time", "entity", "state", "tag", "event", "target", "description"}
_DISTINCTIVE = (b'"states"', b'"entityKind"', b'"state"', b'"entity"')
# What logs do not have under these names, whose states are texts and whose times are dates.
_STATES = re.compile(rb'"states"\s*:\s*\{')
_TIME = re.compile(rb'"time"\s*:\s*"?\d+"?\s*(?:[,}]|\Z)')


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like a statemap.

    >>> recognises(b'{"start": [0, 0], "states": {', "x"), recognises(b'{"traceEvents": [', "x")
    (True, False)
    """
    text = head.lstrip()
    if not text.startswith((b"{", b"[")):
        return False
    is_named = ".statemap" in name.lower()
    if not is_named and not any(key in text for key in _DISTINCTIVE):
        # reading the beginning of any other JSON token by token takes 20 ms
        return False
    keys = _keys_of_first_object(text)
    if is_named and (not keys or keys & _KEYS):
        return True
    if "entityKind" in keys or ("states" in keys and _STATES.search(text) is not None):
        return True
    # what is cut may begin with a datum, the description of an entity, or a tag
    if "time" in keys:
        return "entity" in keys and _TIME.search(text) is not None
    return {"entity", "description"} == keys or {"state", "tag"} <= keys


def _keys_of_first_object(text: bytes) -> set[str]:
    """Return the keys at the top level of the first object, as far as it is in `text`."""
    keys: set[str] = set()
    depth = 0
    for match in _TOKEN.finditer(text):
        match match[0][:1]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth == 0:
                    break
            case _ if depth == 1 and match[2]:
                keys.add(match[1].decode(errors="replace"))
    return keys


def defined_states(source: Source, *, lenient: bool = False) -> tuple[State, ...] | None:
    """Return the states defined at the beginning of an input; None if there are none there.

    Args:
        source: The input; records that cannot be read are skipped.
        lenient: Whether unknown keys and colors are, too.
    """
    from meantime.errors import InputError  # noqa: PLC0415 - as below
    from meantime.readers.contract import ReadOptions  # noqa: PLC0415 - as below
    from meantime.readers.source import Source  # noqa: PLC0415 - as below
    from meantime.readers.statemap.reader import Reader  # noqa: PLC0415 - as below
    from meantime.readers.window import Window  # noqa: PLC0415 - as below

    head = source.head()
    if not recognises(head, source.name):
        return None
    window = Window(Source(source.name, BytesIO(head)), block_bytes=len(head) + 1)
    try:
        options = ReadOptions(lenient=True)
        return Reader(window, options, ahead=True, forgives=lenient).find_states()
    except InputError:
        return None


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; it is read while its batches are consumed.

    Consuming them raises `InputError` at the first malformed payload, unless reading is lenient.
    Data later than `until_ns` are left out unchecked, as the original statemap program does with
    data behind its window; the bounds still include the last datum.
    """
    from meantime.readers.statemap.reader import (  # noqa: PLC0415 - recognising needs no NumPy
        reader_for,
    )

    return reader_for(source, options).trace
