"""A history of which only checkpoints are kept answers as one of which all is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import meantime
from meantime.errors import HistoryError, ProviderError, TimeRangeError, UsageError
from meantime.model.events import Event
from meantime.readers import jsonl, open_trace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from meantime.history import History, HistoryBuilder, Interval

ATTRIBUTES = 4


class Anything(meantime.StateProvider):
    """Changes what an event says, also before and after its time, and counts its events."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        self.count += 1
        quark = state.quark(f"a{event['attribute']}")
        time_ns = event.time_ns + event["shift"]
        if event.name == "later":
            state.later(max(time_ns, event.time_ns), state.quark("later"), self.count)
        elif event.name == "push":
            state.push(event.time_ns, state.quark("stack"), event["value"])
        elif event.name == "pop":
            state.pop(event.time_ns, state.quark("stack"))
        elif time_ns >= max(state.ongoing_start(quark), 0):
            state.modify(time_ns, quark, event["value"], state.tag({"shift": event["shift"]}))
        state.modify(event.time_ns, state.quark("count"), self.count)

    def save(self) -> Any:
        return self.count

    def restore(self, saved: Any) -> None:
        self.count = saved


class Batches(Anything):
    def handle_batch(self, columns: Iterable[Event], state: HistoryBuilder) -> None:
        for event in columns:
            state.advance(event.time_ns)
            self.handle(event, state)


EVENTS = st.lists(
    st.builds(
        lambda gap, name, attribute, value, shift: (
            gap,
            Event(0, name, {"attribute": attribute, "value": value, "shift": shift}),
        ),
        st.integers(0, 3),
        st.sampled_from(["set", "set", "set", "later", "push", "pop"]),
        st.integers(0, ATTRIBUTES - 1),
        st.sampled_from(["x", "y", None]),
        st.integers(-4, 6),
    ),
    min_size=1,
    max_size=40,
)


def rows(intervals: Iterable[Interval]) -> list[Any]:
    return [tuple(interval) for interval in intervals]


@given(EVENTS, st.sampled_from([1, 3, 10]), st.sampled_from([Anything, Batches]), st.data())
@settings(max_examples=25, phases=[Phase.generate])  # shrinking takes minutes
def test_both_answer_alike(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[int, Event]],
    batch: int,
    provider: type[Anything],
    data: st.DataObject,
) -> None:
    trace = tmp_path_factory.mktemp("checkpoints") / "x.jsonl"
    time_ns, lines = 5, []
    for gap, event in events:
        time_ns += gap
        lines.append({"time_ns": time_ns, "name": event.name} | event.fields)
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_BATCH_EVENTS", batch)
        patch.setattr(jsonl, "_LATE_EVENTS", 2)
        whole = meantime.build(trace, provider)
        parts = meantime.build(trace, provider, keep="checkpoints")
        assert (parts.start_ns, parts.end_ns) == (whole.start_ns, whole.end_ns)

        for _ in range(4):
            ask(whole, parts, data)


def ask(whole: History, parts: History, data: st.DataObject) -> None:
    quarks = list(whole.attributes)
    first = data.draw(st.integers(whole.start_ns, whole.end_ns - 1))
    last = data.draw(st.integers(first + 1, whole.end_ns + 3))
    quark = data.draw(st.sampled_from(quarks))
    assert rows(parts.intervals(quarks, first, last)) == rows(whole.intervals(quarks, first, last))
    assert rows(parts.at(first)) == rows(whole.at(first))
    assert list(parts.tags) == list(whole.tags)
    assert parts.state(quark, first) == whole.state(quark, first)
    assert rows(parts.iterate(quark, first)) == rows(whole.iterate(quark, first))
    assert rows(parts.iterate(quark, first, backwards=True)) == rows(
        whole.iterate(quark, first, backwards=True)
    )
    count = whole.quark("count")
    assert parts.average(count, first, last) == whole.average(count, first, last)
    assert parts.maximum(count, first, first) == whole.maximum(count, first, first)
    for one, other in zip(
        parts.interval_batches(quarks, first, last, rows=3),
        whole.interval_batches(quarks, first, last, rows=3),
        strict=True,
    ):
        assert rows(one) == rows(other)
    shares = [history.shares(quarks, first, last, 3) for history in (parts, whole)]
    assert shares[0].ns.tolist() == shares[1].ns.tolist()
    assert shares[0].value.to_list() == shares[1].value.to_list()
    assert parts.dominant(quarks, first, last, 2).ns.tolist() == (
        whole.dominant(quarks, first, last, 2).ns.tolist()
    )
    assert parts.minimum(count, first, last) == whole.minimum(count, first, last)
    assert [lane.quarks.tolist() for lane in parts.lanes] == (
        [lane.quarks.tolist() for lane in whole.lanes]
    )
    times = [first, min(last, whole.end_ns) - 1]
    assert parts.sample(quarks, times).rows() == whole.sample(quarks, times).rows()


def test_events_at_hand_are_gone_over_again() -> None:
    events = [
        Event(time, "set", {"attribute": 0, "value": str(time), "shift": 0}) for time in range(9)
    ]

    parts = meantime.build(events, Anything, keep="checkpoints")

    assert [interval.value for interval in parts.iterate(parts.quark("a0"), 3)] == list("345678")
    with pytest.raises(TimeRangeError):
        parts.state(0, 9)
    with pytest.raises(TimeRangeError):
        parts.intervals([0], 3, 3)


class Amending(Anything):
    def handle(self, event: Event, state: HistoryBuilder) -> None:
        state.update_ongoing(state.quark(event.name), 1)


class Forgetful(Anything):
    def save(self) -> Any:
        return None


def test_what_checkpoints_cannot_do_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "x.jsonl"
    trace.write_text('{"ts": 1, "name": "a"}\n')

    with pytest.raises(UsageError, match="leave out the path"):
        meantime.build(trace, Anything, tmp_path / "x.mth", keep="checkpoints")
    with pytest.raises(UsageError, match="needs a provider"):
        meantime.build(trace, keep="checkpoints")
    with pytest.raises(UsageError, match=r"Forgetful has no save\(\)"):
        meantime.build(trace, Forgetful, keep="checkpoints")
    opened = open_trace(trace)
    with pytest.raises(UsageError, match="can be read again"):
        meantime.build(opened, Anything, keep="checkpoints")
    assert len(list(opened.batches)) == 1
    with pytest.raises(ProviderError, match="update_ongoing cannot be used") as refused:
        meantime.build(trace, Amending, keep="checkpoints")
    assert isinstance(refused.value.__cause__, HistoryError)
