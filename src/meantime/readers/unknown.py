"""What an input is that no reader can read: for messages."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from meantime.readers.table.records import flattened

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["keys_of", "unknown"]

_MOST_KEYS = 8
_LONGEST_SHOWN = 60


def unknown(head: bytes, added: Sequence[str]) -> str:
    """Return what an input is that no reader recognises, and what to do."""
    if (keys := keys_of(head)) is not None:
        return (
            f"JSON with the keys {keys}: `meantime formats` lists what is read; if a line, or an"
            " object of an array, is an event, --columns time=NAME,name=NAME says which fields are"
            " its time and its name"
        )
    begins = _beginning(head)
    besides = f", and packages add {', '.join(added)}" if added else ""
    return (
        f"unknown format, which begins with {begins}: `meantime formats` lists what is read"
        f"{besides}; --format NAME reads it as one of these"
    )


def _beginning(head: bytes) -> str:
    """Return the first line of a text, or the first bytes of anything else."""
    line = head.lstrip().split(b"\n", 1)[0].strip()
    try:
        text = line[:_LONGEST_SHOWN].decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:
        return f"the bytes {head[:_MOST_KEYS].hex(' ')}"
    return f"the line {text!r}" if len(line) <= _LONGEST_SHOWN else f"the text {text!r}"


def keys_of(head: bytes) -> str | None:
    """Return the first keys of a JSON object, with those in it behind dots; None of others."""
    text = head.lstrip()
    if not text.startswith(b"{"):
        return None
    try:
        found = [*flattened(json.loads(text))]
    except (ValueError, RecursionError):
        # what is cut is not parsed
        names = re.findall(rb'"([^"\\]{1,40})"\s*:', text[:4096])
        found = list(dict.fromkeys(name.decode("utf-8", "replace") for name in names))
    more = f" and {len(found) - _MOST_KEYS} more" if len(found) > _MOST_KEYS else ""
    return ", ".join(name[:40] for name in found[:_MOST_KEYS]) + more if found else None
