"""Recordings of Python programs, `NAME.mtr`: tasks, event loops, pool workers and threads.

The format is specified in docs/reference/recording-format.md. Tasks become `Tasks/<site>/<id>`,
loops `Loops/<thread>`, pool threads `Workers/<thread>`, other threads `Threads/<thread>`, requests
`Requests/<method and route>/<id>`, callbacks of at least 0.1 ms `Callbacks/<function>/<id>`, tests
of pytest `Tests/<file>/<test>`. How a task ended is a state of one nanosecond, after which it has
none. Who woke, spawned or submitted whom are flows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from meantime.model.trace import Trace

__all__ = ["read"]


def read(path: str | os.PathLike[str], *, growing: bool = False, private: bool = False) -> Trace:
    """Return the trace that a recording's directory holds, also while it is being written.

    At the end of a process nothing more is known of its tasks and threads, so they are in no
    state from there on; with `growing`, they keep the state they are in. With `private`, commands
    have their arguments.

    Raises:
        InputError: If it is not a recording, or a file of it is not what it should be.
    """
    # the package is imported for every input, as the layout of a packed recording is in it
    from meantime.readers.recording.whole import Reading  # noqa: PLC0415 - see above

    return Reading(Path(path), growing=growing, private=private).trace
