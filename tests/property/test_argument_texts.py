"""Arguments that are written to a history: of each row the same text as before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.history import argument_texts
from meantime.model.trace import ArgumentText

ROWS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), max_size=30)


@pytest.mark.parametrize(("window", "gap"), [(1 << 22, 1 << 16), (7, 3), (1, 0)])
@given(source=st.binary(max_size=200), added=st.lists(st.binary(max_size=30)), rows=ROWS)
def test_joined_texts_are_those_of_the_rows(
    window: int, gap: int, source: bytes, added: list[bytes], rows: list[tuple[int, int]]
) -> None:
    text = ArgumentText(source)
    for each in added:
        text.add(each)
    size = len(source) + sum(map(len, added))
    # a text is in the source, or among those that were added
    inside = [
        (offset, length)
        for offset, length in rows
        if offset + length <= size and not offset < len(source) < offset + length
    ]
    offset = np.array([offset for offset, _ in inside], np.int64)
    length = np.array([length for _, length in inside], np.int32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argument_texts, "_WINDOW_BYTES", window)
        patch.setattr(argument_texts, "_GAP_BYTES", gap)
        begins, parts = argument_texts.joined_texts(text, offset, length)
        joined = b"".join(part.tobytes() for part in parts)

    assert len(joined) == length.sum()
    for row, (at, count) in enumerate(inside):
        assert joined[begins[row] :][:count] == text.read(at, count)
