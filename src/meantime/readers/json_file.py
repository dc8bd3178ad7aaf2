"""An input that is one JSON value, for formats that are small enough; decimals stay exact."""

from __future__ import annotations

import json
from decimal import Decimal, Overflow
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.readers.memory_limit import check_json

if TYPE_CHECKING:
    from meantime.readers.source import Source

__all__ = ["exact", "load_object", "parse_object"]

# Python's limit for integers: the time of converting more grows with their square.
_MAX_DIGITS = 4300


def exact(text: str) -> Decimal:
    """Parse a number exactly.

    >>> exact("1.50")
    Decimal('1.50')

    Raises:
        ArithmeticError: If it is not a number, or has too many digits before its point for
            integer arithmetic.
    """
    value = Decimal(text)
    if value.is_finite() and value.adjusted() >= _MAX_DIGITS:
        raise Overflow
    return value


def _reason(error: Exception) -> str:
    # the text of decimal's exceptions is only the names of their signals
    return "its exponent is too large" if isinstance(error, ArithmeticError) else str(error)


def load_object(source: Source) -> dict[str, Any]:
    """Return the JSON object in an input, its decimals as `Decimal`.

    Raises:
        InputError: If it is not JSON, or another value than an object.
    """
    source.makes_objects = True
    with source:
        text = bytes(source.whole()).decode("utf-8", "replace")
    return parse_object(source.name, text, source.most_memory)


def parse_object(name: str, text: str, most_memory: int | None = None) -> dict[str, Any]:
    """Return the JSON object in a text, its decimals as `Decimal`.

    Raises:
        InputError: If it is not JSON, another value than an object, or more than `most_memory`, or
            the memory there is, can hold.
    """
    check_json(name, text, most_memory)
    try:
        value = json.loads(text, parse_float=exact, parse_constant=Decimal, strict=False)
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode())
        raise InputError(
            name, f"{error.msg} (byte {offset})", line=error.lineno, offset=offset
        ) from None
    except (ArithmeticError, ValueError) as error:
        raise InputError(name, f"a number cannot be read: {_reason(error)}") from None
    except RecursionError:
        raise InputError(name, "the JSON is nested too deeply to be a profile") from None
    if not isinstance(value, dict):
        raise InputError(name, "a profile is a JSON object, but this is another value")
    return value
