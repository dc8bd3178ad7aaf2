"""JSON values for pages, whose numbers have too few digits for times."""

from __future__ import annotations

from typing import Any

__all__ = ["document"]


def document(value: Any, key: str = "") -> Any:
    """Return JSON values in which times are texts.

    >>> document({"end_ns": 5, "lost_ns": [[1, 2]], "count": 3})
    {'end_ns': '5', 'lost_ns': [['1', '2']], 'count': 3}
    """
    if isinstance(value, dict):
        return {name: document(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        if not key.endswith("_ns") and value and isinstance(value[0], str | int | float):
            # long columns are of one kind
            return value
        return [document(each, key) for each in value]
    if key.endswith("_ns") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if key.endswith("_ns") and isinstance(value, float):
        return str(round(value))
    return value
