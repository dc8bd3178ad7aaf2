"""The check of a segment's rows against a plain definition of rows that can be right."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels import seal


def right(
    rows: list[int],
    *,
    code_bits: int,
    payload_bits: int,
    most_code: int,
    most_tag: int,
    lasts_ns: int,
    payloads: list[int] | None,
) -> bool:
    """Return whether the rows of one run can be right."""
    shift = 0 if payloads is not None else payload_bits
    times = [row >> shift for row in rows]
    fields = [row % 2**payload_bits for row in rows] if payloads is None else payloads
    return (
        all(first <= second for first, second in pairwise(times))
        and (not times or times[-1] <= lasts_ns)
        and all(field < 2**payload_bits for field in fields)
        and all(field % 2**code_bits <= most_code for field in fields)
        and all(field >> code_bits <= most_tag for field in fields)
    )


@st.composite
def near(draw: st.DrawFn, bits: int) -> int:
    """Draw a number of so many bits, often one at the edge of what is right."""
    most = 2**bits - 1
    return draw(
        st.integers(0, most) | st.sampled_from([0, most, most >> 1, (most >> 1) + 1, min(most, 5)])
    )


@settings(max_examples=400)
@given(data=st.data())
def test_rows_agree_with_the_definition(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 8))
    code_bits = data.draw(st.integers(0, 32))
    payload_bits = code_bits + data.draw(st.sampled_from([0, 0, 1, 7, 31]))
    wide = data.draw(st.booleans()) or payload_bits > min(63, 8 * width)
    runs = data.draw(
        st.lists(st.lists(near(8 * width), max_size=4).map(sorted), min_size=1, max_size=3)
    )
    if data.draw(st.booleans()):
        runs = [data.draw(st.permutations(run)) for run in runs]
    most_code = [data.draw(near(code_bits)) for _ in runs]
    most_tag = data.draw(st.sampled_from([0, 1, 5, 2**31 - 1]))
    lasts_ns = data.draw(near(64))
    payloads = [data.draw(near(min(64, payload_bits + 1))) for run in runs for _ in run]
    packed = b"".join(row.to_bytes(width, "little") for run in runs for row in run)
    offsets = np.cumsum([0, *map(len, runs)])
    of_run = [payloads[first:last] if wide else None for first, last in pairwise(offsets.tolist())]
    good = [
        right(
            run,
            code_bits=code_bits,
            payload_bits=payload_bits,
            most_code=code,
            most_tag=most_tag,
            lasts_ns=lasts_ns,
            payloads=its,
        )
        for run, code, its in zip(runs, most_code, of_run, strict=True)
    ]
    expected = good.index(False) if False in good else -1

    found = seal.segment_rows(
        lasts_ns,
        width,
        code_bits,
        payload_bits,
        offsets.astype(np.uint32),
        np.frombuffer(packed + bytes(8), np.uint8),
        np.array(payloads if wide and payloads else [], np.uint64),
        np.array(most_code, np.uint64),
        most_tag,
    )

    assert found == expected


@given(
    st.lists(
        st.integers(1, 3).flatmap(
            lambda values: st.lists(
                st.lists(st.integers(0, 5), min_size=values, max_size=values), max_size=4
            ).map(lambda blocks: (values, blocks))
        ),
        max_size=3,
    ),
    st.sampled_from([np.uint32, np.uint64]),
    st.integers(0, 5),
)
@settings(max_examples=50, deadline=None)
def test_sums_agree_with_the_definition(
    runs: list[tuple[int, list[list[int]]]], kind: type[np.unsignedinteger], most: int
) -> None:
    value_offset = np.cumsum([0, *(values for values, _ in runs)]).astype(np.uint32)
    time_offset = np.cumsum([0, *(values * len(blocks) for values, blocks in runs)])
    times = np.array([ns for _, blocks in runs for block in blocks for ns in block], kind)

    descend = any(
        later < before
        for _, blocks in runs
        for first, second in pairwise(blocks)
        for before, later in zip(first, second, strict=True)
    )
    found = seal.sums_descend(value_offset, time_offset.astype(np.uint32), times, most)
    assert found == (descend or bool((times > most).any()))
