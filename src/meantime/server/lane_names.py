"""What lanes are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import HOSTS, PROCESSES, STATUS, THREADS
from meantime.model.attributes import ANY_DEPTH, ROOT, entity_name, format_path, parse_pattern
from meantime.query.threads import Thread, process_title, thread_of, thread_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history import History
    from meantime.history.lanes import Lane as Declared
    from meantime.model.columns import Int32s

__all__ = [
    "counter_names",
    "handles",
    "names_of",
    "own_title",
    "short_title",
    "split_location",
    "title_of",
    "title_of_process",
]

_LOCATION = re.compile(r"(?P<name>.+?) \((?P<location>[^()]*:\d+)\)")


def title_of(lane: Declared) -> str:
    """Return what to call a group of lanes: as declared, otherwise by the names in its paths.

    That of hosts says least: it is the title only if nothing else is.
    """
    declaration = lane.declaration
    if declaration.label or declaration.entity_kind:
        return declaration.name
    names = [each for each in parse_pattern(declaration.pattern) if isinstance(each, str)]
    if len(names) > 1 and names[0] == HOSTS:
        del names[0]
    return "/".join(names)


def split_location(name: str) -> tuple[str, str]:
    """Return a name without the code location at its end, and that.

    >>> split_location("worker (shop.py:30)"), split_location("main")
    (('worker', 'shop.py:30'), ('main', ''))
    """
    if not name.endswith(")"):
        return name, ""
    found = _LOCATION.fullmatch(name)
    return (found["name"], found["location"]) if found else (name, "")


def handles(history: History, quarks: Sequence[int]) -> list[str]:
    """Return the paths of attributes as commands take them: most have one parent."""
    attributes = history.attributes
    names = attributes.names(quarks)
    parents = attributes.parents(np.array(quarks, np.int32)).tolist()
    above = {parent: f"{attributes.text(parent)}/" for parent in {*parents} - {ROOT}}
    above[ROOT] = ""
    return [
        above[parent] + format_path((name,)) for name, parent in zip(names, parents, strict=True)
    ]


def title_of_process(whose: Thread) -> str:
    """Return the title of the process of a thread; empty if that is unknown."""
    return f"{whose.process} {whose.pid}" if whose.process else str(whose.pid)


def own_title(history: History, quark: int) -> str:
    """Return the title of a thread below its process."""
    return short_title(thread_of(history, quark))


def short_title(whose: Thread) -> str:
    """Return the title of a thread below its process; its id only where the name lacks it."""
    if whose.name is not None and re.search(rf"\b{re.escape(str(whose.tid))}\b", whose.name):
        return whose.name
    return thread_title(Thread("", whose.tid, None, whose.name, whose.path))


def _full_title(history: History, quark: int) -> str:
    """Return the title of a thread with that of its process."""
    process = process_title(history, quark)
    own = own_title(history, quark)
    return f"{process} / {own}" if process else own


def names_of(history: History, quarks: Int32s, pattern: str = "") -> list[str]:
    """Return what attributes are called: what the wildcards of their pattern match.

    Without a pattern, it is what differs in their paths. Threads have their titles.
    """
    attributes, given = history.attributes, history.names
    # there may be a million, and most have one parent
    parents = attributes.parents(quarks).tolist()
    above = {parent: attributes.path(parent) for parent in {*parents} - {ROOT}}
    above[ROOT] = ()
    last_names = attributes.names(quarks.tolist())
    paths = [(*above[parent], name) for name, parent in zip(last_names, parents, strict=True)]
    elements = parse_pattern(pattern)
    is_name = [isinstance(each, str) for each in elements]
    first = last = 0
    if ANY_DEPTH in elements or False not in is_name:
        if len(paths) > 1:
            shortest = min(map(len, paths))
            same = [len({path[i] for path in paths}) == 1 for i in range(shortest)]
            first = same.index(False) if False in same else 0
    else:
        first, last = is_name.index(False), is_name[::-1].index(False)
    named = [
        path[first]
        if len(path) == first + 1 + last
        else entity_name(path[first : len(path) - last] or path)
        for path in paths
    ]
    of_threads = {
        parent
        for parent, path in above.items()
        if path[:1] == (PROCESSES,) and path[-1:] == (THREADS,)
    }
    if not (given or of_threads or STATUS in last_names):
        return named
    for index, (quark, path) in enumerate(zip(quarks.tolist(), paths, strict=True)):
        # the states of a thread are an attribute below it
        own, of = (attributes.parent(quark), path[:-1]) if path[-1] == STATUS else (quark, path)
        if of[:1] == (PROCESSES,) and of[-2:-1] == (THREADS,):
            named[index] = _full_title(history, own)
        elif own in given:
            named[index] = f"{given[own]} {named[index]}"
    return named


def counter_names(history: History, quarks: Int32s, title: str) -> list[str]:
    """Return what counters below a title are called: the names in their paths that differ.

    The counters of processes are called by these, by their names and by their series.
    """
    attributes, given = history.attributes, history.names
    paths = [attributes.path(quark) for quark in quarks.tolist()]
    if len({len(path) for path in paths}) > 1 or len(paths[0]) == 1:
        return names_of(history, quarks)
    columns: list[Sequence[str]] = [*zip(*paths, strict=True)]
    if len(columns) > 1 and set(columns[0]) == {PROCESSES}:
        numbers = dict.fromkeys(columns[1])
        for number in numbers:
            name = given.get(attributes.quark(PROCESSES, number))
            numbers[number] = f"{name} {number}" if name else number
        columns[1] = [numbers[number] or "" for number in columns[1]]
    different = [column for column in columns if len(set(column)) > 1]
    if not different:
        # one counter: the last name that is not above it already
        different = [column for column in columns if column[0] != title][-1:] or columns[-1:]
    return ["/".join(names) for names in zip(*different, strict=True)]
