"""What was read is freed with its last use, not at some later garbage collection.

The collector counts objects: a history of a few objects may have 30 MB of buffers.
"""

from __future__ import annotations

import gc
import shutil
from typing import TYPE_CHECKING
from weakref import ref

import pytest

import meantime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def garbage() -> Iterator[Callable[[Callable[[], object]], list[str]]]:
    """Returns the types of meantime that a function leaves to the garbage collector."""

    def left_by(function: Callable[[], object]) -> list[str]:
        function()  # imports, and what is made once
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        function()
        gc.collect()
        types = {type(each) for each in gc.garbage}
        return sorted(kind.__name__ for kind in types if kind.__module__.startswith("meantime."))

    yield left_by
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("postgres.statemap.gz", None),
        ("jobs.perf.gz", None),
        ("files.jsonl", None),
        ("files.jsonl", "files.toml"),
    ],
)
def test_an_open_history_of_a_trace_is_freed_at_once(
    root: Path,
    garbage: Callable[[Callable[[], object]], list[str]],
    name: str,
    provider: str | None,
) -> None:
    made_by = None if provider is None else root / "examples" / provider

    assert garbage(lambda: meantime.open(root / "examples" / name, provider=made_by)) == []


def test_a_history_in_a_directory_is_freed_at_once(
    root: Path, tmp_path: Path, garbage: Callable[[Callable[[], object]], list[str]]
) -> None:
    path = tmp_path / "x.mth"

    def build() -> None:
        shutil.rmtree(path, ignore_errors=True)
        meantime.build(root / "examples" / "postgres.statemap.gz", path=path)

    assert garbage(build) == []
    assert garbage(lambda: meantime.stats(meantime.open(path))) == []


def test_a_builder_is_freed_while_its_history_is_used() -> None:
    builder = meantime.HistoryBuilder()
    builder.modify(0, builder.quark("a"), "x")
    live = builder.history
    built = builder.close(5)
    reference = ref(builder)

    del builder

    assert live.state(0, 1) == built.state(0, 1)
    assert reference() is None
