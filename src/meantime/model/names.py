"""Names that programs give to what they run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int32s

__all__ = ["merged_names", "without_addresses"]

_OBJECT = r"(<[^<>]*?) at 0x[0-9a-fA-F]+>"


def without_addresses(name: str) -> str:
    """Return a name without the addresses of objects, which differ from run to run.

    >>> without_addresses("<Foo object at 0x7f10b2c3d4e0>.run")
    '<Foo object>.run'
    >>> without_addresses("read at 0x10 of a.out"), without_addresses("look at 0xcafe>")
    ('read at 0x10 of a.out', 'look at 0xcafe>')
    """
    return re.sub(_OBJECT, r"\1>", name) if " at 0x" in name else name


def merged_names(names: Sequence[str], codes: Int32s) -> tuple[list[str], Int32s]:
    """Return names without addresses, each once, and the codes that refer to these.

    >>> import numpy as np
    >>> merged_names(["<Foo at 0x1>", "<Foo at 0x2>"], np.array([1, 0], np.int32))
    (['<Foo>'], array([0, 0], dtype=int32))
    """
    if not any(" at 0x" in name for name in names):
        return list(names), codes
    import numpy as np  # noqa: PLC0415 - rarely needed

    number: dict[str, int] = {}
    new = [number.setdefault(without_addresses(name), len(number)) for name in names]
    # codes of no name are negative
    return list(number), np.where(codes < 0, codes, np.array(new, np.int32)[codes])
