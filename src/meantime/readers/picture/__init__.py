"""Pictures that hold what they were drawn of: those of meantime, statemap and flamegraph.pl.

Nothing is parsed as XML: a picture is searched for the data in it, of which no entity is expanded
but characters.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.readers.contract import lazy_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "picture"
TEXT = True

_OWN = b'<metadata data-block="head">'
_STATEMAP = re.compile(rb"g_statemaps\[\d+\] = \{")
# One that the program did not write itself, so that what it holds is not what is seen.
_ENTITY = b"<!ENTITY"
_MALFORMED = (
    ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole picture. Of the options, `lenient` is used.

    Raises:
        InputError: From the batches, if the picture is malformed, or does not hold its data.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        data = bytes(source.whole())
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    if _ENTITY in data:
        raise InputError(source.name, "the picture declares entities of XML, which are not read")
    if _OWN in data:
        kind = "own"
    elif _STATEMAP.search(data) is not None:
        kind = "statemap_svg"
    else:
        kind = "flamegraph_svg"
    module = import_module(f"meantime.readers.picture.{kind}")
    try:
        yield from module.batches(data, trace, lenient=options.lenient)
    except _MALFORMED as error:
        raise InputError(
            source.name,
            f"the data in the picture are malformed ({str(error) or type(error).__name__}): draw"
            " it again, or open the trace itself",
        ) from None
