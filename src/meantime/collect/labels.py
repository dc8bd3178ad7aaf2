"""Labels: what is said of the tasks made in a context, such as the request they serve."""

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
    """Put fields on the running task, and on the tasks it makes inside, as tags.

    The tasks made inside keep them to their end. Where nothing is recorded this does nothing.
    """
    label = "\0".join(part.replace("\0", " ") for field in fields.items() for part in field)
    encoded = label.encode("utf-8", "replace")[:_MAX_BYTES]
    token = _label.set(encoded)
    _recorder.label_current(encoded)
    try:
        yield
    finally:
        _recorder.label_current(b"")
        _label.reset(token)
