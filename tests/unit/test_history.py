from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

import meantime
from meantime.errors import (
    AttributeNotFound,
    HistoryClosedError,
    QuarkError,
    StateTypeError,
    TimeOrderError,
    TimeRangeError,
    UsageError,
)
from meantime.history import HistoryBuilder, build
from meantime.history.store import Store
from meantime.model.clocks import Clock
from meantime.model.columns import Coded, Mixed
from meantime.model.trace import Counters, Flows, LaneDeclaration, Points, StateChanges, Trace
from meantime.query.statistics import state_statistics
from meantime.testing import history_from_picture, picture

PICTURE = """
disk0       aab.
disk0/queue ..xx
cpu         bbbb
"""


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_a_picture_is_read_and_drawn_alike() -> None:
    assert picture(history_from_picture(PICTURE)).split() == PICTURE.split()


def test_the_end_is_never_before_the_last_change_has_had_an_instant() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.modify(5, quark, "x")
    builder.modify(20, quark, "y")

    history = builder.close(10)

    assert history.end_ns == 21
    assert history.state(quark, 20).value == "y"


def test_the_start_moves_down_to_the_first_change() -> None:
    builder = HistoryBuilder(start_ns=100)
    builder.modify(-5, builder.quark("a"), "x")
    late = builder.quark("b")

    history = builder.close()

    assert (history.start_ns, history.end_ns) == (-5, -4)
    assert history.state(late, -5) == (late, -5, -4, None, None, False)


def test_a_change_at_one_instant_replaces_what_was_there() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    for value in ("x", "y", "x"):
        builder.modify(5, quark, value)
    builder.modify(7, quark, "z")
    builder.modify(7, quark, "x")

    history = builder.close(9)

    rows = [(start, end, value) for _, start, end, value, _, _ in history.intervals([quark])]
    assert rows == [(5, 7, "x"), (7, 9, "x")]
    assert dict(history.anomalies) == {"zero_length_state": 3}


def test_one_attribute_cannot_go_backwards_but_another_can() -> None:
    builder = HistoryBuilder()
    one, other = builder.quark("one"), builder.quark("other", "x")
    builder.modify(9, one, "a")
    builder.modify(5, other, "b")

    with pytest.raises(TimeOrderError, match=r"other/x: a change at 4 ns .* 5 ns"):
        builder.modify(4, other, "c")
    with pytest.raises(TimeOrderError):
        builder.modify_many([10, 8], [one, one], Coded.of(["x", "y"]))
    assert builder.close().state(one, 10).value == "x"


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", 1), (1, 1.0), (1.0, 1), (1, "a")],
)
def test_the_first_value_fixes_the_type(first: str | float, second: str | float) -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.modify(1, quark, None)
    builder.modify(1, quark, first)

    with pytest.raises(StateTypeError, match=r"a has type .*: it cannot be set to"):
        builder.modify(2, quark, second)
    builder.modify(2, quark, None)


@pytest.mark.parametrize("value", [True, [], b"a", 2**63, -(2**63) - 1])
def test_an_invalid_value_is_rejected(value: object) -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")

    with pytest.raises(StateTypeError):
        builder.modify(1, quark, value)  # type: ignore[arg-type]
    with pytest.raises(StateTypeError):
        builder.modify_many([1], [quark], [value])  # type: ignore[list-item]


def test_numbers_of_any_size_come_back_as_they_were() -> None:
    builder = HistoryBuilder()
    ints, floats = builder.quark("ints"), builder.quark("floats")
    given_ints = [0, 2**63 - 1, -(2**63), 5, None, -1]
    # -0.0 equals 0.0, and equal numbers are one value
    given_floats = [0.5, 0.0, float("inf"), 1e300, None, float("nan")]
    builder.modify_many(range(6), [ints] * 6, given_ints)
    builder.modify_many(range(6), [floats] * 6, [0.5, -0.0, *given_floats[2:]])

    history = builder.close()

    values = history.intervals([ints, floats]).value
    assert repr(values.to_list()) == repr([*given_ints, *given_floats])
    assert isinstance(values, Mixed)
    assert values.numbers()[3] == 5.0


def test_quarks_times_and_tags_must_exist() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")

    with pytest.raises(QuarkError):
        builder.modify(0, quark + 1, "x")
    with pytest.raises(QuarkError):
        builder.modify(0, -1, "x")
    with pytest.raises(QuarkError):
        builder.modify(0, quark, "x", tag=0)
    with pytest.raises(QuarkError):
        builder.modify_many([0], [quark], ["x"], [0])
    with pytest.raises(TimeRangeError):
        builder.modify(2**63 - 1, quark, "x")
    with pytest.raises(ValueError, match="differ in length"):
        builder.modify_many([0, 1], [quark], ["x"])


def test_tags_are_sets_of_fields_and_can_be_defined_late() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    one, same, other = builder.tag({"pid": 1}), builder.tag({"pid": 1}), builder.tag({}, key="k")
    builder.modify(0, quark, "x", one)
    builder.modify(1, quark, "x", other)
    builder.define_tag(builder.tag({"pid": 9}, key="k"), {"pid": 2})

    history = builder.close()

    tags = [interval.tag for interval in history.intervals([quark])]
    assert one == same != other
    assert [history.tags[tag] for tag in tags if tag is not None] == [{"pid": 1}, {"pid": 2}]


def test_a_time_outside_is_an_error_and_a_range_is_clipped() -> None:
    history = history_from_picture(PICTURE)

    for time_ns in (-1, 4):
        with pytest.raises(TimeRangeError):
            history.state(0, time_ns)
        with pytest.raises(TimeRangeError):
            history.at(time_ns)
    for start_ns, end_ns in ((4, 9), (-9, -3), (4, None), (None, 0)):
        outside = start_ns, end_ns
        assert len(history.intervals([0], *outside)) == 0
        assert [len(each) for each in history.interval_batches([0], *outside)] == [0]
        assert history.shares([0], *outside, bins=3).ns.tolist() == []
        assert history.dominant([0], *outside, bins=3).value.to_list() == []
        assert history.count([0, 1], *outside).tolist() == [0, 0]
        assert history.estimate_count([0], *outside) == 0
        assert list(state_statistics(history, start_ns=start_ns, end_ns=end_ns).rows) == []
    for bad in ((2, 2), (9, 9), (9, 7), (-3, -3)):
        with pytest.raises(TimeRangeError):
            history.intervals([0], *bad)
    with pytest.raises(QuarkError):
        history.intervals([3], 0, 1)
    assert history.intervals([0], 2, 99).range_ns == (2, 4)
    assert history.intervals([0], -2, 3).range_ns == (0, 3)


def test_numbers_of_a_range_outside_are_none_and_of_an_instant_outside_an_error() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.modify(0, quark, 5)
    history = builder.close(4)

    assert (history.maximum(quark, 4, 9), history.minimum(quark, -9, 0)) == (None, None)
    assert (history.average(quark, 4, 9), history.average(quark, -4, 4)) == (0.0, 2.5)
    for query in (history.maximum, history.minimum, history.average):
        with pytest.raises(TimeRangeError):
            query(quark, 4, 4)


def test_a_closed_builder_takes_nothing_more() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("a")
    builder.close()

    with pytest.raises(HistoryClosedError):
        builder.modify(0, quark, "x")
    with pytest.raises(HistoryClosedError):
        builder.close()


def test_a_history_without_changes_or_attributes_is_empty() -> None:
    history = HistoryBuilder(start_ns=3).close()

    assert (history.start_ns, history.end_ns) == (3, 3)
    with pytest.raises(TimeRangeError):
        history.at(3)
    assert len(HistoryBuilder().close(5).at(2)) == 0


def test_a_million_attributes_that_begin_together_are_one_segment() -> None:
    builder = HistoryBuilder()
    quarks = builder.attributes.add_many(map(str, range(5_000)))
    builder.contents.store = Store(builder.contents.refuse, segment_changes=100)
    builder.modify_many(np.zeros(5_000, np.int64), quarks, Coded.of(["x"] * 5_000))
    builder.modify_many(np.ones(5_000, np.int64), quarks, Coded.of(["y"] * 5_000))

    history = builder.close(3)

    shares = history.shares(quarks, bins=3)
    assert shares.ns.sum() == 15_000
    assert np.bincount(shares.bin).tolist() == [5_000] * 3
    assert len(builder.contents.store.sealer.segments) == 2


def test_a_trace_becomes_a_history() -> None:
    changes = StateChanges(
        np.array([10, 10, 20, 30]),
        column(0, 1, 0, 1),
        column(0, 1, 1, -1),
        column(-1, 0, -1, -1),
        np.array([np.nan, 2.5, 7, np.nan]),
    )
    trace = Trace("x.statemap", "statemap", iter([
        changes,
        Points(np.array([25, 15]), column(1, 0), column(0, 1), column(-1, 1)),
        Flows(column(0), np.array([11]), column(1), np.array([12]), column(1)),
        Counters(np.array([1, 2]), column(2, 2), np.array([5, 6])),
    ]))  # fmt: skip
    trace.paths += [("d0",), ("d1",), ("P", "mem")]
    trace.values += ["idle", "busy"]
    trace.tags.append({"pid": 4})
    trace.lanes.append(LaneDeclaration("*", entity_kind="disk"))
    trace.bounds = (10, 35)
    trace.title = "disks"
    trace.descriptions[1] = "the second"
    trace.anomalies.add("truncated")

    history = build(trace)

    d0, d1 = history.quark("d0"), history.quark("d1")
    assert history.end_ns == 35
    assert history.bounds == (10, 35)
    assert history.state(d0, 20).value == "busy"
    assert history.state(d1, 29)[3:5] == ("busy", 0)
    assert history.state(history.quark("d0", "value"), 34).value == 7.0
    assert history.state(history.quark("P", "mem"), 1).value == 5
    assert history.lanes[0].quarks.tolist() == history.quarks("*").tolist()
    assert (history.title, history.descriptions) == ("disks", {d1: "the second"})
    assert dict(history.anomalies) == {"truncated": 1}
    assert history.points().name.to_list() == ["idle"]
    assert history.flows().from_ns.tolist() == [11, 15]
    assert history.flows().to_quark.tolist() == [d1, d1]


def test_results_show_their_first_rows() -> None:
    history = history_from_picture(PICTURE)

    assert repr(history) == "<History: 3 attributes over [0, 4) ns>"
    assert repr(history.intervals([1])).splitlines()[1] == "  1: [0, 2) None"
    assert repr(history.shares([1])).splitlines()[1] == "  1: bin 0 None 2 ns"
    assert repr(history_from_picture("a " + "ab" * 20).intervals([0])).endswith("30 more")


def test_what_no_declaration_means_can_be_drawn_all_the_same() -> None:
    builder = HistoryBuilder()
    for name, value in (("s", "x"), ("small", 255), ("big", 256), ("low", -1), ("f", 0.5)):
        builder.modify(1, builder.quark(name), value)
    builder.quark("never")
    builder.modify(1, builder.quark("declared"), "x")
    builder.push(1, builder.quark("stack"), "main")
    builder.lanes("declared", entity_kind="CPU")
    builder.lanes("stack", kind="stack")

    lanes = builder.close().lanes

    named = [(lane.declaration.kind, builder.attributes.names(lane.quarks)) for lane in lanes]
    assert named == [
        ("state", ["declared"]),
        ("stack", ["stack"]),
        ("state", ["s"]),
        ("state", ["small"]),
        ("counter", ["big", "low", "f"]),
    ]


def test_worked_averages_count_no_state_as_nothing() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("n")
    for time_ns, value in zip((1, 2, 3, 5, 6, 9), (10, None, 20, None, 30, None), strict=True):
        builder.modify(time_ns * 1000, quark, value)
    history = builder.close(10_000)

    assert history.average(quark, 500, 1500) == 5.0
    assert history.average(quark, 1500, 5000) == 45 / 3.5
    assert history.average(quark, 0, 10_000) == 14.0
    assert history.average(quark, 9_500, 20_000) == 0.0
    assert (history.maximum(quark, 0, 6000), history.minimum(quark, 0, 6001)) == (20, 10)
    assert history.maximum(quark, 9_500, 9_600) is None


def test_floats_average_and_strings_do_not() -> None:
    builder = HistoryBuilder()
    number, text, odd = builder.quark("f"), builder.quark("s"), builder.quark("odd")
    builder.modify(0, number, 0.1)
    builder.modify(5, number, 0.3)
    builder.modify(6, text, "x")
    builder.modify_many([0, 1, 2], [odd] * 3, [float("nan"), 2.0, float("inf")])
    history = builder.close(10)

    assert history.average(number, 0, 10) == 0.2
    assert (history.minimum(odd, 0, 9), history.maximum(odd, 0, 9)) == (2.0, float("inf"))
    for query in (history.minimum, history.maximum, history.average):
        # whether or not there is a string in the range
        for range_ns in ((0, 5), (3, 3), (5, 10)):
            with pytest.raises(StateTypeError, match="strings"):
                query(text, *range_ns)


def test_the_top_of_a_stack_is_found_at_any_time() -> None:
    builder = HistoryBuilder()
    stack = builder.quark("s")
    builder.push(1, stack, "main")
    builder.push(3, stack, "read")
    builder.pop(5, stack)
    builder.modify(0, builder.quark("text"), "x")
    history = builder.close(9)

    tops = [history.stack_top(stack, time_ns) for time_ns in (0, 2, 4, 8)]
    assert [top and top.value for top in tops] == [None, "main", "read", "main"]
    with pytest.raises(StateTypeError):
        history.stack_top(history.quark("text"), 4)


def test_sums_are_of_what_the_trace_covers_by_default() -> None:
    begin_ns = 1_780_000_000 * 10**9
    builder = HistoryBuilder()
    worker = builder.quark("worker")
    builder.modify(begin_ns, worker, "a")
    builder.modify(begin_ns + 10, worker, "b")
    history = builder.close(begin_ns + 20)

    assert history.bounds == (begin_ns, begin_ns + 20)
    assert history.shares([worker]).cell(worker, 0) == {"a": 10, "b": 10}
    assert history.dominant([worker], bins=2).value.to_list() == ["a", "b"]
    # what is given counts, also before the trace
    assert history.shares([worker], 0).cell(worker, 0)[None] == begin_ns
    rows = meantime.sql(history, "select start_ns, end_ns, value from intervals order by start_ns")
    frame = rows.to_arrow().to_pydict()
    assert (frame["start_ns"], frame["value"]) == ([begin_ns, begin_ns + 10], ["a", "b"])


def test_a_trace_covers_states_and_spans() -> None:
    builder = HistoryBuilder()
    worker, thread = builder.quark("worker"), builder.quark("Threads", "1")
    builder.modify(100, worker, "a")
    builder.add_spans([thread], ["work"], [150], [170])
    assert builder.history.bounds == (100, 170)
    builder.modify(180, worker, "b")
    assert builder.history.bounds == (100, 181)
    assert builder.close(200).bounds == (100, 200)


@pytest.mark.parametrize("name", ["stats", "view", "sql"])
def test_methods_that_became_functions_are_deprecated(name: str) -> None:
    history = history_from_picture("disk0  aab.")

    with pytest.warns(DeprecationWarning, match=rf"call meantime\.{name}\(history\) instead"):
        method = getattr(history, name)

    assert (method.func, method.args) == (getattr(meantime, name), (history,))
    with pytest.raises(AttributeError, match="'History' object has no attribute 'stat'"):
        getattr(history, "stat")  # noqa: B009 - the mistake under test


def test_texts_and_dates_become_times_and_times_dates() -> None:
    builder = HistoryBuilder(start_ns=500, clock=Clock(utc_at_origin_ns=10**18 + 7))
    builder.modify(500, builder.quark("a"), "x")
    history = builder.close(10**10)
    date = datetime(2001, 9, 9, 3, 46, 41, 250, tzinfo=timezone(timedelta(hours=2)))

    assert history.time("1.5us") == 2000
    assert history.time("abs:1.5us") == 1500
    assert history.time(1500) == 1500
    assert history.time(date) == 10**9 + 250_000 - 7
    assert history.time("2001-09-09T01:46:41.00025Z") == history.time(date)
    assert history.utc(history.time(date)) == np.datetime64("2001-09-09T01:46:41.000250000")
    with pytest.raises(UsageError, match="has no time zone"):
        history.time(date.replace(tzinfo=None))
    without = HistoryBuilder().close(1)
    with pytest.raises(UsageError, match="dates are unknown"):
        without.time(date)
    with pytest.raises(UsageError, match="the dates of this history are unknown"):
        without.utc(0)


def test_only_states_are_intervals_that_have_a_value() -> None:
    builder = HistoryBuilder()
    names, numbers = builder.quark("names"), builder.quark("numbers")
    for quark, value in ((names, "x"), (numbers, 0)):
        builder.modify(10, quark, value)
        builder.modify(15, quark, None)
        builder.modify(18, quark, value)
    history = builder.close(20)

    for asked in ([names], [numbers], [names, numbers]):
        every = history.intervals(asked)
        states = history.intervals(asked, 12, 19, clip=True, states_only=True)
        assert [*history.intervals(asked, states_only=True)] == [
            each for each in every if each.value is not None
        ]
        assert states.duration_ns.tolist() == [3, 1] * len(asked)
        assert [each.duration_ns for each in states] == [3, 1] * len(asked)


def test_a_pattern_with_a_name_that_none_has_is_an_error_with_the_nearest() -> None:
    history = history_from_picture("CPUs/0/Status  ab\nCPUs/1/Status  bb")
    with pytest.raises(
        AttributeNotFound, match=r"'CPUs/\*/Statsu': instead of 'Statsu' .* 'Status'"
    ):
        history.shares("CPUs/*/Statsu")
    with pytest.raises(AttributeNotFound, match="instead of 'CPU' the nearest names are 'CPUs'"):
        history.intervals("CPU/*/Status")
    with pytest.raises(AttributeNotFound, match="nearest names are '1', '0'"):
        history.quarks("CPUs/7")
    assert not len(history.quarks("CPU/*"))  # a list of what there is
    assert not len(history.intervals("CPUs/0/Status/*"))  # a wildcard may match none
    assert not len(HistoryBuilder().close(1).shares("**").value)


def test_rows_and_quarks_of_numpy_are_numbers() -> None:
    history = history_from_picture("a  xy\nb  zz")
    intervals = history.intervals("*")
    longest = np.argmax(intervals.duration_ns)
    assert intervals[longest].value == intervals.value[longest] == "z"
    assert history.state(intervals.quark[longest], intervals.start_ns[longest]).value == "z"
    assert Mixed.of_strings(Coded.of(["on"]))[np.int64(0)] == "on"


def test_a_pattern_of_attributes_without_values_is_an_error() -> None:
    history = history_from_picture("CPUs/0/Status  ab\nidle  ..")
    for ask in (history.shares, history.intervals, history.count, history.dominant):
        with pytest.raises(UsageError, match=r"ever has a value; .* such as 'CPUs/0/Status'"):
            ask("CPUs/*")
    assert history.has_values("CPUs/*").tolist() == [False]
    assert history.count("idle").tolist() == [0]


def test_times_are_taken_as_dates_and_texts_too() -> None:
    utc = Clock(utc_at_origin_ns=10**18)
    builder = HistoryBuilder(clock=utc)
    quark = builder.quark("disk0")
    builder.modify(0, quark, "idle")
    builder.modify(3_000, quark, "busy")
    history = builder.close(10_000)
    first = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    later = first + timedelta(microseconds=4)
    assert history.state(quark, later).value == "busy"
    assert history.state(quark, "4us").value == "busy"
    assert history.at(first).value.to_list() == ["idle"]
    assert [each.value for each in history.states([0, 0], [first, later])] == ["idle", "busy"]
    assert history.sample([0], [later]).rows() == [["busy"]]
    assert history.intervals(quark, later, clip=True).start_ns.tolist() == [4_000]
    assert history.shares(quark, later).cell(0, 0) == {"busy": 6_000}
    assert history.following("*", first, value="busy") is not None
    assert meantime.stats(history, start_ns=later).to_arrow()["total_ns"].to_pylist() == [6_000]
    assert not len(history.spans(start_ns=first, end_ns=later))
    with pytest.raises(UsageError, match="has no time zone"):
        history.state(quark, datetime(2001, 9, 9))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(TypeError):
        history.state(quark, 1.5)  # type: ignore[arg-type]
