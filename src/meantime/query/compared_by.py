"""What the rows of a comparison may be of; the help of commands needs it without NumPy."""

from typing import Literal, TypeAlias

__all__ = ["BELOW", "By", "GroupBy"]

# Between a function and what called it, in words.
BELOW = " < "
# groups of spans, as `query.groups` makes them
GroupBy: TypeAlias = Literal["request", "route", "function", "site"]
By: TypeAlias = Literal[
    "state",
    "entity",
    "tag",
    "name",
    "category",
    "thread",
    "lane",
    "stack",
    GroupBy,
    "budget",
    "conclusion",
]
