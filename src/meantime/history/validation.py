"""The checks of a segment's numbers: a matching checksum does not make them valid.

Compiled code relies on all of them, so they are checked when a segment is opened (its head and
index) and before its rows are first used (`rows_fault`). `meantime check` calls the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.numbers import AFTER_ALL, BEFORE_ALL
from meantime.kernels.seal import (
    CODE,
    FLOAT_INLINE,
    INT_INLINE,
    STORED,
    segment_rows,
    sums_descend,
)
from meantime.kernels.tail import FLOAT, INT, STR, UNTYPED

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.segment import Head, Limits, Sections, Segment
    from meantime.model.columns import Int64s

__all__ = ["head_fault", "index_fault", "pyramid_fault", "rows_fault", "words_fault"]

_CODE_BITS = 32  # strings are counted in 32 bits
_TAG_BITS = 31  # a tag plus one is above the null bit in 32 bits
_ROWS = 2**31 - 1
# A double stored in a row equals an int32.
_INLINE_FLOATS = 2**31
# Blocks of a pyramid have at least 64 rows, and runs with times at most 64 different values, which
# kernels/shares_rows.pyx and shares_edges.pyx have arrays for.
_BLOCK_STEP, _LONGEST_STEP = 6, 31
_BLOCK_ROWS = 2**_BLOCK_STEP


def head_fault(head: Head) -> str | None:
    """Return which number of a segment's head is invalid; None if none is."""
    good = {
        "base_ns": BEFORE_ALL < head.base_ns < AFTER_ALL,
        "last_ns": head.base_ns <= head.last_ns < AFTER_ALL,
        "changes": 0 < head.changes <= _ROWS,
        "runs": 0 < head.runs <= _ROWS,
        "numbers": 0 <= head.numbers <= head.changes,
        "width": 1 <= head.width <= 8,
        "code_bits": 0 <= head.code_bits <= _CODE_BITS,
        "payload_bits": 0 <= head.payload_bits - head.code_bits <= _TAG_BITS,
    }
    return next((name for name, is_good in good.items() if not is_good), None)


def index_fault(head: Head, sections: Sections) -> str | None:
    """Return which section before the rows is invalid; None if none is."""
    quarks, offsets = sections["quarks"], sections["offsets"]
    if int(quarks[0]) < 0 or not (quarks[1:] > quarks[:-1]).all():
        return "quarks"
    if offsets[0] != 0 or offsets[-1] != head.changes or not (offsets[1:] >= offsets[:-1]).all():
        return "offsets"
    if int(sections["carry_start"].max(initial=BEFORE_ALL)) > head.base_ns:
        return "carry_start"
    return _forms_fault(head, sections, offsets) if head.numeric else None


def _forms_fault(head: Head, sections: Sections, offsets: npt.NDArray[np.uint32]) -> str | None:
    """Return what is invalid in the storage of a segment's numbers."""
    form, origin = sections["form"], sections["origin"]
    if int(form.max()) > STORED:
        return "form"
    kept = origin[form == FLOAT_INLINE]
    stored = np.flatnonzero(form == STORED)
    stored = stored[offsets[stored + 1] > offsets[stored]]
    shift = origin[stored]
    first, last = offsets[stored].astype(np.int64), offsets[stored + 1].astype(np.int64)
    if (
        not _within(kept, -_INLINE_FLOATS, _INLINE_FLOATS)
        or not _within(shift, -_ROWS, _ROWS)
        or not _within(first + shift, 0, head.numbers)
        or not _within(last + shift, 0, head.numbers)
    ):
        return "origin"
    return None


def _within(numbers: npt.NDArray[Any], least: int, most: int) -> bool:
    return not len(numbers) or least <= int(numbers.min()) <= int(numbers.max()) <= most


def rows_fault(segment: Segment, limits: Limits) -> str | None:
    """Return which values or rows of an open segment are invalid; None if none are."""
    head, sections = segment.head, segment.sections
    quarks = sections["quarks"]
    if int(quarks[-1]) >= len(limits.kinds):
        return "quarks"
    kinds = limits.kinds[quarks]
    carried = sections["carry_start"] != BEFORE_ALL
    carry = sections["carry_word"][carried], sections["carry_meta"][carried]
    of_carried = kinds[carried] if head.full else kinds[:0]
    if (fault := words_fault(*carry, of_carried, limits)) is not None:
        return f"carry: {fault}"
    most_code = _most_codes(segment, kinds, limits)
    run = segment_rows(
        head.last_ns - head.base_ns,
        head.width,
        head.code_bits,
        head.payload_bits,
        sections["offsets"],
        sections["rows"],
        sections["payload"],
        most_code,
        limits.tags,
    )
    return None if run < 0 else f"the rows of the attribute {quarks[run]}"


def _most_codes(
    segment: Segment, kinds: npt.NDArray[np.uint8], limits: Limits
) -> npt.NDArray[np.uint64]:
    """Return by run the highest code of a value that its rows may have; 0 is null."""
    head = segment.head
    form = segment.sections["form"] if head.numeric else np.full(head.runs, CODE, np.uint8)
    most = np.zeros(head.runs, np.uint64)
    most[(form == CODE) & (kinds == STR)] = limits.strings
    inline = ((form == INT_INLINE) & (kinds == INT)) | ((form == FLOAT_INLINE) & (kinds == FLOAT))
    most[inline] = 2**head.code_bits - 1
    most[(form == STORED) & ((kinds == INT) | (kinds == FLOAT))] = 1
    return most


def pyramid_fault(
    arrays: dict[str, npt.NDArray[Any]], segment: Segment, limits: Limits
) -> str | None:
    """Return which part of a pyramid does not fit its segment; None if all do.

    The totals of blocks are not recomputed, which takes as long as building them: wrong ones give
    wrong answers but no invalid access, and `meantime check` compares them.
    """
    head, sections = segment.head, segment.sections
    lengths = np.diff(sections["offsets"].astype(np.int64))
    form = sections["form"] if head.numeric else np.zeros(head.runs, np.uint8)
    timed, celled = arrays["timed_run"], arrays["celled_run"]
    for name, runs in (("timed_run", timed), ("celled_run", celled)):
        if not _within(runs, 0, head.runs - 1) or not (runs[1:] > runs[:-1]).all():
            return name
        if len(runs) and int(lengths[runs].min()) <= _BLOCK_ROWS:
            return name
    if (form[timed] == STORED).any() or (form[celled] == CODE).any():
        return "timed_run"
    most_code = _most_codes(segment, limits.kinds[sections["quarks"]], limits)[timed]
    return _times_fault(arrays, lengths[timed], most_code, head) or _cells_fault(
        arrays, lengths[celled]
    )


def _times_fault(
    arrays: dict[str, npt.NDArray[Any]],
    rows: Int64s,
    most_code: npt.NDArray[np.uint64],
    head: Head,
) -> str | None:
    """Return what is wrong with how long values lasted in runs of so many rows."""
    step, values, times = arrays["step"], arrays["values"], arrays["times"]
    if len(step) != len(rows) or not _within(step, _BLOCK_STEP, _LONGEST_STEP):
        return "step"
    if not _parts(arrays["value_offset"], len(rows), len(values)):
        return "value_offset"
    ends = arrays["value_offset"].astype(np.int64)
    counts = ends[1:] - ends[:-1]
    if (
        not _within(counts, 1, _BLOCK_ROWS)
        or (values > np.repeat(most_code, counts)).any()
        or not _ascending(values, ends)
    ):
        return "values"
    blocks = (rows - 1) >> step.astype(np.int64)
    if (
        not _parts(arrays["time_offset"], len(rows), len(times))
        or not _within(blocks, 1, _ROWS)
        or (np.diff(arrays["time_offset"].astype(np.int64)) != blocks * counts).any()
    ):
        return "time_offset"
    most = head.last_ns - head.base_ns
    if sums_descend(arrays["value_offset"], arrays["time_offset"], times, most):
        return "times"
    return None


def _ascending(values: npt.NDArray[np.uint32], ends: Int64s) -> bool:
    """Return whether the values of each run ascend, so that a bin has none of them twice."""
    first = np.zeros(len(values), np.bool_)
    first[ends[:-1]] = True
    return bool((values[1:] > values[:-1])[~first[1:]].all())


def _cells_fault(arrays: dict[str, npt.NDArray[Any]], rows: Int64s) -> str | None:
    """Return what is wrong with the sums of numbers in runs of so many rows."""
    cells = np.zeros(len(rows), np.int64)
    level = (rows - 1) >> _BLOCK_STEP
    while level.any():
        cells += level
        level >>= _BLOCK_STEP
    total = int(cells.sum())
    offset = arrays["cell_offset"]
    if not _parts(offset, len(rows), total) or (np.diff(offset.astype(np.int64)) != cells).any():
        return "cell_offset"
    for name, each in (("some", 1), ("low", 1), ("high", 1), ("sums", 2), ("magnitude", 1)):
        if len(arrays[name]) != each * total:
            return name
    return None


def _parts(offsets: npt.NDArray[np.uint32], parts: int, length: int) -> bool:
    """Return whether offsets part so many items into so many parts."""
    return (
        len(offsets) == parts + 1
        and int(offsets[0]) == 0
        and int(offsets[-1]) == length
        and bool((offsets[1:] >= offsets[:-1]).all())
    )


def words_fault(
    word: Int64s,
    meta: npt.NDArray[np.uint32],
    kinds: npt.NDArray[np.uint8],
    limits: Limits,
) -> str | None:
    """Return what is invalid in changes: an untyped value, an undefined string or tag."""
    if not len(meta):
        return None
    if int((meta >> 1).max()) > limits.tags:
        return "a tag that is not defined"
    some = (meta & 1) == 0
    if (kinds[some] == UNTYPED).any():
        return "a value of an attribute without a type"
    codes = word[some & (kinds == STR)]
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < limits.strings:
        return "a string that does not exist"
    return None
