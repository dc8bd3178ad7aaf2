"""A whole input as one JSON value, for formats that are small enough; decimals stay exact."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError

if TYPE_CHECKING:
    from meantime.readers.source import Source

__all__ = ["load_object"]


def load_object(source: Source) -> dict[str, Any]:
    """Return the object that the input holds, its decimals as `Decimal`.

    Raises:
        InputError: If it is not JSON, or not an object.
    """
    with source:
        text = bytes(source.whole()).decode("utf-8-sig", "replace")
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=Decimal, strict=False)
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode())
        raise InputError(
            source.name, f"{error.msg} (byte {offset})", line=error.lineno, offset=offset
        ) from None
    except ValueError as error:
        raise InputError(source.name, f"a number cannot be read: {error}") from None
    except RecursionError:
        raise InputError(source.name, "the JSON is nested too deeply to be a profile") from None
    if not isinstance(value, dict):
        raise InputError(source.name, "a profile is a JSON object, this is another value")
    return value
