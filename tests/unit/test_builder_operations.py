from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from meantime.errors import (
    HistoryError,
    OutputError,
    QuarkError,
    StateTypeError,
    TimeOrderError,
    TimeRangeError,
)
from meantime.history import AttributePool, AttributeQueue, HistoryBuilder, reorder, structures
from meantime.history.store import Store
from meantime.model.columns import Coded
from meantime.testing import picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def builder() -> HistoryBuilder:
    return HistoryBuilder()


def test_a_stack_keeps_its_depth_and_its_values_in_numbered_children(
    builder: HistoryBuilder,
) -> None:
    stack = builder.quark("s")
    builder.push(1, stack, "a")
    builder.push(2, stack, "b")
    assert builder.pop(4, stack) == "b"
    assert builder.pop(5, stack) == "a"
    assert builder.pop(6, stack) is None

    history = builder.close(7)

    assert picture(history).split("\n") == ["s   .1221..", "s/1 .aaaa..", "s/2 ..bb..."]


def test_pushing_nothing_makes_the_stack_deeper(builder: HistoryBuilder) -> None:
    stack = builder.quark("s")
    builder.push(1, stack, None)

    assert (builder.ongoing(stack), builder.pop(2, stack), builder.ongoing(stack)) == (
        1,
        None,
        None,
    )


def test_a_pop_clears_what_is_below_the_top(builder: HistoryBuilder) -> None:
    stack = builder.quark("s")
    builder.push(1, stack, "a")
    note = builder.quark("s", "1", "note")
    builder.modify(1, note, "n")
    builder.pop(3, stack)

    assert builder.ongoing(note) is None


def test_pushes_and_pops_of_one_instant_leave_the_last(builder: HistoryBuilder) -> None:
    stack = builder.quark("s")
    builder.push(1, stack, "a")
    for _ in range(3):
        builder.pop(2, stack)
        builder.push(2, stack, "b")

    assert picture(builder.close(4)).split() == ["s", ".111", "s/1", ".abb"]


def test_a_stack_needs_a_depth(builder: HistoryBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    text = builder.quark("text")
    builder.modify(0, text, "x")

    with pytest.raises(StateTypeError, match="is its depth"):
        builder.push(1, text, "y")
    monkeypatch.setattr(structures, "_DEEPEST", 2)
    stack = builder.quark("s")
    builder.push(1, stack, "a")
    builder.push(1, stack, "b")
    with pytest.raises(HistoryError, match="which is the limit"):
        builder.push(1, stack, "c")


def test_an_increment_counts_from_nothing(builder: HistoryBuilder) -> None:
    count, sum_, text = builder.quark("count"), builder.quark("sum"), builder.quark("text")
    for time_ns in (1, 2, 3):
        builder.increment(time_ns, count)
        builder.increment(time_ns, sum_, 0.5)
    builder.modify(1, text, "x")

    assert (builder.ongoing(count), builder.ongoing(sum_)) == (3, 1.5)
    with pytest.raises(StateTypeError):
        builder.increment(4, text)
    with pytest.raises(StateTypeError):
        builder.increment(4, count, 0.5)
    builder.modify(4, count, 2**63 - 1)
    with pytest.raises(StateTypeError, match="64 bits"):
        builder.increment(5, count)


def test_removing_takes_all_below_with_it(builder: HistoryBuilder) -> None:
    for path in (("a",), ("a", "b"), ("a", "b", "c")):
        builder.modify(1, builder.quark(*path), "x")
    builder.remove(3, builder.quark("a"))

    assert picture(builder.close(4)).split()[1::2] == [".xx."] * 3


@pytest.mark.parametrize("segment_changes", [1, 100])
def test_an_ongoing_value_can_be_replaced_even_where_it_is_sealed(
    builder: HistoryBuilder, segment_changes: int
) -> None:
    builder.contents.store = Store(builder.contents.refuse, segment_changes)
    one, other, never = builder.quark("one"), builder.quark("other"), builder.quark("never")
    tag = builder.tag({"pid": 1})
    builder.modify(2, one, "x", tag)
    for time_ns in range(3, 9):
        builder.modify(time_ns, other, "ab"[time_ns % 2])
    builder.update_ongoing(one, "y")
    builder.update_ongoing(never, "z")
    builder.modify(9, one, "x")

    history = builder.close()

    assert picture(history).split()[1::2] == ["..yyyyyyyx", "...bababaa", "zzzzzzzzzz"]
    assert history.state(one, 5).tag == tag
    assert not history.anomalies


def test_what_was_put_off_comes_before_the_change_that_reaches_it(builder: HistoryBuilder) -> None:
    one, other = builder.quark("one"), builder.quark("other")
    builder.later(4, one, "b")
    builder.later(2, one, "a")
    builder.later(4, one, "c")
    builder.later(9, one, None)
    builder.modify(1, other, "x")
    assert builder.ongoing(one) is None
    builder.modify_many([2, 3, 5], [other] * 3, Coded.of(["y", "z", "y"]))
    assert builder.ongoing(one) == "c"

    history = builder.close(7)

    assert picture(history).split() == ["one", "..aaccccc.", "other", ".xyzzyyyyy"]


def test_a_put_off_push_and_pop_work_on_the_stack(builder: HistoryBuilder) -> None:
    stack = builder.quark("s")
    builder.later(1, stack, "a", action="push")
    builder.later(3, stack, action="pop")

    assert picture(builder.close(4)).split() == ["s", ".11.", "s/1", ".aa."]


def test_late_changes_are_sorted_in_within_the_given_delay() -> None:
    builder = HistoryBuilder(reorder_ns=5)
    quark = builder.quark("a")
    for time_ns, value in ((3, "c"), (1, "a"), (2, "b")):
        builder.modify(time_ns, quark, value)
    builder.modify_many([7, 4, 6], [quark] * 3, ["g", "d", "f"])
    builder.modify_many([5], [quark], Coded.of(["e"]))

    assert picture(builder.close()).split()[1] == ".abcdefg"


def test_changes_later_than_the_given_delay_are_an_error() -> None:
    builder = HistoryBuilder(reorder_ns=5)
    quark = builder.quark("a")
    rows = 2**16
    builder.modify_many(np.arange(rows) * 10, [quark] * rows, np.arange(rows))

    with pytest.raises(TimeOrderError, match="reorder_ns"):
        builder.modify(3, quark, 7)
    assert builder.close().state(quark, 3).value == 0


def test_a_queue_gives_back_the_oldest_first(builder: HistoryBuilder) -> None:
    queue = AttributeQueue(builder, builder.quark("q"))
    for time_ns, value in enumerate("abc"):
        queue.offer(time_ns, value)

    assert [queue.poll(5), queue.poll(6), len(queue), queue.peek()] == ["a", "b", 1, "c"]
    assert [queue.poll(7), queue.poll(8), len(queue), queue.peek()] == ["c", None, 0, None]
    assert picture(builder.close(9)).split()[1::2] == [
        "1233321..",
        "aaaaabc..",
        ".bbbbc...",
        "..ccc....",
    ]


@pytest.mark.parametrize(("order", "again"), [("fifo", ["1", "0"]), ("lowest", ["0", "1"])])
def test_a_pool_gives_children_again(
    builder: HistoryBuilder,
    order: str,
    again: list[str],
) -> None:
    pool = AttributePool(builder, builder.quark("pool"), lowest_first=order == "lowest")
    first, second = pool.available(), pool.available()
    builder.modify(1, first, "x")
    pool.recycle(2, second)
    pool.recycle(2, first)

    assert builder.ongoing(first) is None
    assert builder.attributes.names([pool.available(), pool.available()]) == again
    with pytest.raises(ValueError, match="not in use"):
        pool.recycle(3, 99)


def test_the_current_state_can_be_queried_while_building(builder: HistoryBuilder) -> None:
    quark = builder.quark("a")
    assert (builder.ongoing(quark), builder.ongoing_start(quark)) == (None, 0)
    builder.modify(-4, builder.quark("b"), 1)
    builder.modify(5, quark, "x")

    assert (builder.ongoing(quark), builder.ongoing_start(quark)) == ("x", 5)
    with pytest.raises(QuarkError):
        builder.ongoing(7)
    with pytest.raises(QuarkError):
        builder.update_ongoing(7, "x")


def test_a_history_can_be_queried_while_it_is_built(builder: HistoryBuilder) -> None:
    builder.contents.store = Store(builder.contents.refuse, segment_changes=2)
    history = builder.history
    one, other = builder.quark("one"), builder.quark("other")
    seen = []
    for time_ns in range(1, 6):
        builder.modify(time_ns, one, "ab"[time_ns % 2])
        seen.append(picture(history).split()[1])
    builder.modify(2, other, "c")

    assert seen == [".b", ".ba", ".bab", ".baba", ".babab"]
    assert not history.built
    assert history.state(one, 5) == (one, 5, 6, "b", None, True)
    assert history.state(other, 5) == (other, 2, 6, "c", None, True)
    assert history.intervals([one]).ongoing.tolist() == [False] * 4 + [True]

    assert builder.close(9) is history
    assert history.built
    assert history.state(one, 8) == (one, 5, 9, "b", None, False)


@pytest.mark.parametrize("quark", [-2, -1, 1, 2**31, 2**40, -(2**40)])
def test_a_bad_quark_is_refused_by_every_operation(builder: HistoryBuilder, quark: int) -> None:
    builder.quark("only")

    operations: list[Callable[[], object]] = [
        lambda: builder.modify(1, quark, 1),
        lambda: builder.modify_many([1], [quark], [1]),
        lambda: builder.update_ongoing(quark, 1),
        lambda: builder.push(1, quark, 1),
        lambda: builder.pop(1, quark),
        lambda: builder.increment(1, quark),
        lambda: builder.remove(1, quark),
        lambda: builder.later(1, quark, 1),
        lambda: builder.ongoing(quark),
        lambda: builder.ongoing_start(quark),
    ]
    for operation in operations:
        with pytest.raises(QuarkError):
            operation()


def test_a_time_is_a_whole_number_that_fits(builder: HistoryBuilder) -> None:
    quark = builder.quark("a")

    for time_ns in (2**63, 2**63 - 1, -(2**63)):
        with pytest.raises(TimeRangeError):
            builder.modify(time_ns, quark, 1)
        with pytest.raises(TimeRangeError):
            builder.later(time_ns, quark, 1)
    for bad in (1.5, "1", None):
        with pytest.raises(TypeError):
            builder.modify(bad, quark, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float64"):
        builder.modify_many(np.array([1.0]), [quark], [1])
    with pytest.raises(TimeRangeError):
        builder.modify_many(np.array([2**63 + 5], np.uint64), [quark], [1])
    builder.modify(np.int64(3), quark, np.int8(4))  # type: ignore[arg-type]
    assert builder.ongoing(quark) == 4


def test_what_cannot_be_put_off_is_refused_at_once(builder: HistoryBuilder) -> None:
    with pytest.raises(ValueError, match="unknown action 'update'"):
        builder.later(1, builder.quark("a"), 1, action="update")  # type: ignore[arg-type]
    builder.later(3, builder.quark("a"), 2, action="increment")
    builder.later(4, builder.quark("a"), action="remove")

    assert picture(builder.close(6)).split() == ["a", "...2.."]


def test_there_and_back_in_one_instant_leaves_two_equal_intervals(builder: HistoryBuilder) -> None:
    quark = builder.quark("a", parent=None)
    for time_ns, value in ((0, "A"), (5, "B"), (5, "A")):
        builder.modify(time_ns, quark, value)

    history = builder.close(9)

    assert [tuple(interval)[1:4] for interval in history.iterate(quark, 0)] == [
        (0, 5, "A"),
        (5, 9, "A"),
    ]


def test_over_an_instant_a_number_is_what_it_is_then(builder: HistoryBuilder) -> None:
    quark = builder.quark("n")
    builder.modify_many([2, 4], [quark] * 2, [10, 20])
    history = builder.close(9)

    assert [history.average(quark, time_ns, time_ns) for time_ns in (0, 3, 4)] == [0.0, 10.0, 20.0]
    assert [history.maximum(quark, time_ns, time_ns) for time_ns in (0, 3)] == [None, 10]
    with pytest.raises(TimeRangeError):
        history.average(quark, 4, 3)
    with pytest.raises(TimeRangeError):
        history.average(quark, 9, 9)
    with pytest.raises(TimeRangeError):
        history.sample([quark], [2**70])


def test_a_repeated_declaration_or_definition_is_one(builder: HistoryBuilder) -> None:
    builder.modify(1, builder.quark("a"), "x", builder.tag({"pid": 1}))
    for _ in range(2):
        builder.lanes("*", entity_kind="Disk")
        builder.define_tag(0, {"pid": 1})
        builder.define_tag(1, {})

    history = builder.close()

    assert len([lane for lane in history.lanes if lane.declaration.pattern]) == 1
    assert list(history.tags) == [{"pid": 1}, {}]


def test_a_code_without_a_string_is_rejected() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")

    with pytest.raises(ValueError, match="a: a code at 2 ns has no string"):
        builder.modify_many([1, 2], [quark] * 2, Coded(np.array([0, 1], np.int32), ["x"]))
    builder.modify_many([3, 4], [quark] * 2, Coded(np.array([-1, 0]), ["y"]))

    assert [i.value for i in builder.close().intervals([quark], 1)] == ["x", None, "y"]


def test_removing_the_root_is_refused_and_takes_nothing(builder: HistoryBuilder) -> None:
    quark = builder.quark("a")
    builder.modify(1, quark, "x")

    with pytest.raises(QuarkError):
        builder.remove(2, -1)
    assert builder.ongoing(quark) == "x"


def test_an_increment_may_be_a_number_of_numpy_but_no_bool(builder: HistoryBuilder) -> None:
    quark = builder.quark("a")
    builder.increment(1, quark, np.int64(2))  # type: ignore[arg-type]

    assert builder.ongoing(quark) == 2
    with pytest.raises(StateTypeError):
        builder.increment(2, quark, True)


def test_a_time_that_is_not_an_integer_is_rejected(builder: HistoryBuilder) -> None:
    builder.modify(1, builder.quark("a"), "x")

    with pytest.raises(TypeError):
        builder.history.state(0, 1.5)  # type: ignore[arg-type]


def test_an_invalid_change_is_reported_at_once_even_if_late_ones_are_accepted() -> None:
    builder = HistoryBuilder(reorder_ns=5)
    quark = builder.quark("a")
    builder.modify(10, quark, 1)
    builder.modify(5, quark, 2)

    with pytest.raises(TimeOrderError, match="reorder_ns"):
        builder.modify(4, quark, 3)
    with pytest.raises(StateTypeError):
        builder.modify_many([11, 12], [quark] * 2, [4, "x"])
    with pytest.raises(QuarkError):
        builder.modify(1, 99, 1)
    assert [i.value for i in builder.close().intervals([quark])] == [2, 1, 4]


def test_the_ongoing_state_includes_delayed_changes() -> None:
    builder = HistoryBuilder(reorder_ns=5)
    count, stack = builder.quark("a"), builder.quark("s")
    for time_ns in (1, 3):
        builder.increment(time_ns, count)
        builder.push(time_ns, stack, "x")
    builder.modify(2, count, 7)
    builder.update_ongoing(count, 5)
    assert (builder.ongoing(count), builder.ongoing_start(count)) == (5, 3)
    assert builder.pop(4, stack) == "x"

    history = builder.close(6)

    assert picture(history).split("\n") == ["a   .17555", "s   .11211", "s/1 .xxxxx", "s/2 ...x.."]


def test_an_attribute_may_be_late_however_far_ahead_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reorder, "_HELD_ROWS", 2)
    builder = HistoryBuilder(reorder_ns=5)
    slow, fast = builder.quark("a"), builder.quark("b")
    builder.modify_many([1, 9, 50, 60], [slow, slow, fast, fast], ["x", "z", "x", "y"])
    builder.modify(5, slow, "y")

    assert [i.value for i in builder.close().intervals([slow], 1)] == ["x", "y", "z"]


def test_a_change_that_was_put_off_in_vain_takes_no_other_down(builder: HistoryBuilder) -> None:
    q, r, s = builder.quark("q"), builder.quark("r"), builder.quark("s")
    builder.later(3, q, 1)
    builder.later(4, r, "good")
    builder.later(4, q, 2)
    builder.modify(2, q, "text")

    with pytest.raises(
        StateTypeError,
        match=r"^later\(3, ..., action='modify'\): q has type str: it cannot be set to int"
        r" \(and 1 more failed\)$",
    ):
        builder.modify(10, s, "S")

    history = builder.close(12)
    assert history.state(r, 5) == (r, 4, 12, "good", None, False)
    assert history.state(s, 10) == (s, 10, 12, "S", None, False)


@pytest.mark.parametrize("columns", [False, True])
def test_changes_in_columns_are_done_though_one_put_off_fails(
    builder: HistoryBuilder,
    columns: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    q, s = builder.quark("q"), builder.quark("s")
    builder.later(3, q, 1)
    builder.modify(2, q, "text")

    def change() -> None:
        if columns:
            builder.modify_many([1, 9], [s, s], ["a", "b"])
        else:
            builder.push(9, s, "b")

    with pytest.raises(StateTypeError, match=r"^later\(3, "):
        change()

    history = builder.close(12)
    assert history.state(s, 10).start_ns == 9


def test_closing_reports_scheduled_changes_that_failed_and_then_closes(
    builder: HistoryBuilder,
) -> None:
    q, r = builder.quark("q"), builder.quark("r")
    builder.later(3, q, 1)
    builder.later(4, r, 1)
    builder.modify(2, q, "text")

    with pytest.raises(
        StateTypeError, match=r"^later\(3, .*\): q has type str: it cannot be set to "
    ):
        builder.close(9)

    assert builder.close(9).state(r, 5).value == 1


def test_a_change_that_would_fail_cannot_be_scheduled(builder: HistoryBuilder) -> None:
    q, n = builder.quark("q"), builder.quark("n")
    builder.modify(5, q, "a")
    builder.modify(5, n, 1)

    with pytest.raises(TimeOrderError, match=r"^q: a change at 3 ns comes after one at 5 ns"):
        builder.later(3, q, "x")
    refused: list[tuple[Any, Any]] = [
        (1, "modify"),
        ([], "modify"),
        ("x", "push"),
        (1, "increment"),
    ]
    for value, action in refused:
        with pytest.raises(StateTypeError):
            builder.later(7, q, value, action=action)
    for amount in ("x", None, True):
        with pytest.raises(StateTypeError):
            builder.later(7, n, amount, action="increment")
    builder.later(5, q, "b")
    builder.later(6, n, 2, action="increment")

    history = builder.close(8)
    assert history.state(n, 7).value == 3
    assert history.state(q, 7).value == "b"


def test_a_push_that_fails_changes_nothing(builder: HistoryBuilder) -> None:
    stack = builder.quark("stack")
    builder.push(1, stack, "main")
    builder.pop(2, stack)

    with pytest.raises(StateTypeError, match=r"^stack/1 has type str: it cannot be set to int$"):
        builder.push(3, stack, 5)
    with pytest.raises(TimeOrderError, match=r"^stack: a change at 1 ns comes after one at 2 ns"):
        builder.push(1, stack, "x")

    assert builder.ongoing(stack) is None
    assert builder.close(5).state(stack, 4).start_ns == 2


@pytest.mark.parametrize("quark", [-2, 3])
def test_a_pool_needs_a_parent_that_is_there(builder: HistoryBuilder, quark: int) -> None:
    builder.quark("a")

    with pytest.raises(QuarkError, match=f"^{quark} is not the quark of an attribute"):
        AttributePool(builder, quark)


def test_a_refused_pop_remove_or_poll_has_changed_nothing(builder: HistoryBuilder) -> None:
    stack = builder.quark("stack")
    builder.push(1, stack, "main")
    builder.modify(10, builder.quark("1", parent=stack), "renamed")
    with pytest.raises(TimeOrderError):
        builder.pop(5, stack)
    assert builder.ongoing(stack) == 1

    disk, x, y = builder.quark("d"), builder.quark("d", "x"), builder.quark("d", "y")
    for time_ns, quark in ((1, disk), (10, x), (1, y)):
        builder.modify(time_ns, quark, "on")
    with pytest.raises(TimeOrderError):
        builder.remove(5, disk)
    assert [builder.ongoing(each) for each in (disk, x, y)] == ["on", "on", "on"]

    line = builder.quark("q")
    queue = AttributeQueue(builder, line)
    for time_ns, value in ((1, "a"), (2, "b"), (9, "c")):
        queue.offer(time_ns, value)
    with pytest.raises(TimeOrderError):
        queue.poll(5)
    values = [builder.ongoing(child) for child in builder.attributes.children(line).tolist()]
    assert (values, builder.ongoing(line)) == (["a", "b", "c"], 3)

    pool = AttributePool(builder, disk)
    child = pool.available()
    builder.modify(20, child, "busy")
    with pytest.raises(TimeOrderError):
        pool.recycle(15, child)
    assert pool.available() != child


def test_a_pool_under_the_root_works(builder: HistoryBuilder) -> None:
    pool = AttributePool(builder, -1)
    first = pool.available()
    assert builder.attributes.path(first) == ("0",)
    pool.recycle(5, first)
    assert pool.available() == first


@pytest.mark.parametrize("depth", [2, -1])
def test_a_depth_that_no_push_made_cannot_be_popped(builder: HistoryBuilder, depth: int) -> None:
    stack = builder.quark("s")
    builder.modify(1, stack, depth)

    with pytest.raises(StateTypeError):
        builder.pop(2, stack)
    assert builder.ongoing(stack) == depth


def test_a_cell_of_shares_adds_numbers_that_are_equal(builder: HistoryBuilder) -> None:
    builder.modify(0, builder.quark("a"), 1)
    builder.modify(0, builder.quark("b"), 1.0)
    history = builder.close(10)

    shares = history.grouped_shares([0, 1], 0, 10, key=lambda path: "g")  # noqa: ARG005
    assert shares.cell("g", 0) == {1: 20}


def test_clipped_intervals_add_up_to_the_range(builder: HistoryBuilder) -> None:
    quark = builder.quark("a")
    for time_ns, value in ((1, "x"), (4, "y"), (8, "z")):
        builder.modify(time_ns, quark, value)
    history = builder.close(10)

    whole = history.intervals(quark, 3, 9)
    assert [*zip(whole.start_ns.tolist(), whole.end_ns.tolist(), strict=True)] == [
        (1, 4), (4, 8), (8, 10)
    ]  # fmt: skip
    for found in (
        history.intervals(quark, 3, 9, clip=True),
        *history.interval_batches([quark], 3, 9, clip=True),
    ):
        assert [*zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)] == [
            (3, 4), (4, 8), (8, 9)
        ]  # fmt: skip


def test_no_state_counts_as_0_of_the_type_that_numbers_have() -> None:
    builder = HistoryBuilder()
    load, text = builder.quark("load"), builder.quark("text")
    builder.modify(0, load, 1.5)
    builder.modify(1, load, None)
    builder.increment(2, load, 1)
    assert (builder.ongoing(load), type(builder.ongoing(load))) == (1.0, float)
    builder.modify(0, text, "a")
    builder.modify(1, text, None)
    with pytest.raises(StateTypeError, match="has type str"):
        builder.increment(2, text, 1)


def test_a_mistake_in_a_path_does_not_become_a_tree(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"there is no folder .*dir; make it first"):
        HistoryBuilder(tmp_path / "no" / "dir" / "x.mth")
    assert not list(tmp_path.iterdir())
