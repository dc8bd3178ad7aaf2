"""Classes of fields that are cheap to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["struct"]

_C = TypeVar("_C")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def struct(cls: type[_C]) -> type[_C]:
    """Make a dataclass with slots, without `==` and `repr`, and frozen for type checkers alone.

    A dataclass compiles its methods whenever its module is imported. Those that refuse assignments
    at run time take more than half of 0.7 ms, and `==`, hash and `repr` another 0.5 ms.
    """
    return dataclass(slots=True, eq=False, repr=False)(cls)
