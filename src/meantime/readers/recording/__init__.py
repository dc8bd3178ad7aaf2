"""Recordings of Python programs, `NAME.mtr`: tasks, event loops, pool workers and threads.

The format is specified in docs/reference/recording-format.md. Tasks become `Tasks/<site>/<id>`,
loops `Loops/<thread>`, pool threads `Workers/<thread>`, other threads `Threads/<thread>`, requests
`Requests/<method and route>/<id>`, callbacks of at least 0.1 ms `Callbacks/<function>/<id>`, tests
of pytest `Tests/<file>/<test>`. How a task ended is a state of one nanosecond, after which it has
none. Who woke, spawned or submitted whom are flows.

The modules, from words to states:

- `layout`, `listing`: headers and limits; the processes and files in a directory.
- `pieces`, `tails`, `streams`: words that are read when they are needed, and each stream's words
  once.
- `merge`: the words of all streams as columns of records, in order of time.
- `facts`, `locations`: what a process recorded about itself, and the code locations that it
  numbered.
- `replay`: from records to states, shared by everything that reads recordings.
- `whole`, `entities`, `labels`, `samples`: from a replay to a trace, once (`Reading`).
- `requests`, `children`, `phases`, `processes`: requests and the tasks that their tasks wait for,
  the phases of tests, and how processes are related.
- `live`, `activity`: from a replay to sums, repeatedly while the recording grows (`LiveActivity`).
- `blocks`, `lag`: long steps of loops, and how late loops were.
- `packing`: a recording in one file.

The kinds and sizes of records are only in `collect/record_kinds.h`. The kernel `record_kinds` and
the recorder export them to Python by name, so a misspelt kind fails when the module is imported.
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
