"""Whatever segments are damaged, and whatever is asked first: the answers agree with each other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.history import HistoryBuilder
from meantime.history.directory import segments
from meantime.history.store import Store
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history import History
    from meantime.model.columns import Int32s

NAMES = [f"state{number}" for number in range(40)]
SHAPES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "attributes": st.sampled_from([1, 3, 40, 300]),
        "names": st.sampled_from([2, 40]),
        "segment_changes": st.sampled_from([20, 300, 1000]),
        "kind": st.sampled_from(["strings", "integers", "doubles"]),
        "tagged": st.booleans(),
        "mapped": st.booleans(),
    }
)


def write(path: Path, shape: dict[str, Any]) -> None:
    random = np.random.default_rng(shape["seed"])
    rows = min(6 * shape["segment_changes"], 3000)
    builder = HistoryBuilder(path)
    builder.attributes.add_many(map(str, range(shape["attributes"])))
    tags = [builder.tag({"n": number}) for number in range(3)]
    # some attributes change often, and others once in a segment or hardly ever
    weights = 1 / np.arange(1, shape["attributes"] + 1)
    quark = random.choice(shape["attributes"], rows, p=weights / weights.sum()).astype(np.int32)
    code = random.integers(-1, shape["names"], rows)
    values: Any = Coded(code.astype(np.int32), NAMES)
    if shape["kind"] != "strings":
        values = code * (2**40) if shape["kind"] == "integers" else code / 3
    builder.modify_many(
        np.cumsum(random.integers(0, 3, rows)),
        quark,
        values,
        random.choice([-1, *tags], rows).astype(np.int32) if shape["tagged"] else None,
    )
    builder.close()


def damage(file: Path, random: np.random.Generator) -> None:
    how = random.integers(4)
    if how == 0:
        file.unlink()
        return
    data = bytearray(file.read_bytes())
    if how == 1:
        del data[int(random.integers(len(data))) :]
    else:
        # in the index, or near the end, in the rows
        at = 128 + int(random.integers(20)) if how == 2 else -1 - int(random.integers(60))
        data[at] ^= 1 + int(random.integers(255))
    file.write_bytes(data)


def intervals(history: History, every: Int32s) -> None:
    found = history.intervals(every, history.start_ns, history.end_ns)
    assert found.start_ns[np.searchsorted(found.quark, every)].max() <= history.start_ns
    assert found.end_ns[np.searchsorted(found.quark, every, "right") - 1].min() >= history.end_ns
    same = found.quark[1:] == found.quark[:-1]
    assert (found.end_ns[:-1] == found.start_ns[1:])[same].all()


def batches(history: History, every: Int32s) -> None:
    found = history.interval_batches(every, rows=50)
    assert sum(map(len, found)) == len(history.intervals(every))


def shares(history: History, every: Int32s) -> None:
    for bins in (1, 7, 64):
        ns = int(history.shares(every, history.start_ns, bins=bins).ns.sum())
        assert ns == (history.end_ns - history.start_ns) * len(every)


def longest(history: History, every: Int32s) -> None:
    assert len(history.dominant(every, bins=9).ns) <= 9 * len(every)


def tile(history: History, every: Int32s) -> None:
    bin_ns = 2 ** ((history.end_ns - history.start_ns) // 40).bit_length()
    names, ns = history.state_load(every, 0, bin_ns, 64)
    states = history.state_tile(every, 0, bin_ns, 64).states.to_list()
    # a cell has the three longest only
    assert set(map(str, states)) - {"None"} <= set(names)
    assert int(ns.sum()) <= (history.end_ns - history.start_ns) * len(every)


def counts(history: History, every: Int32s) -> None:
    found = history.intervals(every)
    null = np.array([value is None for value in found.value.to_list()])
    expected = np.bincount(found.quark[null], minlength=len(every))
    assert history.count(every, value=None).tolist() == expected.tolist()


def samples(history: History, every: Int32s) -> None:
    times_ns = np.linspace(history.start_ns, history.end_ns - 1, 5).astype(np.int64)
    rows = history.sample(every, times_ns).rows()
    for column, time_ns in enumerate(times_ns.tolist()):
        at = history.at(time_ns).value.to_list()
        assert repr([row[column] for row in rows]) == repr(at)


def following(history: History, every: Int32s) -> None:
    nearest = history.following(every, history.start_ns)
    assert nearest is None or nearest.start_ns > history.start_ns


ASKED = [intervals, batches, shares, longest, tile, counts, samples, following]


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, lost=st.integers(1, 3), asked=st.permutations(ASKED))
def test_answers_of_damaged_histories_agree(
    shape: dict[str, Any], lost: int, asked: list[Callable[[History, Int32s], None]]
) -> None:
    random = np.random.default_rng(shape["seed"])
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        mock.patch("os.fsync"),
    ):
        patch.setattr(Store.__init__, "__defaults__", (shape["segment_changes"],))
        if shape["mapped"]:
            patch.setattr(segments, "MOST_IN_MEMORY", 0)
        path = Path(folder) / "history.mth"
        write(path, shape)
        files = sorted((path / "segments").glob("*.seg"))
        for number in random.permutation(len(files))[:lost]:
            damage(files[number], random)
        with meantime.open(path, lenient=True) as history:
            every = np.arange(len(history.attributes), dtype=np.int32)
            for ask in asked:
                ask(history, every)
