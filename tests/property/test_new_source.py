"""A source that only makes segments for a range can be part of everything; see `listed_source`.

`test_history_against_naive_store` asks it all questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from listed_source import listed

from meantime.history import HistoryBuilder
from meantime.history.joined import JoinedPart, join_parts
from meantime.model.clocks import Clock
from meantime.testing.strategies import changes

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.testing.strategies import Change

QUARKS = 3


def history_of(script: list[Change]) -> History:
    builder = HistoryBuilder()
    for quark in range(QUARKS):
        builder.quark(str(quark))
    for time_ns, quark, value, _ in script:
        builder.modify(time_ns, quark, value)
    return builder.close(1)


def joined(one: History, other: History, offset_ns: int) -> History:
    parts = [
        JoinedPart("one", one, 0, aligned=True),
        JoinedPart("two", other, offset_ns, aligned=True),
    ]
    return join_parts(parts, clock=Clock("realtime"))


def states(history: History, range_ns: tuple[int, int]) -> list[tuple[object, ...]]:
    """Return the intervals, of which those without a state that touch are one.

    A history may have stored that there is no state where its part of the whole begins, which a
    list of states does not know.
    """
    rows: list[tuple[object, ...]] = []
    for each in history.intervals("**", *range_ns):
        start_ns = each.start_ns
        if rows and each.value is None and rows[-1][0] == each.quark and rows[-1][3] == "None":
            start_ns = int(str(rows.pop()[1]))
        rows.append((each.quark, start_ns, each.end_ns, repr(each.value), each.tag))
    return rows


@given(changes(quarks=QUARKS, tags=0), changes(quarks=QUARKS, tags=0), st.integers(-99, 99))
@settings(max_examples=60, deadline=None)
def test_it_can_be_joined(one: list[Change], other: list[Change], offset_ns: int) -> None:
    histories = history_of(one), history_of(other)
    expected = joined(*histories, offset_ns)
    found = joined(listed(histories[0]), listed(histories[1]), offset_ns)
    range_ns = expected.start_ns, expected.end_ns

    assert (found.start_ns, found.end_ns) == range_ns
    assert states(found, range_ns) == states(expected, range_ns)
    # as text, in which NaN is equal to itself
    both = found, expected
    shares, samples = (
        [repr(each.shares("**", *range_ns, 3).to_arrow().to_pydict()) for each in both],
        [repr(each.sample("**", range_ns[:1]).rows()) for each in both],
    )
    assert shares[0] == shares[1]
    assert samples[0] == samples[1]
    assert repr(found.lanes) == repr(expected.lanes)
