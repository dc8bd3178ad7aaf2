"""A progress bar on a terminal's standard error, for work that takes over half a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from meantime.cli.terminal import can_redraw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

__all__ = ["count_bar", "progress_bar"]

PATIENCE_S = 0.5  # shorter reads show no bar, and do not import rich


@contextmanager
def count_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that takes how many are done, and how many there are; or None."""
    with progress_bar(what, counted=True) as report:
        yield report


@contextmanager
def progress_bar(
    what: str, *, counted: bool = False
) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that takes bytes done and bytes in all; None without a terminal."""
    if not can_redraw(sys.stderr):
        yield None
        return
    began = time.monotonic()
    bar: Progress | None = None

    def report(done_bytes: int, total_bytes: int) -> None:
        nonlocal bar
        if bar is None:
            if time.monotonic() - began < PATIENCE_S:
                return
            bar = _start(what, counted=counted)
        bar.update(bar.task_ids[0], completed=done_bytes, total=total_bytes or None)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()


def _start(what: str, *, counted: bool) -> Progress:
    from rich import progress  # noqa: PLC0415 - 60 ms that short runs need not pay
    from rich.console import Console  # noqa: PLC0415 - as above

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn() if counted else progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task(what, total=None)
    bar.start()
    return bar
