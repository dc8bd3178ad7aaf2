from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import meantime
from meantime.cli import cli
from meantime.errors import (
    InputError,
    NotKeptError,
    OutputError,
    ProviderError,
    TimeOrderError,
    UsageError,
)
from meantime.history import HistoryBuilder
from meantime.history.directory import write as directory
from meantime.history.directory.open import is_unfinished, open_history
from meantime.history.store import Store
from meantime.model.columns import Coded
from meantime.model.events import Event
from meantime.opening.provenance import provenance_of
from meantime.readers import jsonl
from meantime.testing import picture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meantime.model.events import Events


class Files(meantime.StateProvider):
    """What each file is doing, and for how long after it was closed that is remembered."""

    definition = ""

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}

    def begin(self, state: HistoryBuilder) -> None:
        state.lanes("Files/*", entity_kind="File")

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        if event.name == "open":
            self.paths[event["fd"]] = event["path"]
        file = state.quark("Files", self.paths[event["fd"]])
        state.modify(event.time_ns, file, event.name)
        depth = state.quark("Depth")
        if event.name == "open":
            state.push(event.time_ns, depth, self.paths[event["fd"]])
        elif event.name == "close":
            state.pop(event.time_ns, depth)
            state.later(event.time_ns + 3, file, None)
        else:
            state.increment(event.time_ns, state.quark("bytes", parent=file), event["bytes"])

    def save(self) -> Any:
        return list(self.paths.items())

    def restore(self, saved: Any) -> None:
        self.paths = dict(saved)


class Columns(meantime.StateProvider):
    version = 7

    def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
        opened = columns.of_name("open")
        path = opened["path"]
        assert isinstance(path, Coded)
        quarks = [state.quark(str(name)) for name in path.to_list()]
        state.modify_many(opened.time_ns, quarks, ["open"] * len(opened))


EVENTS = [
    Event(2, "open", {"fd": 3, "path": "a"}),
    Event(4, "read", {"fd": 3, "bytes": 5}),
    Event(5, "open", {"fd": 4, "path": "b"}),
    Event(6, "read", {"fd": 3, "bytes": 2}),
    Event(7, "close", {"fd": 3}),
    Event(12, "close", {"fd": 4}),
]


def test_events_become_states() -> None:
    history = meantime.build(EVENTS, Files())

    assert (history.start_ns, history.end_ns, history.bounds) == (2, 16, (2, 16))
    assert picture(history).split("\n") == [
        "Files         ..............",
        "Files/a       oorrrccc......",
        "Depth         1112211111....",
        "Depth/1       aaaaaaaaaa....",
        "Files/a/bytes ..557777777777",
        "Files/b       ...oooooooccc.",
        "Depth/2       ...bb.........",
    ]
    assert [lane.declaration.entity_kind for lane in history.lanes][:1] == ["File"]


def test_a_provider_that_takes_columns_is_given_columns() -> None:
    history = meantime.build(EVENTS, Columns)

    assert picture(history).split() == ["a", "ooooooooooo", "b", "...oooooooo"]


def test_scheduled_changes_precede_the_event_of_their_time_in_order() -> None:
    seen = []

    class Later(meantime.StateProvider):
        def handle(self, event: Event, state: HistoryBuilder) -> None:
            quark = state.quark("a")
            seen.append(state.ongoing(quark))
            if event.time_ns == 0:
                for time_ns, value in ((6, "z"), (4, "x"), (4, "y"), (0, "first"), (99, "last")):
                    state.later(time_ns, quark, value)
                state.modify(0, quark, "now")

    history = meantime.build([Event(time_ns, "e") for time_ns in (0, 0, 4, 5, 9)], Later)

    assert seen == [None, "first", "y", "y", "z"]
    assert [
        (interval.start_ns, interval.value) for interval in history.iterate(history.quark("a"), 0)
    ] == [(0, "first"), (4, "y"), (6, "z"), (99, "last")]
    assert history.end_ns == 100


class Ahead(meantime.StateProvider):
    def handle(self, event: Event, state: HistoryBuilder) -> None:
        state.later(event.time_ns + 2, state.quark("a"), "x")
        state.modify(event.time_ns + 4, state.quark("b"), "y")
        state.modify_many([event.time_ns + 4], [state.quark("c")], ["y"])
        assert state.ongoing(state.quark("a")) != "x" or event.time_ns > 2
        state.modify(event.time_ns + event["ahead"], state.quark("a"), "z")


def test_a_change_ahead_of_its_event_does_not_hurry_what_was_put_off() -> None:
    assert picture(meantime.build([Event(1, "e", {"ahead": 1})], Ahead)).split() == [
        "a", ".zxxx", "b", "....y", "c", "....y",
    ]  # fmt: skip


def test_what_was_put_off_is_not_done_behind_a_change_of_the_same_attribute() -> None:
    with pytest.raises(TimeOrderError, match="a: a change at 3 ns comes after one at 6 ns"):
        meantime.build([Event(1, "e", {"ahead": 5})], Ahead)


def test_columns_of_changes_are_mixed_with_what_was_put_off() -> None:
    class Mixed(meantime.StateProvider):
        def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
            quark = state.quark("a")
            state.later(4, quark, "late")
            state.modify_many(columns.time_ns, [quark] * len(columns), ["x"] * len(columns))
            state.later(20, quark, "end")

    history = meantime.build([Event(time_ns, "e") for time_ns in (2, 3, 5, 6)], Mixed)

    assert picture(history).split() == ["a", "xx" + "l" + "x" * 15 + "e"]


def test_batches_can_be_handled_event_by_event() -> None:
    class Both(Files):
        def handle_batch(self, columns: Events, state: HistoryBuilder) -> None:
            super().handle_batch(columns, state)

    assert picture(meantime.build(EVENTS, Both)) == picture(meantime.build(EVENTS, Files))


def test_only_the_present_can_be_kept() -> None:
    whole = meantime.build(EVENTS, Files)
    history = meantime.build(EVENTS, Files, keep="ongoing")

    last_ns = history.end_ns - 1
    assert list(history.at(last_ns)) == list(whole.at(last_ns))
    a = history.quark("Files", "a", "bytes")
    assert history.state(a, 6) == whole.state(a, 6)
    assert history.maximum(a, 6, 9) == 7
    with pytest.raises(NotKeptError, match="Files/a/bytes: states before 6 ns are not kept"):
        history.state(a, 5)
    for asked in (
        lambda: history.at(5),
        lambda: history.intervals([a]),
        lambda: history.shares([a]),
        lambda: history.sample([a], [15, 5]),
        lambda: list(history.iterate(a, 6, backwards=True)),
        lambda: history.average(a, 4, 6),
    ):
        with pytest.raises(NotKeptError):
            asked()


def test_the_present_of_many_changes_takes_no_more_room() -> None:
    builder = HistoryBuilder(keep="ongoing")
    one, other = builder.quark("one"), builder.quark("other")
    builder.modify(3, other, 0.5)
    for time_ns in range(20_000):
        builder.modify(time_ns, one, str(time_ns % 7))
        builder.modify(time_ns, one, str(time_ns % 5))
    builder.push(20_000, builder.quark("stack"), "x")
    builder.pop(20_001, builder.quark("stack"))
    live = builder.history.state(one, 20_001)

    history = builder.close()

    assert (live.value, live.start_ns, live.ongoing) == ("4", 19_999, True)
    assert history.size_bytes < 10_000
    assert history.state(other, 3).value == 0.5
    assert (history.start_ns, history.end_ns) == (0, 20_002)


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out the path"):
        HistoryBuilder(tmp_path / "x.mth", keep="ongoing")
    with pytest.raises(UsageError, match="'everything'"):
        HistoryBuilder(keep="nothing")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="choose one of: everything, ongoing, checkpoints"):
        meantime.build([], keep="nothing")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_trace_without_events_is_nothing_for_a_provider(root: Path) -> None:
    with pytest.raises(InputError, match="needs events, and a statemap trace has none"):
        meantime.build(root / "examples" / "postgres.statemap.gz", Files)


def test_no_events_are_an_empty_history() -> None:
    assert len(meantime.build([], Files).attributes) == 0


def test_a_failure_in_a_provider_is_reported_with_its_line_and_event() -> None:
    with pytest.raises(
        ProviderError,
        match=r"Files: test_providers.py:\d+: KeyError: 9 \(at the event 'read', 1 ns",
    ) as failed:
        meantime.build([Event(1, "read", {"fd": 9})], Files)
    assert isinstance(failed.value.__cause__, KeyError)
    with pytest.raises(ProviderError, match="Files: Depth is"):
        meantime.build([Event(1, "x")], Mistyped)
    with pytest.raises(ProviderError, match="neither handle nor handle_batch"):
        meantime.build([Event(1, "x")], meantime.StateProvider)


class Mistyped(Files):
    name = "Files"

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        state.modify(event.time_ns, state.quark("Depth"), event.name)
        state.push(event.time_ns, state.quark("Depth"), 1)


PYTHON = """
import meantime
class Names(meantime.StateProvider):
    def handle(self, event, state):
        state.modify(event.time_ns, state.quark("name"), event.name)
"""


def test_a_python_file_can_have_a_provider(tmp_path: Path) -> None:
    file = tmp_path / "names.py"
    file.write_text(PYTHON)

    assert picture(meantime.build(EVENTS, file)).split() == ["name", "oororcccccc"]


def test_an_edited_python_file_is_read_again_and_no_files_are_left(tmp_path: Path) -> None:
    file = tmp_path / "names.py"
    shown = []
    for name in ("one", "two"):
        file.write_text(PYTHON.replace('name"', f'{name}"'))
        shown.append(picture(meantime.build(EVENTS, file)).split()[0])

    assert shown == ["one", "two"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "names.py: needs one subclass of meantime.StateProvider, and has none"),
        (PYTHON + "class More(meantime.StateProvider): pass", "has Names, More"),
        ("def", "names.py:1: SyntaxError"),
        ("\n\n1 / 0", "names.py:3: ZeroDivisionError"),
    ],
)
def test_a_python_file_without_one_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "names.py"
    file.write_text(text)

    with pytest.raises(ProviderError, match=complaint):
        meantime.build(EVENTS, file)


def test_a_provider_is_looked_for_by_suffix(tmp_path: Path) -> None:
    (tmp_path / "x.txt").touch()

    with pytest.raises(ProviderError, match=r"is declared in a \.toml file"):
        meantime.build(EVENTS, tmp_path / "x.txt")
    with pytest.raises(ProviderError, match=r"x\.py: cannot be read: No such file"):
        meantime.build(EVENTS, tmp_path / "x.py")


def write(path: Path, events: list[Event]) -> Path:
    path.write_text(
        "".join(
            json.dumps({"time_ns": event.time_ns, "name": event.name} | event.fields) + "\n"
            for event in events
        )
    )
    return path


class Killed(BaseException):
    """What ends a build as a signal would."""


class Stopped(Files):
    """Dies at an event."""

    left = -1
    name = "Files"

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        self.left -= 1
        if not self.left:
            raise Killed
        super().handle(event, state)


@pytest.fixture
def every_change_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_LOG_EVERY_S", 0)
    # Nothing cuts the power in these tests.
    monkeypatch.setattr("os.fsync", lambda _: None)


def script() -> Iterator[Event]:
    opened: dict[int, str] = {}
    for time_ns in range(0, 120, 2):
        fd = time_ns * 7 % 5
        if fd not in opened:
            opened[fd] = f"file{time_ns % 3}"
            yield Event(time_ns, "open", {"fd": fd, "path": opened[fd]})
        elif time_ns % 7:
            yield Event(time_ns, "read", {"fd": fd, "bytes": time_ns})
        else:
            del opened[fd]
            yield Event(time_ns, "close", {"fd": fd})


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.usefixtures("every_change_is_logged")
@pytest.mark.parametrize(
    ("segment_changes", "batch_events", "first"),
    # each dies at other events, so that together they die at all kinds of places
    [(3, 4, 2), (3, 1000, 7), (1000, 4, 4), (1000, 1000, 9)],
)
def test_a_killed_build_is_resumed_to_the_same_bytes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    segment_changes: int,
    batch_events: int,
    first: int,
) -> None:
    monkeypatch.setattr(Store.__init__, "__defaults__", (segment_changes,))
    monkeypatch.setattr(jsonl, "_BATCH_EVENTS", batch_events)
    monkeypatch.setattr(jsonl, "_LATE_EVENTS", 3)
    trace = write(tmp_path / "x.jsonl", list(script()))
    whole, killed = tmp_path / "whole.mth", tmp_path / "killed.mth"
    meantime.build(trace, Files, whole)
    for last in range(first, 60, 10):
        dying = Stopped()
        dying.left = last
        with pytest.raises(Killed):
            meantime.build(trace, dying, killed)
        said: list[str] = []

        meantime.build(trace, Files, killed, resume=True, notify=said.append)

        assert said == [f"{killed}: resuming the unfinished build"]
        assert contents(killed) == contents(whole)
        shutil.rmtree(killed)


class Forgetful(Stopped):
    name = "Files"

    def save(self) -> Any:
        return None


@pytest.mark.usefixtures("every_change_is_logged")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: None, "the provider has no save()"),
        (lambda trace: write(trace, EVENTS), "the trace has changed"),
        (lambda _: setattr(Forgetful, "version", 9), "provider version changed from 1 to 9"),
    ],
)
def test_a_build_that_cannot_be_resumed_starts_over_and_reports_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, reason: str
) -> None:
    monkeypatch.setattr(Forgetful, "version", 1)
    trace, path = write(tmp_path / "x.jsonl", list(script())), tmp_path / "x.mth"
    dying = Forgetful()
    dying.left = 20
    with pytest.raises(Killed):
        meantime.build(trace, dying, path)
    assert is_unfinished(path)
    change(trace)
    said: list[str] = []

    meantime.build(trace, Forgetful, path, resume=True, notify=said.append)

    assert said == [f"{path}: the build was not finished; rebuilding: {reason}"]
    assert picture(open_history(path)) == picture(meantime.build(trace, Forgetful))


SPANS = """
[[on]]
event = "*"
change = [{ path = "Events", span = "{name}", duration_ns = 5, arguments = { at = "{time_ns}" } }]
"""


@pytest.mark.usefixtures("every_change_is_logged")
@pytest.mark.parametrize(
    ("names", "segment_changes"),
    [
        (("postgres.statemap.gz", None), 8000),
        (("files.jsonl", "files.toml"), 40),
        (("files.jsonl", SPANS), 40),
    ],
)
def test_a_build_is_resumed_wherever_it_was_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    names: tuple[str, str | None],
    segment_changes: int,
) -> None:
    monkeypatch.setattr(Store.__init__, "__defaults__", (segment_changes,))
    source = root / "examples" / names[0]
    made_by = None if names[1] is None else root / "examples" / names[1]
    if names[1] == SPANS:
        made_by = tmp_path / "spans.toml"
        made_by.write_text(f"{(root / 'examples' / 'files.toml').read_text()}\n{SPANS}")
    whole, killed = tmp_path / "whole.mth", tmp_path / "killed.mth"
    meantime.build(source, made_by, whole)
    lines = len((whole / "manifest").read_bytes().splitlines())
    assert lines > 4
    append = directory.DirectoryWriter._append
    left = 0

    def dying(self: directory.DirectoryWriter, record: dict[str, Any]) -> None:
        nonlocal left
        left -= 1
        append(self, record)
        if not left:
            raise Killed

    monkeypatch.setattr(directory.DirectoryWriter, "_append", dying)
    for last in range(1, lines):
        left = last
        with pytest.raises(Killed):
            meantime.build(source, made_by, killed)

        meantime.build(source, made_by, killed, resume=True)

        assert contents(killed) == contents(whole)
        shutil.rmtree(killed)


def test_a_finished_history_is_gone_on_with_only_by_the_same(tmp_path: Path) -> None:
    trace, path = write(tmp_path / "x.jsonl", EVENTS), tmp_path / "x.mth"
    meantime.build(trace, Files, path)
    said: list[str] = []

    again = meantime.build(trace, Files, path, resume=True, notify=said.append)

    assert said == [f"{path}: the build was already finished"]
    assert again.built
    with pytest.raises(
        OutputError, match="from something else: the provider changed from Files to"
    ):
        meantime.build(trace, Columns, path, resume=True)


def test_what_a_build_killed_at_its_beginning_leaves_is_built_over(tmp_path: Path) -> None:
    trace, path = write(tmp_path / "x.jsonl", EVENTS), tmp_path / "x.mth"
    (path / "segments").mkdir(parents=True)
    (path / "manifest.tmp").touch()
    assert is_unfinished(path)

    assert meantime.build(trace, Files, path, resume=True).built
    (path / "manifest").unlink()
    with pytest.raises(OutputError, match="exists"):
        meantime.build(trace, Files, path, resume=True)


def test_a_trace_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    trace, path = tmp_path / "x.jsonl", tmp_path / "x.mth"
    trace.write_text('{"ts": 1, "name": "a"}\n{"ts": ')
    trace.write_text(trace.read_text() + "\n")

    with pytest.raises(InputError, match=r"x\.jsonl:2"):
        meantime.build(trace, Files, path)
    assert not path.exists()
    with pytest.raises(InputError, match="no such file"):
        meantime.build(tmp_path / "y.jsonl", Files, path)
    assert not path.exists()


@pytest.mark.usefixtures("every_change_is_logged")
@pytest.mark.parametrize(
    ("last", "said"),
    [(4, "resuming the unfinished build"), (9, "rebuilding: its input has no position to resume")],
)
def test_an_input_without_positions_is_resumed_in_its_first_batch_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, said: str
) -> None:
    monkeypatch.setattr(jsonl, "_BATCH_EVENTS", 6)
    monkeypatch.setattr(jsonl, "_LATE_EVENTS", 3)
    monkeypatch.setattr(jsonl._Reading, "_position", lambda *_: None)
    trace, path = write(tmp_path / "x.jsonl", list(script())), tmp_path / "x.mth"
    dying = Stopped()
    dying.left = last
    with pytest.raises(Killed):
        meantime.build(trace, dying, path)
    told: list[str] = []

    history = meantime.build(trace, Files, path, resume=True, notify=told.append)

    assert picture(history) == picture(meantime.build(trace, Files))
    assert said in told[0]


class Flushing(Stopped):
    name = "Files"

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        state.increment(event.time_ns, state.quark("flushed"))
        state.flush()
        super().handle(event, state)


def test_a_flush_in_the_middle_of_an_event_keeps_no_half_of_it(tmp_path: Path) -> None:
    trace, path = write(tmp_path / "x.jsonl", EVENTS), tmp_path / "x.mth"
    dying = Flushing()
    dying.left = 4
    with pytest.raises(Killed):
        meantime.build(trace, dying, path)
    assert open_history(path).at(4)[0].value == 2

    history = meantime.build(trace, Flushing, path, resume=True)

    assert picture(history) == picture(meantime.build(trace, Flushing))


def test_a_history_is_not_built_of_a_history(tmp_path: Path) -> None:
    trace, path = write(tmp_path / "x.jsonl", EVENTS), tmp_path / "x.mth"
    meantime.build(trace, Files, path)

    with pytest.raises(InputError, match="this is a finished history; a build needs"):
        meantime.build(path, Files, tmp_path / "y.mth")
    done = CliRunner().invoke(cli, ["build", str(trace), "-o", str(tmp_path / "no" / "y.mth")])
    assert isinstance(done.exception, OutputError)
    assert "does not exist" in str(done.exception)
    assert not (tmp_path / "no").exists()


def test_an_existing_output_is_not_overwrite(tmp_path: Path) -> None:
    trace, path = write(tmp_path / "x.jsonl", EVENTS), tmp_path / "x.mth"
    meantime.build(trace, Files, path)

    with pytest.raises(OutputError, match="exists"):
        meantime.build(trace, Files, path)
    assert open_history(path).provenance["provider"] == "Files"


class Late(meantime.StateProvider):
    """Says what was on from a time before the event."""

    def handle(self, event: Event, state: HistoryBuilder) -> None:
        state.modify(event.time_ns - event["ago"], state.quark("a"), event["value"])

    def save(self) -> Any:
        return {}


class Allowed(Late):
    """Says how late that may be."""

    reorder_ns = 20


LATE = [
    Event(0, "e", {"ago": 0, "value": 1}),
    Event(10, "e", {"ago": 0, "value": 2}),
    Event(12, "e", {"ago": 7, "value": 3}),
    Event(30, "e", {"ago": 0, "value": None}),
]


def test_changes_before_those_that_came_are_sorted_into_place(tmp_path: Path) -> None:
    shown = picture(meantime.build(LATE, Allowed))
    history = meantime.build(LATE, Allowed)
    assert [each.value for each in history.iterate(0, 0)] == [1, 3, 2, None]
    assert picture(meantime.build(LATE, Late, reorder_ns=20)) == shown
    assert picture(meantime.build(LATE, Late, tmp_path / "late.mth", reorder_ns=20)) == shown


def test_changes_that_go_back_are_refused_with_what_would_allow_them() -> None:
    with pytest.raises(meantime.MeantimeError, match="reorder_ns of the builder or the provider"):
        meantime.build(LATE, Late)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"reorder_ns": 5}, "there is none"),
        ({"provider": Late, "reorder_ns": -1}, "0 or more"),
        ({"provider": Allowed, "keep": "checkpoints"}, "in order of time"),
    ],
)
def test_where_late_changes_are_not_possible(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        meantime.build(LATE, **keywords)


def test_a_killed_build_of_late_changes_starts_over(tmp_path: Path) -> None:
    trace = write(tmp_path / "x.jsonl", LATE)
    path = tmp_path / "x.mth"
    builder = HistoryBuilder(path, reorder_ns=20)
    provenance = provenance_of(trace, Allowed(), lenient=False)
    builder.contents.catalogue.set_metadata("provenance", provenance)
    builder.position = {"input": None, "events": 0, "provider": {}}
    builder.leave()
    said: list[str] = []
    history = meantime.build(trace, Allowed, path, resume=True, notify=said.append)
    assert "delayed by reorder_ns are lost" in said[0]
    assert [each.value for each in history.iterate(0, 0)] == [1, 3, 2, None]


def test_what_is_not_an_event_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'a.jsonl' is not an event: .* or one path"):
        meantime.build(["a.jsonl", "b.jsonl"], Files)  # type: ignore[list-item]
