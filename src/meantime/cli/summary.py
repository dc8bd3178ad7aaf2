"""The summary at the end of `meantime record`: times, and commands that show more."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.collect import OTHER_INTERPRETER
from meantime.errors import MeantimeError
from meantime.model.units import format_bytes, format_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.findings import Finding
    from meantime.readers.recording.activity import Group
    from meantime.readers.recording.live import LiveActivity

__all__ = ["nothing_recorded", "summary"]

_READ_BYTES = 400_000_000
# What stands out needs the whole history, in memory; beyond this, only the command is named.
_SEARCHED_BYTES = 100_000_000
_KINDS = (
    ("Loops", "event loop"),
    ("Workers", "pool thread"),
    ("Threads", "thread"),
    ("Tasks", "task"),
)
_LEAST_SHARE = 0.0005
_MOST_LOOPS = 3
_MOST_STATES, _MOST_GROUPS, _MOST_UNRECORDED, _MOST_FINDINGS = 5, 3, 3, 3


def summary(path: str) -> Iterator[str]:
    """Yield the lines: few for a recording that is unreadable, or too large to read at once."""
    try:
        yield from _summary(path)
    except OSError as error:
        yield f"meantime: recorded into {path}, but it cannot be read: {error.strerror}"


def _summary(path: str) -> Iterator[str]:
    size = sum(entry.stat().st_size for entry in Path(path).iterdir())
    if nothing := nothing_recorded(path):
        yield from nothing
        return
    unrecorded = _unrecorded(Path(path))
    if size > _READ_BYTES:
        yield f"meantime: recorded {format_bytes(size)} into {path}"
        yield from _shown_by(path, states=True, sampled=False)
        return
    from meantime.readers.recording.live import LiveActivity  # noqa: PLC0415 - NumPy is not for --help

    following = LiveActivity(Path(path))
    try:
        following.update()
    except MeantimeError as error:
        yield f"meantime: recorded {format_bytes(size)}, but {error}"
        return
    following.finish()
    problems = [*map("  {}".format, following.anomalies.lines()), *unrecorded]
    problems += map("  {}".format, following.unrecognised[:_MOST_UNRECORDED])
    problems += [f"  waits of threads were not recorded: {each}" for each in following.unwatched]
    if following.failure:
        problems.append(f"  the first file that could not be written: {following.failure}")
    if not following.activity.changes and not following.is_sampled:
        if problems:
            yield f"meantime: {path}: the recording cannot be read"
            yield from problems
        else:
            yield f"meantime: {path}: no asyncio or trio activity was recorded"
        return
    yield (
        f"meantime: recorded {format_ns(following.duration_ns)}, "
        f"{following.activity.changes:,} state changes, {format_bytes(size)} into {path}"
    )
    found = _standing_out(path) if size <= _SEARCHED_BYTES else []
    yield from map("  {}".format, _where(following))
    # the longest block is a longest step, and described better
    if not any(each.kind == "block" for each in found):
        yield from map("  {}".format, _longest(following))
    yield from problems
    if found:
        yield "what stands out:"
        yield from (f"  {each.sentence}" for each in found)
    states = following.activity.changes > 0
    yield from _shown_by(path, states=states, sampled=following.is_sampled)


def nothing_recorded(path: str) -> list[str]:
    """Return why no process was recorded, as lines; none if one was."""
    if any(Path(path).glob("*.facts")):
        return []
    if unrecorded := _unrecorded(Path(path)):
        return [f"meantime: {path}: nothing was recorded", *unrecorded]
    return [
        (
            f"meantime: {path}: nothing was recorded: no Python 3.11 or later of this kind ran, "
            "or it ran with -I, -E or -S, which prevent recording"
        )
    ]


def _standing_out(path: str) -> list[Finding]:
    """Return what `meantime findings` would print first, without what is to be read with care."""
    from meantime.opening.history_from_path import open_history  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.findings import findings  # noqa: PLC0415 - as above

    try:
        with open_history(path, lenient=True) as history:
            return [each for each in findings(history) if each.lost_ns][:_MOST_FINDINGS]
    except MeantimeError:
        # what is wrong with the recording has been printed
        return []


def _unrecorded(path: Path) -> list[str]:
    """Return a line for each process that could not be recorded, up to a few."""
    from meantime.readers.recording.listing import unrecorded_in  # noqa: PLC0415 - NumPy is not for --help

    lines = []
    found = unrecorded_in(path)
    for pid, python, reason in found[:_MOST_UNRECORDED]:
        if reason == OTHER_INTERPRETER:
            lines.append(f"  tasks of process {pid} in other interpreters were not recorded")
        else:
            lines.append(f"  process {pid} was not recorded: it is Python {python}; {reason}")
    if len(found) > len(lines):
        lines.append(f"  {len(found) - len(lines):,} more processes were not recorded")
    return lines


def _where(following: LiveActivity) -> Iterator[str]:
    groups = following.activity.groups()
    for kind, label in _KINDS:
        of_kind = [group for group in groups if group.name[0] == kind]
        total: Counter[str] = Counter()
        for group in of_kind:
            total.update(group.state_ns)
        if any(total.values()):
            members = sum(group.members for group in of_kind)
            yield f"{members:,} {label}{'s' * (members != 1)}: {_shares(total)}"
    yield from _busiest([group for group in groups if group.name[0] == "Tasks"])
    for name, lag in following.lags[:_MOST_LOOPS]:
        yield f"loop lag{'' if len(following.lags) == 1 else f' of {name}'}: {lag.text()}"


def _longest(following: LiveActivity) -> Iterator[str]:
    if (longest := following.longest) is not None:
        waited = f" ({waits})" if (waits := longest.waits()) else ""
        yield f"longest step: {format_ns(longest.duration_ns)}{waited} in {longest.where()}"


def _shares(total: Counter[str]) -> str:
    whole = sum(total.values())
    most = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:_MOST_STATES]
    return ", ".join(f"{state} {ns / whole:.1%}" for state, ns in most if ns / whole > _LEAST_SHARE)


def _busiest(tasks: list[Group]) -> Iterator[str]:
    whole = sum(group.state_ns.get("running", 0) for group in tasks)
    if len(tasks) > 1 and whole:
        shares = [(group.name[1], group.state_ns.get("running", 0) / whole) for group in tasks]
        most = [f"{name} {share:.1%}" for name, share in shares[:_MOST_GROUPS]]
        yield f"of the time that tasks ran: {', '.join(most)}"


def _shown_by(path: str, *, states: bool, sampled: bool) -> Iterator[str]:
    name, stem = shlex.quote(path), shlex.quote(Path(path).stem)
    commands = [f"findings {name}"]
    if states:
        commands += [f"statemap {name} -o {stem}.svg", f"stats {name} --by state"]
    if sampled:
        commands += [f"flame {name} -o {stem}-flame.svg"]
    for number, command in enumerate(commands):
        yield f"{'    ' if number else 'see '}meantime {command}"
