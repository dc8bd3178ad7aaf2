"""Calls back when a module has been imported, without importing it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, SupportsIndex

__all__ = ["ImportWatch", "unfinished_import"]


def unfinished_import(names: Iterable[str]) -> str | None:
    """Return a module that is being imported, of the packages of these; None if there is none.

    A signal may arrive in the middle of an import, when a module has only some of its parts.
    """
    packages = {name.partition(".")[0] for name in names}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages:
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                return name
    return None


class ImportWatch:
    """Calls a function once for each of some modules: now, or once the module is imported.

    It is the first entry of `sys.meta_path` but finds nothing itself: it replaces the loader that
    another finder returns, until the module is executed.
    """

    def __init__(self, callbacks: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = {}
        for name, callback in callbacks.items():
            # a module that is still being imported is here, too: its import continues afterwards
            if (module := sys.modules.get(name)) is not None:
                callback(module)
            else:
                self._waiting[name] = callback
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch no longer."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec from another finder, with a loader that also calls the callback."""
        # removed meanwhile: a finder below may import the module itself, which comes here again
        callback = self._waiting.pop(name, None)
        if callback is None:
            return None
        spec: ModuleSpec | None = None
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec = find(name, path, target)
                if spec is not None:
                    break
        finally:
            if self in sys.meta_path:
                # it still waits: a program may only ask whether there is such a module
                self._waiting[name] = callback
        if spec is not None and hasattr(spec.loader, "exec_module"):
            loader: Any = _Watched(spec, self)
            spec.loader = loader
        return spec

    def executed(self, name: str, module: ModuleType) -> None:
        """Call the callback of a module that has been executed, at the first time."""
        callback = self._waiting.pop(name, None)
        if callback is not None:
            callback(module)


class _Watched:
    """Loads one module as its loader does, and then calls a function.

    The loader itself is left alone: one may be of many modules, as that of all built-in ones is.
    """

    def __init__(self, spec: ModuleSpec, watch: ImportWatch) -> None:
        self._spec = spec
        self._loader: Any = spec.loader
        self._watch = watch

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Return what copies the loader: a copy of a spec is not of the import that is watched."""
        return self._loader.__reduce_ex__(protocol)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which sees its own loader."""
        self._spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._watch.executed(self._spec.name, module)
