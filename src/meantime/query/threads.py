"""Processes and threads of a history, identified by ids and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import MeantimeError
from meantime.history.span_attributes import are_in_threads
from meantime.model.attribute_paths import (
    ASYNC,
    STATUS,
    THREADS,
    host_and_path,
    is_in_thread,
    process_id,
    process_path,
)
from meantime.model.attributes import entity_name
from meantime.model.columns import distinct
from meantime.query.filtering import matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s

__all__ = [
    "Thread",
    "choose_rows",
    "choose_threads",
    "host_of",
    "numbered",
    "on_host",
    "process_title",
    "sampled_or_spanned",
    "thread_of",
    "thread_quarks",
    "thread_title",
    "threads_of",
]

# An error names so many spans.
_MOST_NAMES = 5


class Thread(NamedTuple):
    """The owner of spans or samples: a thread, or another attribute of a process.

    Attributes:
        pid: The process, a number where it is one.
        tid: The thread; None if it is not a thread, such as an async operation.
        process: The name of the process, if known; in a joined history after that of its host.
        name: The name of the thread, if known; without a process, after that of its host.
        path: The attribute below the process, as text, where there is no thread.
    """

    pid: int | str
    tid: int | str | None
    process: str | None
    name: str | None
    path: str | None


def numbered(text: str) -> int | str:
    """Return a number if the text is one as a program would print it, otherwise the text.

    >>> numbered("7"), numbered("-1"), numbered("07"), numbered("GPU")
    (7, -1, '07', 'GPU')
    """
    digits = text.removeprefix("-")
    if digits.isdecimal() and digits.isascii() and len(digits) < 20:
        return int(text) if digits[0] != "0" or text == "0" else text
    return text


def host_of(history: History, quark: int) -> str:
    """Return the host of a joined history that an attribute is of; of another one, its own."""
    host, _ = host_and_path(history.attributes.path(quark))
    return host or history.clock.host or history.title or "history"


def thread_of(history: History, quark: int) -> Thread:
    """Return the thread whose spans are at this attribute."""
    return threads_of(history, [quark])[0]


def threads_of(history: History, quarks: Iterable[int]) -> list[Thread]:
    """Return the thread whose spans are at each of these attributes."""
    attributes, names = history.attributes, history.names
    listed = [*quarks]
    own = attributes.names(listed)  # checks them, which `parents` does not
    above = attributes.parents(np.array(listed, np.int32)).tolist()
    processes: dict[int, tuple[int | str, str | None]] = {}
    found = []
    for quark, last, parent in zip(listed, own, above, strict=True):
        if (process := processes.get(parent)) is not None:
            # most are threads of a process that others were of
            found.append(Thread(process[0], numbered(last), process[1], names.get(quark), None))
            continue
        path = attributes.path(quark)
        # the states of a thread are an attribute below it
        path = path[:-1] if path[-1] == STATUS and len(path) > 1 else path
        whole_path = path
        host, path = host_and_path(path)
        if len(path) >= 4 and (pid := process_id(path)) is not None:
            of_process = whole_path[: len(whole_path) - len(path) + 2]
            name = on_host(host, names.get(attributes.quark(*of_process))) or None
            is_thread = is_in_thread(path)
            if is_thread and len(path) == 4:
                processes[parent] = numbered(pid), name
            thread = Thread(
                numbered(pid),
                numbered(path[3]) if is_thread else None,
                name,
                names.get(quark),
                None if is_thread else "/".join(path[2:]),
            )
        else:
            # outside a process, the whole path identifies an attribute
            whole = path[1] if len(path) == 2 and path[0] == THREADS else entity_name(path)
            name = on_host(host, names.get(quark)) or None
            thread = Thread("", numbered(whole), None, name, None)
        found.append(thread)
    return found


def on_host(host: str, name: str | None) -> str:
    """Return the name of something on a host of a joined history; empty if it has none.

    >>> on_host("web1", "app"), on_host("", "app")
    ('web1 app', 'app')
    """
    return " ".join(filter(None, [host, name]))


def thread_title(whose: Thread) -> str:
    """Return the title of a thread: names and ids of its process and of itself.

    >>> thread_title(Thread(1, 2, "app", "main", None))
    'app 1 / main 2'
    """
    own = str(whose.tid)
    if whose.tid is None and whose.path is not None:
        own = whose.path.removeprefix(f"{ASYNC}/")
    own = f"{whose.name} {own}" if whose.name else own
    if whose.pid == "":
        return own
    process = f"{whose.process} {whose.pid}" if whose.process else str(whose.pid)
    return f"{process} / {own}"


def process_title(history: History, quark: int) -> str:
    """Return the title of the process of an attribute; empty if it is in none."""
    pid = process_id(history.attributes.path(quark))
    if pid is None:
        return ""
    process = history.find(*process_path(pid))
    name = None if process is None else history.names.get(process)
    return f"{name} {pid}" if name else pid


def thread_quarks(history: History) -> Int32s:
    """Return the threads that have spans, in the order of the table; async operations are none."""
    # no thread is a derived attribute, and deriving takes time
    attributes = history.without_derived().attributes
    threads = history.spans().threads
    return threads[are_in_threads(attributes, threads)]


def choose_threads(history: History, pattern: str) -> Int32s:
    """Return the threads with spans or samples that a filter matches.

    The filter is compared with the thread's id, its name, and `PROCESS/THREAD`, each an id or a
    name; see `matching`.

    >>> from meantime.testing import history_from_spans
    >>> history = history_from_spans({"main": [("a", 0, 9)], "pool-1": [("b", 0, 9)]})
    >>> choose_threads(history, "1/pool").tolist() == [history.quark("Processes", "1",
    ...     "Threads", "pool-1")]
    True

    Raises:
        MeantimeError: If it matches none of them.
        UsageError: If it is not a regular expression.
    """
    quarks = sampled_or_spanned(history)
    chosen = _chosen(pattern, [_called(thread_of(history, quark)) for quark in quarks.tolist()])
    if not chosen.any():
        raise MeantimeError(
            f"the filter {pattern!r} matches no thread with spans or samples"
            f"{_named_so(history, pattern)}"
        )
    return quarks[chosen]


def _named_so(history: History, pattern: str) -> str:
    """Return what to do if names of spans match what was given as a filter of threads."""
    column = history.spans().name
    names = [column.names[code] for code in distinct(column.codes).tolist() if code >= 0]
    is_meant = matching(pattern, names)
    found = [*filter(is_meant, names)]
    if not found:
        return ""
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    named = f", but names of spans: {', '.join(found[:_MOST_NAMES])}{more}"
    return f"{named}; --longest, --callers and --histogram take one of these, and SQL any of them"


def sampled_or_spanned(history: History) -> Int32s:
    """Return the threads with spans, and then those with samples only."""
    sampled = distinct(history.samples().thread)
    quarks = dict.fromkeys([*thread_quarks(history).tolist(), *sampled.tolist()])
    return np.array(list(quarks), np.int32)


def choose_rows(history: History, quarks: Int32s, pattern: str) -> Int32s:
    r"""Return those of some attributes that a filter matches; none if it matches none.

    The filter is compared with the name of the entity, and for an attribute of a thread also with
    what `choose_threads` compares; see `matching`.

    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("cpu1  a\ncpu10 b")
    >>> choose_rows(history, history.quarks("*"), "cpu1").tolist() == [history.quark("cpu1")]
    True

    Raises:
        UsageError: If it is not a regular expression.
    """
    attributes = history.attributes
    called = []
    for quark in quarks.tolist():
        path = attributes.path(quark)
        names = [entity_name(path)]
        own = quark
        _, below = host_and_path(path)
        if len(below) >= 4 and is_in_thread(below):
            thread = history.find(*path[: len(path) - len(below) + 4])
            own = quark if thread is None else thread
        called.append(names + _called(thread_of(history, own)))
    return quarks[_chosen(pattern, called)]


def _chosen(pattern: str, called: Sequence[Sequence[str]]) -> npt.NDArray[np.bool_]:
    """Return which of several things, each with its names, a filter matches."""
    is_meant = matching(pattern, [name for names in called for name in names])
    return np.array([any(map(is_meant, names)) for names in called], np.bool_)


def _called(whose: Thread) -> list[str]:
    threads = [str(name) for name in (whose.tid, whose.name) if name is not None]
    processes = [str(name) for name in (whose.pid, whose.process) if name is not None]
    return threads + [f"{process}/{thread}" for process in processes for thread in threads]
