from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import meantime

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(meantime.__path__, "meantime.")
    if not module.name.endswith("__main__")
)


def has_examples(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return False
    return ">>>" in Path(spec.origin).read_text()


@pytest.mark.parametrize("name", [name for name in MODULES if has_examples(name)])
def test_the_examples_in_docstrings_run(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)

    assert tried > 0
    assert failed == 0


def test_every_module_can_be_imported() -> None:
    for name in MODULES:
        import_module(name)
