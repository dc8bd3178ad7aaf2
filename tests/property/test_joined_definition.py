"""A joined history answers as the history built from the same events with the prefix."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import meantime
from meantime.history import HistoryBuilder
from meantime.model.clocks import Clock

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.columns import Value

STATES: list[Value] = ["idle", "user", "system", None]
THREAD = ("Processes", "1", "Threads")
HOSTS = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([3, 40, 1500])), min_size=1, max_size=4
)


class Host(NamedTuple):
    """What happened on a host, in its own times.

    Attributes:
        name: Its name.
        origin_ns: The UTC of its time 0.
        end_ns: Where it ends.
        changes: Time, path, value and tag.
        spans: Thread, name, start and end.
        points: Path, name and time.
        flows: From where and when to where and when.
        samples: Thread, stack and time.
    """

    name: str
    origin_ns: int
    end_ns: int
    changes: list[tuple[int, tuple[str, ...], Value, int | None]]
    spans: list[tuple[str, str, int, int]]
    points: list[tuple[tuple[str, ...], str, int]]
    flows: list[tuple[str, int, str, int]]
    samples: list[tuple[str, list[str], int]]


def host(number: int, seed: int, rows: int) -> Host:
    """Return random events; what is text on one host is a number on the next."""
    random = np.random.default_rng(seed)

    def times() -> list[int]:
        return sorted(random.integers(0, 4 * rows + 9, rows).tolist())

    def any_of(count: int) -> list[int]:
        found: list[int] = random.integers(0, count, rows).tolist()
        return found

    states = [STATES[(number + index) % len(STATES)] for index in range(len(STATES))]
    numbers: list[Value] = [1, 7, 300, None]
    paths = [("CPUs", "0"), ("CPUs", "1"), ("load",)]
    changes: list[tuple[int, tuple[str, ...], Value, int | None]] = []
    for time_ns, path, value, tag in zip(times(), any_of(3), any_of(4), any_of(3), strict=True):
        values = states if path < 2 or number % 2 else numbers
        changes.append((time_ns, paths[path], values[value], None if tag == 2 else tag))
    few = slice(0, 50)
    spans = [
        (str(thread), "abc"[name], time_ns, time_ns + length)
        for time_ns, thread, name, length in zip(
            times(), any_of(2), any_of(3), any_of(9), strict=True
        )
    ][few]
    return Host(
        name=f"host{number}",
        origin_ns=int(random.integers(0, 500)),
        end_ns=4 * rows + 30,
        changes=changes,
        spans=spans,
        points=[(paths[0], name, start_ns) for _, name, start_ns, _ in spans],
        flows=[(thread, start_ns, "1", end_ns) for thread, _, start_ns, end_ns in spans],
        samples=[(thread, ["main", name], start_ns) for thread, name, start_ns, _ in spans],
    )


def put(builder: HistoryBuilder, each: Host, prefix: tuple[str, ...], offset_ns: int) -> None:
    """Add all that is not a state."""
    threads = {name: builder.quark(*prefix, *THREAD, name) for name in "01"}
    builder.add_spans(
        [threads[thread] for thread, *_ in each.spans],
        [name for _, name, *_ in each.spans],
        [start_ns + offset_ns for _, _, start_ns, _ in each.spans],
        [end_ns + offset_ns for *_, end_ns in each.spans],
        arguments=[f'{{"n": "{name}"}}' for _, name, *_ in each.spans],
    )
    builder.add_points(
        [builder.quark(*prefix, *path) for path, *_ in each.points],
        [name for _, name, _ in each.points],
        [time_ns + offset_ns for *_, time_ns in each.points],
    )
    builder.add_flows(
        [threads[thread] for thread, *_ in each.flows],
        [from_ns + offset_ns for _, from_ns, *_ in each.flows],
        [threads[thread] for *_, thread, _ in each.flows],
        [to_ns + offset_ns for *_, to_ns in each.flows],
        ["wakes"] * len(each.flows),
    )
    builder.add_samples(
        [threads[thread] for thread, *_ in each.samples],
        [stack for _, stack, _ in each.samples],
        [time_ns + offset_ns for *_, time_ns in each.samples],
    )


def alone(each: Host, folder: Path | None) -> History:
    """Return the history of one host."""
    path = None if folder is None else folder / f"{each.name}.mth"
    builder = HistoryBuilder(
        path, start_ns=0, clock=Clock("realtime", utc_at_origin_ns=each.origin_ns)
    )
    tags = [builder.tag({"of": each.name, "n": number}) for number in range(2)]
    for time_ns, names, value, tag in each.changes:
        builder.modify(time_ns, builder.quark(*names), value, None if tag is None else tags[tag])
    put(builder, each, (), 0)
    return builder.close(each.end_ns)


def together(hosts: list[Host]) -> History:
    """Return the history built from the events of all hosts; states end with their host."""
    first_ns = hosts[0].origin_ns
    begins = [each.origin_ns - first_ns for each in hosts]
    finish_ns = max(each.end_ns + begin for each, begin in zip(hosts, begins, strict=True))
    builder = HistoryBuilder(start_ns=min(begins))
    changes: list[tuple[int, int, Value, int | None]] = []
    for each, offset_ns in zip(hosts, begins, strict=True):
        prefix = ("Hosts", each.name)
        tags = [builder.tag({"of": each.name, "n": number}) for number in range(2)]
        known = set()
        for time_ns, path, value, tag in each.changes:
            known.add(quark := builder.quark(*prefix, *path))
            changes.append((time_ns + offset_ns, quark, value, None if tag is None else tags[tag]))
        end_ns = each.end_ns + offset_ns
        if end_ns < finish_ns:
            changes += [(end_ns, quark, None, None) for quark in known]
        put(builder, each, prefix, offset_ns)
    for change in sorted(changes, key=lambda change: change[0]):
        builder.modify(*change)
    return builder.close(finish_ns)


def rows_of(table: Any, history: History) -> list[dict[str, Any]]:
    """Return the rows of a table by column, with paths and tags instead of numbers."""
    columns = {}
    for name, column in table.columns().items():
        values = column.tolist() if hasattr(column, "tolist") else column.to_list()
        if name in {"quark", "thread", "from_quark", "to_quark"}:
            values = [history.attributes.path(value) for value in values]
        elif name == "tag":
            values = [value if value is None else history.tags[value] for value in values]
        elif name == "stack":
            values = [table.stacks.frames_of(value) for value in values]
        if name not in {"span", "parent"}:
            columns[name] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def by_text(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


def check_states(joined: History, whole: History, random: np.random.Generator) -> None:
    paths = [joined.attributes.path(quark) for quark in joined.without_derived().attributes]
    paths = [path for path in paths if whole.find(path) is not None]
    random.shuffle(paths)
    ours, theirs = ([history.quark(path) for path in paths] for history in (joined, whole))
    start_ns, end_ns = sorted(random.integers(whole.start_ns, whole.end_ns + 1, 2).tolist())
    start_ns = min(start_ns, whole.end_ns - 1)
    end_ns = max(end_ns, start_ns + 1)
    times = random.integers(whole.start_ns, whole.end_ns, len(paths))

    assert joined.sample(ours, times).rows() == whole.sample(theirs, times).rows()
    for one, other in (
        (joined.states(ours, times), whole.states(theirs, times)),
        (joined.intervals(ours, start_ns, end_ns), whole.intervals(theirs, start_ns, end_ns)),
        (
            joined.intervals(ours, start_ns, end_ns, 7),
            whole.intervals(theirs, start_ns, end_ns, 7),
        ),
    ):
        assert rows_of(one, joined) == rows_of(other, whole)
    for quark, other_quark, time_ns in zip(ours, theirs, times.tolist(), strict=True):
        assert joined.state(quark, time_ns)[1:4] == whole.state(other_quark, time_ns)[1:4]
    for bins in (1, int(random.integers(2, 300))):
        one_of, other_of = (
            history.shares(asked, start_ns, end_ns, bins)
            for history, asked in ((joined, ours), (whole, theirs))
        )
        assert by_text(rows_of(one_of, joined)) == by_text(rows_of(other_of, whole))
        assert one_of.changes_bin.tolist() == other_of.changes_bin.tolist()
        assert one_of.changes.tolist() == other_of.changes.tolist()
        longest = [
            history.dominant(asked, start_ns, end_ns, bins).ns.tolist()
            for history, asked in ((joined, ours), (whole, theirs))
        ]
        assert longest[0] == longest[1]
    tiles = [
        history.state_tile(asked, whole.start_ns - 3, 8, 64)
        for history, asked in ((joined, ours), (whole, theirs))
    ]
    assert (tiles[0].shares == tiles[1].shares).all()
    for quark, other_quark in zip(ours, theirs, strict=True):
        if joined.has_values([quark])[0] and paths[ours.index(quark)][-1] == "load":
            check_numbers(joined, whole, quark, other_quark, (start_ns, end_ns))


def check_numbers(
    joined: History, whole: History, quark: int, other: int, range_ns: tuple[int, int]
) -> None:
    try:
        expected = whole.maximum(other, *range_ns), whole.average(other, *range_ns)
    except meantime.MeantimeError:
        with pytest.raises(meantime.MeantimeError):
            joined.maximum(quark, *range_ns)
        return
    assert (joined.maximum(quark, *range_ns), joined.average(quark, *range_ns)) == expected
    tiles = [
        history.counter_tile([each], range_ns[0], 16, 9)
        for history, each in ((joined, quark), (whole, other))
    ]
    for name in ("least", "greatest", "mean"):
        one, two = (getattr(tile, name) for tile in tiles)
        assert np.array_equal(one, two, equal_nan=True)


def check_events(joined: History, whole: History, random: np.random.Generator) -> None:
    start_ns, end_ns = sorted(random.integers(whole.start_ns, whole.end_ns, 2).tolist())
    threads = joined.quarks("Hosts/*/Processes/*/Threads/1").tolist()
    others = [whole.quark(joined.attributes.path(quark)) for quark in threads]
    for asked in ({}, {"start_ns": start_ns, "end_ns": end_ns + 1}):
        for method in ("spans", "points", "flows", "samples"):
            for ours, theirs in ((None, None), (threads, others)):
                one = getattr(joined, method)(ours, **asked)
                other = getattr(whole, method)(theirs, **asked)
                found = by_text(rows_of(one, joined))
                assert found == by_text(rows_of(other, whole)), method
    spans = joined.spans(start_ns=start_ns)
    arguments = [spans.arguments(row) for row in range(len(spans))]
    assert arguments == [f'{{"n": "{name}"}}' for name in spans.name.to_list()]
    for row, parent in enumerate(spans.parent.tolist()):
        if parent >= 0:
            assert spans.start_ns[parent] <= spans.start_ns[row]
            assert spans.end_ns[parent] >= spans.end_ns[row]
            assert spans.thread_at(parent) == spans.thread_at(row)


@settings(max_examples=8, phases=[Phase.generate])
@given(HOSTS, st.integers(0, 2**32 - 1), st.sampled_from(["memory", "disk"]))
def test_a_join_answers_as_one_history_of_the_same_events(
    drawn: list[tuple[int, int]], seed: int, where: str
) -> None:
    hosts = [host(number, *each) for number, each in enumerate(drawn)]
    random = np.random.default_rng(seed)
    whole = together(hosts)
    with TemporaryDirectory() as folder:
        parts = [alone(each, Path(folder) if where == "disk" else None) for each in hosts]

        joined = meantime.join(parts, [each.name for each in hosts])

        assert (joined.start_ns, joined.end_ns) == (whole.start_ns, whole.end_ns)
        for _ in range(2):
            check_states(joined, whole, random)
            check_events(joined, whole, random)
        stored = [meantime.stats(history.without_derived()).rows for history in (joined, whole)]
        assert stored[0] == stored[1]
        names = [
            by_text(rows_of(meantime.stats(history, "name"), history))
            for history in (joined, whole)
        ]
        assert names[0] == names[1]
