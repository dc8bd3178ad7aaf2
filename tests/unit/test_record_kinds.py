"""The kinds of records are defined once, and documented as they are defined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.collect import _recorder
from meantime.kernels.record_kinds import KINDS, LEAVES, POLICIES, SIZES

if TYPE_CHECKING:
    from pathlib import Path


def test_the_recorder_and_the_readers_have_the_same_numbers() -> None:
    assert _recorder.KINDS == KINDS
    assert _recorder.POLICIES == POLICIES
    assert _recorder.SIZES == SIZES


def test_no_number_has_two_names() -> None:
    for numbers in (KINDS, LEAVES, POLICIES):
        assert len(set(numbers.values())) == len(numbers)


def test_the_kinds_that_carry_a_payload_come_last() -> None:
    plain = {name for name, number in KINDS.items() if number < SIZES["RECORD_FIRST_PAYLOAD"]}

    assert KINDS.keys() - plain == {
        *("NAME", "LABEL", "THREAD", "LOCATION", "FRAME", "STACK", "LOST", "ROTATED", "CLOSED"),
        *(
            "SAMPLER",
            "CALLED",
            "BLOCKED_STACK",
            "POOL",
            "REQUEST",
            "RESPONSE",
            "PHASE",
            "UNRECOGNISED",
            "UNWATCHED",
        ),
    }


def test_each_kind_is_documented_and_none_that_there_is_not(root: Path) -> None:
    text = (root / "docs" / "reference" / "recording-format.md").read_text()
    documented: set[int] = set()
    for row in re.findall(r"^\| ([0-9, -]+) \| ", text, re.MULTILINE):
        for part in row.split(", "):
            first, _, last = part.partition("-")
            documented.update(range(int(first), int(last or first) + 1))

    assert documented == set(KINDS.values())
