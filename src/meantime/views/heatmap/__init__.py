"""Subsecond-offset heat maps: drawings of the cells of a fold."""

from __future__ import annotations

from meantime.errors import UsageError

__all__ = ["RATIOS", "refuse_ratio"]

# What cells have instead of nanoseconds.
RATIOS = ("concurrency", "utilisation")


def refuse_ratio(value: str | None, form: str) -> None:
    """Refuse to draw ratios, which only JSON has.

    Raises:
        UsageError: If the value is a ratio, and the form is not `json`.
    """
    if value in RATIOS and form != "json":
        raise UsageError(
            f"--value {value} applies to .json; pictures have --value ns, with the same colours"
        )
