"""What a history is built from: the contents of an input, and a provider."""

from __future__ import annotations

import hashlib
import inspect
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.history.directory import is_history
from meantime.model.input_path import (
    NO_PROVIDER,
    format_for,
    is_clock_repair_wanted,
    is_private_wanted,
    is_scheduling_wanted,
    mapping_for,
)
from meantime.stores import is_url, version_of

if TYPE_CHECKING:
    import os

    from meantime.providers import StateProvider

__all__ = ["can_be_read_again", "fingerprint", "provenance_of", "staleness_reason"]

# Smaller inputs are hashed whole; of larger ones this many blocks, so that a check stays cheap.
_WHOLE_BYTES = 1 << 26
_BLOCKS = 256
_BLOCK_BYTES = 1 << 16
_LABELS = {
    "provider": "the provider",
    "provider_version": "provider version",
    "reorder_ns": "reorder_ns",
    "lenient": "lenient",
    "columns": "columns",
    "format": "format",
    "include": "include",
    "repair_clocks": "repair-clocks",
}


def provenance_of(
    trace: str | os.PathLike[str],
    provider: StateProvider | None,
    *,
    lenient: bool,
    in_memory: bool = False,
) -> dict[str, str]:
    """Return the provenance of a history of this trace, as `History.provenance` has it.

    It has no fingerprint if the trace can be read only once, nor in memory, where the history is
    never compared with the trace: that would read it twice.

    Raises:
        InputError: If the trace cannot be read, or is a history.
    """
    if is_history(trace):
        raise InputError(
            fspath(trace), "this is a finished history; a build needs the original trace"
        )
    provenance = {"source": Path(trace).name}
    if not in_memory and (digest := fingerprint(trace)) is not None:
        provenance["fingerprint"] = digest
    if lenient:
        provenance["lenient"] = "yes"
    if (mapping := mapping_for(trace)) is not None:
        provenance["columns"] = mapping.key
    provenance |= _choices(trace)
    if provider is not None:
        provenance["provider"] = provider.name
        provenance["provider_version"] = str(provider.version)
        if provider.reorder_ns:
            provenance["reorder_ns"] = str(provider.reorder_ns)
        if definition := _definition_of(provider):
            provenance["provider_definition"] = definition
    return provenance


def _choices(trace: str | os.PathLike[str]) -> dict[str, str]:
    """Return what is given with a path about how the trace there is read, but for columns."""
    found = {}
    if (format_ := format_for(trace)) is not None:
        found["format"] = format_
    if is_private_wanted(trace):
        found["include"] = "env"
    if is_clock_repair_wanted(trace):
        found["repair_clocks"] = "yes"
    if not is_scheduling_wanted(trace):
        found["provider"] = NO_PROVIDER
    return found


def _definition_of(provider: StateProvider) -> str:
    if provider.definition is not None:
        return provider.definition
    try:
        source = inspect.getsource(type(provider))
    except (OSError, TypeError):
        return ""  # a class that was typed into a prompt has no source
    return hashlib.blake2b(source.encode(), digest_size=8).hexdigest()


def staleness_reason(kept: dict[str, str], now: dict[str, str]) -> str | None:
    """Return why a history with one provenance cannot replace one with another; None if it can.

    Args:
        kept: The provenance of the history that exists.
        now: The provenance of the one that would be built.
    """
    if "fingerprint" not in now:
        return "a pipe cannot be read again"
    if "fingerprint" not in kept:
        return "it does not record what it was built from"
    if kept["fingerprint"] != now["fingerprint"]:
        return "the trace has changed"
    for part, label in _LABELS.items():
        before, after = kept.get(part), now.get(part)
        if before != after:
            return f"{label} changed from {before or 'none'} to {after or 'none'}"
    if kept.get("provider_definition") != now.get("provider_definition"):
        return "the provider's code has changed"
    return None


def can_be_read_again(path: str | os.PathLike[str]) -> bool:
    """Return whether an input is a file, a directory or an object in a store, not a pipe."""
    if is_url(path):
        return True
    input_path = Path(path)
    return str(path) != "-" and (input_path.is_file() or input_path.is_dir())


def fingerprint(path: str | os.PathLike[str]) -> str | None:
    """Return a digest that differs between inputs; None if the input can be read only once.

    For a large file it covers the modification time, the size, and samples of the contents; for an
    object in a store, what the store says of its version, if it does.

    Raises:
        InputError: If the input cannot be read.
    """
    if is_url(path):
        return version_of(fspath(path))
    input_path = Path(path)
    if not can_be_read_again(path):
        if str(path) == "-" or input_path.exists():
            return None
        raise InputError(str(path), "there is no such file")
    digest = hashlib.blake2b(digest_size=16)
    try:
        parts = sorted(part for part in input_path.rglob("*") if part.is_file())
        for part in parts:
            digest.update(f"{part.relative_to(input_path)}\0".encode())
            _add(digest, part)
        if input_path.is_file():
            _add(digest, input_path)
    except OSError as error:
        raise InputError(str(path), f"it cannot be read ({error.strerror})") from None
    return digest.hexdigest()


def _add(digest: hashlib.blake2b, path: Path) -> None:
    with path.open("rb") as file:
        status = path.stat()
        size = status.st_size
        digest.update(f"{size}\0".encode())
        if size <= _WHOLE_BYTES:
            while block := file.read(1 << 20):
                digest.update(block)
            return
        # an edit between the sampled blocks changes the modification time
        digest.update(f"{status.st_mtime_ns}\0".encode())
        for part in range(_BLOCKS):
            file.seek(part * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
