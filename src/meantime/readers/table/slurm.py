"""Jobs of Slurm, as `sacct -P` prints them: each node of a job is in the state of its name.

Steps such as `123.batch` are within their job and left out. A job without an end still runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.column_mapping import ColumnMapping
from meantime.model.columns import Coded
from meantime.readers.table.delimited import read_delimited
from meantime.readers.table.times import TimeColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s
    from meantime.model.trace import Trace
    from meantime.readers.table.choosing import Chooser
    from meantime.readers.table.rows import Part

__all__ = ["part_of", "recognises"]

# The first of them that there is.
_ENTITIES = ("nodelist", "partition", "user")
_STATES = ("jobname", "state", "jobid")
_GROUP = re.compile(r"([^\[\],]*)\[([0-9,\-]{1,4096})\]([^\[\],]*)")
_MOST_NODES = 10_000


def recognises(names: Sequence[str]) -> bool:
    """Return whether columns are those of `sacct`, with the times of jobs."""
    return {"jobid", "start", "end"} <= {name.lower() for name in names}


def part_of(data: memoryview, trace: Trace, chooser: Chooser) -> Part:
    """Return the jobs of a text, a row for each of their nodes."""
    mapping = ColumnMapping()

    def choose(
        names: Sequence[str], instants: Sequence[str], numbers: Sequence[str]
    ) -> dict[str, bool]:
        del instants, numbers
        nonlocal mapping
        by_name = {name.lower(): name for name in reversed(names)}
        columns = {"start": (by_name["start"],), "end": (by_name["end"],)}
        for role, candidates in (("entity", _ENTITIES), ("state", _STATES)):
            found = next((by_name[each] for each in candidates if each in by_name), None)
            if found is not None:
                columns[role] = (found,)
        mapping = ColumnMapping(columns, is_guess=True)
        wanted = chooser.choose(mapping, names)
        return wanted | {by_name["jobid"]: False}

    part = read_delimited(data, trace.source, choose, trace.anomalies)
    [job_id] = [name for name in part if name.lower() == "jobid"]
    ids = part[job_id]
    assert isinstance(ids, Coded)
    rows = _without_steps(ids)
    trace.anomalies.add("step_of_job", len(ids.codes) - len(rows))
    if job_id not in mapping.names:
        del part[job_id]
    part = {name: _taken(column, rows) for name, column in part.items()}
    entity = mapping.column("entity")
    if entity is None or entity.lower() != "nodelist":
        return part
    nodes = part[entity]
    assert isinstance(nodes, Coded)
    return _on_each_node(part, entity, nodes)


def _taken(column: TimeColumn | Coded, rows: Int64s) -> TimeColumn | Coded:
    if isinstance(column, Coded):
        return Coded(column.codes[rows], column.names)
    return TimeColumn(column.values[rows], column.kinds[rows])


def _without_steps(ids: Coded) -> Int64s:
    """Return the rows that are not a step of a job in the table."""
    jobs = {name for name in ids.names if "." not in name}
    is_step = np.array([name.split(".")[0] in jobs - {name} for name in ids.names], np.bool_)
    return np.flatnonzero(~is_step[ids.codes])


def _on_each_node(part: Part, entity: str, nodes: Coded) -> Part:
    of_code = [_hosts(text) for text in nodes.names]
    counts = np.array([len(hosts) for hosts in of_code], np.int64)[nodes.codes]
    if (counts == 1).all() and not any("[" in text for text in nodes.names):
        return part
    rows = np.repeat(np.arange(len(counts)), counts)
    hosts = [host for code in nodes.codes.tolist() for host in of_code[code]]
    found = {name: _taken(column, rows) for name, column in part.items()}
    found[entity] = Coded.of(hosts)
    return found


def _hosts(text: str) -> list[str]:
    """Return the nodes of a list such as `n[01-03,7],gpu1`; the text itself if it is none.

    >>> _hosts("n[09-11],gpu1")
    ['n09', 'n10', 'n11', 'gpu1']
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        if match := _GROUP.match(text, at):
            before, ranges, after = match.groups()
            for part in ranges.split(","):
                first, _, last = part.partition("-")
                last = last or first
                if not (first.isdecimal() and last.isdecimal()) or len(last) > 9:
                    return [text]
                count = int(last) - int(first) + 1
                if count < 1 or len(found) + count > _MOST_NODES:
                    return [text]
                found += [
                    f"{before}{number:0{len(first)}}{after}"
                    for number in range(int(first), int(last) + 1)
                ]
            at = match.end()
        else:
            end = text.find(",", at)
            end = len(text) if end < 0 else end
            if "[" in text[at:end]:
                return [text]
            found.append(text[at:end])
            at = end
        if at < len(text):
            if text[at] != ",":
                return [text]
            at += 1
    return found or [text]
