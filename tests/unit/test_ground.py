"""Errors, clocks, anomalies, columns and the package's own surface."""

from __future__ import annotations

import subprocess
import sys

import pytest

import meantime
from meantime import errors
from meantime.cli.tables import visible
from meantime.model.anomalies import Anomalies
from meantime.model.clocks import Clock
from meantime.model.columns import Coded, Interner
from meantime.query.aligning import align


def test_importing_meantime_loads_nothing_heavy() -> None:
    code = (
        "import meantime, sys; print([m for m in sys.modules if 'numpy' in m or 'meantime.' in m])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert printed.stdout.strip() == "[]"


def test_every_public_name_is_there_and_sorted() -> None:
    # constants, then classes, then functions: the linter's order
    in_order = sorted(meantime.__all__, key=lambda name: (not name.isupper(), name))
    assert in_order == list(meantime.__all__)
    for name in meantime.__all__:
        assert getattr(meantime, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = meantime.nothing  # type: ignore[attr-defined] # the mistake under test


def test_an_input_error_names_the_location() -> None:
    assert str(errors.InputError("a.json", "cut", line=4, offset=99)) == "a.json:4: cut"
    assert str(errors.InputError("a.spall", "cut", offset=99)) == "a.spall: byte 99: cut"
    assert str(errors.InputError("a.json", "cut")) == "a.json: cut"


def test_every_error_is_in_one_tree_and_public() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.MeantimeError)


def test_anomalies_add_up_and_explain_themselves() -> None:
    first, second = Anomalies(), Anomalies()
    first.add("truncated")
    first.add("bad_record", 0)
    second.add("truncated", 2)

    first.update(second)

    assert dict(first) == {"truncated": 3}
    assert first.lines()[0].startswith("3 truncated: the input ends inside a record")
    with pytest.raises(KeyError, match="not in the catalogue"):
        first.add("no such thing")


@pytest.mark.parametrize(
    ("reference", "other", "expected"),
    [
        (Clock(utc_at_origin_ns=7), Clock(utc_at_origin_ns=3), (-4, "utc")),
        (Clock("monotonic", "a", "b1"), Clock("monotonic", "a", "b1"), (0, "clock")),
        (Clock("monotonic", "a", "b1"), Clock("monotonic", "a", "b2"), (5, "start")),
        (Clock("unknown", "a"), Clock("unknown", "a"), (5, "start")),
        (Clock("monotonic"), Clock("monotonic"), (5, "start")),
        (Clock(utc_at_origin_ns=7), Clock(), (5, "start")),
    ],
)
def test_clocks_align_by_what_they_share(
    reference: Clock, other: Clock, expected: tuple[int, str]
) -> None:
    found = align(reference, other, reference_start_ns=15, other_start_ns=10)

    assert (found.offset_ns, found.how) == expected


def test_a_coded_column_gives_back_its_values() -> None:
    values = ["a", None, "", "a"]

    assert Coded.of(values).to_list() == values
    assert repr(Coded.of(values)) == "Coded(4 rows of 2 strings)"


def test_an_interner_keeps_the_codes_of_its_table() -> None:
    table = ["a", "b", "a"]

    interner = Interner(table)

    assert interner.codes(["b", "a", "c", "c"]).tolist() == [1, 0, 3, 3]
    assert interner.code("d") == 4
    assert table == ["a", "b", "a", "c", "d"]


def test_control_characters_never_reach_a_terminal() -> None:
    assert visible("\x1b[31mred\u202e\n") == "\\x1b[31mred\\u202e\\n"
