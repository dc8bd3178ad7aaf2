from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import meantime

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(meantime.__path__, "meantime.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)

    assert failed == 0
