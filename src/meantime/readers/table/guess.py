"""Which column is what, from their names."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from meantime.model.column_mapping import ColumnMapping, halves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["EVENTS", "INTERVALS", "Guess", "example_of", "guess"]

# The names that a table of meantime's own has: whole nanoseconds.
EVENTS = ("time_ns", "name")
INTERVALS = ("start_ns", "end_ns", "path", "value")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What tracers call how long something took up to its time, with a unit: LAT(ms), DELTAus.
_LATENCIES = "lat delta"
# By role, names in order of preference: columns of one group are equally likely.
_TIMES: dict[str, tuple[frozenset[str], ...]] = {
    "start": (
        _words(
            "start starttime startedat started starttimestamp startts startdate startdatetime begin"
            " begintime beginat began begints begintimestamp begindate from tstart timestart"
        ),
    ),
    "end": (
        _words(
            "end endtime endedat ended endtimestamp endts enddate enddatetime finish finishtime"
            " finished finishedat stop stoptime stopped stoppedat complete completed completedat"
            " completiontime completetime until to tend timeend"
        ),
    ),
    "duration": (
        _words("duration dur elapsed elapsedtime runtime walltime took"),
        _words(_LATENCIES),
    ),
    "time": (_words("time timestamp ts datetime eventtime logtime date asctime"),),
}
_ACTIVITIES = _words("job jobname task taskname step stepname activity operation op phase stage")
_MESSAGES = _words("message msg content")
_TEXTS: dict[str, tuple[frozenset[str], ...]] = {
    "state": (
        _words("value"),
        _ACTIVITIES,
        _words("state"),
        _words("name event label action"),
        _words("status conclusion result type kind category"),
        _MESSAGES,
    ),
    "entity": (
        _words("entity"),
        _words(
            "node nodelist nodename host hostname machine server worker workerid workername"
            " resource thread threadname utid lane device instance runner runnername executor agent"
            " slot"
        ),
        _words("process pid tid service user queue partition pool cpu core"),
        _words("name"),
    ),
}
_UNITS = {
    "ns": "ns", "nanos": "ns", "nanoseconds": "ns", "us": "us", "usec": "us", "micros": "us",
    "microseconds": "us", "ms": "ms", "msec": "ms", "millis": "ms", "milliseconds": "ms",
    "s": "s", "sec": "s", "secs": "s", "seconds": "s",
}  # fmt: skip
_UNIT = re.compile(rf"(.+?)(?:[ _.-]+|\s*[(\[])({'|'.join(_UNITS)})[)\]]?", re.IGNORECASE)
# without anything between them: startMs, TIMEus
_ATTACHED = re.compile(
    r"(.*[a-z\d])(N|U|M)(s|anos|icros|illis|sec)|(.+[A-Z])(ns|us|ms|s)|(.*[a-z\d])(Seconds|Secs|Sec)"
)
# as the tools of bcc call how long something took
_ALONE = {"MS", "US", "NS"}
_NOT_WORD = re.compile(r"[\W_]+")
# the clock of a time, behind its name
_CLOCK = re.compile(
    r"(.+?)(?:[ _.-]+|\s*[(\[])(?:utc|gmt|local|epoch|unix|wall|monotonic)[)\]]?", re.IGNORECASE
)
_MOST_LISTED = 12
# What the name of a time may end in, and what a name may be called: for examples only.
_TIME_ENDS = ("time", "timestamp", "date", "ts", "at")
_LIKELY_NAMES = (
    *("textpayload", "message", "msg", "text", "name", "event", "eventname", "verb", "metric"),
    *("method", "operation", "action", "type", "kind"),
)


class Guess(NamedTuple):
    """What the names of columns say.

    Attributes:
        mapping: Which column is what; None if that is not decided.
        problem: Why not, and what to do.
    """

    mapping: ColumnMapping | None
    problem: str = ""


class _UndecidedError(Exception):
    """What the names of columns leave open, and what to do."""


def guess(
    names: Sequence[str], given: ColumnMapping | None = None, instants: Sequence[str] = ()
) -> Guess:
    """Return which of the columns are times, entities and states.

    Args:
        names: The names of all columns.
        given: What is known already: its roles, and its columns, are not guessed.
        instants: The columns whose type is a time.
    """
    known = given or ColumnMapping()
    if not known.columns and (own := _own(names, known)) is not None:
        return Guess(own)
    columns = {role: each[0] for role, each in known.columns.items()}
    taken = {part for name in known.names for part in halves(name, names) or (name,)}
    free = [name for name in names if name not in taken]
    try:
        _add_times(columns, free, instants)
        _settle_times(columns, names)
        _add_texts(columns, free)
        _settle_texts(columns, names, known)
        _settle_entity(columns, known)
    except _UndecidedError as undecided:
        return Guess(None, str(undecided))
    units = {role: unit for role in _TIMES if role in columns and (unit := _unit(columns[role]))}
    units |= {role: unit for role, unit in known.units.items() if role in columns}
    if "time" in known.units and "start" in columns and "start" not in known.columns:
        units["start"] = known.units["time"]
    found: dict[str, tuple[str, ...]] = {role: (name,) for role, name in columns.items()}
    found |= {role: each for role, each in known.columns.items() if role in columns}
    is_guess = bool(columns.keys() - known.columns.keys())
    return Guess(replace(known, columns=found, units=units, is_guess=is_guess))


def _own(names: Sequence[str], known: ColumnMapping) -> ColumnMapping | None:
    """Return the mapping of a table of meantime's own; None of any other."""
    columns = {}
    if set(INTERVALS) <= set(names):
        columns = dict(zip(("start", "end", "path", "state"), INTERVALS, strict=True))
    elif set(EVENTS) <= set(names):
        columns = {"time": "time_ns", "name": "name"}
        columns |= {"weight": "weight"} if "weight" in names else {}
    if not columns:
        return None
    units = {str(role): "ns!" for role in ("start", "end", "time") if role in columns}
    return replace(known, columns={role: (name,) for role, name in columns.items()}, units=units)


def _add_times(columns: dict[str, str], free: Sequence[str], instants: Sequence[str]) -> None:
    for role, groups in _TIMES.items():
        if role not in columns and not _is_settled(role, columns):
            found = [
                name
                for name in _matching(free, groups, is_time=True)
                if _unit(name) or _word(name) not in _words(_LATENCIES)
            ]
            if (joined := _date_and_time(found)) is not None:
                found = [joined]
            if len(found) > 1:
                raise _UndecidedError(_ambiguous(role, found))
            columns.update({role: found[0]} if found else {})
    if not columns.keys() & _TIMES.keys() and len(instants) == 1:
        columns["time"] = instants[0]


def _date_and_time(found: Sequence[str]) -> str | None:
    """Return two columns as one if they are the date and the time of the same."""
    words = {_word(name): name for name in found}
    for word, date in words.items():
        time = words.get(f"{word.removesuffix('date')}time")
        if len(found) == len(words) == 2 and word.endswith("date") and time is not None:
            return f"{date}+{time}"
    return None


def _settle_times(columns: dict[str, str], names: Sequence[str]) -> None:
    """Decide between times of events and of intervals."""
    if not columns.keys() & _TIMES.keys():
        raise _UndecidedError(f"no column is known to be a time{_listing(names)}")
    if "time" in columns and columns.keys() & {"start", "end"}:
        del columns["time"]
    elif "time" in columns and "duration" in columns:
        is_latency = _word(_bare(columns["duration"])) in _words(_LATENCIES)
        columns["end" if is_latency else "start"] = columns.pop("time")
    if len(columns.keys() & {"start", "end", "duration"}) == 1:
        raise _UndecidedError(_incomplete(columns, names))


def _add_texts(columns: dict[str, str], free: Sequence[str]) -> None:
    for role, groups in _TEXTS.items():
        if role in columns or {"state": "name", "entity": "path"}[role] in columns:
            continue
        rest = [name for name in free if name not in columns.values()]
        found = _matching(rest, groups, is_time=False)
        if len(found) > 1:
            raise _UndecidedError(_ambiguous(role, found))
        columns.update({role: found[0]} if found else {})
    # a task that nothing runs is not the state of something, but may have states itself
    if "entity" not in columns and _word(columns.get("state", "")) in _ACTIVITIES:
        own = [name for name in free if _word(name) == "state"]
        if len(own) == 1 and columns["state"] in free:
            columns["entity"], columns["state"] = columns["state"], own[0]
    if "path" in free and "entity" not in columns:
        columns["path"] = "path"


def _settle_texts(columns: dict[str, str], names: Sequence[str], known: ColumnMapping) -> None:
    """Decide between states of entities and events."""
    if "time" not in columns:
        return
    # what somebody wrote is not the state of the writer until he writes again
    is_message = _word(columns.get("state", "")) in _MESSAGES
    is_given = bool(known.columns.keys() & {"state", "entity", "path"})
    has_entity = bool(columns.keys() & {"entity", "path"})
    if "state" in columns and (not has_entity or (is_message and not is_given)):
        columns["name"] = columns.pop("state")
    if not columns.keys() & {"name", "state"}:
        used = {part for name in columns.values() for part in halves(name, names) or (name,)}
        free = [name for name in names if name not in used]
        example = f"--columns time={columns['time']},name={free[0] if free else 'NAME'}"
        raise _UndecidedError(
            f"{columns['time']} is a time, but no column is known to be a name or a state"
            f"{_listing(names, example)}"
        )


def _settle_entity(columns: dict[str, str], known: ColumnMapping) -> None:
    """Leave out what a guess took for the entity of events, which have names and no states."""
    if "time" not in columns or "state" in columns:
        return
    for role in ("entity", "path"):
        if role in known.columns:
            raise _UndecidedError(
                f"{role} does not apply to events, which have a name: name the states that"
                f" {columns[role]} is in, as in --columns time={columns['time']},"
                f"{role}={columns[role]},state={columns.get('name', 'NAME')}"
            )
        columns.pop(role, None)


def _is_settled(role: str, columns: Mapping[str, str]) -> bool:
    """Whether a time need not be looked for, as others say it."""
    if role == "time":
        return bool(columns.keys() & {"start", "end"})
    if "time" in columns and role != "duration":
        return True
    return len(columns.keys() & {"start", "end", "duration"}) > 1


def _split_unit(name: str) -> tuple[str, str]:
    """Return a name without its unit, and the unit; empty if it has none."""
    name = name.strip()
    if name in _ALONE:
        return "delta", name.lower()
    if match := _UNIT.fullmatch(name):
        return match[1], _UNITS[match[2].lower()]
    if match := _ATTACHED.fullmatch(name):
        bare, *unit = filter(None, match.groups())
        return (bare, _UNITS[text]) if (text := "".join(unit).lower()) in _UNITS else (name, "")
    return name, ""


def _unit(name: str) -> str:
    return _split_unit(name)[1]


def _bare(name: str) -> str:
    """Return the name of a time without its unit and its clock."""
    bare = _split_unit(name)[0]
    match = _CLOCK.fullmatch(bare)
    return match[1] if match else bare


def _matching(
    names: Sequence[str], groups: Sequence[frozenset[str]], *, is_time: bool
) -> list[str]:
    for group in groups:
        found = [
            name
            for name in dict.fromkeys(names)
            if _word(_bare(name) if is_time else name) in group
        ]
        if found:
            return found
    return []


def _word(name: str) -> str:
    return _NOT_WORD.sub("", name.lower())


def example_of(names: Sequence[str]) -> str:
    """Return an option that says of columns, or fields, that one is a time and another a name.

    >>> example_of(["metric", "data.time", "data.value"]), example_of(["a"])
    ('--columns time=data.time,name=metric', '--columns time=NAME,name=NAME')
    """
    words = {name: _word(name.rpartition(".")[2]) for name in names}
    times = [name for name in names if words[name].endswith(_TIME_ENDS)]
    if not times or len(names) < 2:
        return "--columns time=NAME,name=NAME"
    others = [name for name in names if name not in times] or times[1:]
    named = [name for word in _LIKELY_NAMES for name in others if words[name] == word]
    import shlex  # noqa: PLC0415 - only for this message

    mapping = ColumnMapping({"time": (times[0],), "name": ((named or others)[0],)})
    return f"--columns {shlex.quote(mapping.text)}"


def _listing(names: Sequence[str], example: str = "") -> str:
    listed = ", ".join(name[:40] or "(empty)" for name in names[:_MOST_LISTED])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    example = example or example_of(names)
    return f" (the columns are {listed}{more}): name them, as in {example}"


def _ambiguous(role: str, found: Sequence[str]) -> str:
    return (
        f"each of the columns {', '.join(found[:_MOST_LISTED])} may be the {role}: choose one with"
        f" --columns {role}={found[0]}"
    )


def _incomplete(columns: Mapping[str, str], names: Sequence[str]) -> str:
    missing = {
        "start": "the end or the duration",
        "end": "the start or the duration",
        "duration": "the start",
    }
    [role] = columns.keys() & missing.keys()
    other = "start" if role != "start" else "end"
    example = f"--columns {role}={columns[role]},{other}=NAME"
    if role != "duration":
        example += f", or duration=NAME instead of {other}"
    return (
        f"{columns[role]} is the {role} of intervals, but no column is known to be"
        f" {missing[role]}{_listing(names, example)}"
    )
