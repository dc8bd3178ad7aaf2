from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from meantime.query.durations import span_statistics
from meantime.query.stacks import sample_tree, span_tree
from meantime.testing import history_from_samples, history_from_spans

SPANS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(0, 20)).map(
        lambda span: (span[0], span[1], span[1] + span[2])
    ),
    min_size=1,
    max_size=60,
)
THREADS = st.dictionaries(st.sampled_from(["one", "two"]), SPANS, min_size=1)


@given(
    threads=THREADS,
    start_ns=st.integers(0, 30),
    length=st.integers(1, 30),
    whole=st.booleans(),
)
def test_statistics_agree_with_their_definition(
    *, threads: dict[str, list[tuple[str, int, int]]], start_ns: int, length: int, whole: bool
) -> None:
    history = history_from_spans(threads)
    end_ns = start_ns + length

    found = span_statistics(history, start_ns=start_ns, end_ns=end_ns, whole=whole)

    for row, key in enumerate(found.keys):
        lengths = sorted(
            end - start if whole else min(end, end_ns) - max(start, start_ns)
            for spans in threads.values()
            for name, start, end in spans
            if name == key and start < end_ns and (end > start_ns or start == end >= start_ns)
        )
        assert found.count[row] == len(lengths)
        assert found.total_ns[row] == sum(lengths)
        assert (found.min_ns[row], found.max_ns[row]) == (lengths[0], lengths[-1])
        for column, p, q in (
            (found.median_ns, 1, 2),
            (found.p90_ns, 9, 10),
            (found.p99_ns, 99, 100),
        ):
            assert column[row] == lengths[-(-len(lengths) * p // q) - 1]


@given(THREADS)
def test_own_times_in_the_call_tree_add_up_to_the_time_in_which_anything_was_open(
    threads: dict[str, list[tuple[str, int, int]]],
) -> None:
    spans = history_from_spans(threads).spans()

    tree = span_tree(spans)

    open_ns = sum(
        len({now for _, start, end in thread for now in range(start, end)})
        for thread in threads.values()
    )
    assert tree.own.sum() == open_ns
    assert tree.total[tree.stacks.parent < 0].sum() == open_ns
    assert tree.count.sum() == len(spans)


@given(THREADS)
def test_self_times_of_all_names_add_up_to_what_the_outermost_spans_took(
    threads: dict[str, list[tuple[str, int, int]]],
) -> None:
    history = history_from_spans(threads)
    spans = history.spans()
    assume(not spans.lane.any())  # where spans overlap, so do their times

    outermost_ns = int((spans.end_ns - spans.start_ns)[spans.parent < 0].sum())

    assert span_statistics(history).self_ns.sum() == outermost_ns
    assert span_tree(spans).own.sum() == outermost_ns


STACKS = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), max_size=4), st.integers(0, 9)), max_size=30
)


@given(STACKS)
def test_a_sample_weighs_on_every_prefix_of_its_stack(stacks: list[tuple[list[str], int]]) -> None:
    history = history_from_samples([(0, "t", names, weight) for names, weight in stacks])

    tree = sample_tree(history.samples())

    # one without a stack is shown as such beside others that have one
    none = ["(no stack)"] if any(names for names, _ in stacks) else []
    stacks = [(names or none, weight) for names, weight in stacks]
    prefixes = {tuple(names[:n]) for names, _ in stacks for n in range(1, len(names) + 1)}
    expected = {
        prefix: sum(weight for names, weight in stacks if tuple(names[: len(prefix)]) == prefix)
        for prefix in prefixes
    }
    found = {tuple(tree.stacks.frames_of(row)): tree.total[row] for row in range(len(tree))}
    assert found == expected


def test_quantiles_of_many_durations_are_nearest_ranks() -> None:
    lengths = np.random.default_rng(7).integers(0, 1000, 20_000).tolist()
    history = history_from_spans(
        {"t": [("a", i * 1000, i * 1000 + n) for i, n in enumerate(lengths)]}
    )

    found = span_statistics(history)

    lengths.sort()
    assert found.median_ns.tolist() == [lengths[9_999]]
    assert found.p90_ns.tolist() == [lengths[17_999]]
    assert found.p99_ns.tolist() == [lengths[19_799]]
