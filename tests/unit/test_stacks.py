from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from meantime.model.stacks import NO_STACK, StackTableBuilder

STACKS = st.lists(st.lists(st.sampled_from("abcd"), max_size=5), max_size=20)


@given(STACKS)
def test_every_stack_reads_back_as_it_was_added(stacks: list[list[str]]) -> None:
    builder = StackTableBuilder()
    rows = [builder.add(names) for names in stacks]

    table = builder.build()

    assert [table.frames_of(row) for row in rows] == stacks


@given(STACKS)
def test_equal_stacks_are_one_row_and_callers_come_first(stacks: list[list[str]]) -> None:
    builder = StackTableBuilder()
    for names in stacks:
        builder.add(names)

    table = builder.build()

    prefixes = {tuple(names[: n + 1]) for names in stacks for n in range(len(names))}
    assert len(table) == len(prefixes)
    assert all(parent < row for row, parent in enumerate(table.parent))


def test_no_frames_are_no_stack() -> None:
    assert StackTableBuilder().add([]) == NO_STACK
