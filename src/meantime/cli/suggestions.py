"""The commands that are most useful for a history, which `meantime FILE` prints."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING

from meantime.model.columns import distinct
from meantime.query.sampled_states import has_sampled_states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.history.results import Points

__all__ = ["questions", "suggestions"]

_MOST = 3
_MOST_NAMES = 1000
_BEGINS = re.compile(r"(.*?)[ _.:-]?(?:start|started|begin|begun|received)", re.IGNORECASE)
_ENDS = re.compile(
    r"(.*?)[ _.:-]?(?:finish|finished|end|ended|done|complete|completed|stop|stopped|fail|failed"
    r"|succeeded|cancelled)",
    re.IGNORECASE,
)


def suggestions(file: str, history: History) -> list[tuple[str, str]]:
    """Return up to three commands, the most useful first, each with what it is for."""
    # standard input cannot be read again
    name = "FILE" if file == "-" else shlex.quote(file)
    stem = shlex.quote(PurePath(file).name.partition(".")[0].strip("-") or "trace")
    found = _found(history, name, stem)
    return [command for command, _ in zip(found, range(_MOST), strict=False)]


def questions(file: str, history: History) -> Iterator[tuple[str, str]]:
    """Yield the commands that print answers about a history, each with what it is for."""
    name = "FILE" if file == "-" else shlex.quote(file)
    yield f"meantime explain {name} --json", "what limited it"
    yield f"meantime findings {name} --json", "what stands out"
    for command, purpose in _found(history, name, ""):
        if command.startswith("meantime stats"):
            yield f"{command} --json", purpose


def _found(history: History, name: str, stem: str) -> Iterator[tuple[str, str]]:
    kinds = {lane.declaration.kind for lane in history.lanes if len(lane.quarks)}
    if "state" in kinds:
        yield f"meantime statemap {name} -o {stem}.svg", "draw what each entity was doing"
        yield f"meantime stats {name} --by state", "time in each state"
    if len(history.spans()):
        yield f"meantime flame {name} --chart -o {stem}.svg", "draw the calls over time"
        yield f"meantime stats {name}", "time in each function"
    if len(history.samples()):
        yield f"meantime flame {name} -o {stem}.svg", "draw which functions took the time"
        yield f"meantime heatmap {name} -o {stem}.html", "draw periods, stripes and gaps"
        if has_sampled_states(history):
            yield f"meantime statemap {name} -o {stem}.svg", "draw when each thread was on a CPU"
        yield f"meantime stats {name} --by name", "samples in each function"
    if "state" in kinds:
        yield f"meantime stats {name} --by entity", "time of each entity in each state"
    if len(history.spans()):
        yield f"meantime statemap {name} -o {stem}.svg", "draw the threads one above the other"
    points = history.points()
    if len(points):
        if not kinds and (pair := _pair(points)):
            paired = f"meantime view {name} --pair {pair} --pair-by FIELD"
            yield paired, "draw spans; FIELD is equal in a begin and its end"
        provided = f"meantime statemap {name} --provider states.toml -o {stem}.svg"
        yield provided, "draw states that a file derives from the events"
        yield f"meantime dump {name} --kind events", "print the events"


def _pair(points: Points) -> str:
    """Return the events of a log that are a begin and its ends, as --pair has them; or nothing."""
    codes = distinct(points.name.codes).tolist()[:_MOST_NAMES]
    names = [points.name.names[code] for code in codes if code >= 0]
    for begin in names:
        match = _BEGINS.fullmatch(begin)
        ends = [each for each in names if match and _is_end(each, match[1])]
        if ends:
            return shlex.quote(f"{begin}:{','.join(ends)}")
    return ""


def _is_end(name: str, stem: str) -> bool:
    match = _ENDS.fullmatch(name)
    return match is not None and match[1] == stem
