"""Classes of states: what a state's name means, and the colours that go with it.

A class has the same colours on every page. They were chosen so that neighbours differ for all kinds
of colour vision, in light and in dark.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = ["CLASSES", "StateClass", "class_of", "is_quiet", "rank"]


class StateClass(NamedTuple):
    """A class of states.

    Attributes:
        name: What the most typical state of this class is called, after any `waiting:`.
        light: Its colour on light ground.
        dark: Its colour on dark ground.
        names: What matches the whole name of a state of this class, in lower case.
    """

    name: str
    light: str
    dark: str
    names: str


_WAITING = r"(?:waiting[:\- ]?)?"

# From the bottom of a stack to its top: what is active first.
CLASSES = (
    StateClass("running", "#1d8759", "#42be90", r"running|on[\- ]?cpu|executing"),
    StateClass(
        "runnable", "#f6b324", "#efb822", r"runnable|ready|preempted|cpu[\- ]?wait|run[\- ]?queue"
    ),
    StateClass(
        "blocked", "#b90005", "#f2482c", r"blocked|disk[\- ]?wait|uninterruptible(?: sleep)?"
    ),
    StateClass(
        "lock",
        "#9952ba",
        "#c29de4",
        _WAITING + r"(?:lock|mutex|semaphore|condition|futex|gil)(?:[\- ]wait)?",
    ),
    StateClass(
        "i/o", "#659cd3", "#2676c6", _WAITING + r"(?:i/?o(?:[\- ](?:read|write|wait))?|network)"
    ),
    StateClass("thread", "#76bec1", "#00736b", _WAITING + r"(?:thread|executor)"),
    StateClass(
        "tasks", "#adb0f4", "#594e97", _WAITING + r"(?:tasks|gather|children|child[\- ]wait)"
    ),
    StateClass(
        "queue", "#a3cae3", "#124a74", r"waiting|" + _WAITING + r"(?:queue|pool|event|future)"
    ),
    StateClass("sleep", "#d1d5dd", "#333a4b", _WAITING + r"sleep(?:ing)?"),
    StateClass(
        "idle", "#ebedf1", "#1f2024", r"idle|parked|poll(?:ing)?|off[\- ]?cpu|interruptible sleep"
    ),
    StateClass("new", "#b9a796", "#a28677", r"new|spawned"),
    StateClass("failed", "#841c58", "#b34588", r"failed|cancell(?:ed|ing)|dropped"),
)
_COMPILED = [re.compile(each.names) for each in CLASSES]
_QUIET = 8  # sleeping: states without a class are stacked below it


def class_of(name: str) -> StateClass | None:
    """Return the class that a state's name identifies.

    >>> class_of("disk wait").light, class_of("waiting:lock").light, class_of("main")
    ('#b90005', '#9952ba', None)
    """
    index = _index(name)
    return None if index is None else CLASSES[index]


# every tile of a page asks for the classes of the same few names
@lru_cache(maxsize=4096)
def _index(name: str) -> int | None:
    text = name.lower()
    return next((at for at, each in enumerate(_COMPILED) if each.fullmatch(text)), None)


def rank(name: str) -> int:
    """Return how far from the bottom of a stack a state is drawn.

    >>> [rank(name) for name in ("running", "main", "idle")]
    [0, 8, 10]
    """
    index = _index(name)
    if index is None:
        return _QUIET
    return index if index < _QUIET else index + 1


def is_quiet(name: str) -> bool:
    """Return whether a share of this state that is too small to be drawn is not missed.

    >>> [is_quiet(name) for name in ("running", "main", "sleeping", "idle")]
    [False, False, True, True]
    """
    return rank(name) in (_QUIET + 1, _QUIET + 2)
