"""State statistics against the plain definition, over random timelines."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import chain
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime import HistoryBuilder
from meantime.errors import TimeRangeError
from meantime.model.durations import PERCENTS
from meantime.query.state_durations import StateDurations
from meantime.query.statistics import state_statistics, state_totals
from meantime.testing import history_from_picture

ROWS = st.lists(st.text("abc.", min_size=12, max_size=12), min_size=1, max_size=4)


def quantile(ordered: list[int], q: Fraction) -> int:
    rank = -(-len(ordered) * q.numerator // q.denominator)
    return ordered[rank - 1]


@given(rows=ROWS, start_ns=st.integers(0, 11), length=st.integers(1, 12))
def test_statistics_are_those_of_the_clipped_intervals(
    rows: list[str], start_ns: int, length: int
) -> None:
    end_ns = min(12, start_ns + length)
    picture = "\n".join(f"row{i}  {row}" for i, row in enumerate(rows))
    lengths: dict[tuple[str, str], list[int]] = defaultdict(list)
    transitions: Counter[tuple[str, str]] = Counter()
    for i, row in enumerate(rows):
        cut = row[start_ns:end_ns]
        begin = 0
        for position in range(1, len(cut) + 1):
            if position == len(cut) or cut[position] != cut[begin]:
                if cut[begin] != ".":
                    lengths[f"row{i}", cut[begin]].append(position - begin)
                if position < len(cut) and "." not in (cut[begin], cut[position]):
                    transitions[cut[begin], cut[position]] += 1
                begin = position

    def existed(row: str) -> int:
        start = len(row) - len(row.lstrip("."))
        return max(0, min(len(row.rstrip(".")), end_ns) - max(start, start_ns))

    by_entity = state_statistics(
        history_from_picture(picture), by="entity", start_ns=start_ns, end_ns=end_ns
    )
    by_state = state_statistics(history_from_picture(picture), start_ns=start_ns, end_ns=end_ns)

    assert {(r.entity, r.key): r.total_ns for r in by_entity.rows} == {
        key: sum(part) for key, part in lengths.items()
    }
    assert {(row.before, row.after): row.times for row in by_state.transitions} == transitions
    assert by_entity.transitions == by_state.transitions
    for found in by_state.rows:
        of_state = [part for (_, state), part in lengths.items() if state == found.key]
        ordered = sorted(chain.from_iterable(of_state))
        assert (found.count, found.total_ns) == (len(ordered), sum(ordered))
        assert (found.min_ns, found.max_ns) == (ordered[0], ordered[-1])
        assert found.median_ns == quantile(ordered, Fraction(1, 2))
        assert found.p90_ns == quantile(ordered, Fraction(9, 10))
        assert found.p99_ns == quantile(ordered, Fraction(99, 100))
        assert found.share == found.total_ns / sum(map(existed, rows))
    for found in by_entity.rows:
        assert found.share == found.total_ns / existed(rows[int((found.entity or "")[3:])])


@given(rows=ROWS, tasks=ROWS, start_ns=st.integers(0, 11), length=st.integers(1, 12))
def test_kinds_are_apart_and_a_short_lived_entity_exists_while_it_has_a_state(
    rows: list[str], tasks: list[str], start_ns: int, length: int
) -> None:
    end_ns = min(12, start_ns + length)
    builder = HistoryBuilder()
    builder.lanes("Loops/*", label="Loops")
    builder.lanes("Tasks/*", label="Tasks", short_lived=True)
    for group, every in (("Loops", rows), ("Tasks", tasks)):
        for number, row in enumerate(every):
            states = [None if state == "." else state for state in row]
            builder.modify_many(range(12), [builder.quark(group, str(number))] * 12, states)
    builder.close(12)

    found = state_statistics(builder.history, start_ns=start_ns, end_ns=end_ns)

    cut = "".join(row[start_ns:end_ns] for row in tasks).replace(".", "")
    assert {row.key: (row.total_ns, row.share) for row in found.rows if row.kind == "Tasks"} == {
        state: (cut.count(state), cut.count(state) / len(cut)) for state in set(cut)
    }
    assert [row.kind for row in found.rows] == sorted(row.kind for row in found.rows)
    loops = "".join(row[start_ns:end_ns] for row in rows).replace(".", "")
    assert {row.key: row.total_ns for row in found.rows if row.kind == "Loops"} == Counter(loops)
    whole = state_statistics(builder.history).rows
    assert state_totals(builder.history) == {
        (row.kind, row.key): (row.total_ns, row.share) for row in whole
    }


@given(
    rows=st.lists(st.text("abc.", min_size=6, max_size=6), min_size=1, max_size=4),
    unit_ns=st.sampled_from([1, 2**40, 2**60]),
    kind=st.sampled_from([str, int, float]),
)
def test_totals_of_any_length_and_of_numbers_are_those_of_the_statistics(
    rows: list[str], unit_ns: int, kind: type
) -> None:
    builder = HistoryBuilder(start_ns=-3 * unit_ns)
    for number, row in enumerate(rows):
        quark = builder.quark(str(number))
        for place, letter in enumerate(row):
            value = None if letter == "." else letter if kind is str else kind(ord(letter))
            builder.modify((place - 3) * unit_ns, quark, value)
    history = builder.close(3 * unit_ns)

    assert state_totals(history) == {
        (row.kind, row.key): (row.total_ns, row.share) for row in state_statistics(history).rows
    }


@pytest.mark.parametrize("by", ["state", "entity"])
@pytest.mark.parametrize("keep", [None, "exact", "sketch"])
def test_states_of_a_range_longer_than_a_duration_can_be(
    by: Literal["state", "entity"], keep: Literal["exact", "sketch"] | None
) -> None:
    builder = HistoryBuilder(start_ns=-(2**62))
    quark = builder.quark("a")
    for time_ns, value in ((-(2**62), "x"), (0, "y"), (2**62, "x"), (2**62 + 2, "y")):
        builder.modify(time_ns, quark, value)
    history = builder.close(2**62 + 2**61)
    whole_ns = 2**63 + 2**61

    rows = state_statistics(history, by=by, keep=keep).rows
    assert [(row.key, row.total_ns, row.max_ns, row.share) for row in rows] == [
        ("y", 2**62 + 2**61 - 2, 2**62, (2**62 + 2**61 - 2) / whole_ns),
        ("x", 2**62 + 2, 2**62, (2**62 + 2) / whole_ns),
    ]

    builder = HistoryBuilder(start_ns=-(2**62))
    builder.modify(-(2**62), builder.quark("a"), "x")
    history = builder.close(2**62)
    with pytest.raises(TimeRangeError, match=r"^a state of a lasts from -4611686018427387904 to"):
        state_statistics(history, by=by, keep=keep)
    assert state_totals(history) == {("", "x"): (2**63, 1.0)}
    part = state_statistics(history, by=by, keep=keep, start_ns=-(2**62) + 1)
    assert [row.total_ns for row in part.rows] == [2**63 - 1]


LENGTHS = st.integers(0, 50).flatmap(lambda bits: st.integers(1, 2**bits))


@given(
    changes=st.lists(st.tuples(LENGTHS, st.sampled_from("abc")), min_size=1, max_size=40),
    more_names=st.sampled_from([0, 0, 0, 0, 0, 1_100]),
    collected=st.sampled_from([0, 5, 1_000]),
)
@settings(max_examples=25)
def test_quantiles_are_exact_however_few_durations_are_collected(
    changes: list[tuple[int, str]], more_names: int, collected: int
) -> None:
    builder = HistoryBuilder()
    # each state apart, in an attribute of its own
    rows = [*changes, *((index % 7 + 1, f"other{index}") for index in range(more_names))]
    lengths: dict[str, list[int]] = defaultdict(list)
    end_ns = 0
    for number, (length, state) in enumerate(rows):
        quark = builder.quark(str(number % 3))
        builder.modify(end_ns, quark, state)
        builder.modify(end_ns + length, quark, None)
        lengths[state].append(length)
        end_ns += length
    builder.close(end_ns)
    history = builder.history

    found = StateDurations((0, end_ns), len(history.attributes), collected=collected)
    batches = history.interval_batches(range(len(history.attributes)), rows=8)
    for batch in batches:
        found.add(batch)

    quantiles = found.quantiles(lambda: batches)
    totals = found.totals()
    histograms = found.histograms()
    assert set(found.names) == set(lengths)
    for index, name in enumerate(found.names):
        of_state = sorted(lengths[name])
        assert totals[index] == (len(of_state), sum(of_state), of_state[0], of_state[-1])
        assert quantiles[index] == [quantile(of_state, Fraction(q, 100)) for q in PERCENTS]
        by_power = Counter(length.bit_length() - 1 for length in of_state)
        assert {i: n for i, n in enumerate(histograms[index]) if n} == by_power


def test_many_different_states_are_paired_too() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("row")
    names = [f"s{number % 700}" for number in range(1_400)]
    builder.modify_many(range(1_400), [quark] * 1_400, names)
    builder.close(1_400)

    found = state_statistics(builder.history)

    assert len(found.transitions) == 700
    assert {each.times for each in found.transitions} == {1, 2}
