"""The code that ran in a step of a task: from samples where there are some, otherwise from tags.

A recording names the code location at which a task waited before and after a step, and with samples
also the functions that ran in between. Frames of the standard library and of installed packages are
not where a user can change something, so a step is named after the innermost frame of own code, and
the function that it called is added.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.model.columns import distinct, first_rows
from meantime.model.stacks import is_library
from meantime.query.findings.requests import request_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.query.ranges import Range
    from meantime.query.scope import Scope, StateRows

__all__ = ["FRAME", "WATCHED_NS", "Culprit", "culprit", "gil_holder", "own_files"]

# How long a step of a recording takes until its stack is taken, unless another limit is given.
WATCHED_NS = 5 * 10**7
# A frame, as a recording writes it: the function, the file, and the line.
FRAME = r"(.*) \((.+):(\d+)\)"
# Modules in packages of the standard library that run or are called by tasks.
_STANDARD = {
    *sys.stdlib_module_names,
    *("__init__", "base_events", "connection", "decoder", "encoder", "events", "futures"),
    *("locks", "process", "proactor_events", "queues", "runners", "scanner", "selector_events"),
    *("sslproto", "streams", "taskgroups", "tasks", "thread", "timeouts", "transports"),
    *("unix_events", "_base", "_parser", "_compiler", "client", "server", "parse", "request"),
}
# The frames of the event loop itself; those inside them are of the step.
_LOOP_FRAME = r"((?:Timer)?Handle\._run|BaseEventLoop\._run_once|unrolled_run) \("
# What the loop calls besides steps.
_POLLING = r"(?:\w+Selector\.select|\w+EventLoop\._process_events) \("
# The tags of a long recording are those of requests, too.
_MOST_TAGS = 10_000
# A function is what blocked if it was in this share of a block's samples.
_MOSTLY = 0.6


class Culprit(NamedTuple):
    """The code of a step.

    Attributes:
        code: Its function and location, as far as is known.
        key: What is the same for all steps of that code; empty if nothing is known.
        detail: What it had called, or what else is known of where it ran, as a phrase.
        caller: The own code that had called it directly; empty if none had.
        serving: The request that it served; empty if none.
        between: What is the same for all steps of tasks of one kind between the same waits, or of
            callbacks of one function; empty if unknown.
        is_seen: Whether it was seen to run, and not concluded from what was to run.
    """

    code: str
    key: str
    detail: str = ""
    caller: str = ""
    serving: str = ""
    between: str = ""
    is_seen: bool = True

    @property
    def text(self) -> str:
        """The code and what else is known of where it ran."""
        return f"{self.code}, {self.detail}" if self.detail else self.code


def culprit(  # noqa: PLR0917 - what is known of a step
    scope: Scope,
    loop: int,
    task: int,
    range_ns: Range,
    states: StateRows | None,
    own: frozenset[str],
) -> Culprit:
    """Return the code that ran: own code, with its location, as far as is known.

    Args:
        scope: The history.
        loop: The event loop.
        task: The task that ran, or -1 for callbacks.
        range_ns: When it ran.
        states: The states of tasks.
        own: The names of files of own code.
    """
    served = None if task < 0 else request_of(scope, range_ns)
    found = _measured(scope, loop, range_ns, own)
    if found is None and served is not None and served.function:
        found = Culprit(served.function, served.name, is_seen=False)
    if task < 0:
        return found or Culprit("a callback", "", is_seen=False)
    site = scope.history.attributes.path(task)[-2]
    serving = "" if served is None else served.name
    if states is None:
        return (found or Culprit(site, site, is_seen=False))._replace(serving=serving)
    between = _between(scope, task, range_ns, states)
    alike = between.key if served is None else f"{served.name} {between.key}"
    return (found or between)._replace(between=alike, serving=serving)


def _measured(scope: Scope, loop: int, range_ns: Range, own: frozenset[str]) -> Culprit | None:
    """Return the code that was seen to run; None if nothing looked."""
    ran = _recorded(scope, loop, range_ns)
    # a loop that polls runs nothing: it was kept from its processor, or from the GIL
    if re.match(_POLLING, str(ran.get("stack"))) and "holder" not in ran:
        ran = {}
    if "stack" in ran:
        code, *calls = str(ran["stack"]).split(", ")
        detail = f"in {calls[-1]}" if calls else ""
        return Culprit(code, code, detail, str(ran.get("caller", "")))
    frames = _common_frames(scope, loop, range_ns)
    inner = _innermost(frames, own) if frames else None
    if inner is not None:
        return Culprit(inner, inner, "" if frames[-1] == inner else f"in {frames[-1]}")
    if ran:
        code = f"{ran['function']} ({ran['location']})" if "location" in ran else ran["function"]
        return Culprit(str(code), str(code), is_seen=False)
    return None


def _recorded(scope: Scope, loop: int, range_ns: Range) -> dict[str, Any]:
    """Return what a recording says of the code that ran for most of a step; empty if nothing."""
    # a step that waits again and again has many states of the same code, and what that had called
    # may be another function each time
    sums: dict[str, Counter[int]] = defaultdict(Counter)
    for state in scope.history.iterate(loop, range_ns[0]):
        if state.start_ns >= range_ns[1]:
            break
        found = _tag(scope, -1 if state.tag is None else state.tag)
        # a loop that runs nothing in particular has its own name and runtime
        if state.tag is not None and "function" in found and "runtime" not in found:
            part_ns = min(state.end_ns, range_ns[1]) - max(state.start_ns, range_ns[0])
            sums[f"{found['function']} {found.get('location')}"][state.tag] += part_ns
    if not sums:
        return {}
    most = max(sums.values(), key=Counter.total)
    found = _tag(scope, most.most_common(1)[0][0])
    # a stack is of the step, even if it was taken near its end
    is_most = 2 * most.total() >= range_ns[1] - range_ns[0]
    return found if is_most or "stack" in found else {}


def gil_holder(scope: Scope, loop: int, range_ns: Range) -> str:
    """Return the code that had the GIL while a step waited for it; empty if nothing looked."""
    for state in scope.history.iterate(loop, range_ns[0]):
        if state.start_ns >= range_ns[1]:
            break
        if holder := _tag(scope, -1 if state.tag is None else state.tag).get("holder"):
            return str(holder)
    return ""


def _between(scope: Scope, task: int, range_ns: Range, states: StateRows) -> Culprit:
    """Return the function of a task, and the lines at which it waited before and after a step."""
    before, after = _neighbours(scope, task, range_ns, states)
    site = scope.history.attributes.path(task)[-2]
    function = str(after.get("function") or before.get("function") or site.partition(" (")[0])
    first, last = (str(each.get("location", "")) for each in (before, after))
    # where it went on says what ran; where it waited next depends on the rest
    key = f"{site} {first or last}"
    code, detail = (function, f"before {last}") if last else (site, "")
    if first and first == last:
        code, detail = function, f"between two waits at {first}"
    elif first and last:
        code, detail = function, f"between {first} and {last}"
    elif first:
        code, detail = function, f"after {first}"
    return Culprit(code, key, detail, is_seen=False)


def _neighbours(
    scope: Scope, task: int, range_ns: Range, states: StateRows
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tags of the waits before and after a step; empty if it began or ended."""
    low, high = first_rows(states.quark, [task, task + 1]).tolist()
    rows = np.arange(low, high)
    order = rows[np.argsort(states.start_ns[rows], kind="stable")]
    waits = [code for code, name in enumerate(states.names) if name.startswith("waiting")]
    waiting = order[np.isin(states.state[order], waits)]
    before = waiting[states.end_ns[waiting] <= range_ns[0]]
    after = waiting[states.start_ns[waiting] >= range_ns[1]]
    return (
        _tag(scope, int(states.tag[before[-1]])) if len(before) else {},
        _tag(scope, int(states.tag[after[0]])) if len(after) else {},
    )


def _tag(scope: Scope, tag: int) -> dict[str, Any]:
    return scope.history.tags[tag] if tag >= 0 else {}


def _common_frames(scope: Scope, loop: int, range_ns: Range) -> list[str]:
    """Return the frames, from the outermost, that most samples of a step have in common."""
    samples = scope.history.samples(start_ns=range_ns[0], end_ns=range_ns[1])
    if not len(samples):
        return []
    words = scope.history.attributes.path(loop)[-1].split(" ")
    tids = [word for word in words if word.isdecimal()]
    threads = [
        quark
        for quark in distinct(samples.thread).tolist()
        if tids and scope.history.attributes.path(quark)[-1] == tids[-1]
    ]
    stacks = samples.stack[np.isin(samples.thread, threads) & (samples.stack >= 0)]
    counted = Counter(stacks.tolist())
    inside = {
        stack: frames
        for stack in counted
        if (frames := _of_step(samples.stacks.frames_of(stack))) is not None
    }
    total = sum(counted[stack] for stack in inside)
    common: list[str] = []
    while True:
        depth = len(common)
        following: Counter[str] = Counter()
        for stack, frames in inside.items():
            if len(frames) > depth and frames[:depth] == common:
                following[frames[depth]] += counted[stack]
        if not following:
            return common
        frame, count = following.most_common(1)[0]
        if count < _MOSTLY * total:
            return common
        common.append(frame)


def _of_step(frames: Sequence[str]) -> list[str] | None:
    """Return the frames inside those of the event loop; None if the loop waited."""
    for index in range(len(frames) - 1, -1, -1):
        if re.match(_LOOP_FRAME, frames[index]):
            inside = list(frames[index + 1 :])
            return None if not inside or re.match(_POLLING, inside[0]) else inside
    return list(frames)


def own_files(history: History) -> frozenset[str]:
    """Return the names of files of own code: those in tags that are of no installed package."""
    files = {str(tag["file"]) for tag in history.tags[:_MOST_TAGS] if "file" in tag}
    own = (file for file in files if not is_library(file))
    return frozenset(re.split(r"[/\\]", file)[-1] for file in own)


def _innermost(frames: Sequence[str], own: frozenset[str]) -> str | None:
    """Return the innermost frame of own code, or else that of no standard library."""
    files = [(match[2] if (match := re.fullmatch(FRAME, frame)) else "<") for frame in frames]
    called = [frame for frame, file in zip(frames, files, strict=True) if file in own]
    if not called:
        called = [
            frame
            for frame, file in zip(frames, files, strict=True)
            if file.removesuffix(".py") not in _STANDARD and not file.startswith("<")
        ]
    return called[-1] if called else None
