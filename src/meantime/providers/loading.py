"""A provider from a file: declared in TOML, or a Python file with a subclass of `StateProvider`."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from meantime.errors import ProviderError
from meantime.providers.base import StateProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ProviderLike", "load_provider", "provider_of"]

ProviderLike: TypeAlias = "StateProvider | type[StateProvider] | str | PathLike[str] | None"


class _Loader(SourceFileLoader):
    """Loads the current source of a file, without reading or writing cached bytecode."""

    def path_stats(self, path: str) -> Mapping[str, Any]:
        # without stats of the file, importlib neither reads nor writes bytecode
        raise OSError(path)


def provider_of(provider: ProviderLike) -> StateProvider | None:
    """Return a provider itself, an instance of its class, or the provider in a file.

    Raises:
        ProviderError: If the file cannot be read, or contains no provider.
    """
    if isinstance(provider, str | PathLike):
        return load_provider(provider)
    return provider() if isinstance(provider, type) else provider


def load_provider(path: str | PathLike[str]) -> StateProvider:
    """Return the provider in a file, by its suffix: `.toml` or `.py`.

    Raises:
        ProviderError: If the file cannot be read, or contains no provider.
    """
    name = fspath(path)
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ProviderError(f"{name}: cannot be read: {error.strerror}") from None
    if name.endswith(".toml"):
        from meantime.providers.declared import declare  # noqa: PLC0415 - only for TOML providers

        return declare(text, name)
    if not name.endswith(".py"):
        raise ProviderError(f"{name}: a provider is declared in a .toml file, or is in a .py file")
    import hashlib  # noqa: PLC0415 - 2 ms, for providers in files only

    provider = _in_python(name)
    provider.definition = hashlib.blake2b(text, digest_size=8).hexdigest()
    return provider


def _in_python(name: str) -> StateProvider:
    loader = _Loader(f"meantime_provider_{Path(name).stem}", name)
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    try:
        loader.exec_module(module)
        found = [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type)
            and issubclass(kind, StateProvider)
            # base classes that the file imports are not its providers
            and kind.__module__ == loader.name
        ]
        if len(found) == 1:
            return found[0]()
    except Exception as error:
        raise ProviderError(f"{_location(name, error)}: {type(error).__name__}: {error}") from error
    listed = ", ".join(kind.__name__ for kind in found) or "none"
    raise ProviderError(f"{name}: needs one subclass of meantime.StateProvider, and has {listed}")


def _location(name: str, error: Exception) -> str:
    """Return the line of the file where an error comes from."""
    if isinstance(error, SyntaxError) and error.filename == name:
        return f"{name}:{error.lineno}"
    import traceback  # noqa: PLC0415 - 5 ms, and only for errors

    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name
    ]
    return f"{name}:{lines[-1]}" if lines else name
