"""Sums of shares, statistics and call trees: any split in any order gives the same, to the bit."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime import HistoryBuilder
from meantime.errors import UsageError
from meantime.history.grouped_shares import added_shares
from meantime.model.durations import PERCENTS, nearest_rank
from meantime.model.stacks import StackTable
from meantime.query.duration_sums import DurationsBuilder, DurationSums
from meantime.query.durations import added_span_statistics, span_statistics
from meantime.query.stacks import added_trees, sample_tree, span_tree
from meantime.query.statistics import added_statistics, state_statistics
from meantime.testing import history_from_picture, history_from_samples, history_from_spans
from meantime.view_functions.joining import join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime import History
    from meantime.model.columns import Value

T = TypeVar("T")

LENGTH = 12
LINES = st.lists(st.text("abcd.", min_size=LENGTH, max_size=LENGTH), min_size=1, max_size=3)
HOSTS = st.lists(LINES, min_size=2, max_size=5)
SPANS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(0, 20)).map(
        lambda span: (span[0], span[1], span[1] + span[2])
    ),
    min_size=1,
    max_size=20,
)
KEEP = st.sampled_from(["exact", "sketch"])


def bits(value: Any) -> Any:
    """Return what a value consists of, to the last bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, StackTable):
        return bits(value.parent), bits(value.frame), [*value.frames]
    if isinstance(value, DurationSums) and value.counts is None:
        # in no particular order
        runs = np.split(value.rows, value.offsets[1:-1])
        return value.keys, bits(value.offsets), [bits(np.sort(run)) for run in runs]
    if is_dataclass(value):
        return {each.name: bits(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return [(key, bits(each)) for key, each in value.items()]
    return [bits(each) for each in value] if isinstance(value, list) else value


def check_in_any_order(parts: list[T], added: Callable[[Sequence[T]], T], random: Any) -> None:
    """Add parts in random groups, and the groups in a random order."""
    whole = bits(added(parts))
    for _ in range(3):
        waiting = parts[:]
        random.shuffle(waiting)
        while len(waiting) > 1:
            count = random.randint(2, len(waiting))
            # as a sum that comes from another process
            group = pickle.loads(pickle.dumps(added(waiting[:count])))  # noqa: S301 - made here
            waiting = [*waiting[count:], group]
            random.shuffle(waiting)
        assert bits(waiting[0]) == whole


def histories(hosts: list[list[str]]) -> list[History]:
    return [
        history_from_picture("\n".join(f"cpu{row}  {line}" for row, line in enumerate(lines)))
        for lines in hosts
    ]


@settings(max_examples=12)
@given(
    hosts=HOSTS,
    start_ns=st.integers(-4, LENGTH + 2),
    length=st.integers(1, 2 * LENGTH),
    bins=st.integers(1, 5),
    random=st.randoms(use_true_random=False),
)
def test_shares_add_up_by_group_and_value(
    hosts: list[list[str]], start_ns: int, length: int, bins: int, random: Any
) -> None:
    end_ns = start_ns + length
    key = lambda path: None if path[0] == "cpu2" else path[0]  # noqa: E731 - short
    parts = [each.grouped_shares("**", start_ns, end_ns, bins, key) for each in histories(hosts)]

    found = added_shares(parts)

    check_in_any_order(parts, added_shares, random)
    expected: dict[tuple[str, int], Counter[Value]] = {}
    edges = found.edges_ns.tolist()
    for lines in hosts:
        for row, line in enumerate(lines[:2]):
            for part in range(bins):
                times = range(edges[part], edges[part + 1])
                values = [line[at] if 0 <= at < LENGTH else "." for at in times]
                counts = Counter(None if value == "." else value for value in values)
                expected.setdefault((f"cpu{row}", part), Counter()).update(counts)
    names = found.groups
    assert {
        (name, part): found.cell(name, part) for name in names for part in range(bins)
    } == expected


def test_shares_of_hosts_are_those_of_their_join() -> None:
    hosts = [
        history_from_picture("cpu0  aab.\ncpu1  bbbb"),
        history_from_picture("cpu0  .ba.", start_ns=3),
    ]
    joined = join(hosts, ["one", "two"], offsets={1: 0})

    found = joined.grouped_shares("Hosts/*/*", -2, 12, 5, lambda path: path[2])

    parts = [host.grouped_shares("*", -2, 12, 5) for host in hosts]
    assert bits(found) == bits(added_shares(parts))


def test_numbers_and_texts_of_different_hosts_add_up_by_value() -> None:
    def host(values: list[Value]) -> History:
        builder = HistoryBuilder()
        quark = builder.quark("load")
        for time_ns, value in enumerate(values):
            builder.modify(time_ns, quark, value)
        return builder.close(len(values))

    hosts: list[list[Value]] = [
        [1, 2, 2],
        ["b", "a", None],
        [2.0, -0.5, 2.0],
        ["c", "b", "b"],
        [2, 2**62, -5],
    ]
    shares = [host(values).shares([0]) for values in hosts]

    found = shares[0] + shares[1]
    for other in shares[2:]:
        found += other.grouped()

    assert found.value.to_list() == [None, -5, 1, 2, 2**62, -0.5, 2.0, "a", "b", "c"]
    assert found.ns.tolist() == [1, 1, 1, 3, 1, 1, 2, 1, 3, 1]
    assert found.attributes_of.tolist() == [5]
    with pytest.raises(UsageError, match="different bins"):
        found + shares[0].grouped().moved(1)


@settings(max_examples=12)
@given(hosts=HOSTS, keep=KEEP, by=st.sampled_from(["state", "entity"]), random=st.randoms())
def test_statistics_of_hosts_add_up_to_those_of_one_history_with_all(
    hosts: list[list[str]], keep: Literal["exact", "sketch"], by: Any, random: Any
) -> None:
    parts = [state_statistics(each, by=by, keep=keep) for each in histories(hosts)]

    found = added_statistics(parts)

    check_in_any_order(parts, added_statistics, random)
    lines = [line for host in hosts for line in host]
    (whole,) = histories([lines])
    if by == "state":
        # durations below 2^7 have a cell each
        assert found == added_statistics([state_statistics(whole, keep=keep)])
        assert found.rows == state_statistics(whole).rows
        assert found.is_sketch == (keep == "sketch")
    of_hosts = (
        added_statistics([each.of_host(str(i)) for i, each in enumerate(parts)])
        if (by == "state")
        else found
    )
    assert Counter({row.key: row.total_ns for row in found.rows}).keys() == set(
        "".join(lines).replace(".", "")
    )
    for key in "abcd":
        assert sum(row.total_ns for row in of_hosts.rows if row.key == key) == sum(
            line.count(key) for line in lines
        )


def test_statistics_without_what_a_sum_needs_cannot_be_added() -> None:
    history = history_from_picture("a  xyx")
    exact, sketch = (state_statistics(history, keep=keep) for keep in ("exact", "sketch"))

    with pytest.raises(UsageError, match="keep='exact'"):
        state_statistics(history) + exact
    with pytest.raises(UsageError, match="cannot be added"):
        exact + sketch
    with pytest.raises(UsageError, match="only statistics by state"):
        exact + state_statistics(history, by="entity", keep="exact")
    with pytest.raises(UsageError, match="keep='exact'"):
        span_statistics(history_from_spans({"t": [("a", 0, 1)]})) + span_statistics(
            history_from_spans({"t": [("a", 0, 1)]}), keep="exact"
        )


@settings(max_examples=12)
@given(
    threads=st.lists(SPANS, min_size=2, max_size=5),
    keep=KEEP,
    by=st.sampled_from(["name", "category"]),
    random=st.randoms(),
)
def test_spans_of_hosts_add_up_to_those_of_one_history_with_all(
    threads: list[list[tuple[str, int, int]]], keep: Any, by: Any, random: Any
) -> None:
    hosts = [history_from_spans({"t": spans}) for spans in threads]
    parts = [span_statistics(host, by, keep=keep) for host in hosts]
    trees = [span_tree(host.spans()) for host in hosts]

    found = added_span_statistics(parts)

    check_in_any_order(parts, added_span_statistics, random)
    whole = history_from_spans({f"t{i}": spans for i, spans in enumerate(threads)})
    expected = span_statistics(whole, by)
    assert found.keys == expected.keys
    for name, column in expected.columns().items():
        if name != "key":
            assert getattr(found, name).tolist() == column.tolist()  # type: ignore[union-attr] # int64
    check_in_any_order(trees, added_trees, random)
    assert weights(added_trees(trees)) == weights(span_tree(whole.spans()))
    assert weights(reduce(add, trees)) == weights(added_trees(trees))


def weights(tree: Any) -> dict[tuple[str, ...], tuple[int, int, int]]:
    columns = zip(tree.own.tolist(), tree.total.tolist(), tree.count.tolist(), strict=True)
    return {tuple(tree.stacks.frames_of(row)): each for row, each in enumerate(columns)}


def test_call_trees_of_samples_add_up() -> None:
    one = sample_tree(history_from_samples([(0, "t", ["m", "b"], 1), (1, "t", ["m"], 2)]).samples())
    two = sample_tree(history_from_samples([(0, "t", ["m", "a"], 5)]).samples())

    found = one + two

    assert weights(found) == {("m",): (2, 8, 1), ("m", "a"): (5, 5, 1), ("m", "b"): (1, 1, 1)}
    assert list(weights(found)) == [("m",), ("m", "a"), ("m", "b")]
    assert len(added_trees([])) == 0


@settings(max_examples=30)
@given(
    durations=st.lists(
        st.integers(0, 2**62)
        | st.integers(0, 62).map(lambda power: 2**power - 1)
        | st.integers(0, 300),
        min_size=1,
        max_size=60,
    ),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_a_sketch_is_within_its_bound_of_the_exact_quantiles(
    durations: list[int], cuts: list[int]
) -> None:
    edges = [0, *sorted(cuts), len(durations)]
    parts = []
    for begin, end in pairwise(edges):
        builder = DurationsBuilder("sketch")
        column = np.array(durations[begin:end], np.int64)
        builder.add(np.zeros(len(column), np.int32), column)
        parts.append(builder.build(["all"]))

    found = DurationSums.added(parts)

    exact = sorted(durations)
    for percent, about in zip(PERCENTS, found.quantiles()["all"], strict=True):
        true = exact[nearest_rank(len(exact), percent)]
        assert abs(about - true) <= true >> 8
