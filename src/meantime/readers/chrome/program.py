"""Detects the program that wrote a trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["program_of"]


def program_of(facts: Mapping[str, str], names: Collection[str]) -> str | None:
    """Return the program that wrote a trace with these facts and thread names; None if unknown.

    >>> program_of({"viztracer_metadata": '{"version": "1.1.1"}'}, [])
    'VizTracer 1.1.1'
    >>> program_of({}, ["CrRendererMain"])
    'Chromium'
    """
    metadata = _object(facts.get("metadata", ""))
    program = None
    if "viztracer_metadata" in facts:
        program = _versioned("VizTracer", _object(facts["viztracer_metadata"]).get("version"))
    elif "node" in facts:
        versions = _object(facts["node"]).get("versions")
        program = _versioned("Node.js", versions.get("node") if isinstance(versions, dict) else 0)
    elif "schemaVersion" in facts and "deviceProperties" in facts:
        program = "PyTorch"
    elif "beginningOfTime" in facts:  # written by -ftime-trace
        program = "clang"
    elif isinstance(product := metadata.get("product-version"), str):
        program = product
    elif "/host:CPU" in names:
        program = "XLA (JAX, TensorFlow)"
    elif metadata.get("source") == "DevTools" or {"CrBrowserMain", "CrRendererMain"} & set(names):
        program = "Chromium"
    return program


def _versioned(name: str, version: object) -> str:
    return f"{name} {version}" if isinstance(version, str) else name


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
