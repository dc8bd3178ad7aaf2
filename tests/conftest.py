"""Where the data for tests lies, and what the tests need of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout: for tests of what is not installed, such as the documents."""
    return ROOT


@pytest.fixture(scope="session")
def samples() -> Path:
    """The small traces that come with the project; `README.md` there says where from."""
    return ROOT / "tests" / "samples"


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The large recorded traces, which do not come with the project."""
    if not RECORDINGS.is_dir():
        pytest.skip("the large recordings are not here: they belong in ../shared/data")
    return RECORDINGS
