"""Labels: fields of the tasks created in a context, such as the request they serve."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from meantime.collect import _recorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["labelled"]

_MAX_BYTES = 1000

_label: ContextVar[bytes] = ContextVar("meantime_label")
_recorder.configure_labels(_label)


@contextmanager
def labelled(fields: Mapping[str, str]) -> Iterator[None]:
    """Tag the running task, and the tasks it creates inside the block, with these fields.

    Tasks created inside keep them to their end. Without a recording, this has no effect.
    """
    # encoded once per block rather than once per task: a hook copies the bytes into a record
    label = "\0".join(part.replace("\0", " ") for field in fields.items() for part in field)
    encoded = label.encode("utf-8", "replace")[:_MAX_BYTES]
    token = _label.set(encoded)
    _recorder.label_current(encoded)
    try:
        yield
    finally:
        _recorder.label_current(b"")
        _label.reset(token)
