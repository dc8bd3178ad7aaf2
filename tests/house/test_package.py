"""What was installed is what the sources hold."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

SUFFIX = re.compile(r"\.(abi3|cpython-\d+)[^.]*\.so$")
KERNEL = {".pyx", ".pxd", ".pxi", ".c", ".cpp", ".h"}


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        # a Python 2 that is started under a recording caches its compiled files beside the sources
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def test_every_source_is_installed_and_nothing_else(root: Path) -> None:
    spec = find_spec("meantime")
    assert spec
    assert spec.origin
    installed = Path(spec.origin).parent
    source = root / "src" / "meantime"
    if installed == source:
        pytest.skip("meantime runs from the checkout, not from an installed wheel")
    sources = files(source)
    compiled = {name.removesuffix(".pyx") for name in sources if name.endswith(".pyx")}
    compiled.add("kernels/_shared")  # what Cython generates for all kernels together
    expected = {name for name in sources if Path(name).suffix not in KERNEL | {".so"}}

    found = files(installed)

    assert {name for name in found if not name.endswith(".so")} == expected
    # a wheel for several Pythons has one module for all of them, or of each name one for each
    assert {SUFFIX.sub("", name) for name in found if name.endswith(".so")} == compiled
