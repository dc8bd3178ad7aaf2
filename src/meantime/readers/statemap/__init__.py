"""Statemap input: concatenated JSON payloads, as the original statemap program reads them.

<https://github.com/oxidecomputer/statemap> describes the format. In addition, this reader accepts
metadata anywhere, times as numbers, states by name, and a numeric `value` in a datum.
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
