"""Histories with so many attributes that their names are read when they are first needed."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.errors import InputError, QuarkError
from meantime.history import HistoryBuilder
from meantime.history.directory.check import check, save
from meantime.history.directory.manifest import checksummed_line
from meantime.history.directory.open import open_history
from meantime.history.directory.packed import pack_numbers
from meantime.history.directory.read import read_directory
from meantime.history.directory.unread import UnreadAttributes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TASKS = 20_000
Record = dict[str, Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "x.mth"
    builder = HistoryBuilder(path)
    builder.contents.catalogue.set_metadata("title", "t" * 2**17)
    tasks = [builder.quark("Tasks", f"täsk {index}", "Status") for index in range(TASKS)]
    status = np.array(tasks, np.int32)
    builder.modify_many(np.arange(TASKS), status, np.arange(TASKS) % 300)
    builder.modify(TASKS, builder.quark("late"), "running")
    builder.close()
    return path


def changed(path: Path, to: Path, change: Callable[[list[Record]], object]) -> Path:
    """Return a history like another one, but for the records of its manifest."""
    to.mkdir()
    for each in path.iterdir():
        if each.name != "manifest":
            (to / each.name).symlink_to(each)
    lines = (path / "manifest").read_bytes().splitlines()
    records = [json.loads(line[9:]) for line in lines]
    change(records)
    (to / "manifest").write_bytes(b"".join(map(checksummed_line, records)))
    return to


def test_names_are_read_when_they_are_first_needed(path: Path) -> None:
    attributes = read_directory(path).catalogue.attributes
    assert isinstance(attributes, UnreadAttributes)
    assert (len(attributes), "_tree" in vars(attributes)) == (2 * TASKS + 2, False)

    assert attributes.text(2 * 7 + 2) == "Tasks/täsk 7/Status"
    assert "_tree" in vars(attributes)


def test_answers_are_those_of_the_history_that_was_written(path: Path) -> None:
    history = open_history(path)
    status = history.quarks("Tasks/*/Status")

    assert len(status) == TASKS
    assert history.state("Tasks/täsk 299/Status", TASKS).value == 299
    assert history.state("late", TASKS).value == "running"
    assert history.title == "t" * 2**17
    states, counters = ({*lane.quarks.tolist()} for lane in history.lanes[1:])
    assert len(states) + len(counters) == TASKS
    assert {history.state(quark, TASKS).value for quark in states} == {*range(256)}
    with pytest.raises(QuarkError):
        history.state(2 * TASKS + 2, 0)
    assert history.attributes.copy().add(("new",)) == 2 * TASKS + 2
    assert check(path) == (1, TASKS + 1)


def test_two_threads_read_them_once(path: Path) -> None:
    history = open_history(path)

    def ask(quark: int) -> tuple[str, int]:
        return history.attributes.text(quark), len(history.lanes)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, [2] * 8))

    assert set(found) == {("Tasks/täsk 0/Status", 3)}


def test_names_that_are_wrong_are_reported_when_they_are_needed(path: Path, tmp_path: Path) -> None:
    def orphan(records: list[Record]) -> None:
        columns = records[1]["attributes"]
        columns["parents"] = pack_numbers(np.full(columns["count"], 2**31, np.uint64))

    wrong = changed(path, tmp_path / "x.mth", orphan)
    history = open_history(wrong)
    file = re.escape(str(wrong / "manifest"))
    message = rf"{file}: byte 51: line 2 is invalid: an attribute comes before its parent"

    assert history.state(2, 0).value == 0
    for _ in range(2):
        with pytest.raises(InputError, match=message):
            history.quarks("Tasks/*")
    with pytest.raises(InputError, match=message):
        check(wrong)
    assert "an attribute comes before its parent" in save(wrong, tmp_path / "saved.mth")[0]


def test_extremes_that_are_wrong_are_reported_when_they_are_needed(
    path: Path, tmp_path: Path
) -> None:
    def cut(records: list[Record]) -> None:
        extremes = records[-1]["closed"]["extremes"]
        extremes["low"] = extremes["low"][:-4]

    wrong = changed(path, tmp_path / "x.mth", cut)
    history = open_history(wrong)

    assert history.state(2, 0).value == 0
    with pytest.raises(
        InputError, match=r"manifest: byte \d+: line 3 is invalid: a column of .* is damaged"
    ):
        history.lanes  # noqa: B018 - a property
    with pytest.raises(InputError, match="line 3 is invalid"):
        check(wrong)


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"count": 2**31 - 1, "parents": ""}, "count is 2147483647"),
        ({"count": "x", "parents": ""}, "count is 'x'"),
        ({"count": 3}, "parents is missing"),
        ([], "line 2 is invalid"),
    ],
)
def test_a_number_of_attributes_that_cannot_be_is_reported_at_once(
    path: Path, tmp_path: Path, columns: object, what: str
) -> None:
    wrong = changed(path, tmp_path / "x.mth", lambda records: records[1].update(attributes=columns))

    with pytest.raises(InputError, match=what):
        meantime.open(wrong)
