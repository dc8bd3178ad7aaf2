"""Small certainties of histories: equal values, many changes at once, lanes, tags, pickling."""

from __future__ import annotations

import os
import pickle
import shutil
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime
from meantime.errors import HistoryClosedError, HistoryError, InputError, UsageError
from meantime.history import HistoryBuilder
from meantime.history.directory import write as directory
from meantime.history.directory.open import open_history
from meantime.model.trace import State
from meantime.testing import history_from_spans

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history.sealer import Sealer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.mth"


def built(path: Path) -> Path:
    with HistoryBuilder(path) as builder:
        quark = builder.quark("a")
        for time_ns in range(20):
            builder.modify(time_ns, quark, time_ns)
    return path


@pytest.mark.parametrize("kept", [False, True])
def test_many_changes_at_one_instant_take_no_more_room_each(
    path: Path,
    kept: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (100,))
    monkeypatch.setattr(directory, "_LOG_EVERY_S", 3600.0)
    logs: list[bool] = []
    log = directory.DirectoryWriter.log

    def counted(self: directory.DirectoryWriter, sealer: Sealer, *, new_log: bool) -> None:
        logs.append(new_log)
        log(self, sealer, new_log=new_log)

    monkeypatch.setattr(directory.DirectoryWriter, "log", counted)
    builder = HistoryBuilder(path if kept else None)
    tail = builder.contents.store.sealer.tail

    for number in range(1000):
        builder.modify(0, builder.quark(str(number)), number)
    assert tail.rows == 1000
    assert tail.capacity == 1600
    assert len(logs) <= (6 if kept else 0)
    for number in range(600):
        builder.modify(1 + number, 0, -number - 1)

    history = builder.close(700)
    assert history.at(0).value.to_list() == list(range(1000))
    assert history.at(650).value.to_list() == [-600, *range(1, 1000)]
    assert tail.capacity == 200


def test_lanes_take_states_as_toml_does(path: Path) -> None:
    builder = HistoryBuilder(path)
    builder.modify(1, builder.quark("d"), "idle")
    builder.lanes("d", states=["idle", {"name": "busy", "color": "#ff0000"}, State("x", 7)])
    whole = builder.close(5)

    read = open_history(path)

    expected = (State("idle", 0), State("busy", 1, "#ff0000"), State("x", 7))
    assert read.lanes[0].declaration.states == whole.lanes[0].declaration.states == expected
    meantime.statemap(read)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"kind": "banana"}, "a lane's kind is 'banana': it is one of state, stack, counter, "),
        ({"label": 5}, "a lane's label is 5: it is a text, or None"),
        ({"unit": b"B"}, "a lane's unit is b'B': it is a text, or None"),
        ({"entity_kind": 1}, "a lane's entity_kind is 1: it is a text, or None"),
        ({"states": "idle"}, "a lane's states are 'idle': they are a sequence of states"),
        ({"states": 5}, "a lane's states are 5: they are a sequence of states"),
        ({"states": [5]}, "a lane's state is 5: it is a name, a State, or a mapping"),
        ({"states": [{"value": 3}]}, "a lane's state is State.name=None, value=3, color=None.: "),
        ({"states": [{"name": "x", "colour": "red"}]}, "a lane's state is {'name': 'x', 'colour':"),
        ({"states": [State("x", 1.5)]}, "a lane's state is State"),  # type: ignore[arg-type]
    ],
)
def test_lanes_refuse_what_they_cannot_keep(arguments: dict[str, Any], what: str) -> None:
    builder = HistoryBuilder()

    with pytest.raises(UsageError, match=f"^{what}"):
        builder.lanes("d", **arguments)

    assert builder.contents.catalogue.metadata.lanes == []


def test_zero_has_one_sign(path: Path) -> None:
    builder = HistoryBuilder(path)
    one, many = builder.quark("one"), builder.quark("many")
    builder.modify(0, one, -0.0)
    builder.modify(1, one, 5.0)
    builder.modify(2, one, 0.0)
    builder.modify_many(range(3), [many] * 3, np.array([-0.0, 5.0, 0.0]))
    whole = builder.close(3)

    for history in (whole, open_history(path)):
        for quark in (one, many):
            assert history.shares([quark]).cell(quark, 0) == {0.0: 2, 5.0: 1}
            assert history.dominant([quark]).value.to_list() == [0.0]
            assert str(history.state(quark, 0).value) == "0.0"


def test_lone_surrogates_are_replaced(path: Path) -> None:
    builder = HistoryBuilder(path)
    quark = builder.quark("a\ud800")
    assert builder.quark("a\ud800") == builder.quark("a\ufffd") == quark
    builder.modify(0, quark, "x\udc00")
    builder.modify(1, quark, "x\ufffd")
    builder.modify(2, quark, "y")
    whole = builder.close(3)

    for history in (whole, open_history(path)):
        intervals = history.intervals([quark])
        assert intervals.value.to_list() == ["x\ufffd", "y"]
        assert history.attributes.path(quark) == ("a\ufffd",)
        assert history.find("a\ud800") in (quark, None)
        history.attributes.text(quark).encode()


def test_tags_are_the_same_in_memory_and_reopened(path: Path) -> None:
    builder = HistoryBuilder(path)
    fields: dict[Any, Any] = {5: "x", "pair": (1, (2, 3)), None: {True: 1.5}}
    tag = builder.tag(fields)
    assert builder.tag({"5": "x", "pair": [1, [2, 3]], "null": {"true": 1.5}}) == tag
    keyed = builder.tag({"n": 1}, key=("a", 1))
    assert builder.tag({"n": 2}, key=["a", 1]) == keyed
    builder.modify(0, builder.quark("a"), 1, tag)
    expected = [{"5": "x", "pair": [1, [2, 3]], "null": {"true": 1.5}}, {"n": 1}]
    builder.flush()

    copy = shutil.copytree(path, path.with_name("copy.mth"))
    with HistoryBuilder(copy, resume=True) as resumed:
        assert resumed.tag({"n": 3}, key=("a", 1)) == keyed

    assert builder.close().tags == open_history(path).tags == open_history(copy).tags == expected


@pytest.mark.parametrize("tag", [-1, 2**20 + 1])
def test_a_tag_far_beyond_the_others_is_refused(tag: int) -> None:
    with pytest.raises(UsageError, match=rf"^{tag} is not a tag: 0 are defined, and at most 1,048"):
        HistoryBuilder().define_tag(tag, {})


def test_no_pattern_means_the_root() -> None:
    builder = HistoryBuilder()
    builder.quark("a")

    assert builder.attributes.quarks([]).tolist() == []
    assert builder.attributes.quarks("..").tolist() == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_removed_or_replaced_history_still_answers(
    path: Path,
    replaced: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (4,))
    history = open_history(built(path))
    shutil.rmtree(path)
    if replaced:
        with HistoryBuilder(path) as builder:
            builder.modify_many(range(100), [builder.quark("b")] * 100, ["x", "y"] * 50)

    assert [history.state(0, time_ns).value for time_ns in range(20)] == list(range(20))
    assert history.shares([0]).ns.tolist() == [1] * 20


def test_an_unfinished_history_that_was_removed_is_an_input_error(path: Path) -> None:
    builder = HistoryBuilder(path)
    builder.modify(1, builder.quark("a"), 1)
    builder.flush()
    history = open_history(path)
    builder.leave()
    shutil.rmtree(path)

    with pytest.raises(InputError, match=r"x\.mth: is not a history: it has no manifest"):
        history.state(0, 1)


def test_a_history_without_its_manifest_is_called_that(path: Path) -> None:
    (built(path) / "manifest").unlink()

    with pytest.raises(InputError, match=r"x\.mth: is a history without its manifest: "):
        meantime.open(path)


def test_a_history_that_is_being_created_is_called_that(path: Path) -> None:
    # what there is before the manifest, in this order
    stages: list[Callable[[], object]] = [
        path.mkdir,
        (path / "lock").touch,
        lambda: (path / "lock").write_text(f"{os.getpid()}\n"),
        (path / "segments").mkdir,
    ]
    for stage in stages:
        stage()
        with pytest.raises(InputError, match="another process begins to build: open it again"):
            meantime.open(path)
    if os.name == "nt":
        return
    # its process has ended
    (path / "lock").write_text(f"{2**22 + 1}\n")
    with pytest.raises(InputError, match="is a history without its manifest"):
        meantime.open(path)


def test_a_history_is_closed_once_and_for_all(path: Path) -> None:
    with open_history(built(path)) as history:
        assert history.state(0, 1).value == 1

    with pytest.raises(HistoryClosedError, match=r"^this history was closed$"):
        history.state(0, 1)
    with pytest.raises(HistoryClosedError):
        history.attributes.name(0)
    history.close()
    assert repr(history) == "<History, closed>"


def test_a_history_on_disk_pickles_as_its_path(path: Path) -> None:
    history = open_history(built(path))

    again = pickle.loads(pickle.dumps(history))  # noqa: S301 - just dumped

    assert list(again.intervals([0])) == list(history.intervals([0]))
    assert len(pickle.dumps(history)) < 1000
    history.close()
    with pytest.raises(HistoryClosedError):
        pickle.dumps(history)


def test_a_history_in_memory_refuses_to_be_pickled() -> None:
    builder = HistoryBuilder()
    for history in (builder.history, history_from_spans({"main": [("a", 0, 10)]})):
        with pytest.raises(HistoryError, match=r"^a history in memory cannot be pickled; "):
            pickle.dumps(history)


def test_a_history_just_built_on_disk_pickles_too(path: Path) -> None:
    builder = HistoryBuilder(path)
    builder.modify(1, builder.quark("a"), "x")
    history = builder.close()

    again = pickle.loads(pickle.dumps(history))  # noqa: S301 - just dumped
    assert again.state(0, 1).value == "x"


def test_a_lane_declared_after_a_query_is_in_the_growing_history() -> None:
    builder = HistoryBuilder()
    builder.modify(1, builder.quark("a"), "x")
    history = builder.history
    assert [lane.declaration.pattern for lane in history.lanes] == [""]

    builder.lanes("a", label="A")

    assert [lane.declaration.label for lane in history.lanes] == ["A"]


def test_the_first_states_are_found_in_few_segments(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far away the changes around a time are, the answer is that of all segments."""
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (8,))
    random = Random(3)  # noqa: S311 - nothing is secret here
    builder = HistoryBuilder(path)
    quarks = [builder.quark(str(index)) for index in range(12)]
    for time_ns in range(400):
        # from often to nearly never
        quark = quarks[min(random.randrange(40), random.randrange(40)) % 12]
        builder.modify(time_ns, quark, random.choice(["a", "b", None]))
    history = builder.close(410)
    assert len(list((path / "segments").glob("*.seg"))) > 30
    for _ in range(60):
        quark, time_ns = random.choice(quarks), random.randrange(410)
        assert meantime.open(path).state(quark, time_ns) == history.at(time_ns)[quark]
