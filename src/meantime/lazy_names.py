"""Names of a package whose submodules are imported when one of them is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["imported_on_use"]


def imported_on_use(package: str, homes: "Mapping[str, str]") -> "Callable[[str], object]":
    """Return the `__getattr__` of a package, given the submodule of each of its names."""

    def found(name: str) -> object:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found
